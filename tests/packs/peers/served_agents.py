"""Agents with the peers pack: `hubbub serve` in separate processes, called over MCP."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.packs.peers.room_agents import WAIT_S

from hubbub import Client, ServerConfig

ROOT = Path(__file__).parents[3]
CALL_TIMEOUT_S = 120.0


class ServedAgent:
    """One session in one room, of one server."""

    def __init__(self, client: Client, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.events: list[dict[str, Any]] = []
        self._client = client
        self.session: str | None = None

    async def call_raw(self, tool: str, **arguments: Any) -> tuple[dict[str, Any], bool]:
        """Call a tool; return its content, and whether it is an error."""
        result = await self._client.call_tool(tool, arguments, timeout_s=CALL_TIMEOUT_S)
        content: Any = result.structured_content
        return dict(content), result.is_error is True

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool of this session, which must succeed."""
        content, is_error = await self.call_raw(tool, session_id=self.session, **arguments)
        assert not is_error, content
        return content

    async def connect(self, host: str, room: str = "hall", **options: Any) -> dict[str, Any]:
        content, is_error = await self.call_raw("vdo_connect", host=host, room=room, stream_id=self.name, **options)
        assert not is_error, content
        self.session = content["session_id"]
        return content

    async def until(self, condition: Callable[[dict[str, Any]], object], wait_s: float = WAIT_S) -> dict[str, Any]:
        """Wait for an event that meets a condition; earlier events count."""
        seen, deadline = 0, time.monotonic() + wait_s
        while True:
            for event in self.events[seen:]:
                if condition(event):
                    return event
            seen = len(self.events)
            left_ms = round(1000 * (deadline - time.monotonic()))
            assert left_ms > 0, f"{self.name} did not receive it; events: {self.events[-20:]}"
            self.events += (await self.call("vdo_receive", max_events=500, wait_ms=min(left_ms, 1000)))["events"]

    async def wait_for_event(self, type: str, wait_s: float = WAIT_S, **fields: Any) -> dict[str, Any]:
        return await self.until(lambda event: event.items() >= {"type": type, **fields}.items(), wait_s)

    async def wait_for_data(self, condition: Callable[[Any], object], wait_s: float = WAIT_S) -> Any:
        """Wait for data that meets a condition."""
        found = await self.until(lambda event: event["type"] == "data_received" and condition(event["data"]), wait_s)
        return found["data"]

    async def wait_for_peers(self, *names: str, wait_s: float = WAIT_S) -> None:
        async with asyncio.timeout(wait_s):
            while True:
                peers = (await self.call("vdo_sync_peers"))["peers"]
                known = {peer["stream_id"] for peer in peers if peer["shared_key_ready"] and peer["auth_ok"]}
                if known >= set(names):
                    return
                await asyncio.sleep(0.05)

    async def transfer(self, transfer_id: str, direction: str = "incoming") -> dict[str, Any]:
        listed = await self.call("vdo_file_transfers", direction=direction)
        found: dict[str, Any] = next(item for item in listed[direction] if item["transfer_id"] == transfer_id)
        return found


@asynccontextmanager
async def serve_agents(folder: Path, *names: str) -> AsyncIterator[list[ServedAgent]]:
    """Start a server for each name, each with its own folder for files."""
    async with AsyncExitStack() as stack:
        started = []
        for name in names:
            started.append(await stack.enter_async_context(serve_agent(folder, name)))
        yield started


@asynccontextmanager
async def serve_agent(folder: Path, name: str, *, command_prefix: Sequence[str] = ()) -> AsyncIterator[ServedAgent]:
    """One server; its process ends with the context."""
    own = folder / name
    own.mkdir(exist_ok=True)
    command = [*command_prefix, sys.executable, "-m", "hubbub", "serve", "--pack", "peers", "--transport", "stdio"]
    config = ServerConfig(
        id=name,
        command=command[0],
        args=command[1:],
        env={"PYTHONPATH": str(ROOT / "src"), "HUBBUB_PEERS_FILES": str(own)},
        chdir=str(own),
    )
    async with Client(config) as client:
        yield ServedAgent(client, name, own)
