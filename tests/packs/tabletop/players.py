"""Servers with the tabletop pack, and clients that call its tools in any dialect."""

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
    """Return a server that stores its campaigns in a file in this folder, and its service."""
    server = Server("table", version="1")
    chosen = TabletopSettings(**{"database": Secret(f"sqlite:///{folder}/campaigns.db"), **settings})
    part = install_pack(server, pack, chosen)
    return server, part.state


class Player:
    """A client of a server with the pack."""

    def __init__(self, client: RawClient) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, which must succeed, and return its result."""
        result = await self.client.call(tool, arguments)
        assert not result.get("isError"), result
        return json.loads(result["content"][0]["text"])

    async def meta(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return the `_meta` of its result."""
        return (await self.client.call(tool, arguments))["_meta"]

    async def failure(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, which must fail, and return its error."""
        if self.client.dialect == "plain":
            return await self.client.error("tools/call", {"name": tool, "arguments": arguments})
        result = await self.client.call(tool, arguments)
        assert result.get("isError"), result
        return json.loads(result["content"][0]["text"])["error"]

    async def read(self, uri: str) -> Any:
        """Read a resource and return its decoded JSON."""
        (contents,) = (await self.client.result("resources/read", {"uri": uri}))["contents"]
        assert contents["uri"] == uri
        assert contents["mimeType"] == "application/json"
        return json.loads(contents["text"])

    async def campaign(self, **more: Any) -> str:
        """Create a campaign and return its id."""
        made = await self.call("campaign_create", **{"name": "The Lost Expedition", "gm_mode": "HUMAN", **more})
        return str(made["id"])


@asynccontextmanager
async def open_player(server: Server, dialect: str = LEGACY) -> AsyncIterator[Player]:
    """Connect a client to a running server."""
    async with connect_raw_client(server, dialect) as client:
        yield Player(client)


@asynccontextmanager
async def open_player_and_server(folder: Path, dialect: str = LEGACY) -> AsyncIterator[Player]:
    """Start a server and connect a client to it."""
    server, _ = make_tabletop_server(folder)
    async with server.running(), open_player(server, dialect) as player:
        yield player
