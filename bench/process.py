"""Run a server in a subprocess pinned to a core, and measure its CPU time and memory. Linux only.

The generator, this process, uses another core if there is one. CPU time is the
kernel's clock of the whole process: it includes all threads, also ended ones.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO

ROOT = Path(__file__).parents[1]
_CLEAN_ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
_CORES = sorted(os.sched_getaffinity(0))
GENERATOR_CORE, _SERVER_CORE = _CORES[0], _CORES[-1]
_EXIT_S = 5.0


class BenchError(Exception):
    """The benchmark cannot continue; the message says why."""


def pin_generator() -> None:
    """Pin this process to its core."""
    os.sched_setaffinity(0, {GENERATOR_CORE})


@contextmanager
def on_any_core() -> Iterator[None]:
    """Start children without pinning.

    For servers that the measured one calls: on one core they could not answer concurrently.
    """
    os.sched_setaffinity(0, set(_CORES))
    try:
        yield
    finally:
        pin_generator()


class ServerProcess:
    """A running server with pipes to its stdin and stdout, both raw descriptors."""

    def __init__(self, command: list[str], *, beside_generator: bool = False) -> None:
        self._command = command
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        # A child starts on its parent's core; a function between fork and exec would cost the child CPU time.
        os.sched_setaffinity(0, {GENERATOR_CORE if beside_generator else _SERVER_CORE})
        try:
            self._process = subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=ROOT,
                env=_CLEAN_ENVIRONMENT,
            )
        except OSError as error:
            raise BenchError(f"cannot start {command[0]}: {error}") from error
        finally:
            pin_generator()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipes = (self._process.stdin, self._process.stdout)
        self.input, self.output = (pipe.fileno() for pipe in self._pipes)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipes[0].close()
        try:
            self._process.wait(0 if error is not None else _EXIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._pipes[1].close()
        self._errors.close()

    def terminate(self) -> None:
        """Send SIGTERM: a server without a client on stdin does not stop by itself."""
        self._process.terminate()

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def cpu_s(self) -> float:
        """Return the user and system CPU time since the start."""
        # Linux derives the id of a process's CPU clock from its pid: see clock_getcpuclockid(3).
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def resident_mb(self) -> float:
        """Return the current resident memory."""
        return self._memory_mb("VmRSS:")

    def peak_mb(self) -> float:
        """Return the peak memory since `reset_peak`, or since the start."""
        return self._memory_mb("VmHWM:")

    def reset_peak(self) -> None:
        """Restart the measurement of the peak memory."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def _memory_mb(self, name: str) -> float:
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
        raise self.make_error("it has ended")

    def descriptors(self) -> int:
        """Return the number of open descriptors."""
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    def threads(self) -> int:
        """Return the number of threads."""
        return len(list(Path(f"/proc/{self._process.pid}/task").iterdir()))

    def read_stderr(self) -> str:
        """Return the stderr output so far."""
        written = os.pread(self._errors.fileno(), os.fstat(self._errors.fileno()).st_size, 0)
        return written.decode(errors="replace")

    def make_error(self, problem: str) -> BenchError:
        """Return an error with the last stderr output."""
        last = self.read_stderr().strip().splitlines()[-5:]
        return BenchError("\n".join([f"{' '.join(self._command)}: {problem}", *last]))
