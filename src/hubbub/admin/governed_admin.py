"""Decides about and records every call of administration, if the hub has a governor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hubbub.admin.access import is_local_operator
from hubbub.governance.decision import Target
from hubbub.hub.config import HUB_ID
from hubbub.ports import Peer
from hubbub.protocol.calls import Call, Notification, Principal, Reply
from hubbub.protocol.results import ToolsReply
from hubbub.server.server import Server
from hubbub.server.tools import Tool

if TYPE_CHECKING:
    from hubbub.governance.governor import Governor
    from hubbub.hub.gateway import Gateway


class GovernedAdmin:
    """The peer of the server of administration: what the policy denies is neither listed nor called."""

    def __init__(self, peer: Peer, server: Server, gateway: Gateway) -> None:
        self._peer = peer
        self._server = server
        self._gateway = gateway

    async def request(self, call: Call) -> Reply:
        """Answer a call, if the policy allows it."""
        governor = self._gateway.governor
        if governor is None:
            return await self._peer.request(call)
        principal = call.caller.principal
        if call.method == "tools/list":
            return self._hide_denied(governor, principal, await self._peer.request(call))
        tool = self._find_tool(call)
        if tool is None or not call.caller.holds(tool.scopes):
            return await self._peer.request(call)
        return await governor.administer(call, _target(tool), self._peer.request, is_owner=is_local_operator(principal))

    async def notify(self, note: Notification) -> None:
        """Pass a notification on."""
        await self._peer.notify(note)

    def _find_tool(self, call: Call) -> Tool | None:
        name = getattr(call.params, "name", None) if call.method == "tools/call" else call.method
        return self._server.tools.find(name) if isinstance(name, str) else None

    def _hide_denied(self, governor: Governor, principal: Principal, reply: Reply) -> Reply:
        if not isinstance(reply, ToolsReply) or is_local_operator(principal):
            return reply
        shown = [
            entry
            for entry in reply.tools
            if (tool := self._server.tools.find(entry.name)) is None or governor.shows(principal, _target(tool))
        ]
        return msgspec.structs.replace(reply, tools=shown)


def _target(tool: Tool) -> Target:
    return Target("admin", HUB_ID, tool.name, tool.annotations)
