"""Start the bare servers that clients and gateways under test call."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Iterator

from bench.http_generator import HOST, free_port
from bench.process import GENERATOR_CORE, BenchError, ServerProcess

_START_S = 20.0
_RETRY_S = 0.02


def bare_stdio(era: str) -> list[str]:
    """Return the command of a bare stdio server, which runs on the core of its parent."""
    return [sys.executable, "-m", "bench.floors.bare_stdio", era]


def on_generator_core(command: list[str]) -> list[str]:
    """Return the same command on the core of the generator, so that a gateway has its own core."""
    return [*command, "--core", str(GENERATOR_CORE)]


@contextlib.contextmanager
def bare_http(era: str, *, beside_generator: bool = False) -> Iterator[int]:
    """Run a bare HTTP server; yields its port."""
    port = free_port()
    command = [sys.executable, "-m", "bench.floors.bare_http", str(port), era]
    with ServerProcess(command, beside_generator=beside_generator) as server:
        try:
            _wait_for(port)
            yield port
        finally:
            server.terminate()


def _wait_for(port: int) -> None:
    end = time.monotonic() + _START_S
    while True:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise BenchError("the bare server does not listen") from None
            time.sleep(_RETRY_S)
