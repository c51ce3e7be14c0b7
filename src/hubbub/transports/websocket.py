"""WebSocket: one message a frame, subprotocol `mcp.v1`. Pings are the ASGI server's business."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable

import msgspec

from hubbub import bounds
from hubbub.errors import ConnectionClosed, MessageTooLarge
from hubbub.observe import Metrics, log_refusal
from hubbub.ports import Connect, Count, CountFor, CutOff, Duplex
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.refusal import Refusal
from hubbub.transports.http import Receive, Scope, Send
from hubbub.transports.message_queue import MessageQueue

SUBPROTOCOLS = ("mcp.v1", "mcp")
"""Ours, and the one that the official clients offer; no difference but the name."""
PATH = "/mcp-ws"
_GOING_AWAY = 1001
_SWITCHING = 101

Admit = Callable[[Headers, str, str], Awaitable[Principal | Refusal]]


class WebSockets:
    """Serves WebSocket clients, each as one connection."""

    def __init__(
        self,
        connect: Connect,
        admit: Admit,
        *,
        limit: int = bounds.MESSAGE_BYTES,
        most_connections: int = bounds.STREAMS,
        queue_bytes: int = bounds.OUTBOX_BYTES,
        count_for: CountFor | None = None,
        cut_off: CutOff = lambda reason, address: None,
        metrics: Metrics | None = None,
    ) -> None:
        self._connect = connect
        self._admit = admit
        self._limit = limit
        self._most_connections = most_connections
        self._queue_bytes = queue_bytes
        self._count_for = count_for
        self._cut_off = cut_off
        self._metrics = metrics
        self._readers: set[asyncio.Future[None]] = set()

    def __len__(self) -> int:
        return len(self._readers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client until either side closes."""
        await receive()  # websocket.connect
        client = scope["client"][0] if scope.get("client") else ""
        principal = await self._admit(Headers(scope["headers"]), client, scope["path"])
        if isinstance(principal, Refusal):
            await self._deny(send, scope, principal, client)
            return
        offered = scope.get("subprotocols", [])
        chosen = next((known for known in SUBPROTOCOLS if known in offered), None)
        refusal = self._objection(scope["path"], is_spoken=not offered or chosen is not None)
        if refusal is not None:
            name = None if principal is ANONYMOUS else principal.name
            await self._deny(send, scope, msgspec.structs.replace(refusal, principal=name), client)
            return
        self._count_response(PATH, _SWITCHING)
        await send({"type": "websocket.accept", "subprotocol": chosen})
        count = None if self._count_for is None else self._count_for(PATH, principal, client)
        queue = MessageQueue(self._queue_bytes, lambda: self._cut_off("full_queue", client))
        await self._converse(receive, send, queue, principal, count)

    def _objection(self, path: str, *, is_spoken: bool) -> Refusal | None:
        """What is wrong with a handshake of somebody who may come in."""
        if path != PATH:
            return Refusal(404, f"WebSockets are at {PATH}")
        if not is_spoken:
            return Refusal(400, f"Offer the subprotocol {SUBPROTOCOLS[0]}")
        if len(self._readers) >= self._most_connections:
            return Refusal(503, "Too many open connections; try again later")
        return None

    async def _deny(self, send: Send, scope: Scope, refusal: Refusal, client: str) -> None:
        self._count_response(scope["path"], refusal.status)
        log_refusal(scope["path"], refusal.status, client, refusal.principal)
        await _deny(send, scope, refusal)

    def _count_response(self, path: str, status: int) -> None:
        if self._metrics is not None:
            self._metrics.response(path, status)

    async def _converse(
        self, receive: Receive, send: Send, queue: MessageQueue, principal: Principal, count: Count | None
    ) -> None:
        scope = secrets.token_urlsafe(18)
        duplex = self._connect(queue.put, queue.drained, principal=principal, scope=scope, count=count)
        writer = asyncio.ensure_future(_write(queue, send))
        reader = asyncio.ensure_future(self._read(receive, duplex))
        self._readers.add(reader)
        try:
            await asyncio.wait([reader])
            if reader.cancelled():
                await duplex.finish()  # the server stops: what runs is still answered
            else:
                reader.result()
        finally:
            self._readers.discard(reader)
            reader.cancel()
            await duplex.close()
            queue.close()
            await asyncio.wait([writer], timeout=bounds.STOP_S)
            writer.cancel()

    async def _read(self, receive: Receive, duplex: Duplex) -> None:
        """Hand on what comes until the client leaves."""
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes") or (message.get("text") or "").encode()
            if len(data) > self._limit:
                duplex.refuse(MessageTooLarge("A frame", self._limit))
            else:
                duplex.receive(data)
            while duplex.is_busy:
                ready = asyncio.Event()
                duplex.when_ready(ready.set)
                await ready.wait()

    def end(self) -> None:
        """Read no more, and close each connection once what runs is answered."""
        for reader in list(self._readers):
            reader.cancel()


async def _write(queue: MessageQueue, send: Send) -> None:
    """Write until there is nothing more; a client that does not read loses its connection, which ends this too."""
    try:
        while True:
            await send({"type": "websocket.send", "text": (await queue.get()).decode()})
    except ConnectionClosed:
        await _close(send, _GOING_AWAY)
    except OSError:
        return  # the client has left


async def _close(send: Send, code: int) -> None:
    try:
        await send({"type": "websocket.close", "code": code})
    except (RuntimeError, OSError):
        return  # the client closed first


async def _deny(send: Send, scope: Scope, refusal: Refusal) -> None:
    """Refuse before accepting: with a status where the ASGI server can, else by closing."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *refusal.headers]
    await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": refusal.message.encode()})
