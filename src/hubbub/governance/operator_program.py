"""Runs a program of the operator that stores something of the audit journal elsewhere."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence


async def run_program(command: Sequence[str], data: bytes, timeout_s: float) -> str:
    """Run a program with this stdin; return what went wrong, or an empty text.

    It ends with everything that it started if its time is over or this is cancelled.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        return error.strerror or str(error)
    try:
        async with asyncio.timeout(timeout_s):
            await process.communicate(data)
    except TimeoutError:
        return f"it took longer than {timeout_s:g} s"
    finally:
        if process.returncode is None:
            _kill_group(process)
            await process.wait()
    return "" if process.returncode == 0 else f"exit code {process.returncode}"


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """End the program and what it started, which is in a session of its own."""
    if sys.platform == "win32":
        process.kill()
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
