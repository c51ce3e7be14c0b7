"""Adapters for ASGI servers: their requests as `HttpExchange`, their WebSockets as `WebSocketExchange`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from hubbub import bounds
from hubbub.errors import ConnectionClosed, MessageTooLarge
from hubbub.protocol.http_headers import HeaderList, Headers
from hubbub.protocol.refusal import Refusal
from hubbub.protocol.sse import KEEP_ALIVE
from hubbub.transports.request_lines import MAX_LENGTH_DIGITS
from hubbub.transports.response_heads import NO_CONTENT

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_REQUEST_TYPE = "http.request"
_POLICY_VIOLATION = 1008
_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class AsgiExchange:
    """An `HttpExchange` of any ASGI server."""

    # Defaults in the class, because most requests never change these.
    is_disconnected = False
    has_responded = False
    status = 0
    extra_headers: HeaderList = ()
    _is_streaming = False
    _is_cancelled_by_disconnect = False
    _watcher: asyncio.Task[None] | None = None

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.client = _client_address(scope)
        self.headers = Headers(scope["headers"])
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self.task = asyncio.current_task()

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

    def body_nowait(self) -> bytes | None:
        """Return None: the body must be received."""
        return None

    async def body(self) -> bytes:
        """Read the request body."""
        content_length = self.headers.raw(b"content-length")
        if content_length is not None and _is_larger(content_length, self._limit):
            raise MessageTooLarge("The body", self._limit, setting="max_message_bytes")
        chunks, size = [], 0
        while size <= self._limit:
            message = await self._receive()
            if message["type"] != _REQUEST_TYPE:
                raise ConnectionClosed("The caller disconnected before its request was complete")
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if not message.get("more_body"):
                break
        if size > self._limit:
            raise MessageTooLarge("The body", self._limit, setting="max_message_bytes")
        return b"".join(chunks)

    async def respond(
        self, status: int, body: bytes = b"", headers: HeaderList = (), *, content_type: bytes = b"application/json"
    ) -> None:
        """Send the whole response, of the given media type."""
        self.has_responded = True
        self.status = status
        fields = [*headers, *self.extra_headers]
        if body or status not in NO_CONTENT:
            fields.append((b"content-length", b"%d" % len(body)))
        if body:
            fields.append((b"content-type", content_type))
        try:
            await self._send({"type": "http.response.start", "status": status, "headers": fields})
            await self._send({"type": "http.response.body", "body": body})
        except OSError:
            self._handle_disconnect()

    async def start_stream(self, headers: HeaderList = ()) -> None:
        """Start a response of server-sent events."""
        self._is_streaming = self.has_responded = True
        self.status = 200
        fields = [*_STREAM_HEADERS, *headers, *self.extra_headers]
        try:
            await self._send({"type": "http.response.start", "status": 200, "headers": fields})
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
        """Watch for a disconnect of the caller, in a task: it is reported only by `receive`."""
        self._is_cancelled_by_disconnect = cancel
        if self._watcher is None:
            self._watcher = asyncio.ensure_future(self._watch_disconnect())

    def unwatch(self) -> None:
        """Stop watching for a disconnect."""
        self._is_cancelled_by_disconnect = False
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    def _handle_disconnect(self) -> None:
        if self.is_disconnected:
            return
        self.is_disconnected = True
        self._is_streaming = False
        if self._is_cancelled_by_disconnect:
            self.cancel()

    def cancel(self) -> None:
        """Cancel the task that serves the request."""
        if self.task is not None:
            self.task.cancel()

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


class AsgiWebSocket:
    """A `WebSocketExchange` of any ASGI server, which sends pings and limits messages by itself."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.path: str = scope["path"]
        self.client = _client_address(scope)
        self.headers = Headers(scope["headers"])
        self._scope = scope
        self._receive = receive
        self._send = send

    @property
    def root_path(self) -> str:
        """The URL path where the app is mounted; empty if it is not mounted."""
        return quote(self._scope.get("root_path", ""))

    @property
    def subprotocols(self) -> Sequence[str]:
        """The subprotocols that the caller offers."""
        offered: Sequence[str] = self._scope.get("subprotocols", [])
        return offered

    async def accept(self, subprotocol: str | None) -> None:
        """Accept the handshake."""
        await self._send({"type": "websocket.accept", "subprotocol": subprotocol})

    async def refuse(self, refusal: Refusal) -> None:
        """Refuse the handshake: with an HTTP status if the ASGI server supports it, else by closing."""
        if "websocket.http.response" not in self._scope.get("extensions", {}):
            await self._send({"type": "websocket.close", "code": _POLICY_VIOLATION})
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8"), *refusal.headers]
        await self._send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
        await self._send({"type": "websocket.http.response.body", "body": refusal.message.encode()})

    async def receive(self) -> bytes | None:
        """Return the next message; None once the connection has ended."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            return None
        return message.get("bytes") or (message.get("text") or "").encode()

    async def send(self, message: bytes) -> None:
        """Send a text message.

        Raises: ConnectionClosed.
        """
        try:
            await self._send({"type": "websocket.send", "text": message.decode()})
        except OSError:
            raise ConnectionClosed("The caller has closed the WebSocket") from None

    async def close(self, code: int, reason: str = "") -> None:
        """Close the connection, if it is open."""
        with suppress(RuntimeError, OSError):  # the client closed first
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


def _is_larger(content_length: bytes, limit: int) -> bool:
    """Whether a length exceeds the limit; `int` fails for thousands of zeros."""
    digits = content_length.lstrip(b"0") or b"0"
    return digits.isdigit() and (len(digits) > MAX_LENGTH_DIGITS or int(digits) > limit)


def _client_address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""
