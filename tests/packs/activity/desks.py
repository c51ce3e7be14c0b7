"""Servers with the pack on them, and short ways to use its tools in any dialect."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.server.conversation import Conversation, conversing

from hubbub import Server
from hubbub.assembly.installing import install_pack
from hubbub.packs.activity.pack import pack
from hubbub.packs.activity.settings import ActivitySettings, PrivacySettings

LEGACY = "2025-11-25"
NOWHERE = "http://127.0.0.1:9"
"""Nobody listens on the discard port."""


class Asker:
    """A client that calls tools."""

    def __init__(self, client: Conversation) -> None:
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


def make_server(aw_url: str = NOWHERE, sidecar_url: str | None = NOWHERE, **settings: Any) -> Server:
    """A server with the pack."""
    server = Server("desk", version="1")
    chosen = ActivitySettings(**{"time_zone": "UTC", **settings, "aw_url": aw_url, "sidecar_url": sidecar_url})
    install_pack(server, pack, chosen)
    return server


def privacy_rules(**rules: Any) -> PrivacySettings:
    """Rules whose names are not written out where they are used."""
    return PrivacySettings(**rules)


@asynccontextmanager
async def at_a_desk(
    aw_url: str = NOWHERE, sidecar_url: str | None = NOWHERE, *, dialect: str = LEGACY, **settings: Any
) -> AsyncIterator[Asker]:
    """A client of a server of its own."""
    server = make_server(aw_url, sidecar_url, **settings)
    async with server.running(), conversing(server, dialect) as client:
        yield Asker(client)
