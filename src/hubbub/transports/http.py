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

_STREAM = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Exchange:
    """One HTTP request and the answer being written to it."""

    __slots__ = (
        "_done",
        "_limit",
        "_receive",
        "_send",
        "_streaming",
        "_task",
        "_watcher",
        "client",
        "has_answered",
        "has_left",
        "headers",
        "method",
        "path",
        "query",
        "scheme",
        "status",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode("latin-1")
        self.scheme: str = scope.get("scheme", "http")
        self.client: str = scope["client"][0] if scope.get("client") else ""
        self.headers = Headers(scope["headers"])
        self.has_left = False
        self.has_answered = False
        self.status = 0
        self._receive = receive
        self._send = send
        self._limit = limit
        self._streaming = False
        self._done = False
        self._task: asyncio.Task[Any] | None = None
        self._watcher: asyncio.Task[None] | asyncio.TimerHandle | None = None

    async def body(self) -> bytes:
        """The request's body, nearly always one chunk that is already there.

        A sender that is too slow loses its connection: the HTTP server sees to that.
        """
        announced = self.headers.get(b"content-length")
        if announced is not None and announced.isdigit() and int(announced) > self._limit:
            raise MessageTooLarge("The body", self._limit)
        body, more = await self._chunk()
        if more:
            body = await self._rest_of_body(body)
        if len(body) > self._limit:
            raise MessageTooLarge("The body", self._limit)
        return body

    async def _rest_of_body(self, first: bytes) -> bytes:
        chunks, size, more = [first], len(first), True
        while more and size <= self._limit:
            chunk, more = await self._chunk()
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks)

    async def _chunk(self) -> tuple[bytes, bool]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ConnectionClosed("The caller left before sending its request")
        return message.get("body", b""), message.get("more_body", False)

    async def reply(
        self, status: int, body: bytes = b"", headers: HeaderList = (), *, kind: bytes = b"application/json"
    ) -> None:
        """Answer in one piece, of the given media type."""
        self._done = self.has_answered = True
        self.status = status
        fields = [(b"content-length", b"%d" % len(body)), *headers]
        if body:
            fields.append((b"content-type", kind))
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        await self._send({"type": "http.response.body", "body": body})

    async def start_stream(self, headers: HeaderList = ()) -> None:
        """Start answering with server-sent events."""
        self._streaming = self.has_answered = True
        self.status = 200
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
        """Notice from now on when the caller leaves.

        Not at once: calls that finish soon, as most do, never pay for a watcher, and those
        that finish without waiting not even for a clock.
        """
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop) if cancel else None
        loop.call_soon(self._watch_soon, loop)

    def unwatch(self) -> None:
        """Stop noticing."""
        self._done = True
        self._task = None
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def _watch_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._done and self._watcher is None:
            self._watcher = loop.call_later(bounds.WATCHED_AFTER_S, self._start_watcher)

    def _start_watcher(self) -> None:
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


def application(endpoint: Endpoint, *, limit: int = bounds.MESSAGE_BYTES) -> App:
    """An ASGI application for HTTP requests only."""

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return endpoint(Exchange(scope, receive, send, limit))

    return app
