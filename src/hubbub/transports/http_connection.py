"""One HTTP connection of the server: uvicorn's, with the limits that uvicorn lacks.

uvicorn limits neither the head of a request, nor the time in which a request must arrive or
a response be read. It treats trailers as headers, keeps reading after an upgrade that it does
not accept, and closes connections before callers have read their responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Sequence
from http import HTTPStatus
from typing import Any, Final

from hubbub import bounds
from hubbub.observe import log_refusal
from hubbub.ports import ReportCutOff
from hubbub.protocol.http_headers import HeaderList
from hubbub.transports.connection_limits import ConnectionLimits, ConnectionTable, UnfinishedMessages, UnreadOutput
from hubbub.transports.http import App, DirectSend, Message, Receive, Scope, Send
from hubbub.transports.uvicorn_parts import (
    Config,
    FlowControl,
    HttpParserError,
    HttpParserUpgrade,
    HttpToolsProtocol,
    RequestResponseCycle,
    service_unavailable,
)

REQUEST_TIMEOUT: Final = b"408 Request Timeout"
BAD_REQUEST: Final = b"400 Bad Request"
SERVICE_UNAVAILABLE: Final = b"503 Service Unavailable"
_HEADERS_TOO_LARGE: Final = b"431 Request Header Fields Too Large"
_HEADER_OVERHEAD_BYTES: Final = len(b": \r\n")
_HTTP_VERSION: Final = "1.1"
_TARGET_SCOPE_KEYS: Final = ("path", "raw_path", "query_string")
_CONNECT: Final = b"CONNECT"
_EMPTY_BODY: Final = (b"content-length", b"0")
_BODY_HEADERS: Final = (b"content-length", b"transfer-encoding")
_UPGRADE_HEADERS: Final = (b"upgrade", b"connection")
_CONTENT_LENGTH: Final = b"content-length"
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}
_LARGE_BODY_BYTES: Final = 64 * 1024
"""Bodies of this size are written separately instead of being copied."""
_LINE_END: Final = b"\r\n"
_HEADER_TEXT: Final = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))
"""The bytes that a header may contain."""


class BoundedConfig(Config):
    """uvicorn's config with our limits; every connection gets it."""

    def __init__(self, app: App, cut_off: ReportCutOff, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(app, **options)
        self.limits = limits
        self.cut_off = cut_off
        self.table = ConnectionTable(limits.connections)
        self.unfinished = UnfinishedMessages(max(bounds.INCOMPLETE_MESSAGES_BYTES, 4 * limits.message_bytes))


class PipelineFlowControl(FlowControl):
    """Resumes reading only if no pipelined request is waiting, because one read can bring thousands of them."""

    def __init__(self, transport: asyncio.Transport, pipeline: Collection[Any]) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        if not self._pipeline:
            super().resume_reading()


class LingeringTransport:
    """The transport of the last response: closing it lingers, so that the caller can read the response."""

    def __init__(self, connection: BoundedProtocol) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection.transport, name)

    def close(self) -> None:
        """End the connection after lingering."""
        self._connection.end()


