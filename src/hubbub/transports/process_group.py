"""Signals to a child and to everything it has started, which share its process group."""

from __future__ import annotations

import asyncio
import os
import signal


def end_group(transport: asyncio.SubprocessTransport, pid: int, number: signal.Signals) -> None:
    """Send a signal to the whole group; those already gone do not matter."""
    try:
        if os.name == "nt":
            transport.terminate()
        else:
            os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def is_alive(pid: int) -> bool:
    """Whether anything of the group is left."""
    if os.name == "nt":
        return False
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
