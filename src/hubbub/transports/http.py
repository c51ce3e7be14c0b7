"""The HTTP transport: one ASGI exchange as the rest of Hubbub sees it.

Knows bytes, bounds and slow or vanished callers; knows nothing of JSON-RPC. An answer is
one piece or a stream of server-sent events. Writing happens in whichever task writes,
so there is no queue between a handler and the socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from hubbub import bounds
from hubbub.errors import ConnectionClosed, MessageTooLarge
from hubbub.ports import HttpExchange
from hubbub.protocol.http_headers import HeaderList, Headers
from hubbub.protocol.sse import KEEP_ALIVE

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Endpoint = Callable[[HttpExchange], Awaitable[None]]

_REQUEST = "http.request"
_STREAM = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Watched:
    """The calls of one server whose callers may leave. What is still there at the second look gets a watcher."""

    def __init__(self) -> None:
        self._new: set[Exchange] = set()
        self._seen: set[Exchange] = set()
        self._next_look: asyncio.TimerHandle | None = None

    def add(self, exchange: Exchange) -> None:
        """A call begins."""
        self._new.add(exchange)
        if self._next_look is None:
            self._look_later()

    def look_at(self, exchange: Exchange) -> None:
        """A call that streams takes long: give it its watcher now, if its caller may leave."""
        if exchange in self._new or exchange in self._seen:
            self.discard(exchange)
            exchange.start_watcher()

    def discard(self, exchange: Exchange) -> None:
        """A call has ended."""
        self._new.discard(exchange)
        self._seen.discard(exchange)

    def _look(self) -> None:
        for exchange in self._seen:
            exchange.start_watcher()
        self._seen, self._new = self._new, set()
        self._next_look = None
        if self._seen:
            self._look_later()

    def _look_later(self) -> None:
        self._next_look = asyncio.get_running_loop().call_later(bounds.WATCHED_AFTER_S, self._look)


class Exchange:
    """One HTTP request and the answer being written to it."""

    # What most requests never change is said once, here.
    has_left = False
    has_answered = False
    status = 0
    _streaming = False
    _done = False
    _task: asyncio.Task[Any] | None = None
    _watcher: asyncio.Task[None] | None = None

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, limit: int, watched: Watched
    ) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        client = scope.get("client")
        self.client: str = client[0] if client else ""
        self.headers = headers
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self._watched = watched

    @property
    def query(self) -> str:
        """What stands behind the path."""
        query: bytes = self._scope["query_string"]
        return query.decode("latin-1")

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        scheme: str = self._scope.get("scheme", "http")
        return scheme

    async def body(self) -> bytes:
        """The request's body, nearly always one chunk that is already there.

        A sender that is too slow loses its connection: the HTTP server sees to that.
        """
        announced = self.headers.raw(b"content-length")
        if announced is not None and announced.isdigit() and int(announced) > self._limit:
            raise MessageTooLarge("The body", self._limit)
        # A server of ours has it at hand, without a message around it.
        at_hand = getattr(self._send, "body", None)
        body: bytes | None = None if at_hand is None else at_hand()
        if body is None:
            body = await self._whole_body()
        if len(body) > self._limit:
            raise MessageTooLarge("The body", self._limit)
        return body

    async def _whole_body(self) -> bytes:
        chunks, size = [], 0
        while size <= self._limit:
            message = await self._receive()
            if message["type"] != _REQUEST:
                raise ConnectionClosed("The caller left before sending its request")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if not message.get("more_body"):
                break
        return b"".join(chunks)

    async def reply(
        self, status: int, body: bytes = b"", headers: HeaderList = (), *, kind: bytes = b"application/json"
    ) -> None:
        """Answer in one piece, of the given media type."""
        self._done = self.has_answered = True
        self.status = status
        fields = [(b"content-length", b"%d" % len(body)), *headers]
        if body:
            fields.append((b"content-type", kind))
        # A server of ours can write it as it is, without messages around it.
        whole = getattr(self._send, "whole", None)
        if whole is not None and whole(status, fields, body):
            return
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        await self._send({"type": "http.response.body", "body": body})

    async def start_stream(self, headers: HeaderList = ()) -> None:
        """Start answering with server-sent events."""
        self._streaming = self.has_answered = True
        self.status = 200
        self._watched.look_at(self)
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *headers]})

    async def write(self, event: bytes) -> None:
        """Write an encoded event. A reader that takes nothing for too long is cut off by the HTTP server."""
        if self._streaming:
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def end(self) -> None:
        """End a stream."""
        if self._streaming:
            self._streaming = False
            self._done = True
            await self._send({"type": "http.response.body", "body": b""})

    def watch(self, *, cancel: bool) -> None:
        """Notice from now on when the caller leaves; not at once, for most calls have finished before that."""
        self._task = asyncio.current_task() if cancel else None
        self._watched.add(self)

    def unwatch(self) -> None:
        """Stop noticing."""
        self._done = True
        self._task = None
        self._watched.discard(self)
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def start_watcher(self) -> None:
        """The call takes long enough to be worth a watcher."""
        self._watcher = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(bounds.KEEP_ALIVE_S):
                    message = await self._receive()
            except TimeoutError:
                await self.write(KEEP_ALIVE)
                continue
            if message["type"] == "http.disconnect":
                self.has_left = True
                self._streaming = False
                if self._task is not None:
                    self._task.cancel()
                return


def application(endpoint: Endpoint, *, limit: int = bounds.MESSAGE_BYTES, pages: App | None = None) -> App:
    """An ASGI application for HTTP requests only. Those of pages go to an app of their own, if there is one."""
    watched = Watched()

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        headers = Headers(scope["headers"])
        if pages is not None and headers.raw(b"origin") is not None:
            return pages(scope, receive, send)
        return endpoint(Exchange(scope, receive, send, headers, limit, watched))

    return app
