"""Servers for tests of clients (the interop server, a misbehaving one), and checks for leaked resources."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from tests.clock import wait_until
from tests.http.in_process_server import run_server
from tests.interop import server as interop
from tests.processes import is_running

from hubbub import Client, ServerConfig

INTEROP = Path(interop.__file__)
ODD_SERVER = str(Path(__file__).with_name("odd_server.py"))
SOURCE = Path(__file__).parents[2] / "src"

TRANSPORTS_AND_VERSIONS = [
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
"""Transport and pinned version; None: negotiated, which finds the modern era where the transport has it."""
PATHS = {"streamable_http": "/mcp", "sse": "/sse", "websocket": "/mcp-ws"}


def stdio_config(*arguments: str, **fields: Any) -> ServerConfig:
    """Config of a server that is a Python program."""
    env = {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", **fields.pop("env", {})}
    return ServerConfig(**{"id": "here", "command": sys.executable, "args": arguments, "env": env, **fields})


def odd_server_config(mode: str, **fields: Any) -> ServerConfig:
    """Config of a server that misbehaves; `mode` is one of those in odd_server.py."""
    return stdio_config(ODD_SERVER, mode, **{"protocol_version": "2025-11-25", **fields})


@asynccontextmanager
async def interop_client(transport: str, version: str | None = None, **options: Any) -> AsyncIterator[Client]:
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
    async with run_server(interop.server, limits=("off",)) as site:
        scheme = "ws" if transport == "websocket" else "http"
        url = f"{scheme}://127.0.0.1:{site.site.port}{PATHS[transport]}"
        config = ServerConfig(id="there", transport=transport, url=url, **fields)
        async with Client(config, **options) as client:
            yield client


def _count_resources() -> tuple[int, int]:
    """Count running child processes, and open sockets and pipes."""
    children = psutil.Process().children(recursive=True)
    kinds = map(_descriptor_target, Path("/proc/self/fd").iterdir())
    return sum(map(is_running, children)), sum(kind.startswith(("socket:", "pipe:")) for kind in kinds)


def _descriptor_target(entry: Path) -> str:
    """Return what a descriptor refers to; empty if it was closed meanwhile."""
    try:
        return str(entry.readlink())
    except OSError:
        return ""


@asynccontextmanager
async def assert_no_leaks() -> AsyncIterator[None]:
    """Wait until no task, process, socket or pipe of the block is left, or fail."""
    tasks, before = len(asyncio.all_tasks()), _count_resources()
    yield
    await wait_until(
        lambda: len(asyncio.all_tasks()) <= tasks and _count_resources() <= before,
        lambda: f"{_count_resources()} > {before}",
    )


@asynccontextmanager
async def assert_no_unretrieved_errors() -> AsyncIterator[None]:
    """Fail if a task or future ends with an error that is never retrieved, which asyncio would report on stderr."""
    reported: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: reported.append(context))
    yield
    gc.collect()
    loop.set_exception_handler(None)
    assert reported == []
