"""The official Python SDK's client, connected to a server over any transport."""

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
from tests.interop.http_recorder import HttpRecorder, ServerAddress

LEGACY, MODERN = "legacy", "auto"
ERAS = [pytest.param(LEGACY, id="2025-11-25"), pytest.param(MODERN, id="2026-07-28")]
# It warns of everything that the modern era has given up.
DEPRECATED = f"ignore::{MCPDeprecationWarning.__module__}.{MCPDeprecationWarning.__name__}"


def block_text(block: object) -> str:
    """Return the text of a content block, a message or a resource."""
    assert isinstance(block, types.TextContent | types.TextResourceContents), block
    return block.text


class ClientRecorder:
    """Records notifications and client requests, in order."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self.notifications: list[Any] = []
        self.requests: list[Any] = []
        self.http_recorder = HttpRecorder(headers)
        self._recorded = asyncio.Event()

    async def record_notification(self, message: Any) -> None:
        assert not isinstance(message, Exception), message
        self.notifications.append(message)
        self._recorded.set()

    async def wait_for(self, kind: type[Any]) -> Any:
        while True:
            for message in self.notifications:
                if isinstance(message, kind):
                    return message
            self._recorded.clear()
            await asyncio.wait_for(self._recorded.wait(), 60)

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.requests.append(params)
        return types.ElicitResult(action="accept", content={"name": f"Ada {len(self.requests)}", "age": 36})

    async def sample(self, context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        self.requests.append(params)
        text = types.TextContent(type="text", text="old pond")
        return types.CreateMessageResult(role="assistant", content=text, model="basho")

    async def roots(self, context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///home/ada"), name="home")])


@asynccontextmanager
async def connect_sdk_client(
    address: ServerAddress, mode: str, headers: Mapping[str, str] | None = None, **options: Any
) -> AsyncIterator[tuple[Client, ClientRecorder]]:
    """Connect a client of one era, with a recorder; `headers` are sent with every HTTP request."""
    wire = ClientRecorder(headers)
    async with AsyncExitStack() as stack:
        if isinstance(address, list):
            server: Any = StdioServerParameters(command=address[0], args=address[1:])
        else:
            http = await stack.enter_async_context(wire.http_recorder.make_client())
            server = streamable_http_client(address, http_client=http)
        settings: dict[str, Any] = {
            "mode": mode,
            "message_handler": wire.record_notification,
            "read_timeout_seconds": 20,
        }
        client = await stack.enter_async_context(Client(server, **settings, **options))
        if isinstance(address, str) and mode == LEGACY:
            await wire.http_recorder.wait_for("GET")  # before that, a session gets no notifications
        yield client, wire
