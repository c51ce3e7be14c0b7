"""Records the method, era, outcome and duration of every call of a peer, in metrics or in the log.

A tool called by its name, as in the plain dialect, counts as `tools/call`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING
from weakref import WeakSet

from hubbub.errors import MethodNotFound, ToolFailure
from hubbub.observe import calls_are_logged, log_call
from hubbub.ports import Peer
from hubbub.protocol.calls import Call, Notification, Reply
from hubbub.protocol.results import is_failed_tool
from hubbub.server.methods import METHODS

if TYPE_CHECKING:
    from hubbub.server.server import Server

RecordCall = Callable[[str, str, str, float], None]


_recorded_servers: WeakSet[Server] = WeakSet()


class RecordingPeer:
    """A peer that records each call to another peer."""

    def __init__(self, peer: Peer, record: RecordCall) -> None:
        self._peer = peer
        self._request = peer.request
        self._record = record

    async def request(self, call: Call) -> Reply:
        """Pass the call on and record it."""
        started, method, revision = perf_counter(), call.method, call.caller.revision
        if not revision.is_mcp and method not in METHODS["plain"]:
            method = "tools/call"
        try:
            request = self._request
            reply = await request(call)
        except BaseException as error:
            if isinstance(error, MethodNotFound):
                method = call.method  # neither a method nor a tool
            self._record(method, revision.era, _outcome(error), perf_counter() - started)
            raise
        record, outcome = self._record, "tool_error" if is_failed_tool(reply) else "ok"
        record(method, revision.era, outcome, perf_counter() - started)
        return reply

    async def notify(self, note: Notification) -> None:
        await self._peer.notify(note)


def record_calls(server: Server) -> None:
    """Trace and log the calls of a server, if tracing or logging of calls is configured; once per server."""
    if server in _recorded_servers:
        return
    _recorded_servers.add(server)
    # Called at every start, so nothing is loaded unless tracing is configured.
    if "opentelemetry.sdk.trace" in sys.modules or any(name.startswith("OTEL_") for name in os.environ):
        from hubbub.server import tracing

        if tracing.is_wanted():
            server.wrap(tracing.traced)
    if calls_are_logged():
        server.wrap(lambda peer: RecordingPeer(peer, log_call))


def _outcome(error: BaseException) -> str:
    if isinstance(error, ToolFailure):
        return "tool_error"
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "error"
