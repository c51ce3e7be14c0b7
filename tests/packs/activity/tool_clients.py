"""Servers with the activity pack, and clients that call its tools in any dialect."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.server.raw_client import RawClient, connect_raw_client

from hubbub import Server
from hubbub.assembly.pack_installation import install_pack
from hubbub.packs.activity.pack import pack
from hubbub.packs.activity.settings import ActivitySettings, PrivacySettings

LEGACY = "2025-11-25"
UNUSED_URL = "http://127.0.0.1:9"
"""The discard port, on which no server listens."""


class ToolClient:
    """A client of a server with the pack."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, which must succeed, and return its result."""
        result = await self.client.call(tool, arguments)
        assert not result.get("isError"), result
        return json.loads(result["content"][0]["text"])

    async def failure(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, which must fail, and return its error."""
        result = await self.client.call(tool, arguments)
        assert result.get("isError"), result
        return json.loads(result["content"][0]["text"])["error"]


def make_server(aw_url: str = UNUSED_URL, sidecar_url: str | None = UNUSED_URL, **settings: Any) -> Server:
    """Return a server with the pack; by default, neither ActivityWatch nor a sidecar is reachable."""
    server = Server("desk", version="1")
    pack_settings = ActivitySettings(**{"time_zone": "UTC", **settings, "aw_url": aw_url, "sidecar_url": sidecar_url})
    install_pack(server, pack, pack_settings)
    return server


def privacy_rules(**rules: Any) -> PrivacySettings:
    """Build rules from keywords, for tests that choose rules by name."""
    return PrivacySettings(**rules)


@asynccontextmanager
async def connect_tool_client(
    aw_url: str = UNUSED_URL, sidecar_url: str | None = UNUSED_URL, *, dialect: str = LEGACY, **settings: Any
) -> AsyncIterator[ToolClient]:
    """Start a server and connect a client to it."""
    server = make_server(aw_url, sidecar_url, **settings)
    async with server.running(), connect_raw_client(server, dialect) as client:
        yield ToolClient(client)
