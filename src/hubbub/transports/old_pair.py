"""HTTP+SSE, the transport of 2024-11-05: a stream tells where to post, and carries the answers."""

from __future__ import annotations

import asyncio
import secrets
from typing import NamedTuple
from urllib.parse import parse_qs

from hubbub import bounds
from hubbub.errors import ConnectionClosed, Overloaded, SessionNotFound
from hubbub.ports import Connect, CountFor, CutOff, Duplex, HttpExchange
from hubbub.protocol.model import Principal
from hubbub.protocol.sse import encode_event
from hubbub.transports.message_queue import MessageQueue

POSTS = "/messages"


class _Open(NamedTuple):
    duplex: Duplex
    queue: MessageQueue
    owner: str


class OldPair:
    """`GET /sse` and `POST /messages`."""

    def __init__(
        self,
        connect: Connect,
        *,
        limit: int = bounds.STREAMS,
        queue_bytes: int = bounds.OUTBOX_BYTES,
        count_for: CountFor | None = None,
        cut_off: CutOff = lambda reason, address: None,
    ) -> None:
        self._connect = connect
        self._limit = limit
        self._queue_bytes = queue_bytes
        self._count_for = count_for
        self._cut_off = cut_off
        self._open: dict[str, _Open] = {}
        self._finishing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def listen(self, exchange: HttpExchange, principal: Principal) -> None:
        """Hold the stream of one client open."""
        if len(self._open) >= self._limit:
            raise Overloaded("open streams", self._limit)
        queue = MessageQueue(self._queue_bytes, lambda: self._cut_off("full_queue", exchange.client))
        name = secrets.token_urlsafe(18)
        count = None if self._count_for is None else self._count_for(POSTS, principal, exchange.client)
        duplex = self._connect(queue.put, queue.drained, principal=principal, scope=name, count=count)
        self._open[name] = _Open(duplex, queue, principal.name)
        exchange.watch(cancel=True)
        try:
            await exchange.start_stream()
            await exchange.write(encode_event(f"{POSTS}?session_id={name}".encode(), event="endpoint"))
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
            await duplex.close()

    async def post(self, exchange: HttpExchange, principal: Principal) -> None:
        """Take one message; its answer goes to the stream."""
        query = parse_qs(exchange.query)
        name = (query.get("session_id") or query.get("sessionId") or [""])[0]
        message = await exchange.body()
        found = self._open.get(name)
        if found is None or found.owner != principal.name:
            raise SessionNotFound("There is no such stream; open one with GET /sse and post where it says")
        if found.duplex.is_busy:
            raise Overloaded("calls on one stream", bounds.IN_FLIGHT)
        found.duplex.receive(message, is_counted=True)
        await exchange.reply(202, b"Accepted", kind=b"text/plain")

    def end_streams(self) -> None:
        """Let every stream end, once what runs is answered."""
        for found in self._open.values():
            task = asyncio.ensure_future(_finish(found))
            self._finishing.add(task)
            task.add_done_callback(self._finishing.discard)


async def _finish(found: _Open) -> None:
    await found.duplex.finish()
    found.queue.close()
