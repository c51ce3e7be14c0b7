"""Servers with the peers pack, each with one client that calls its tools."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.packs.peers.room_agents import WAIT_S
from tests.server.raw_client import RawClient, connect_raw_client

from hubbub import Server
from hubbub.assembly.pack_installation import install_pack, use_profile
from hubbub.packs.peers.pack import pack
from hubbub.packs.peers.sessions import Sessions
from hubbub.packs.peers.settings import PeersSettings

LEGACY = "2025-11-25"


class Caller:
    """A client that calls tools of a server of its own."""

    def __init__(self, client: RawClient, server: Server, host: str, sessions: Sessions) -> None:
        self.client = client
        self.server = server
        self.sessions = sessions
        self.host = host
        self.session_id = ""
        self.events: list[dict[str, Any]] = []

    async def call_raw(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; return its result."""
        result: dict[str, Any] = await self.client.call(tool, arguments)
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, by default in our own session; return its structured content."""
        if self.session_id and tool not in ("vdo_connect", "vdo_list_sessions", "vdo_capabilities"):
            arguments = {"session_id": self.session_id, **arguments}
        result = await self.call_raw(tool, **arguments)
        assert not result.get("isError"), result
        content: dict[str, Any] = result["structuredContent"]
        return content

    async def failure(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must fail; return the error."""
        if self.session_id and tool != "vdo_connect":
            arguments = {"session_id": self.session_id, **arguments}
        result = await self.call_raw(tool, **arguments)
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
        connect_arguments = {"room": "hall", "stream_id": stream_id, "host": self.host, **arguments}
        content = await self.call("vdo_connect", **connect_arguments)
        self.session_id = content["session_id"]
        return content

    async def read_events(self, wait_ms: int = 0, **arguments: Any) -> list[dict[str, Any]]:
        """Read the queued events, and add them to `events`."""
        content = await self.call("vdo_receive", max_events=500, wait_ms=wait_ms, **arguments)
        self.events += content["events"]
        events: list[dict[str, Any]] = content["events"]
        return events

    async def wait_for_event(self, type: str, wait_s: float = WAIT_S, **fields: Any) -> dict[str, Any]:
        """Wait for an event with these fields; it and all earlier ones are removed from `events`."""
        deadline = time.monotonic() + wait_s
        while True:
            for index, event in enumerate(self.events):
                if event.items() >= {"type": type, **fields}.items():
                    del self.events[: index + 1]
                    return event
            left = deadline - time.monotonic()
            if left <= 0:
                raise AssertionError(f"no {type} {fields}; there were {[event['type'] for event in self.events]}")
            await self.read_events(wait_ms=max(1, min(1000, int(left * 1000))))

    async def until(self, condition: Callable[[dict[str, Any]], object], wait_s: float = WAIT_S) -> dict[str, Any]:
        """Wait until the status meets a condition; return it."""
        async with asyncio.timeout(wait_s):
            while not condition(status := await self.call("vdo_status")):
                await asyncio.sleep(0.02)
            return status

    async def wait_for_peers(self, *names: str) -> None:
        """Wait until these peers are connected, have keys and are authenticated."""

        def knows(status: dict[str, Any]) -> bool:
            ready = {peer["stream_id"] for peer in status["sync_peers"] if peer["shared_key_ready"] and peer["auth_ok"]}
            return ready >= set(names)

        await self.until(knows)

    async def uuid(self, name: str) -> str:
        """Return the uuid of the peer with that name."""
        peers = (await self.call("vdo_sync_peers"))["peers"]
        uuid: str = next(peer["uuid"] for peer in peers if peer["stream_id"] == name)
        return uuid


@asynccontextmanager
async def connected_caller(
    host: str = "",
    *,
    dialect: str = LEGACY,
    profile: str | None = None,
    default_host: str | None = None,
    **settings: Any,
) -> AsyncIterator[Caller]:
    """A caller with its own server; `host` is passed to `vdo_connect`, `default_host` is the server's setting."""
    server = Server("agent", version="1")
    if default_host is not None:
        settings["host"] = default_host
    installed = install_pack(server, pack, PeersSettings(**settings))
    if profile is not None:
        use_profile(server, profile, [installed])
    async with server.running(), connect_raw_client(server, dialect) as client:
        yield Caller(client, server, host, installed.state)


@asynccontextmanager
async def callers_in_room(host: str, *names: str, **arguments: Any) -> AsyncIterator[tuple[Caller, ...]]:
    """Callers in one room that are connected to each other."""
    async with AsyncExitStack() as stack:
        callers = tuple([await stack.enter_async_context(connected_caller(host)) for _ in names])
        for name, caller in zip(names, callers, strict=True):
            await caller.connect(name, **arguments)
        for name, caller in zip(names, callers, strict=True):
            await caller.wait_for_peers(*(other for other in names if other != name))
        yield callers
