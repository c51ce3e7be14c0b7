"""`hubbub` with a person in front of it: on a pseudo-terminal, waiting for words and typing answers."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.conftest import clean_environment

DEADLINE_S = 60.0


class Terminal:
    """One run; a context manager that leaves no process behind."""

    def __init__(self, *arguments: str, folder: Path, **environ: str) -> None:
        self._ours, theirs = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hubbub", *arguments],
            cwd=folder, env=clean_environment() | {"TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"} | environ,
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def expect(self, words: str) -> str:
        """Wait until these words are on the screen; everything up to them, which is then forgotten."""
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.seen:
            assert self._read(deadline), f"{words!r} did not come; on the screen is:\n{self.seen}"
        at = self.seen.index(words) + len(words)
        shown, self.seen = self.seen[:at], self.seen[at:]
        return shown

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def is_quiet_for(self, seconds: float) -> bool:
        """Whether nothing more is shown for so long."""
        return not select.select([self._ours], [], [], seconds)[0]

    def end(self) -> tuple[int, str]:
        """Wait for the end; the exit code and the rest of what was shown."""
        deadline = time.monotonic() + DEADLINE_S
        while self._read(deadline):
            pass
        return self.process.wait(), self.seen.replace("\r\n", "\n")

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing came any more; on the screen is:\n{self.seen}"
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:  # How Linux says that nobody has the other end open.
            return False
        self.seen += chunk.decode(errors="replace")
        return bool(chunk)
