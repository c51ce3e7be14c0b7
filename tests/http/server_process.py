"""`hubbub serve` in a separate process."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.http.raw_http import Site

HUBBUB = Path(sys.executable).with_name("hubbub")
PLAYGROUND = Path(__file__).with_name("playground.py")
START_TIMEOUT_S = 60.0
_URL = re.compile(r"serves (https?://(?:localhost|(?:[0-9.]+|\[[0-9a-f:]+\]):([0-9]+)))/mcp")
_HEALTH = re.compile(r"health (https?://[^ ]+:[0-9]+)/health")
"""With a public URL, only this line has the address that the server listens on."""


class ServerProcess:
    """A running server. Its output is in `stderr_lines`."""

    def __init__(
        self, *arguments: str, port: int = 0, environment: Mapping[str, str] | None = None, max_files: str | None = None
    ) -> None:
        """`max_files`: options of `ulimit` for the limit on open files, such as `-n 256`."""
        limited = [] if max_files is None else ["sh", "-c", f'ulimit {max_files}; exec "$@"', "sh"]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("HUBBUB_")}
        self._process = subprocess.Popen(
            [*limited, HUBBUB, "serve", *arguments, "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=inherited | dict(environment or {}),
        )
        self.stderr_lines: list[str] = []
        self._is_up = threading.Event()
        self.url = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._is_up.wait(START_TIMEOUT_S) or not self.url:
            self.kill()
            raise AssertionError("it did not start: " + "".join(self.stderr_lines))
        listening = self.url.rpartition(":")[2]
        self.site = Site(int(listening) if listening.isdigit() else 0)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.stderr_lines.append(line)
            if (found := _URL.search(line) or _HEALTH.search(line)) is not None:
                self.url = found[1]
                self._is_up.set()
        self._is_up.set()

    @property
    def pid(self) -> int:
        return self._process.pid

    def signal(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end of the process; return the exit code."""
        code = self._process.wait()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
        return code

    def kill(self) -> None:
        """Kill the process if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self.wait()

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def memory_mib(process: ServerProcess) -> float:
    """Return the resident memory of a process, from `/proc`."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
