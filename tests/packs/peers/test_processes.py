"""Agents in processes of their own: messages, bytes, sudden deaths, a signalling server that restarts.

Each of these starts several processes; what one process can show is in `test_mesh`.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
HUBBUB = Path(sys.executable).parent / "hubbub"
WAIT_S = 25.0


class Program:
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
            raise AssertionError(f"nothing came; before that: {self.seen[-20:]}") from None
        self.seen.append(line)
        return line

    def end(self) -> None:
        self.process.kill()
        self.process.wait(timeout=10)
        self._thread.join(timeout=10)
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass


class Agent(Program):
    """See `agent.py`."""

    def __init__(self, host: str, name: str, engine: str = "wrtc", **options: Any) -> None:
        given = {"room": "hall", "stream_id": name, "host": host, **options}
        super().__init__([sys.executable, "-m", "tests.packs.peers.agent", engine, json.dumps(given)])

    def do(self, *command: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def until(self, type: str, wait_s: float = WAIT_S, **fields: Any) -> dict[str, Any]:
        """The next line like this."""
        deadline = time.monotonic() + wait_s
        while True:
            told: dict[str, Any] = json.loads(self.line(deadline))
            if told.items() >= {"type": type, **fields}.items():
                return told


class Place(Program):
    """`hubbub signal`."""

    def __init__(self, port: int = 0) -> None:
        super().__init__([str(HUBBUB), "signal", "--port", str(port)], reads="stderr")
        self.host = "ws://" + self.line(time.monotonic() + WAIT_S).split("ws://")[1].split()[0]
        self.port = int(self.host.rpartition(":")[2])


@pytest.fixture
def stage() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begun(stage: ExitStack, program: Any) -> Any:
    stage.callback(program.end)
    return program


@pytest.mark.parametrize("engines", [("wrtc", "wrtc"), ("wrtc", "aiortc")], ids="-".join)
def test_two_processes_exchange_messages_and_bytes(stage: ExitStack, engines: tuple[str, str]) -> None:
    place = begun(stage, Place())
    ann, bob = (begun(stage, Agent(place.host, name, e)) for name, e in zip(("ann", "bob"), engines, strict=True))
    ann.until("ready_peer", peer="bob")
    bob.until("ready_peer", peer="ann")
    ann.do("send", {"n": 1})
    assert bob.until("data") == {"type": "data", "peer": "ann", "data": {"n": 1}}
    ann.do("bytes", "bob", 2_000_000)
    assert bob.until("bytes")["count"] == 2_000_000 // 65000 * 65000
    bob.do("leave")
    ann.until("gone", 3, peer="bob")


def test_a_killed_process_is_missed_within_ten_seconds_and_its_successor_found(stage: ExitStack) -> None:
    place = begun(stage, Place())
    ann, bob, carol = (begun(stage, Agent(place.host, name)) for name in ("ann", "bob", "carol"))
    met = set()
    while met != {"bob", "carol"}:
        met.add(ann.until("ready_peer")["peer"])
    killed = time.monotonic()
    bob.process.kill()
    ann.until("gone", 10, peer="bob")
    assert time.monotonic() - killed < 10
    ann.do("send", "still here")
    assert ann.until("sent_to")["count"] == 1
    carol.until("data", data="still here")
    begun(stage, Agent(place.host, "bob"))
    ann.until("ready_peer", peer="bob")


def test_a_stopped_process_is_missed_too(stage: ExitStack) -> None:
    """Nothing says that it is gone: its sockets are open, and nobody answers."""
    import signal

    place = begun(stage, Place())
    ann, bob = (begun(stage, Agent(place.host, name)) for name in ("ann", "bob"))
    ann.until("ready_peer", peer="bob")
    bob.process.send_signal(signal.SIGSTOP)
    ann.until("gone", 10.5, peer="bob")


def test_a_transfer_outlives_the_signalling_server(stage: ExitStack) -> None:
    place = begun(stage, Place())
    ann, bob = (begun(stage, Agent(place.host, name, reconnect_s=0.2)) for name in ("ann", "bob"))
    ann.until("ready_peer", peer="bob")
    ann.do("bytes", "bob", 100_000_000)
    place.process.kill()
    ann.until("event", event="reconnect_scheduled")
    again = begun(stage, Place(place.port))
    assert bob.until("bytes")["count"] == 100_000_000 // 65000 * 65000
    assert not any('"gone"' in line for line in ann.seen + bob.seen)
    carol = begun(stage, Agent(again.host, "carol"))
    carol.until("ready_peer", peer="ann")
