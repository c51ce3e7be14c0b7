"""Asks the person at the terminal, if there is one.

Questions go to stderr and answers come from stdin, so that stdout has only the output of the command. Reading must not
block the event loop or the end of the process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading

from hubbub import bounds
from hubbub.cli.exit_codes import replace_controls


def is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def note(text: str) -> None:
    """Write lines for the person to stderr; control characters are replaced."""
    sys.stderr.write(f"{replace_controls(text)}\n")
    sys.stderr.flush()


async def ask(question: str) -> str | None:
    """Ask the person for a line; None at the end of input."""
    sys.stderr.write(replace_controls(question))
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[str | None] = loop.create_future()

    def settle(line: str | None) -> None:
        if not typed.done():
            typed.set_result(line)

    def read() -> None:
        line = _read_line(sys.stdin.fileno())
        try:
            loop.call_soon_threadsafe(settle, line)
        except RuntimeError:
            return  # The loop is closed: nothing waits for the answer any more.

    # A daemon, because a read cannot be cancelled and must not keep the process from ending; and without
    # Python's buffer, whose lock such a thread would hold at the end.
    threading.Thread(target=read, daemon=True).start()
    return await typed


def _read_line(descriptor: int) -> str | None:
    line = b""
    while not line.endswith(b"\n") and len(line) < bounds.TYPED_LINE_BYTES:
        try:
            chunk = os.read(descriptor, bounds.TYPED_LINE_BYTES)
        except OSError:
            chunk = b""
        if not chunk:
            break
        line += chunk
    return line.decode(errors="replace").rstrip("\r\n") if line else None
