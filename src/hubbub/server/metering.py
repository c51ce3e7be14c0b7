"""Counts calls: a peer around a peer that notes how each call went and how long it took."""

from __future__ import annotations

import asyncio
from time import perf_counter

from hubbub.errors import ToolFailure
from hubbub.observe import Metrics
from hubbub.ports import Peer
from hubbub.protocol.model import Call, Note, Reply
from hubbub.protocol.wire import ToolReply


class Metered:
    """A peer whose calls are counted."""

    def __init__(self, peer: Peer, metrics: Metrics) -> None:
        self._peer = peer
        self._metrics = metrics

    async def request(self, call: Call) -> Reply:
        """Answer, and count it."""
        start = perf_counter()
        outcome = "error"
        try:
            reply = await self._peer.request(call)
            outcome = "tool_error" if isinstance(reply, ToolReply) and reply.is_error is True else "ok"
            return reply
        except ToolFailure:
            outcome = "tool_error"
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self._metrics.call(call.method, call.caller.revision.era, outcome, perf_counter() - start)

    async def notify(self, note: Note) -> None:
        """Pass it on."""
        await self._peer.notify(note)
