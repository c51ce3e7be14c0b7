"""FastMCP's client."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import httpx2
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

from bench.callers.harness import Connected, main


def http_client(headers: Any = None, **options: Any) -> httpx2.AsyncClient:
    """Create a client that ignores proxy settings of the environment."""
    return httpx2.AsyncClient(headers=headers, trust_env=False, **options)


@asynccontextmanager
async def connect(place: list[str], is_modern: bool) -> Connected:
    transport: Any = StdioTransport(place[0], place[1:], keep_alive=False)
    if len(place) == 1:
        factory: Any = http_client
        transport = StreamableHttpTransport(place[0], httpx_client_factory=factory)
    async with Client(transport, mode="auto" if is_modern else "legacy") as client:

        async def call(text: str) -> str:
            result: Any = await client.call_tool("echo", {"text": text})
            return str(result.content[0].text)

        yield call


main(connect)
