"""One request on a connection of our HTTP server, and the response to it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from hubbub.errors import ConnectionClosed, MessageTooLarge
from hubbub.protocol.http_headers import HeaderList
from hubbub.protocol.sse import KEEP_ALIVE
from hubbub.transports.request_heads import RequestHead
from hubbub.transports.response_heads import NO_CONTENT, STREAM_HEADERS, encode_fields

if TYPE_CHECKING:
    from hubbub.transports.http_connection import HttpConnection

_LARGE_BODY_BYTES: Final = 64 * 1024
"""Bodies of this size are written separately instead of being copied."""
_JSON: Final = b"application/json"
_CLOSE: Final = b"connection: close\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class _CompletedAwaitable:
    """An awaitable that is complete from the start."""

    __slots__ = ()
    __await__ = staticmethod(partial(iter, ()))
    """Returns an iterator that has ended, with fewer steps than a generator."""


_COMPLETED: Final = _CompletedAwaitable()


class ServerExchange:
    """An `HttpExchange` of our own server: writes directly to the connection, without a queue or a task."""

    # Defaults in the class, because most requests never change or read these.
    status = 0
    has_responded = False
    is_complete = False
    """Whether the response is complete."""
    wants_body = False
    """Whether `body` waits for more."""
    root_path = ""
    """Always empty: our server serves one app, at the root."""
    last_write = 0.0
    task: asyncio.Task[Any] | None = None
    _body_waiter: asyncio.Future[None] | None = None
    _is_streaming = False
    _is_cancelled_by_disconnect = False

    def __init__(self, connection: HttpConnection, head: RequestHead, body: bytes | None = None) -> None:
        """`body` is the whole body, if it has arrived."""
        context = connection.context
        self._connection = connection
        self.head = head
        self.method = head.method
        self.path = head.path
        self.query = head.query
        self.headers = head.headers
        self.client = connection.client
        if context.has_proxies:
            self.client = context.proxies.client_address(head.headers, connection.client)
        self.is_http_10 = head.is_http_10
        self.expects_continue = head.expects_continue
        """Whether the caller waits for `100 Continue` before it sends the body."""
        self.keeps_alive = not context.is_stopping
        self.is_disconnected = False
        self.extra_headers: HeaderList = ()
        self.has_body = body is not None
        """Whether the whole body has arrived."""
        self._body: bytes | bytearray | MessageTooLarge = b""
        if body is not None:
            limit = context.limits.message_bytes
            self._body = body if len(body) <= limit else MessageTooLarge("The body", limit, setting="max_message_bytes")

    @property
    def scheme(self) -> str:
        """`http` or `https`."""
        return self._connection.context.find_scheme(self._connection.transport, self.headers)

    # -- the request -----------------------------------------------------------------

    def body_nowait(self) -> bytes | None:
        """Return the body if it has arrived as a whole."""
        body = self._body
        if type(body) is bytes:
            return body if self.has_body else None
        if isinstance(body, MessageTooLarge):
            raise body
        return bytes(body) if self.has_body else None

    async def body(self) -> bytes:
        """Return the body; wait for the rest of it if necessary."""
        if not self.has_body:
            await self._wait_for_body()
        return self.body_nowait() or b""

    async def _wait_for_body(self) -> None:
        if isinstance(self._body, MessageTooLarge) or self.is_disconnected:
            self._check_connected()
            return
        self.wants_body = True
        if self.expects_continue:
            self.expects_continue = False
            self._connection.transport.write(CONTINUE)
        self._connection.update_reading()
        self._body_waiter = asyncio.get_running_loop().create_future()
        try:
            await self._body_waiter
        finally:
            self._body_waiter = None
        self._check_connected()

    def _check_connected(self) -> None:
        if self.is_disconnected and not self.has_body:
            raise ConnectionClosed("The caller disconnected before its request was complete")

    @property
    def body_bytes(self) -> int:
        """The bytes of the body that have arrived and are kept."""
        return 0 if isinstance(self._body, MessageTooLarge) else len(self._body)

    @property
    def unwanted_bytes(self) -> int:
        """The bytes of an incomplete body that the endpoint has not asked for."""
        return 0 if self.wants_body else self.body_bytes

    def add_body(self, data: bytes, limit: int) -> int:
        """Add a piece of the body; return the size of what is kept."""
        body = self._body
        if isinstance(body, MessageTooLarge):
            return 0
        if not body:
            self._body = body = data
        elif isinstance(body, bytearray):
            body += data
        else:
            self._body = body = bytearray(body) + data
        if len(body) <= limit:
            return len(body)
        self.refuse_body(limit)
        return 0

    def refuse_body(self, limit: int) -> None:
        """Let `body` raise an error, because the body is larger than the limit."""
        self._body = MessageTooLarge("The body", limit, setting="max_message_bytes")
        self._wake_reader()

    def end_body(self) -> None:
        """Mark the body as complete."""
        self.has_body = True
        self._wake_reader()

    def drop_body(self) -> None:
        """Drop what has arrived of an incomplete body, because it will not be read."""
        if not self.has_body:
            self._body = b""

    def _wake_reader(self) -> None:
        if self._body_waiter is not None and not self._body_waiter.done():
            self._body_waiter.set_result(None)

    # -- the response ----------------------------------------------------------------

    def respond(
        self, status: int, body: bytes = b"", headers: HeaderList = (), *, content_type: bytes = _JSON
    ) -> _CompletedAwaitable:
        """Send the whole response, head and body in one write; there is nothing to wait for."""
        self.has_responded = True
        self.status = status
        if self.is_disconnected:
            return _COMPLETED
        connection = self._connection
        start = connection.heads[status]
        if headers or self.extra_headers or not self.keeps_alive or self.is_http_10 or not self.has_body:
            start += self._encode_extra_fields(headers)
        size = len(body)
        if size and size < _LARGE_BODY_BYTES and self.method != "HEAD":
            connection.transport.write(
                b"%bcontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (start, content_type, size, body)
            )
        else:
            self._write_in_parts(start, body, content_type)
        self.is_complete = True
        connection.end_response(self)
        return _COMPLETED

    def _write_in_parts(self, start: bytes, body: bytes, content_type: bytes) -> None:
        """Write a response without copying its body, or without a body."""
        if body:
            start += b"content-type: %b\r\n" % content_type
        if body or self.status not in NO_CONTENT:
            start += b"content-length: %d\r\n" % len(body)
        # Not `writelines`: it ignores flow control in early releases of Python 3.12 and 3.13 (cpython issue 127655).
        self._connection.transport.write(start + b"\r\n")
        if body and self.method != "HEAD":
            self._connection.transport.write(body)

    def _encode_extra_fields(self, headers: HeaderList) -> bytes:
        """Return the lines of the headers that not every response has."""
        if self.expects_continue and not self.has_body:
            # The caller may send the body or not, so that it could not be distinguished from the next request.
            self.keeps_alive = False
        fields = encode_fields((*headers, *self.extra_headers))
        return fields if self.keeps_alive else fields + _CLOSE

    async def start_stream(self, headers: HeaderList = ()) -> None:
        """Start a response of server-sent events."""
        self.has_responded = True
        self.status = 200
        if self.is_disconnected:
            return
        self._is_streaming = True
        if self.is_http_10:
            self.keeps_alive = False
        fields = STREAM_HEADERS + self._encode_extra_fields(headers)
        if not self.is_http_10:
            fields += _CHUNKED
        self._write(b"%b%b\r\n" % (self._connection.heads[200], fields))

    async def write(self, event: bytes) -> None:
        """Write an encoded event; wait while the caller does not read."""
        if self._is_streaming:
            self.write_nowait(event)
            connection = self._connection
            if connection.is_write_paused:
                await connection.wait_writable()

    def write_nowait(self, event: bytes) -> None:
        """Write an encoded event."""
        if self.method != "HEAD" and event:
            self._write(event if self.is_http_10 else b"%x\r\n%b\r\n" % (len(event), event))

    def keep_alive(self, now: float, interval_s: float) -> None:
        """Write a comment to a stream on which nothing was written for a while."""
        if self._is_streaming and now - self.last_write >= interval_s and not self._connection.is_write_paused:
            self.write_nowait(KEEP_ALIVE)

    def _write(self, data: bytes) -> None:
        self.last_write = self._connection.context.next_sweep
        self._connection.transport.write(data)

    async def end(self) -> None:
        """End the stream."""
        if self._is_streaming:
            self._is_streaming = False
            if not self.is_http_10 and self.method != "HEAD":
                self._connection.transport.write(_LAST_CHUNK)
            self.is_complete = True
            self._connection.end_response(self)

    # -- disconnects -----------------------------------------------------------------

    def watch(self, *, cancel: bool) -> None:
        """Cancel the task of this request, if `cancel`, when the caller disconnects."""
        self._is_cancelled_by_disconnect = cancel
        if self.is_disconnected:
            self._cancel_if_watched()

    def unwatch(self) -> None:
        """Let the task of this request continue if the caller disconnects."""
        self._is_cancelled_by_disconnect = False

    def cancel(self) -> None:
        """Cancel the task of this request."""
        if self.task is not None:
            self.task.cancel()

    def handle_disconnect(self) -> None:
        """Wake or cancel what waits for the caller."""
        self.is_disconnected = True
        self._is_streaming = False
        self._wake_reader()
        self._cancel_if_watched()

    def abort(self) -> None:
        """Close the connection, because the endpoint did not answer."""
        if not self.is_disconnected:
            self._connection.transport.abort()

    def _cancel_if_watched(self) -> None:
        if self._is_cancelled_by_disconnect:
            self.cancel()
