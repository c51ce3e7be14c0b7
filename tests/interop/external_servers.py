"""Third-party servers in separate processes: a command for stdio, a process with a port for HTTP."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

HERE = Path(__file__).parent
JUDGES = HERE.parent / "judges" / "node_modules"
SERVERS = HERE / "servers"
START_TIMEOUT_S = 60.0


def make_studio_command(server: str, node: list[str]) -> list[str]:
    """Return the command of a studio in `servers`, without its transport."""
    runner = [sys.executable] if server.endswith(".py") else node
    return [*runner, str(SERVERS / server)]


@contextlib.contextmanager
def run_http_server(
    command: list[str], environment: Mapping[str, str] | None = None, port: int | None = None
) -> Iterator[int]:
    """Run a server over HTTP; yield its port, which it prints first unless one was passed."""
    output = subprocess.PIPE if port is None else subprocess.DEVNULL
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"JUDGES": str(JUDGES)} | dict(environment or {}),
    )
    try:
        if port is None:
            assert process.stdout is not None
            port = int(process.stdout.readline())
        wait_for_port(process, port)
        yield port
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def wait_for_port(process: "subprocess.Popen[str]", port: int) -> None:
    """Wait until the port accepts connections."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert process.poll() is None, f"it ended with {process.poll()}"
            assert time.monotonic() < deadline, "it does not listen"
            time.sleep(0.05)
