"""Applies the protocol extensions of a server's only pack (`Pack.standalone`); used by `hubbub.assembly`."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from hubbub.errors import ArgumentsInvalid, InvalidParams, ToolNotFound
from hubbub.ports import Peer
from hubbub.protocol.calls import Call, Notification, RawReply, Reply
from hubbub.server.context import Context
from hubbub.server.pack import Standalone
from hubbub.server.server import Server


def apply_standalone(server: Server, standalone: Standalone, state: Any) -> None:
    """Apply the extensions to the server; `state` is the state of its only pack, passed to the methods."""
    if standalone.message_bytes is not None:
        server.message_bytes = standalone.message_bytes
    server.exit_notification = standalone.exit_notification
    if standalone.methods or standalone.calls_fail_as_results:
        server.wrap(lambda peer: _StandalonePeer(peer, server, standalone, state))


class _StandalonePeer:
    """Adds the pack's methods and its form of failures."""

    def __init__(self, peer: Peer, server: Server, standalone: Standalone, state: Any) -> None:
        self._peer = peer
        self._server = server
        self._methods = standalone.methods
        self._fails_as_result = standalone.calls_fail_as_results
        self._state = state

    async def request(self, call: Call) -> Reply:
        if call.method != "tools/call":
            handle = self._methods.get(call.method)
            if handle is None or call.caller.revision.era == "modern":
                return await self._peer.request(call)
            result = await handle(self._state, Context(call, self._server))
            return RawReply(body=Raw(msgspec.json.encode(result)))
        try:
            return await self._peer.request(call)
        except (ToolNotFound, InvalidParams) as error:
            if not self._fails_as_result:
                raise
            message = f"unknown tool: {error.name[:200]}" if isinstance(error, ToolNotFound) else error.message
            failure = ArgumentsInvalid(message)
            failure.as_result = True
            raise failure from error

    async def notify(self, note: Notification) -> None:
        await self._peer.notify(note)
