"""Run `hubbub campaign-server` and `hubbub serve` as subprocesses."""

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.http.server_process import HUBBUB


@contextmanager
def run_command(*arguments: str, ready: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command of `hubbub`, wait until stderr contains `ready`, and kill it at the end."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HUBBUB_")}
    stderr_lines: list[str] = []
    is_up = threading.Event()
    process = subprocess.Popen(
        [HUBBUB, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, env=environment,
    )  # fmt: skip

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            stderr_lines.append(line)
            if ready in line:
                is_up.set()
        is_up.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        is_up.wait()
        assert any(ready in line for line in stderr_lines), "".join(stderr_lines)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join()
        assert process.stderr is not None
        process.stderr.close()


@contextmanager
def run_campaign_server(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Run a campaign server that stores its campaigns in this folder."""
    database = f"sqlite:///{folder}/kept.db"
    arguments = ("campaign-server", "--addr", f"localhost:{port}", "--database", database)
    with run_command(*arguments, ready="campaign server listens on") as process:
        yield process


@contextmanager
def run_tabletop_server(port: int, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run an HTTP server with the tabletop pack."""
    flags = ("serve", "--transport", "http", "--http-addr", f"localhost:{port}", *arguments, "--pack", "tabletop")
    with run_command(*flags, ready=" serves http://") as process:
        yield process
