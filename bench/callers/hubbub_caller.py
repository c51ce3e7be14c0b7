"""Hubbub's client."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

from bench.callers.harness import Connected, main
from hubbub import Client


@asynccontextmanager
async def connect(place: list[str], is_modern: bool) -> Connected:
    """Connect with the default options; the client detects the era."""
    config: dict[str, Any] = {"id": "bare", "command": place[0], "args": place[1:]}
    if len(place) == 1:
        config = {"id": "bare", "transport": "streamable_http", "url": place[0]}
    async with Client(config) as client:
        assert client.era == ("modern" if is_modern else "legacy")

        async def call(text: str) -> str:
            result: Any = await client.call_tool("echo", {"text": text})
            return str(result.content[0].text)

        yield call


main(connect)
