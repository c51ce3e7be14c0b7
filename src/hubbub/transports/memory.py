"""The memory transport: client and server in one process; a message is a function call.

Nothing is queued on the way to the client. A request waits while the server runs as many as one connection may have.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from hubbub import bounds
from hubbub.errors import ConnectionClosed, MessageTooLarge
from hubbub.ports import hide_nothing
from hubbub.protocol.jsonrpc import encode_notification

if TYPE_CHECKING:
    from hubbub.ports import ConnectionHandler, InMemoryServer, OutgoingRequest, Receiver


class MemoryTransport:
    """Client transport to a server in the same process."""

    is_http = False
    is_legacy = False

    def __init__(self, server: InMemoryServer) -> None:
        self.address = f"memory:{server.info.name}"
        self.hide: Callable[[Any], Any] = hide_nothing
        self._server = server
        self._stack = AsyncExitStack()
        self._handler: ConnectionHandler | None = None
        self._capacity_waiter: asyncio.Future[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        """Run the server, unless another client already does, and connect to it. Raises what its lifespan raises."""

        def deliver(message: bytes) -> None:
            if self._handler is not None:
                receiver.receive(message)

        connect = await self._stack.enter_async_context(self._server.in_memory())
        # Each client has its own scope, so that state of one client cannot be found by another.
        scope = f"memory:{os.urandom(16).hex()}"
        self._handler = connect(deliver, _yield_to_loop, scope=scope, has_every_scope=True)

    def send_nowait(self, outgoing: OutgoingRequest) -> bool:
        """Send a request, unless the server runs too many."""
        if self._require_open().is_busy:
            return False
        self._send(outgoing.body)
        return True

    async def send_request(self, outgoing: OutgoingRequest) -> None:
        """Send a request as soon as the server accepts more."""
        while (handler := self._require_open()).is_busy:
            if self._capacity_waiter is None:
                self._capacity_waiter = asyncio.get_running_loop().create_future()
                handler.when_ready(self._wake_waiter)
            await asyncio.shield(self._capacity_waiter)
        self._send(outgoing.body)

    async def send_message(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a notification or a response."""
        self._send(message)

    def cancel_request(self, outgoing: OutgoingRequest, reason: str) -> None:
        """Send a cancellation to the server."""
        params = {"requestId": outgoing.id, "reason": reason}
        self._send(encode_notification("notifications/cancelled", params))

    def finish_handshake(self, version: str) -> None:
        """Do nothing: the server can already send at any time."""

    async def close(self) -> None:
        """Disconnect; the last client stops the server."""
        handler, self._handler = self._handler, None
        self._wake_waiter()
        try:
            if handler is not None:
                await handler.close()
        finally:
            await self._stack.aclose()

    def _send(self, message: bytes) -> None:
        handler, limit = self._require_open(), self._server.message_bytes
        if len(message) > limit:
            handler.refuse(MessageTooLarge("A message", limit, message[: bounds.SALVAGE_BYTES]))
        else:
            handler.receive(message)

    def _require_open(self) -> ConnectionHandler:
        if self._handler is None:
            raise ConnectionClosed("The client is closed")
        return self._handler

    def _wake_waiter(self) -> None:
        waiter, self._capacity_waiter = self._capacity_waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


async def _yield_to_loop() -> None:
    """Let the client handle what was just sent, so that a server that sends a lot does not outrun its callbacks."""
    await asyncio.sleep(0)
