"""The terminal of a page: runs its commands one after the other, in a separate folder.

`hubbub serve` stays up until the next one, or until the page ends, unless it refuses to start; every other
command ends by itself. What runs in another terminal goes on meanwhile, and is looked at in the end.
Ports 3000 and 8765 are whichever are free, so that tests can run side by side.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, Step, output_matches
from tests.ports import free_port

DEADLINE_S = 60.0
POLL_S = 0.02
_READY_SUFFIX = "stops it\n"
"""The end of the lines that a server prints once it serves."""


class Shell:
    """Use as a context manager, which ends the server that is still running."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.signal_port = free_port()
        self.replacements: dict[str, str] = {}
        """What else a page names that has another name here."""
        self._server: subprocess.Popen[bytes] | None = None
        self._background: list[tuple[Step, subprocess.Popen[bytes], Path]] = []
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "HUBBUB_PORT": str(self.port),
        }

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_server()
        for _step, process, _log in self._background:
            process.terminate()
            process.wait()

    def _stop_server(self) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.wait()

    def translate(self, text: str) -> str:
        """Replace addresses and ports of the page by those of this test."""
        defaults = {
            ":3000": f":{self.port}",
            "--port 3000": f"--port {self.port}",
            ":8765": f":{self.signal_port}",
            "hubbub signal &": f"hubbub signal --port {self.signal_port} &",
            "/path/to/hubbub": str(ROOT),
        }
        for shown, replacement in {**self.replacements, **defaults}.items():
            text = text.replace(shown, replacement)
        return text

    def run(self, step: Step) -> None:
        """Run a command, and compare its output with the page."""
        step = Step(self.translate(step.command), self.translate(step.expected))
        for program in ("curl", "openssl"):
            if f"{program} " in step.command and shutil.which(program) is None:
                pytest.skip(f"the pages need {program}, which is not installed")
        if step.command.startswith("hubbub serve "):
            self._stop_server()
            self._serve(step)
        else:
            done = subprocess.run(
                ["bash", "-c", step.command], cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=DEADLINE_S,
            )  # fmt: skip
            _compare(step, done.stdout.decode().replace("\r\n", "\n"))

    def run_in_background(self, step: Step) -> None:
        """Run a command in another terminal; after one that ends with `&`, wait for its output before the next."""
        step = Step(self.translate(step.command), self.translate(step.expected))
        log = self.folder / f".terminal-output-{len(self._background)}"
        with log.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {step.command.removesuffix('&')}"], cwd=self.folder, env=self._environment,
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._background.append((step, process, log))
        if step.command.endswith("&"):
            _wait_until(partial(_has_expected_output, step, log))

    def check_background(self) -> None:
        """Compare the output of the commands in another terminal with the page."""
        for step, _, log in self._background:
            _wait_until(partial(_has_expected_output, step, log))
            _compare(step, log.read_text())

    def _serve(self, step: Step) -> None:
        log = self.folder / ".server-output"
        with log.open("wb") as file:
            self._server = subprocess.Popen(
                ["bash", "-c", f"exec {step.command}"], cwd=self.folder, env=self._environment,
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        server = self._server
        _wait_until(lambda: _READY_SUFFIX in log.read_text() or server.poll() is not None)
        _compare(step, log.read_text())


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_S)


def _has_expected_output(step: Step, log: Path) -> bool:
    return output_matches(step.expected, log.read_text())


def _compare(step: Step, output: str) -> None:
    assert output_matches(step.expected, output), (
        f"$ {step.command}\n--- the page shows\n{step.expected}\n--- it says\n{output}"
    )
