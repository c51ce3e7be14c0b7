"""Agents and signalling servers in separate processes, and the lines that they write."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
HUBBUB_COMMAND = Path(sys.executable).parent / "hubbub"
WAIT_S = 60.0


class LineProcess:
    """A process and the lines that it writes."""

    def __init__(self, command: list[str], *, reads: str = "stdout") -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if reads == "stdout" else subprocess.DEVNULL,
            stderr=subprocess.PIPE if reads == "stderr" else None,
            text=True,
            cwd=ROOT,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._thread = threading.Thread(target=self._read, args=(getattr(self.process, reads),), daemon=True)
        self._thread.start()
        self.seen: list[str] = []

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line)
        stream.close()

    def line(self, deadline: float) -> str:
        try:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise AssertionError(f"no line arrived; before that: {self.seen[-20:]}") from None
        self.seen.append(line)
        return line

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass


class MeshAgentProcess(LineProcess):
    """See `agent.py`."""

    def __init__(
        self, host: str, name: str, engine: str = "wrtc", *, command_prefix: Sequence[str] = (), **options: Any
    ) -> None:
        room_options = {"room": "hall", "stream_id": name, "host": host, **options}
        super().__init__(
            [*command_prefix, sys.executable, "-m", "tests.packs.peers.agent", engine, json.dumps(room_options)]
        )

    def do(self, *command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def until(self, type: str, wait_s: float = WAIT_S, **fields: Any) -> dict[str, Any]:
        """Return the next message with this type and these fields."""
        deadline = time.monotonic() + wait_s
        while True:
            message: dict[str, Any] = json.loads(self.line(deadline))
            if message.items() >= {"type": type, **fields}.items():
                return message


class SignalServerProcess(LineProcess):
    """`hubbub signal`."""

    def __init__(self, port: int = 0, *flags: str, command_prefix: Sequence[str] = ()) -> None:
        super().__init__([*command_prefix, str(HUBBUB_COMMAND), "signal", "--port", str(port), *flags], reads="stderr")
        self.host = "ws://" + self.line(time.monotonic() + WAIT_S).split("ws://")[1].split()[0]
        self.port = int(self.host.rpartition(":")[2])


def started(exit_stack: ExitStack, program: Any) -> Any:
    """Register a process to be ended with the test."""
    exit_stack.callback(program.end)
    return program
