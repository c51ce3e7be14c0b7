"""The server side of HTTP+SSE, the transport of 2024-11-05: a stream names the URL to post to and carries responses."""

from __future__ import annotations

import asyncio
import secrets
from typing import NamedTuple
from urllib.parse import parse_qs

from hubbub import bounds
from hubbub.errors import ConnectionClosed, Overloaded, SessionNotFound
from hubbub.ports import Connect, CountFor, CutOff, Duplex, HttpExchange
from hubbub.protocol.authority import owner_of
from hubbub.protocol.model import Principal
from hubbub.protocol.sse import encode_event
from hubbub.shares import Shares
from hubbub.transports.message_queue import MessageQueue

POSTS = "/messages"


class _Open(NamedTuple):
    duplex: Duplex
    queue: MessageQueue
    principal: str


class OldPair:
    """`GET /sse` and `POST /messages`."""

    def __init__(
        self,
        connect: Connect,
        *,
        limit: int,
        queue_bytes: int,
        count_for: CountFor | None = None,
        cut_off: CutOff = lambda reason, address: None,
    ) -> None:
        self._connect = connect
        self._shares = Shares(limit)
        self._queue_bytes = queue_bytes
        self._count_for = count_for
        self._cut_off = cut_off
        self._open: dict[str, _Open] = {}
        self._finishing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    async def listen(self, exchange: HttpExchange, principal: Principal) -> None:
        """Keep the stream of one client open."""
        owner = owner_of(principal, exchange.client)
        if not self._shares.has_room(owner):
            raise Overloaded("open streams", self._shares.limit)
        self._shares.take(owner)
        queue = MessageQueue(self._queue_bytes, lambda: self._cut_off("full_queue", exchange.client))
        name = secrets.token_urlsafe(18)
        count = None if self._count_for is None else self._count_for(POSTS, principal, exchange.client)
        duplex = self._connect(
            queue.put, queue.drained, principal=principal, scope=name, count=count, address=exchange.client
        )
        self._open[name] = _Open(duplex, queue, principal.name)
        exchange.watch(cancel=True)
        try:
            await exchange.start_stream()
            await exchange.write(
                encode_event(f"{exchange.root_path}{POSTS}?session_id={name}".encode(), event="endpoint")
            )
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
            self._shares.give_back(owner)
            await duplex.close()

    async def post(self, exchange: HttpExchange, principal: Principal) -> None:
        """Take one message; its response goes to the stream."""
        query = parse_qs(exchange.query)
        name = (query.get("session_id") or query.get("sessionId") or [""])[0]
        message = await exchange.body()
        found = self._open.get(name)
        if found is None or found.principal != principal.name:
            raise SessionNotFound("There is no such stream; open one with GET /sse and post where it says")
        if found.duplex.is_busy:
            raise Overloaded("calls on one stream", bounds.IN_FLIGHT)
        found.duplex.receive(message, is_counted=True)
        await exchange.reply(202, b"Accepted", kind=b"text/plain")

    def end_streams(self) -> None:
        """End every stream once its running calls are answered."""
        for found in self._open.values():
            task = asyncio.ensure_future(_finish(found))
            self._finishing.add(task)
            task.add_done_callback(self._finishing.discard)


async def _finish(found: _Open) -> None:
    await found.duplex.finish()
    found.queue.close()
