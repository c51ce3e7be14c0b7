"""HTTP+SSE, the transport of 2024-11-05: a stream tells where to post, and carries the answers."""

from __future__ import annotations

import asyncio
import secrets
from urllib.parse import parse_qs

from hubbub import bounds
from hubbub.errors import ConnectionClosed, Overloaded, SessionNotFound
from hubbub.ports import Connect, Duplex, HttpExchange
from hubbub.protocol.model import Principal
from hubbub.protocol.sse import encode_event
from hubbub.transports.message_queue import MessageQueue


class OldPair:
    """`GET /sse` and `POST /messages`."""

    def __init__(self, connect: Connect, *, limit: int = bounds.STREAMS) -> None:
        self._connect = connect
        self._limit = limit
        self._open: dict[str, tuple[Duplex, str]] = {}
        self._queues: set[MessageQueue] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def listen(self, exchange: HttpExchange, principal: Principal) -> None:
        """Hold the stream of one client open."""
        if len(self._open) >= self._limit:
            raise Overloaded("open streams", self._limit)
        queue = MessageQueue()
        name = secrets.token_urlsafe(18)
        duplex = self._connect(queue.put, queue.drained, principal=principal, scope=name)
        self._open[name] = duplex, principal.name
        self._queues.add(queue)
        exchange.watch(cancel=True)
        try:
            await exchange.start_stream()
            await exchange.write(encode_event(f"/messages?session_id={name}".encode(), event="endpoint"))
            while True:
                await exchange.write(encode_event(await queue.get(), event="message"))
        except ConnectionClosed:
            await exchange.end()
        except asyncio.CancelledError:
            if not exchange.has_left:
                raise
        finally:
            exchange.unwatch()
            del self._open[name]
            self._queues.discard(queue)
            await duplex.close()

    async def post(self, exchange: HttpExchange, principal: Principal) -> None:
        """Take one message; its answer goes to the stream."""
        query = parse_qs(exchange.query)
        name = (query.get("session_id") or query.get("sessionId") or [""])[0]
        duplex, owner = self._open.get(name, (None, ""))
        if duplex is None or owner != principal.name:
            raise SessionNotFound("There is no such stream; open one with GET /sse and post where it says")
        duplex.receive(await exchange.body())
        await exchange.reply(202, b"Accepted", [(b"content-type", b"text/plain")])

    def end_streams(self) -> None:
        """Let every stream end."""
        for queue in list(self._queues):
            queue.close()
