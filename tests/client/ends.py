"""Counterparts for clients: our own server on stdio and HTTP, one that misbehaves, and a count of what is left over."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from tests.clock import until
from tests.http.in_process import running
from tests.interop import server as interop
from tests.processes import is_running

from hubbub import Client, ServerConfig

INTEROP = Path(interop.__file__)
ODD = str(Path(__file__).with_name("odd_server.py"))
SOURCE = Path(__file__).parents[2] / "src"

WAYS = [
    ("stdio", None),
    ("stdio", "2025-11-25"),
    ("stdio", "2025-06-18"),
    ("stdio", "2025-03-26"),
    ("stdio", "2024-11-05"),
    ("streamable_http", None),
    ("streamable_http", "2025-11-25"),
    ("streamable_http", "2025-06-18"),
    ("streamable_http", "2025-03-26"),
    ("sse", None),
    ("websocket", None),
    ("websocket", "2025-11-25"),
    ("memory", None),
    ("memory", "2025-11-25"),
    ("memory", "2025-06-18"),
    ("memory", "2025-03-26"),
    ("memory", "2024-11-05"),
]
"""Transport and pinned version; the unpinned find the modern era wherever there is one."""
PATHS = {"streamable_http": "/mcp", "sse": "/sse", "websocket": "/mcp-ws"}


def stdio_config(*arguments: str, **fields: Any) -> ServerConfig:
    """A Python program as a server."""
    env = {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", **fields.pop("env", {})}
    return ServerConfig(**{"id": "here", "command": sys.executable, "args": arguments, "env": env, **fields})


def odd(mode: str, **fields: Any) -> ServerConfig:
    """The server that misbehaves in one way; odd_server.py has them all."""
    return stdio_config(ODD, mode, **{"protocol_version": "2025-11-25", **fields})


@asynccontextmanager
async def reached(transport: str, version: str | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client of the interop server, over a transport, in a version."""
    fields = {"protocol_version": version, **options.pop("fields", {})}
    if transport == "memory":
        async with Client(ServerConfig(id="here", server=interop.server, **fields), **options) as client:
            yield client
        return
    if transport == "stdio":
        async with Client(stdio_config(str(INTEROP), **fields), **options) as client:
            yield client
        return
    async with running(interop.server, limits=("off",)) as site:
        scheme = "ws" if transport == "websocket" else "http"
        url = f"{scheme}://127.0.0.1:{site.site.port}{PATHS[transport]}"
        config = ServerConfig(id="there", transport=transport, url=url, **fields)
        async with Client(config, **options) as client:
            yield client


def _held() -> tuple[int, int]:
    """Children that run, and sockets and pipes that are open."""
    children = psutil.Process().children(recursive=True)
    kinds = map(_kind, Path("/proc/self/fd").iterdir())
    return sum(map(is_running, children)), sum(kind.startswith(("socket:", "pipe:")) for kind in kinds)


def _kind(entry: Path) -> str:
    """What a descriptor is; nothing if it was closed while we look."""
    try:
        return str(entry.readlink())
    except OSError:
        return ""


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Whatever happens inside, no task, no process, no socket and no pipe is left of it."""
    tasks, held = len(asyncio.all_tasks()), _held()
    yield
    await until(lambda: len(asyncio.all_tasks()) <= tasks and _held() <= held, lambda: f"{_held()} > {held}")


@asynccontextmanager
async def no_lost_errors() -> AsyncIterator[None]:
    """Fail if a task or future ends with an error that nobody retrieves: asyncio reports these on stderr."""
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    yield
    gc.collect()
    loop.set_exception_handler(None)
    assert reported == []