class FastResponse(DirectSend, eq=False):
    """Runs the app for one request and is its `send`, with shortcuts that `AsgiExchange` uses when it can.

    uvicorn writes the head of every response at once and the body after it, and matches each header against two
    patterns. Here the start of a complete response is held back until its body is there, which ASGI allows, and both
    are written together. Streams and unusual responses are left to uvicorn.
    """

    _app: App
    _cycle: Any
    _held_start: Message | None = None

    def serve(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        return self._app(scope, receive, self)

    def handle_disconnect(self) -> None:
        """Handle a disconnect: end what waits for the caller, unless the response is complete."""
        cycle = self._cycle
        if cycle.response_complete:
            return
        cycle.disconnected = True
        cycle.message_event.set()
        if self.on_disconnect is not None:
            self.on_disconnect()

    def body(self) -> bytes | None:
        """Return the request body, if it is complete and has not been read."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue or not cycle.message_event.is_set():
            return None
        cycle.flow.resume_reading()
        cycle.message_event.clear()
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def send_response(self, status: int, headers: HeaderList, body: bytes) -> bool:
        """Send a response in one piece; return False if uvicorn must send it."""
        if self._held_start is not None or not self._can_write_directly():
            return False
        self._write(status, headers, body)
        return True

    async def __call__(self, message: Message) -> None:
        """Send an ASGI message."""
        start, self._held_start = self._held_start, None
        if start is None:
            headers = message.get("headers")
            if headers and headers[0][0] == _CONTENT_LENGTH:  # where `AsgiExchange.respond` puts it
                self._held_start = message
                return
        elif self._is_complete_response(start, message) and self._can_write_directly():
            self._write(start["status"], start["headers"], message["body"])
            return
        else:
            await self._cycle.send(start)
        await self._cycle.send(message)

    def _is_complete_response(self, start: Message, message: Message) -> bool:
        return not message.get("more_body") and int(start["headers"][0][1]) == len(message.get("body", b""))

    def _can_write_directly(self) -> bool:
        """Whether the caller is connected, reads, wants a body and keeps the connection alive."""
        cycle = self._cycle
        return (
            cycle.keep_alive
            and not cycle.disconnected
            and not cycle.flow.write_paused
            and cycle.scope["method"] != "HEAD"
        )

    def _write(self, status: int, headers: HeaderList, body: bytes) -> None:
        cycle = self._cycle
        fields = [*cycle.default_headers, *headers]
        head = b"".join([b"%b: %b\r\n" % field for field in fields])
        if head.translate(None, _HEADER_TEXT) != _LINE_END * len(fields):
            raise ValueError("a response header contains a control character")
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        if len(body) < _LARGE_BODY_BYTES:
            cycle.transport.write(b"%b%b\r\n%b" % (_STATUS_LINES[status], head, body))
        else:
            cycle.transport.writelines((b"%b%b\r\n" % (_STATUS_LINES[status], head), body))
        cycle.message_event.set()
        cycle.on_response()


class BoundedProtocol(HttpToolsProtocol):
    """One HTTP connection whose requests must arrive within a size and a time, and whose responses must be read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for the first request, or refuse a connection above the share of its network."""
        super().connection_made(transport)
        assert isinstance(self.config, BoundedConfig)
        self._limits, self._cut_off = self.config.limits, self.config.cut_off
        self._unfinished = self.config.unfinished
        self._body_bytes = 0
        self._is_counted = False
        self.unread = UnreadOutput()
        self.flow = PipelineFlowControl(transport, self.pipeline)
        self._response: FastResponse | None = None
        self._last_target: tuple[bytes, dict[str, Any]] = (b"", {})
        """Cache of the last target and its part of the scope: most callers use only one."""
        self._in_head = True
        self._overhead_bytes = 0
        self._trailer_bytes = 0
        self._is_reparsed = False
        """Whether the request has a body and asks for an upgrade that is not accepted, so that it is parsed again."""
        self._is_last_request = False
        """Whether this is the last request: the connection ends after its response."""
        self._waiting_since: float | None = self.loop.time()
        self._idle_since: float | None = None
        self._ending_since: float | None = None
        self._dropped_bytes = 0
        if not self.config.table.admit(transport, client_address(self)):
            self.give_up(SERVICE_UNAVAILABLE, "too_many_connections")
            if len(self.connections) > self._limits.connections:
                transport.close()  # too many to linger until each has read its response

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request that is being served; uvicorn notifies only the last pipelined one."""
        super().connection_lost(exc)
        assert isinstance(self.config, BoundedConfig)
        self.config.table.remove(self.transport)
        self._reset_unfinished()
        self.pipeline.clear()
        if self._response is not None:
            self._response.handle_disconnect()

    def data_received(self, data: bytes) -> None:
        """Parse the data, and count bytes outside of bodies: heads, chunk extensions and trailers."""
        if self._is_last_request:
            self._count_dropped(len(data))
            return
        self._overhead_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._end_upgrade(data[upgrade.args[0] :])
        except HttpParserError:
            self.give_up(BAD_REQUEST, "malformed")
        if self._overhead_bytes > self._limits.head_bytes:
            self.give_up(_HEADERS_TOO_LARGE, "large_head")
        if self._body_bytes:
            self._count_unfinished()

    def _count_unfinished(self) -> None:
        """Count the bytes of an incomplete body, which are kept until the rest has arrived."""
        self._is_counted = True
        self._unfinished.update(self, client_address(self), self._body_bytes)
        self._unfinished.shed()

    def _reset_unfinished(self) -> None:
        self._body_bytes = 0
        if self._is_counted:
            self._is_counted = False
            self._unfinished.update(self, "", 0)

    def shed(self) -> None:
        """End the connection to free memory for other callers."""
        self._reset_unfinished()
        self.give_up(SERVICE_UNAVAILABLE, "unfinished_message")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._waiting_since = self.loop.time()
        self._idle_since = None
        self._dropped_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. A trailer is counted and dropped, because the headers were already checked."""
        if self._in_head:
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))
            return
        self._trailer_bytes += len(name) + len(value) + _HEADER_OVERHEAD_BYTES
        if self._trailer_bytes > self._limits.head_bytes:
            self.give_up(_HEADERS_TOO_LARGE, "large_head")
            raise ValueError("the trailers are too large")  # ends the parsing

    def on_headers_complete(self) -> None:
        """Check the size of the head, which may have come in a single piece."""
        if self._overhead_bytes > self._limits.head_bytes:
            size = len(self.url) + sum(len(name) + len(value) + _HEADER_OVERHEAD_BYTES for name, value in self.headers)
            if size > self._limits.head_bytes:
                self.give_up(_HEADERS_TOO_LARGE, "large_head")
                raise ValueError("the head is too large")  # ends the parsing
        self._in_head = False
        self._overhead_bytes = self._trailer_bytes = 0
        if self._repeats_target():
            self._start_repeated_request()
        elif self.parser.should_upgrade():
            self._begin_upgrade()
        else:
            super().on_headers_complete()
            if not self.cycle.keep_alive:
                self.cycle.transport = LingeringTransport(self)  # type: ignore[assignment]
            if len(self.pipeline) > bounds.PIPELINED_REQUESTS:
                self.give_up(_HEADERS_TOO_LARGE, "pipelining")
                raise ValueError("too many requests at once")  # ends the parsing
            if "path" in self.scope:
                self._last_target = (self.url, {name: self.scope.get(name) for name in _TARGET_SCOPE_KEYS})

    def _begin_upgrade(self) -> None:
        """Handle a request for an upgrade: the parser treats all bytes after the head as the other protocol."""
        has_body = any(name in _BODY_HEADERS and (name, value) != _EMPTY_BODY for name, value in self.headers)
        if self._should_upgrade():
            if has_body:
                self._in_head = True  # so that `give_up` sends a response
                self.give_up(BAD_REQUEST, "malformed")
                raise ValueError("a WebSocket handshake has no body")  # ends the parsing
            super().on_headers_complete()
        elif has_body and self.parser.get_method() != _CONNECT:
            self._is_reparsed = True
        else:
            super().on_headers_complete()
            self.cycle.keep_alive = False
            self.cycle.transport = LingeringTransport(self)  # type: ignore[assignment]

    def _end_upgrade(self, rest: bytes) -> None:
        """Continue after the head of an upgrade request, the last request of the connection unless it is accepted."""
        if self._is_reparsed:
            self._is_reparsed = False
            header_lines = [b"%b: %b\r\n" % field for field in self.headers if field[0] not in _UPGRADE_HEADERS]
            version = self.parser.get_http_version().encode()
            line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, version)
            self.parser = type(self.parser)(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            self.data_received(b"%b%bconnection: close\r\n\r\n%b" % (line, b"".join(header_lines), rest))
        elif not self._should_upgrade():
            self._is_last_request = True
        elif rest:
            self.give_up(BAD_REQUEST, "malformed")  # a client has to wait for the response (RFC 6455, 4.1)
        else:
            self.handle_websocket_upgrade()

    def _repeats_target(self) -> bool:
        """Whether it has the same target as the previous request, which was answered, so that it need not be parsed."""
        return (
            self.url == self._last_target[0]
            and self.cycle.response_complete
            and not self.parser.should_upgrade()
            and self.parser.get_http_version() == _HTTP_VERSION
        )

    def _start_repeated_request(self) -> None:
        """Do what uvicorn does with every request, without parsing the same target again."""
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope.update(self._last_target[1])  # type: ignore[typeddict-item]
        self.cycle = RequestResponseCycle(
            self.scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            False,
            self.server_state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            self.parser.should_keep_alive(),
            self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def on_body(self, body: bytes) -> None:
        self._overhead_bytes = 0
        if self.cycle.response_complete:
            self._count_dropped(len(body))
        else:
            self._body_bytes += len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the time limit, because the request is complete."""
        self._in_head = True
        self._overhead_bytes = 0
        self._waiting_since = None
        self._reset_unfinished()
        if not self._is_reparsed:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Note the end of a response. The sweep finds idle connections; uvicorn would set a timer for each response."""
        self.server_state.total_requests += 1
        self._reset_unfinished()
        if self.transport.is_closing() or self._ending_since is not None:
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()
        self.flow.resume_reading()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if len(self.tasks) >= self._limits.connections:  # calls can continue after their connection is lost
            app = service_unavailable
            log_refusal(cycle.scope["path"], 503, client_address(self))
            cycle.transport = LingeringTransport(self)
        self._response = FastResponse(app, cycle)
        super()._start_asgi_task(cycle, self._response.serve)  # type: ignore[arg-type]

    def give_up(self, status: bytes, reason: str) -> None:
        """Refuse a request that is malformed, too large or too slow, and end the connection."""
        if self.transport.is_closing() or self._ending_since is not None:
            return
        self._cut_off(reason, client_address(self))
        cycle: Any = self.cycle
        if cycle is None or (cycle.response_complete and self._in_head):
            self.transport.write(encode_refusal(status, self.server_state.default_headers))
            self._linger()
        else:
            self.transport.close()

    def end(self) -> None:
        """End the connection after a response, even in the middle of a request."""
        if self._waiting_since is None:
            self.transport.close()
        elif not self.transport.is_closing() and self._ending_since is None:
            self._linger()

    def _linger(self) -> None:
        """Stop writing, but read for a while: closing now would reset the connection before the response is read."""
        self._is_last_request = True
        self._ending_since = self.loop.time()
        self.pipeline.clear()
        self.flow.resume_reading()
        self.transport.write_eof()

    def _count_dropped(self, size: int) -> None:
        self._dropped_bytes += size
        if self._dropped_bytes > bounds.LINGER_BYTES:
            self.transport.abort()

    def is_idle(self, now: float) -> bool:
        """Whether it has been idle for too long."""
        if self._ending_since is not None:
            return now - self._ending_since > bounds.LINGER_TIMEOUT_S
        return self._idle_since is not None and now - self._idle_since > self.timeout_keep_alive

    def is_overdue(self, now: float) -> bool:
        """Whether its request takes too long to arrive."""
        if self._waiting_since is None or self._ending_since is not None:
            return False
        max_s = self._limits.head_s if self._in_head else self._limits.body_s
        return now - self._waiting_since > max_s


def encode_refusal(status: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Encode a response without a body, after which the connection is closed."""
    lines = b"".join(b"%b: %b\r\n" % field for field in headers)
    return b"HTTP/1.1 %b\r\n%bconnection: close\r\ncontent-length: 0\r\n\r\n" % (status, lines)


def client_address(connection: Any) -> str:
    """Return the network address of a caller; empty if it is unknown."""
    client = connection.client
    return client[0] if client else ""
