"""Servers with the pack on them, and short ways to use its tools in any dialect."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.server.raw_client import RawClient, connect_raw_client

from hubbub import Secret, Server
from hubbub.assembly.pack_installation import install_pack
from hubbub.packs.tabletop.pack import pack
from hubbub.packs.tabletop.service import TabletopService
from hubbub.packs.tabletop.settings import TabletopSettings

LEGACY = "2025-11-25"


def make_tabletop_server(folder: Path, **settings: Any) -> tuple[Server, TabletopService]:
    """A server whose campaigns are in a file of this folder."""
    server = Server("table", version="1")
    chosen = TabletopSettings(**{"database": Secret(f"sqlite:///{folder}/campaigns.db"), **settings})
    part = install_pack(server, pack, chosen)
    return server, part.state


class Player:
    """A client that calls tools."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        """What a tool gives, which must not fail."""
        result = await self.client.call(tool, arguments)
        assert not result.get("isError"), result
        return json.loads(result["content"][0]["text"])

    async def meta(self, tool: str, **arguments: Any) -> Any:
        """The `_meta` of a result."""
        return (await self.client.call(tool, arguments))["_meta"]

    async def failure(self, tool: str, **arguments: Any) -> Any:
        """How a tool fails, which it must."""
        if self.client.dialect == "plain":
            return await self.client.error("tools/call", {"name": tool, "arguments": arguments})
        result = await self.client.call(tool, arguments)
        assert result.get("isError"), result
        return json.loads(result["content"][0]["text"])["error"]

    async def read(self, uri: str) -> Any:
        """A resource as JSON."""
        (contents,) = (await self.client.result("resources/read", {"uri": uri}))["contents"]
        assert contents["uri"] == uri
        assert contents["mimeType"] == "application/json"
        return json.loads(contents["text"])

    async def campaign(self, **more: Any) -> str:
        """The id of a new campaign."""
        made = await self.call("campaign_create", **{"name": "The Lost Expedition", "gm_mode": "HUMAN", **more})
        return str(made["id"])


@asynccontextmanager
async def open_player(server: Server, dialect: str = LEGACY) -> AsyncIterator[Player]:
    """A client of a server that is already running."""
    async with connect_raw_client(server, dialect) as client:
        yield Player(client)


@asynccontextmanager
async def open_player_and_server(folder: Path, dialect: str = LEGACY) -> AsyncIterator[Player]:
    """A client of a server of its own."""
    server, _ = make_tabletop_server(folder)
    async with server.running(), open_player(server, dialect) as player:
        yield player
