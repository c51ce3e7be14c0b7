"""The server side of WebSockets: one message per frame, subprotocol `mcp.v1`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from hubbub import bounds
from hubbub.errors import ConnectionClosed, MessageTooLarge
from hubbub.observe import Metrics, log_refusal
from hubbub.ports import (
    ConnectionFactory,
    ConnectionHandler,
    CounterFactory,
    RegisterConnection,
    ReportCutOff,
    WebSocketExchange,
)
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.protocol.host_origin import share_owner
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.shares import Shares
from hubbub.transports.message_queue import MessageQueue

SUBPROTOCOLS = ("mcp.v1", "mcp")
"""Our own name, and the one that the official clients offer; the protocol is the same."""
PATH = "/mcp-ws"
_REVOKED, _FULL_QUEUE = 1, 2
_CLOSE_REASONS = {
    0: (1001, ""),
    _REVOKED: (1008, "The credentials are not valid any more"),
    _FULL_QUEUE: (1008, "Too many bytes were not read in time (max_queue_bytes)"),
}
"""Close codes and reasons (RFC 6455, section 7.4.1): going away, and policy violation."""
_SWITCHING_PROTOCOLS = 101

Admit = Callable[[Headers, str, str], Awaitable[Principal | Refusal]]


class WebSocketServer:
    """Serves WebSocket clients."""

    def __init__(
        self,
        connect: ConnectionFactory,
        admit: Admit,
        *,
        limit: int,
        max_connections: int,
        queue_bytes: int,
        count_for: CounterFactory | None = None,
        cut_off: ReportCutOff = lambda reason, address: None,
        metrics: Metrics | None = None,
        register_connection: RegisterConnection | None = None,
    ) -> None:
        self._connect = connect
        self._admit = admit
        self._register_connection = register_connection
        self._limit = limit
        self._shares = Shares(max_connections)
        self._queue_bytes = queue_bytes
        self._count_for = count_for
        self._cut_off = cut_off
        self._metrics = metrics
        self._readers: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._readers)

    async def serve(self, socket: WebSocketExchange) -> None:
        """Serve one client until either side closes."""
        headers, client = socket.headers, socket.client
        principal = await self._admit(headers, client, socket.path)
        if isinstance(principal, Refusal):
            await self._refuse(socket, principal)
            return
        offered = socket.subprotocols
        chosen = next((known for known in SUBPROTOCOLS if known in offered), None)
        owner = share_owner(principal, client)
        refusal = self._check_handshake(socket, owner, has_known_subprotocol=not offered or chosen is not None)
        if refusal is not None:
            name = None if principal is ANONYMOUS else principal.name
            await self._refuse(socket, msgspec.structs.replace(refusal, principal=name))
            return
        self._count_response(PATH, _SWITCHING_PROTOCOLS)
        self._shares.take(owner)
        try:
            await socket.accept(chosen)
            count = None if self._count_for is None else self._count_for(PATH, principal, client)

            def report_overflow() -> None:
                queue.close(_FULL_QUEUE)
                self._cut_off("full_queue", client)

            queue = MessageQueue(self._queue_bytes, report_overflow)
            handler = self._connect(
                queue.put,
                queue.drain,
                principal=principal,
                scope=secrets.token_urlsafe(18),
                count=count,
                address=client,
            )
            await self._serve_connection(socket, queue, handler, partial(self._register_for, headers, principal))
        except ConnectionClosed:
            return
        finally:
            self._shares.give_back(owner)

    def _register_for(self, headers: Headers, principal: Principal, end: Callable[[], object]) -> Callable[[], None]:
        return (
            (lambda: None) if self._register_connection is None else self._register_connection(headers, principal, end)
        )

    def _check_handshake(self, socket: WebSocketExchange, owner: str, *, has_known_subprotocol: bool) -> Refusal | None:
        """Return what is wrong with the handshake of a caller that was admitted."""
        if socket.path != PATH:
            return Refusal(404, f"No WebSocket at this path; connect to {socket.root_path}{PATH}")
        if not has_known_subprotocol:
            return Refusal(400, f"No offered subprotocol is supported; offer {SUBPROTOCOLS[0]}")
        if not self._shares.has_room(owner):
            return Refusal(503, "Too many open WebSockets (max_streams); try again later")
        return None

    async def _refuse(self, socket: WebSocketExchange, refusal: Refusal) -> None:
        self._count_response(socket.path, refusal.status)
        log_refusal(socket.path, refusal.status, socket.client, refusal.principal)
        await socket.refuse(refusal)

    def _count_response(self, path: str, status: int) -> None:
        if self._metrics is not None:
            self._metrics.response(path, status)

    async def _serve_connection(
        self,
        socket: WebSocketExchange,
        queue: MessageQueue,
        handler: ConnectionHandler,
        register: Callable[[Callable[[], object]], Callable[[], None]],
    ) -> None:
        writer = asyncio.ensure_future(_write(queue, socket))
        reader = asyncio.ensure_future(self._read(socket, handler))
        self._readers.add(reader)
        is_revoked = False

        def revoke() -> None:
            nonlocal is_revoked
            is_revoked = True
            queue.close(_REVOKED)
            reader.cancel()

        unregister = register(revoke)
        try:
            await asyncio.wait([reader, writer], return_when=asyncio.FIRST_COMPLETED)
            if reader.cancelled() and not is_revoked:
                await handler.finish()  # the server is stopping; running calls are still answered
            elif reader.done() and not reader.cancelled():
                reader.result()
        finally:
            unregister()
            self._readers.discard(reader)
            reader.cancel()
            await handler.close()
            queue.close()
            await asyncio.wait([writer], timeout=bounds.SHUTDOWN_TIMEOUT_S)
            writer.cancel()

    async def _read(self, socket: WebSocketExchange, handler: ConnectionHandler) -> None:
        """Pass messages on until the client disconnects."""
        while (data := await socket.receive()) is not None:
            if len(data) > self._limit:
                error = MessageTooLarge(
                    "A frame", self._limit, data[: bounds.SALVAGE_BYTES], setting="max_message_bytes"
                )
                error.end = data[-bounds.SALVAGE_TAIL_BYTES :]
                handler.refuse(error)
            else:
                handler.receive(data)
            while handler.is_busy:
                ready = asyncio.Event()
                handler.when_ready(ready.set)
                await ready.wait()

    def end(self) -> None:
        """Stop reading, and close each connection once its running calls are answered."""
        for reader in list(self._readers):
            reader.cancel()


async def _write(queue: MessageQueue, socket: WebSocketExchange) -> None:
    """Write until the queue is closed; a client that does not read is disconnected, which ends this too."""
    try:
        while True:
            message = await queue.get()
            await socket.send(message)
    except ConnectionClosed:
        await socket.close(*_CLOSE_REASONS[queue.reason])
