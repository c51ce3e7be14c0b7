"""Upstreams for tests: the interop server in each era over each transport, and misbehaving servers."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.client.harness import INTEROP, PATHS, odd_server_config, stdio_config
from tests.http.in_process_server import run_server
from tests.interop import server as interop

from hubbub import ServerConfig
from hubbub.hub.remote import RemoteUpstream
from hubbub.hub.upstream import UpstreamOptions
from hubbub.pack.http import Backoff
from hubbub.security.sealer import Sealer

ASKING_SERVER = str(Path(__file__).with_name("asking_server.py"))
LEGACY, MODERN = "2025-11-25", "2026-07-28"
TRANSPORTS_AND_VERSIONS = [
    ("stdio", MODERN),
    ("stdio", LEGACY),
    ("streamable_http", MODERN),
    ("streamable_http", LEGACY),
    ("sse", None),
    ("websocket", LEGACY),
]


def quick_backoff() -> Backoff:
    return Backoff((0.1,), jitter=0)


@asynccontextmanager
async def open_upstream(config: ServerConfig, **options: Any) -> AsyncIterator[RemoteUpstream]:
    """Open an upstream; close it after the block."""
    backoff = options.pop("backoff", quick_backoff)
    upstream = RemoteUpstream(config, UpstreamOptions(**{"timeout_s": 15, **options}), Sealer(), backoff=backoff)
    await upstream.start()
    try:
        yield upstream
    finally:
        await upstream.close(0.5)


@asynccontextmanager
async def interop_upstream(transport: str, version: str | None, **options: Any) -> AsyncIterator[RemoteUpstream]:
    """Open the interop server as an upstream."""
    if transport == "stdio":
        async with open_upstream(stdio_config(str(INTEROP), protocol_version=version), **options) as upstream:
            yield upstream
        return
    async with run_server(interop.server, limits=("off",)) as site:
        scheme = "ws" if transport == "websocket" else "http"
        url = f"{scheme}://127.0.0.1:{site.site.port}{PATHS[transport]}"
        config = ServerConfig(id="there", transport=transport, url=url, protocol_version=version)
        async with open_upstream(config, **options) as upstream:
            yield upstream


@asynccontextmanager
async def misbehaving_upstream(mode: str, **options: Any) -> AsyncIterator[RemoteUpstream]:
    """Open a misbehaving server as an upstream."""
    async with open_upstream(odd_server_config(mode), **options) as upstream:
        yield upstream


def asking_config(*arguments: str) -> ServerConfig:
    """The server that sends client requests without naming the call."""
    return ServerConfig(
        id="asker", command=sys.executable, args=[ASKING_SERVER, *arguments], protocol_version="2025-11-25"
    )
