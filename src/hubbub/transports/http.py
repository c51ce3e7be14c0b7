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

_REQUEST_TYPE = "http.request"
_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class DirectSend(msgspec.Struct, eq=False, kw_only=True):
    """What our own HTTP server can do beyond ASGI; it passes this to the app as `send`."""

    on_disconnect: Callable[[], None] | None = None
    """Called if the caller disconnects before the response is complete."""

    async def __call__(self, message: Message) -> None:
        """Send an ASGI message."""
        raise NotImplementedError

    def body(self) -> bytes | None:
        """Return the request body, if it is complete and has not been read."""
        raise NotImplementedError

    def send_response(self, status: int, headers: HeaderList, body: bytes) -> bool:
        """Send a response in one piece; return False if it must be sent through ASGI instead."""
        raise NotImplementedError


class AsgiExchange:
    """One HTTP request and the response being written to it."""

    # Defaults in the class, because most requests never change these.
    is_disconnected = False
    has_responded = False
    status = 0
    _is_streaming = False
    _is_watched = False
    _cancelled_task: asyncio.Task[Any] | None = None
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
        self._direct_send = send if isinstance(send, DirectSend) else None
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
        body = None if self._direct_send is None else self._direct_send.body()
        if body is None:
            content_length = self.headers.raw(b"content-length")
            if content_length is not None and content_length.isdigit() and int(content_length) > self._limit:
                raise MessageTooLarge("The body", self._limit)
            body = await self._read_body()
        if len(body) > self._limit:
            raise MessageTooLarge("The body", self._limit)
        return body

    async def _read_body(self) -> bytes:
        chunks, size = [], 0
        while size <= self._limit:
            message = await self._receive()
            if message["type"] != _REQUEST_TYPE:
                raise ConnectionClosed("The caller disconnected before its request was complete")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if not message.get("more_body"):
                break
        return b"".join(chunks)

    async def respond(
        self, status: int, body: bytes = b"", headers: HeaderList = (), *, content_type: bytes = b"application/json"
    ) -> None:
        """Send the whole response, of the given media type."""
        self.has_responded = True
        self.status = status
        fields = [(b"content-length", b"%d" % len(body)), *headers]
        if body:
            fields.append((b"content-type", content_type))
        if self._direct_send is not None and self._direct_send.send_response(status, fields, body):
            return
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": fields})
            await self._send({"type": "http.response.body", "body": body})
        except OSError:
            self._handle_disconnect()

    async def start_stream(self, headers: HeaderList = ()) -> None:
        """Start a response of server-sent events."""
        self._is_streaming = self.has_responded = True
        self.status = 200
        if self._is_watched and self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch_disconnect())
        try:
            await self._send({"type": "http.response.start", "status": 200, "headers": [*_STREAM_HEADERS, *headers]})
        except OSError:
            self._handle_disconnect()

    async def write(self, event: bytes) -> None:
        """Write an encoded event. The HTTP server disconnects a reader that reads nothing for too long."""
        if self._is_streaming:
            try:
                await self._send({"type": "http.response.body", "body": event, "more_body": True})
            except OSError:
                self._handle_disconnect()

    async def end(self) -> None:
        """End the stream."""
        if self._is_streaming:
            self._is_streaming = False
            try:
                await self._send({"type": "http.response.body", "body": b""})
            except OSError:
                self._handle_disconnect()

    def watch(self, *, cancel: bool) -> None:
        """Watch for a disconnect of the caller: our own server reports it; with others, `receive` must be awaited."""
        self._cancelled_task = asyncio.current_task() if cancel else None
        self._is_watched = True
        if self._direct_send is not None:
            self._direct_send.on_disconnect = self._handle_disconnect
        elif self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch_disconnect())

    def unwatch(self) -> None:
        """Stop watching for a disconnect."""
        self._is_watched = False
        self._cancelled_task = None
        if self._direct_send is not None:
            self._direct_send.on_disconnect = None
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def _handle_disconnect(self) -> None:
        if self.is_disconnected:
            return
        self.is_disconnected = True
        self._is_streaming = False
        if self._cancelled_task is not None:
            self._cancelled_task.cancel()

    async def _watch_disconnect(self) -> None:
        # Not cancelled at a timeout: an ASGI server may lose the message that a cancelled `receive` would return.
        receive_task = asyncio.ensure_future(self._receive())
        try:
            while True:
                done, _ = await asyncio.wait([receive_task], timeout=bounds.KEEP_ALIVE_S)
                if not done:
                    await self.write(KEEP_ALIVE)
                elif receive_task.result()["type"] == "http.disconnect":
                    self._handle_disconnect()
                    return
                else:
                    receive_task = asyncio.ensure_future(self._receive())
        finally:
            receive_task.cancel()


def application(endpoint: Endpoint, *, limit: int, cors_app: App | None = None) -> App:
    """Return an ASGI application for HTTP requests. Requests with an `Origin` go to `cors_app`, if given."""

    def app(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        headers = Headers(scope["headers"])
        if cors_app is not None and headers.raw(b"origin") is not None:
            return cors_app(scope, receive, send)
        return endpoint(AsgiExchange(scope, receive, send, headers, limit))

    return app
