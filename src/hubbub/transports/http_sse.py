"""The server side of HTTP+SSE, the transport of 2024-11-05: a stream names the URL to post to and carries responses."""

from __future__ import annotations

import asyncio
import secrets
from typing import NamedTuple
from urllib.parse import parse_qs

from hubbub import bounds
from hubbub.errors import ConnectionClosed, Overloaded, SessionNotFound
from hubbub.ports import ConnectionFactory, ConnectionHandler, CounterFactory, HttpExchange, ReportCutOff
from hubbub.protocol.calls import Principal
from hubbub.protocol.host_origin import share_owner
from hubbub.protocol.sse import encode_event, encode_message
from hubbub.shares import Shares
from hubbub.transports.message_queue import MessageQueue

POST_PATH = "/messages"


class _OpenStream(NamedTuple):
    handler: ConnectionHandler
    queue: MessageQueue
    principal: str


class HttpSseServer:
    """`GET /sse` and `POST /messages`."""

    def __init__(
        self,
        connect: ConnectionFactory,
        *,
        limit: int,
        queue_bytes: int,
        count_for: CounterFactory | None = None,
        cut_off: ReportCutOff = lambda reason, address: None,
    ) -> None:
        self._connect = connect
        self._shares = Shares(limit)
        self._queue_bytes = queue_bytes
        self._count_for = count_for
        self._cut_off = cut_off
        self._streams: dict[str, _OpenStream] = {}
        self._finish_tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._streams)

    async def listen(self, exchange: HttpExchange, principal: Principal) -> None:
        """Keep the stream of one client open."""
        owner = share_owner(principal, exchange.client)
        if not self._shares.has_room(owner):
            raise Overloaded("open streams", self._shares.limit, setting="max_streams")
        self._shares.take(owner)
        queue = MessageQueue(self._queue_bytes, lambda: self._cut_off("full_queue", exchange.client))
        name = secrets.token_urlsafe(18)
        count = None if self._count_for is None else self._count_for(POST_PATH, principal, exchange.client)
        handler = self._connect(
            queue.put, queue.drain, principal=principal, scope=name, count=count, address=exchange.client
        )
        self._streams[name] = _OpenStream(handler, queue, principal.name)
        exchange.watch(cancel=True)
        try:
            await exchange.start_stream()
            await exchange.write(
                encode_event(f"{exchange.root_path}{POST_PATH}?session_id={name}".encode(), event="endpoint")
            )
            while True:
                await exchange.write(encode_message(await queue.get()))
        except ConnectionClosed:
            await exchange.end()
        except asyncio.CancelledError:
            if not exchange.is_disconnected:
                raise
        finally:
            exchange.unwatch()
            del self._streams[name]
            self._shares.give_back(owner)
            await handler.close()

    async def post(self, exchange: HttpExchange, principal: Principal) -> None:
        """Take one message; its response goes to the stream."""
        query = parse_qs(exchange.query)
        name = (query.get("session_id") or query.get("sessionId") or [""])[0]
        message = await exchange.body()
        stream = self._streams.get(name)
        if stream is None or stream.principal != principal.name:
            raise SessionNotFound(
                "Unknown or closed stream; open one with GET /sse and post to the URL in its `endpoint` event"
            )
        if stream.handler.is_busy:
            raise Overloaded("calls on one stream", bounds.IN_FLIGHT)
        stream.handler.receive(message, is_counted=True)
        await exchange.respond(202, b"Accepted", content_type=b"text/plain")

    def end_streams(self) -> None:
        """End every stream once its running calls are answered."""
        for stream in self._streams.values():
            task = asyncio.ensure_future(_finish(stream))
            self._finish_tasks.add(task)
            task.add_done_callback(self._finish_tasks.discard)


async def _finish(stream: _OpenStream) -> None:
    await stream.handler.finish()
    stream.queue.close()
