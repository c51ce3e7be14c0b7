"""The HTTP transport: one ASGI exchange as the rest of Hubbub sees it.

Knows bytes, bounds and slow or vanished callers; knows nothing of JSON-RPC. An answer is
one piece or a stream of server-sent events. Writing happens in whichever task writes,
so there is no queue between a handler and the socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

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


class Direct(msgspec.Struct, eq=False, kw_only=True):
    """What a server of ours can do besides ASGI; it is the `send` that it gives to the app."""

    on_left: Callable[[], None] | None = None
    """Called if the caller leaves before it has its answer."""

    async def __call__(self, message: Message) -> None:
        """Send, as ASGI has it."""
        raise NotImplementedError

    def body(self) -> bytes | None:
        """The body of the request, if all of it has come and nobody has read any of it."""
        raise NotImplementedError

    def whole(self, status: int, headers: HeaderList, body: bytes) -> bool:
        """Send an answer in one piece, unless something about it is unusual."""
        raise NotImplementedError


class Exchange:
    """One HTTP request and the answer being written to it."""

    # What most requests never change is said once, here.
    has_left = False
    has_answered = False
    status = 0
    _streaming = False
    _is_watched = False
    _task: asyncio.Task[Any] | None = None
    _watcher: asyncio.Task[None] | None = None

    def __init__(self, scope: Scope, receive: Receive, send: Send, headers: Headers, limit: int) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        client = scope.get("client")
        self.client: str = client[0] if client else ""
        self.headers = headers
        self._scope = scope
        self._receive = receive
        self._send = send
        self._direct = send if isinstance(send, Direct) else None
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
        body = None if self._direct is None else self._direct.body()
        if body is None:
            announced = self.headers.raw(b"content-length")
            if announced is not None and announced.isdigit() and int(announced) > self._limit:
                raise MessageTooLarge("The body", self._limit)
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
        self.has_answered = True
        self.status = status
        fields = [(b"content-length", b"%d" % len(body)), *headers]
        if body:
            fields.append((b"content-type", kind))
        if self._direct is not None and self._direct.whole(status, fields, body):
            return
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        await self._send({"type": "http.response.body", "body": body})

    async def start_stream(self, headers: HeaderList = ()) -> None:
        """Start answering with server-sent events."""
        self._streaming = self.has_answered = True
        self.status = 200
        if self._is_watched and self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch())
        await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *headers]})

    async def write(self, event: bytes) -> None:
        """Write an encoded event. A reader that takes nothing for too long is cut off by the HTTP server."""
        if self._streaming:
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def end(self) -> None:
        """End a stream."""
        if self._streaming:
            self._streaming = False
            await self._send({"type": "http.response.body", "body": b""})

    def watch(self, *, cancel: bool) -> None:
        """Notice from now on when the caller leaves: a server of ours says so, of another it must be asked."""
        self._task = asyncio.current_task() if cancel else None
        self._is_watched = True
        if self._direct is not None:
            self._direct.on_left = self._leave
        elif self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch())

    def unwatch(self) -> None:
        """Stop noticing."""
        self._is_watched = False
        self._task = None
        if self._direct is not None:
            self._direct.on_left = None
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def _leave(self) -> None:
        if self.has_left:
            return
        self.has_left = True
        self._streaming = False
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(bounds.KEEP_ALIVE_S):
                    message = await self._receive()
            except TimeoutError:
                await self.write(KEEP_ALIVE)
                continue
            if message["type"] == "http.disconnect":
                self._leave()
                return


def application(endpoint: Endpoint, *, limit: int = bounds.MESSAGE_BYTES, pages: App | None = None) -> App:
    """An ASGI application for HTTP requests only. Those of pages go to an app of their own, if there is one."""

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        headers = Headers(scope["headers"])
        if pages is not None and headers.raw(b"origin") is not None:
            return pages(scope, receive, send)
        return endpoint(Exchange(scope, receive, send, headers, limit))

    return app
