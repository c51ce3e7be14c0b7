"""The HTTP transport: one ASGI request and its response, as the rest of Hubbub sees them.

Handles bytes, limits, slow callers and disconnects; knows nothing of JSON-RPC. A response is sent
in one piece or as a stream of server-sent events. The task that has something to send writes it itself,
so there is no queue between a handler and the socket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

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
    """What our own HTTP server can do beyond ASGI; it passes this to the app as `send`."""

    on_left: Callable[[], None] | None = None
    """Called if the caller disconnects before the response is complete."""

    async def __call__(self, message: Message) -> None:
        """Send an ASGI message."""
        raise NotImplementedError

    def body(self) -> bytes | None:
        """Return the request body, if it is complete and has not been read."""
        raise NotImplementedError

    def whole(self, status: int, headers: HeaderList, body: bytes) -> bool:
        """Send a response in one piece; return False if it must be sent through ASGI instead."""
        raise NotImplementedError


class Exchange:
    """One HTTP request and the answer being written to it."""

    # Defaults in the class, because most requests never change these.
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
        query: bytes = self._scope["query_string"]
        return query.decode("latin-1")

    @property
    def root_path(self) -> str:
        """The URL path where the app is mounted; empty if it is not mounted."""
        return quote(self._scope.get("root_path", "")).rstrip("/")

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        scheme: str = self._scope.get("scheme", "http")
        return scheme

    async def body(self) -> bytes:
        """Read the request body, nearly always one chunk that has already arrived.

        The HTTP server closes the connection of a sender that is too slow.
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
        """Send the whole response, of the given media type."""
        self.has_answered = True
        self.status = status
        fields = [(b"content-length", b"%d" % len(body)), *headers]
        if body:
            fields.append((b"content-type", kind))
        if self._direct is not None and self._direct.whole(status, fields, body):
            return
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": fields})
            await self._send({"type": "http.response.body", "body": body})
        except OSError:
            self._leave()

    async def start_stream(self, headers: HeaderList = ()) -> None:
        """Start a response of server-sent events."""
        self._streaming = self.has_answered = True
        self.status = 200
        if self._is_watched and self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch())
        try:
            await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *headers]})
        except OSError:
            self._leave()

    async def write(self, event: bytes) -> None:
        """Write an encoded event. The HTTP server disconnects a reader that reads nothing for too long."""
        if self._streaming:
            try:
                await self._send({"type": "http.response.body", "body": event, "more_body": True})
            except OSError:
                self._leave()

    async def end(self) -> None:
        """End the stream."""
        if self._streaming:
            self._streaming = False
            try:
                await self._send({"type": "http.response.body", "body": b""})
            except OSError:
                self._leave()

    def watch(self, *, cancel: bool) -> None:
        """Watch for a disconnect of the caller: our own server reports it; with others, `receive` must be awaited."""
        self._task = asyncio.current_task() if cancel else None
        self._is_watched = True
        if self._direct is not None:
            self._direct.on_left = self._leave
        elif self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch())

    def unwatch(self) -> None:
        """Stop watching for a disconnect."""
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
        # Not cancelled at a timeout: an ASGI server may lose the message that a cancelled `receive` would return.
        receiving = asyncio.ensure_future(self._receive())
        try:
            while True:
                done, _ = await asyncio.wait([receiving], timeout=bounds.KEEP_ALIVE_S)
                if not done:
                    await self.write(KEEP_ALIVE)
                elif receiving.result()["type"] == "http.disconnect":
                    self._leave()
                    return
                else:
                    receiving = asyncio.ensure_future(self._receive())
        finally:
            receiving.cancel()


def application(endpoint: Endpoint, *, limit: int, pages: App | None = None) -> App:
    """Return an ASGI application for HTTP requests. Requests with an `Origin` go to `pages`, if given."""

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        headers = Headers(scope["headers"])
        if pages is not None and headers.raw(b"origin") is not None:
            return pages(scope, receive, send)
        return endpoint(Exchange(scope, receive, send, headers, limit))

    return app
