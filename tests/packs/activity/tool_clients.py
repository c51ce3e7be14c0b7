"""Servers with the pack on them, and short ways to use its tools in any dialect."""

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
"""Nobody listens on the discard port."""


class ToolClient:
    """A client that calls tools."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        """What a tool gives, which must not fail."""
        result = await self.client.call(tool, arguments)
        assert not result.get("isError"), result
        return json.loads(result["content"][0]["text"])

    async def failure(self, tool: str, **arguments: Any) -> Any:
        """How a tool fails, which it must."""
        result = await self.client.call(tool, arguments)
        assert result.get("isError"), result
        return json.loads(result["content"][0]["text"])["error"]


def make_server(aw_url: str = UNUSED_URL, sidecar_url: str | None = UNUSED_URL, **settings: Any) -> Server:
    """A server with the pack."""
    server = Server("desk", version="1")
    pack_settings = ActivitySettings(**{"time_zone": "UTC", **settings, "aw_url": aw_url, "sidecar_url": sidecar_url})
    install_pack(server, pack, pack_settings)
    return server


def privacy_rules(**rules: Any) -> PrivacySettings:
    """Rules whose names are not written out where they are used."""
    return PrivacySettings(**rules)


@asynccontextmanager
async def connect_tool_client(
    aw_url: str = UNUSED_URL, sidecar_url: str | None = UNUSED_URL, *, dialect: str = LEGACY, **settings: Any
) -> AsyncIterator[ToolClient]:
    """A client of a server of its own."""
    server = make_server(aw_url, sidecar_url, **settings)
    async with server.running(), connect_raw_client(server, dialect) as client:
        yield ToolClient(client)
