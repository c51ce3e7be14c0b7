"""A server that appends each call that it executes to `executed.log` beside its own file."""

import asyncio
import os
from pathlib import Path

from hubbub import Server

FOLDER = Path(__file__).parent
server = Server("recorder")


def write_line(text: str) -> None:
    log = os.open(FOLDER / "executed.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(log, f"{text}\n".encode())
    finally:
        os.close(log)


@server.tool
async def record(id: str) -> str:
    """Record that this was executed."""
    write_line(id)
    return id


@server.tool
async def wipe(id: str) -> str:
    """Record that this was executed; policies of tests mark it."""
    write_line(f"wiped {id}")
    return "wiped"


@server.tool
async def wait_for(file: str) -> str:
    """Wait until a file exists beside this one."""
    write_line(f"waits for {file}")
    while not (FOLDER / file).exists():
        await asyncio.sleep(0.02)
    return "it exists"


@server.resource("note://public")
async def public() -> str:
    """Everyone may read this."""
    return "public"


@server.resource("note://secret")
async def secret() -> str:
    """Policies of tests hide this."""
    return "secret"
