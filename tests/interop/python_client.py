"""The official Python SDK's client, connected to a server by any transport."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import FileUrl
from tests.interop.traffic import Place, Traffic

LEGACY, MODERN = "legacy", "auto"
ERAS = [pytest.param(LEGACY, id="2025-11-25"), pytest.param(MODERN, id="2026-07-28")]
# It warns of everything that the modern era has given up.
DEPRECATED = f"ignore::{MCPDeprecationWarning.__module__}.{MCPDeprecationWarning.__name__}"


def text_of(block: object) -> str:
    """The text of a block of content, of a message or of a resource."""
    assert isinstance(block, types.TextContent | types.TextResourceContents), block
    return block.text


class Wire:
    """What reached the client unasked, in order."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self.notes: list[Any] = []
        self.asked: list[Any] = []
        self.traffic = Traffic(headers)
        self._arrived = asyncio.Event()

    async def note(self, message: Any) -> None:
        assert not isinstance(message, Exception), message
        self.notes.append(message)
        self._arrived.set()

    async def until(self, kind: type[Any]) -> Any:
        while True:
            for message in self.notes:
                if isinstance(message, kind):
                    return message
            self._arrived.clear()
            await asyncio.wait_for(self._arrived.wait(), 60)

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params)
        return types.ElicitResult(action="accept", content={"name": f"Ada {len(self.asked)}", "age": 36})

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.asked.append(params)
        text = types.TextContent(type="text", text="old pond")
        return types.CreateMessageResult(role="assistant", content=text, model="basho")

    async def roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///home/ada"), name="home")])


@asynccontextmanager
async def connected(
    place: Place, mode: str, headers: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Wire]]:
    """A client of one era, and what reaches it; `headers` go with every HTTP request."""
    wire = Wire(headers)
    async with AsyncExitStack() as stack:
        if isinstance(place, list):
            server: Any = StdioServerParameters(command=place[0], args=place[1:])
        else:
            http = await stack.enter_async_context(wire.traffic.client())
            server = streamable_http_client(place, http_client=http)
        settings: dict[str, Any] = {"mode": mode, "message_handler": wire.note, "read_timeout_seconds": 20}
        client = await stack.enter_async_context(Client(server, **settings, **options))
        if isinstance(place, str) and mode == LEGACY:
            await wire.traffic.until("GET")  # nothing can be told to a session before
        yield client, wire
