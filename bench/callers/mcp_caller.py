"""The official SDK's client."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from bench.callers.harness import Connected, main


@asynccontextmanager
async def connect(place: list[str], is_modern: bool) -> Connected:
    """Connect with the default options, but ignore proxy settings of the environment."""
    async with AsyncExitStack() as stack:
        if len(place) == 1:
            http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False))
            server: Any = streamable_http_client(place[0], http_client=http)
        else:
            server = StdioServerParameters(command=place[0], args=place[1:])
        client = await stack.enter_async_context(Client(server, mode="auto" if is_modern else "legacy"))

        async def call(text: str) -> str:
            result: Any = await client.call_tool("echo", {"text": text})
            return str(result.content[0].text)

        yield call


main(connect)
