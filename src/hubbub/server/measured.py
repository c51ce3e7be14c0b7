"""Records every call of a peer by method, era and outcome, with how long it took: in metrics, or in the log.

A tool that is called by its name, as the plain dialect can, counts as `tools/call`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

import msgspec

from hubbub.errors import MethodNotFound, ToolFailure
from hubbub.ports import Peer
from hubbub.protocol.model import Call, Note, RawReply, Reply
from hubbub.protocol.wire import ToolReply
from hubbub.server.methods import METHODS

Record = Callable[[str, str, str, float], None]


class _Result(msgspec.Struct):
    is_error: bool = msgspec.field(default=False, name="isError")


_decode_result = msgspec.json.Decoder(_Result).decode


class Measured:
    """The same peer, with each call recorded."""

    def __init__(self, peer: Peer, record: Record) -> None:
        self._peer = peer
        self._record = record

    async def request(self, call: Call) -> Reply:
        """Answer and record."""
        started, outcome, method = perf_counter(), "error", call.method
        if not call.caller.revision.is_mcp and method not in METHODS["plain"]:
            method = "tools/call"
        try:
            reply = await self._peer.request(call)
            outcome = "tool_error" if _has_failed(reply) else "ok"
            return reply
        except ToolFailure:
            outcome = "tool_error"
            raise
        except MethodNotFound:
            method = call.method  # which is no tool either
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self._record(method, call.caller.revision.era, outcome, perf_counter() - started)

    async def notify(self, note: Note) -> None:
        """Pass it on."""
        await self._peer.notify(note)


def _has_failed(reply: Reply) -> bool:
    """Whether it is the result of a tool that failed, here or behind a hub."""
    if isinstance(reply, ToolReply):
        return reply.is_error is True
    if not isinstance(reply, RawReply) or b'"isError"' not in bytes(reply.body):
        return False
    try:
        return _decode_result(reply.body).is_error
    except msgspec.DecodeError:
        return False
