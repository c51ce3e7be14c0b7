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


class Exchange:
    """One HTTP request and the answer being written to it."""

    # What most requests never change is said once, here.
    has_left = False
    has_answered = False
    status = 0
    _streaming = False
    _done = False
    _task: asyncio.Task[Any] | None = None
    _watcher: asyncio.Task[None] | asyncio.TimerHandle | None = None

    def __init__(self, scope: Scope, receive: Receive, send: Send, headers: Headers, limit: int) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        client = scope.get("client")
        self.client: str = client[0] if client else ""
        self.headers = headers
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit

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
        message = await self._receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body") or message["type"] != _REQUEST:
            body = await self._rest_of_body(message)
        if len(body) > self._limit:
            raise MessageTooLarge("The body", self._limit)
        return body

    async def _rest_of_body(self, message: Message) -> bytes:
        chunks, size = [], 0
        while size <= self._limit:
            if message["type"] != _REQUEST:
                raise ConnectionClosed("The caller left before sending its request")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if not message.get("more_body"):
                break
            message = await self._receive()
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


def application(endpoint: Endpoint, *, limit: int = bounds.MESSAGE_BYTES, pages: App | None = None) -> App:
    """An ASGI application for HTTP requests only. Those of pages go to an app of their own, if there is one."""

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        headers = Headers(scope["headers"])
        if pages is not None and headers.raw(b"origin") is not None:
            return pages(scope, receive, send)
        return endpoint(Exchange(scope, receive, send, headers, limit))

    return app
