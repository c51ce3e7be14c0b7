"""Runs a command that serves something until SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractAsyncContextManager

from hubbub.observe import configure_logging
from hubbub.security.redact import redact
from hubbub.transports.signals import stop_signals


def run_service(name: str, service: AbstractAsyncContextManager[str]) -> int:
    """Run a service until SIGINT or SIGTERM; return the exit code of the command, which is then 0.

    Entering `service` starts it and returns its address; leaving it stops it. Once it is ready, a line is written to
    stderr: `hubbub: NAME listens on ADDRESS · Ctrl+C stops it`. Logs go to stderr, too. Errors are raised; the command
    line prints a `HubbubError` and exits with its code.
    """
    configure_logging(format="auto", redact=redact)
    asyncio.run(_run(name, service))
    return 0


async def _run(name: str, service: AbstractAsyncContextManager[str]) -> None:
    stopped = asyncio.Event()
    with stop_signals(stopped.set):
        async with service as address:
            sys.stderr.write(f"hubbub: {name} listens on {address} · Ctrl+C stops it\n")
            sys.stderr.flush()
            await stopped.wait()
