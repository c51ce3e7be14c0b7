"""Decides about and records every call of administration, if the hub has a governor.

Tools that only operators can use do not exist for administrators of a tenant.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec

from hubbub.admin.access import is_local_operator, is_operator
from hubbub.errors import ToolNotFound
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

    def __init__(self, peer: Peer, server: Server, gateway: Gateway, operator_tools: Collection[str]) -> None:
        self._peer = peer
        self._server = server
        self._gateway = gateway
        self._operator_tools = operator_tools

    async def request(self, call: Call) -> Reply:
        """Answer a call, if the policy allows it."""
        governor, principal = self._gateway.governor, call.caller.principal
        if call.method == "tools/list":
            return self._hide_tools(governor, principal, await self._peer.request(call))
        tool = self._find_tool(call)
        if tool is None or not call.caller.holds(tool.scopes):
            return await self._peer.request(call)
        is_hidden = not self._exists_for(principal, tool)
        if governor is not None:
            is_owner = is_local_operator(principal)
            return await governor.administer(
                call, _target(tool), self._peer.request, is_owner=is_owner, is_hidden=is_hidden
            )
        if is_hidden:
            raise ToolNotFound(tool.name, [])
        return await self._peer.request(call)

    async def notify(self, note: Notification) -> None:
        """Pass a notification on."""
        await self._peer.notify(note)

    def _find_tool(self, call: Call) -> Tool | None:
        name = getattr(call.params, "name", None) if call.method == "tools/call" else call.method
        return self._server.tools.find(name) if isinstance(name, str) else None

    def _exists_for(self, principal: Principal, tool: Tool) -> bool:
        return is_operator(principal) or tool.name not in self._operator_tools

    def _hide_tools(self, governor: Governor | None, principal: Principal, reply: Reply) -> Reply:
        if not isinstance(reply, ToolsReply) or is_local_operator(principal):
            return reply

        def is_shown(name: str) -> bool:
            tool = self._server.tools.find(name)
            if tool is None:
                return True
            return self._exists_for(principal, tool) and (governor is None or governor.shows(principal, _target(tool)))

        return msgspec.structs.replace(reply, tools=[entry for entry in reply.tools if is_shown(entry.name)])


def _target(tool: Tool) -> Target:
    return Target("admin", HUB_ID, tool.name, tool.annotations)
