"""Tools that a legacy server lists only to clients with elicitation, sampling or roots.

The hub's first session declares no capabilities, because it carries calls of clients that have none. Tools for
capable clients are listed once on a session that declares all capabilities and is closed at once. A modern
server gets the capabilities with each request and needs no such session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from hubbub.client.client import Client
from hubbub.client.config import ServerConfig
from hubbub.client.subscriptions import ChangeEvent
from hubbub.errors import HubbubError, ToolError
from hubbub.hub.forwarding.forwarded_call import ALL_CAPABILITIES, NoCaller, accepts_client_requests
from hubbub.hub.list_fetcher import fetch_list
from hubbub.hub.snapshot import Entry
from hubbub.protocol.calls import Call

logger = logging.getLogger("hubbub.hub")


class CapableTools:
    """Lists the tools that one server shows to capable clients only."""

    def __init__(self, name: str, config: Callable[[Mapping[str, Any]], ServerConfig], list_s: float) -> None:
        self._name = name
        self._make_config = config
        """Returns the config of a session with the given capabilities."""
        self._list_s = list_s
        self.is_enabled = False
        """Whether the hub has had a capable caller."""
        self.uniform_version: str | None = None
        """The version of the server that is known to list the same tools to every client."""
        self.tools: tuple[Entry, ...] = ()
        """Tools that it last listed to a capable client only."""

    def enable(self, uniform_version: str | None) -> bool:
        """Read these tools from now on, except for a version known to have none; False if already enabled."""
        if self.is_enabled:
            return False
        self.is_enabled, self.uniform_version = True, uniform_version
        return True

    async def refresh(self, plain_tools: tuple[Entry, ...], version: str) -> None:
        """Read these tools, unless this version is known to have none. A failure keeps the last result."""
        if not self.is_enabled or version == self.uniform_version:
            return
        try:
            async with asyncio.timeout(self._list_s):
                found = await self._fetch()
        except (HubbubError, TimeoutError) as error:
            logger.info("capable_list_not_read", extra={"server": self._name, "reason": str(error)})
            return
        known = {entry.name for entry in plain_tools}
        self.tools = tuple(entry for entry in found if entry.name not in known)
        self.uniform_version = None if self.tools else version

    async def _fetch(self) -> tuple[Entry, ...]:
        changed = asyncio.Event()

        def on_change(change: ChangeEvent) -> None:
            if change.kind == "tools":
                changed.set()

        async with Client(self._make_config(ALL_CAPABILITIES), on_change=on_change, uncorrelated=NoCaller()) as client:
            found = await fetch_list(client, "tools")
            if changed.is_set():  # Some servers register such tools only after the handshake.
                found = await fetch_list(client, "tools")
            return found


def check_capable(call: Call, capable_only: frozenset[str]) -> None:
    """Refuse a call of a tool that the server has for capable clients only.

    Raises: ToolError.
    """
    if call.method == "tools/call" and call.params.name in capable_only and not accepts_client_requests(call.caller):
        raise ToolError(
            "This tool sends requests to its client (elicitation, sampling or roots), and this client declared none of "
            "these capabilities; call it from a client that supports them"
        )
