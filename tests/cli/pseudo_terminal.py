"""Runs `hubbub` on a pseudo-terminal: waits for output and types input."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.conftest import clean_environment

DEADLINE_S = 60.0


class Terminal:
    """One run; as a context manager it ends the process."""

    def __init__(
        self, *arguments: str, folder: Path, command: Sequence[str] = (sys.executable, "-m", "hubbub"), **environ: str
    ) -> None:
        self._controller, terminal_end = pty.openpty()
        self.screen = ""
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=folder, env=clean_environment() | {"TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"} | environ,
            stdin=terminal_end, stdout=terminal_end, stderr=terminal_end, start_new_session=True,
        )  # fmt: skip
        os.close(terminal_end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._controller)

    def expect(self, words: str) -> str:
        """Wait for these words; return and consume the output up to them."""
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.screen:
            assert self._read(deadline), f"{words!r} did not come; on the screen is:\n{self.screen}"
        at = self.screen.index(words) + len(words)
        shown, self.screen = self.screen[:at], self.screen[at:]
        return shown

    def type(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def is_quiet_for(self, seconds: float) -> bool:
        """Whether there is no output for this time."""
        return not select.select([self._controller], [], [], seconds)[0]

    def end(self) -> tuple[int, str]:
        """Wait for the process to end; return the exit code and the remaining output."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read(deadline):
            pass
        return self.process.wait(), self.screen.replace("\r\n", "\n")

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._controller], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing came any more; on the screen is:\n{self.screen}"
        try:
            chunk = os.read(self._controller, 65536)
        except OSError:  # Linux raises this when the other end is closed.
            return False
        self.screen += chunk.decode(errors="replace")
        return bool(chunk)
