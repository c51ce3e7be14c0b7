"""Servers with the pack on them, and callers that use its tools: one agent each, as a client sees it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.packs.peers.rooms import WAIT_S
from tests.server.conversation import Conversation, conversing

from hubbub import Server
from hubbub.assembly.installing import install_pack, use_profile
from hubbub.packs.peers.pack import pack
from hubbub.packs.peers.sessions import Sessions
from hubbub.packs.peers.settings import PeersSettings

LEGACY = "2025-11-25"


class Caller:
    """A client that calls tools of a server of its own."""

    def __init__(self, client: Conversation, server: Server, host: str, sessions: Sessions) -> None:
        self.client = client
        self.server = server
        self.sessions = sessions
        self.host = host
        self.session_id = ""
        self.events: list[dict[str, Any]] = []

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The whole result of a tool."""
        result: dict[str, Any] = await self.client.call(tool, arguments)
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool gives, which must not fail; the session is our own unless another is named."""
        if self.session_id and tool not in ("vdo_connect", "vdo_list_sessions", "vdo_capabilities"):
            arguments = {"session_id": self.session_id, **arguments}
        result = await self.ask(tool, **arguments)
        assert not result.get("isError"), result
        told: dict[str, Any] = result["structuredContent"]
        return told

    async def failure(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """How a tool fails, which it must."""
        if self.session_id and tool != "vdo_connect":
            arguments = {"session_id": self.session_id, **arguments}
        result = await self.ask(tool, **arguments)
        assert result.get("isError") is True, result
        assert result["structuredContent"].keys() == {"ok", "error"}
        assert result["structuredContent"]["ok"] is False
        error: dict[str, Any] = result["structuredContent"]["error"]
        assert error.keys() == {"type", "message", "tool"}, error
        assert error["tool"] == tool
        return error

    async def connect(self, stream_id: str, **arguments: Any) -> dict[str, Any]:
        """Enter the room `hall`, and use that session from now on."""
        self.session_id = ""
        given = {"room": "hall", "stream_id": stream_id, "host": self.host, **arguments}
        told = await self.call("vdo_connect", **given)
        self.session_id = told["session_id"]
        return told

    async def take(self, wait_ms: int = 0, **arguments: Any) -> list[dict[str, Any]]:
        """The events that are there now; they are kept in `events` too."""
        told = await self.call("vdo_receive", max_events=500, wait_ms=wait_ms, **arguments)
        self.events += told["events"]
        events: list[dict[str, Any]] = told["events"]
        return events

    async def event(self, type: str, wait_s: float = WAIT_S, **fields: Any) -> dict[str, Any]:
        """The first event like this; what was taken before counts, and is forgotten up to it."""
        deadline = time.monotonic() + wait_s
        while True:
            for place, event in enumerate(self.events):
                if event.items() >= {"type": type, **fields}.items():
                    del self.events[: place + 1]
                    return event
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"no {type} {fields}; there were {[event['type'] for event in self.events]}")
            await self.take(wait_ms=max(1, min(1000, int(left * 1000))))

    async def until(self, is_so: Callable[[dict[str, Any]], object], wait_s: float = WAIT_S) -> dict[str, Any]:
        """The status as soon as something is so of it."""
        async with asyncio.timeout(wait_s):
            while not is_so(status := await self.call("vdo_status")):
                await asyncio.sleep(0.02)
            return status

    async def until_knows(self, *names: str) -> None:
        """Wait until these peers are there, have keys, and proved what they must."""

        def knows(status: dict[str, Any]) -> bool:
            ready = {peer["stream_id"] for peer in status["sync_peers"] if peer["shared_key_ready"] and peer["auth_ok"]}
            return ready >= set(names)

        await self.until(knows)

    async def uuid(self, name: str) -> str:
        """Of the peer of that name."""
        peers = (await self.call("vdo_sync_peers"))["peers"]
        uuid: str = next(peer["uuid"] for peer in peers if peer["stream_id"] == name)
        return uuid


@asynccontextmanager
async def calling(
    host: str = "",
    *,
    dialect: str = LEGACY,
    profile: str | None = None,
    usual_host: str | None = None,
    **settings: Any,
) -> AsyncIterator[Caller]:
    """A caller of a server of its own; `host` is where it connects to, `usual_host` what its server is set to."""
    server = Server("agent", version="1")
    if usual_host is not None:
        settings["host"] = usual_host
    part = install_pack(server, pack, PeersSettings(**settings))
    if profile is not None:
        use_profile(server, profile, [part])
    async with server.running(), conversing(server, dialect) as client:
        yield Caller(client, server, host, part.state)


@asynccontextmanager
async def in_the_hall(host: str, *names: str, **arguments: Any) -> AsyncIterator[tuple[Caller, ...]]:
    """Callers in one room who know each other."""
    async with AsyncExitStack() as stack:
        callers = tuple([await stack.enter_async_context(calling(host)) for _ in names])
        for name, caller in zip(names, callers, strict=True):
            await caller.connect(name, **arguments)
        for name, caller in zip(names, callers, strict=True):
            await caller.until_knows(*(other for other in names if other != name))
        yield callers
