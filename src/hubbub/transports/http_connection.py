"""One HTTP/1.1 connection of our server: parses requests, enforces limits, and starts the endpoint for each request.

httptools (llhttp) parses, and refuses almost everything that two parsers could read differently. The rest is refused
here: see docs/http-strictness.md. Deadlines are checked by the sweep of `HttpServer`, once a second for all
connections, so that a request sets no timer.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import deque
from contextlib import suppress
from typing import Final

import httptools

from hubbub import bounds
from hubbub.protocol.refusal import Refusal
from hubbub.transports import request_heads as heads
from hubbub.transports.connection_limits import UnreadOutput
from hubbub.transports.head_reader import HeadReader
from hubbub.transports.http_exchange import ServerExchange
from hubbub.transports.request_heads import RequestHead, Upgrade
from hubbub.transports.request_lines import InvalidLine, RequestLines
from hubbub.transports.server_context import ServerContext, client_address
from hubbub.transports.websocket_connection import WebSocketConnection

logger = logging.getLogger("hubbub.http")

_UNREAD_BODY_BYTES: Final = 64 * 1024
"""Reading pauses when this much of the body has arrived and the endpoint has not asked for it."""


class _Phase(enum.Enum):
    """What a connection waits for; all but BUSY have a time limit."""

    HEAD = enum.auto()
    BODY = enum.auto()
    BUSY = enum.auto()  # the endpoint, which answers a complete request
    IDLE = enum.auto()  # the next request
    LINGER = enum.auto()  # the caller, which has to read the last response and close


_HEAD, _BODY, _BUSY, _IDLE, _LINGER = _Phase


class _Refused(Exception):
    """Stops the parser, after `refuse`."""


class HttpConnection(HeadReader, asyncio.Protocol):
    """One connection. The parser calls the methods that begin with `on_`."""

    __slots__ = (
        "_body", "_content_length", "_current", "_dropped_bytes", "_head", "_incoming", "_is_between_requests",
        "_is_read_paused", "_lines", "_overhead_bytes", "_parser", "_phase", "_phase_start", "_pipeline",
        "_queued_bytes", "_refusal", "_repeats_head", "_template", "_unread_output", "_upgrade", "_writable_waiter",
        "client", "context", "heads", "is_write_paused", "transport",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, context: ServerContext) -> None:
        super().__init__()
        self.context = context
        self.heads = context.heads
        self._parser = httptools.HttpRequestParser(self)
        self._lines = RequestLines()
        self._head: RequestHead | None = None
        """The head of the last request."""
        self._template: heads.HeadTemplate | None = None
        """For requests with the same head, once it was repeated."""
        self._content_length: bytes | None = None
        self._body = b""
        self._incoming: ServerExchange | None = None
        """A request that is being served or queued although its body has not arrived."""
        self._current: ServerExchange | None = None
        """The request whose response is not complete."""
        self._pipeline: deque[ServerExchange] | None = None
        self._refusal: tuple[int, str] | None = None
        """The last response, sent once all earlier requests are answered."""
        self._upgrade: Upgrade | None = None
        self._overhead_bytes = self._queued_bytes = self._dropped_bytes = 0
        self._phase = _HEAD
        self._phase_start = context.next_sweep
        self._is_between_requests = True
        self._is_read_paused = self.is_write_paused = self._repeats_head = False
        self._unread_output = UnreadOutput()
        self._writable_waiter: asyncio.Future[None] | None = None
        self.client = ""

    # -- the transport -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admit the connection, unless its network has too many."""
        self.transport = transport
        context = self.context
        self.client = client_address(transport)
        context.connections.add(self)
        if not context.table.admit(transport, self.client):
            self.refuse(503, "too_many_connections", "Too many connections (max_connections); try again later")
            if len(context.connections) > context.limits.connections:
                transport.close()  # too many to linger until each has read its response

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the endpoint that serves a request; it may continue."""
        self.context.remove(self)
        self._pipeline = self._incoming = None
        self._wake_writer()
        current, self._current = self._current, None
        if current is not None:
            current.handle_disconnect()

    def data_received(self, data: bytes) -> None:
        """Serve a request with the same head as the last one, or parse the data."""
        template, was_idle = self._template, self._phase is _IDLE
        if was_idle:
            if template is not None and not self.is_write_paused and (body := template.match(data)) is not None:
                self._start(ServerExchange(self, template.head, body))
                return
        elif self._phase is _LINGER or self._refusal is not None or self._upgrade is not None:
            self._drop(len(data))
            return
        elif self._pipeline:
            self._queued_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if isinstance(error, httptools.HttpParserCallbackError) and not isinstance(error.__context__, _Refused):
                logger.error("parsing a request failed", exc_info=error)
            if self._refusal is None:
                self.refuse(400, "malformed", f"Malformed HTTP request: {error}")
        except InvalidLine as error:
            self.refuse(400, "malformed", error.message)
            return
        except _Refused:
            return
        if not self._is_in_head and self._incoming is None and self._refusal is None:
            with suppress(_Refused):
                self._start_incomplete()
        elif was_idle and template is None and self._repeats_head and self._current is not None:
            self._template = heads.make_template(data, self._current.body_bytes, self._current.head)

    def _feed(self, data: bytes) -> None:
        """Parse the data, and count bytes outside of bodies: heads, chunk extensions and trailers."""
        lines, limit, start = self._lines, self.context.limits.head_bytes, 0
        while start < len(data):
            end = lines.find_end(data, start, limit // 4)  # such parts are not counted within one piece
            self._overhead_bytes += end - start
            try:
                self._parser.feed_data(data[start:end])
            except httptools.HttpParserUpgrade as upgrade:
                self._end_upgrade(data[start + upgrade.args[0] :])
                return
            if self._overhead_bytes > limit:
                raise self._refuse_head()
            start = end

    def pause_writing(self) -> None:
        """Stop streams and further responses, because the caller does not read."""
        self.is_write_paused = True
        self.update_reading()

    def resume_writing(self) -> None:
        """Continue streams and further responses."""
        self.is_write_paused = False
        self._unread_output.restart()
        self._wake_writer()
        if self._current is None:
            self._start_next()
        self.update_reading()

    async def wait_writable(self) -> None:
        """Wait until the caller has read enough, or is gone."""
        if self._writable_waiter is None:
            self._writable_waiter = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._writable_waiter)

    def _wake_writer(self) -> None:
        waiter, self._writable_waiter = self._writable_waiter, None
        if waiter is not None:
            waiter.set_result(None)

    def update_reading(self) -> None:
        """Pause reading while too much received or sent data waits. A disconnect is noticed only while reading."""
        incoming, waiting = self._incoming, len(self._pipeline or ())
        pauses = self._phase is not _LINGER and (
            (waiting > 0 and 2 * waiting >= self.context.limits.pipelined_requests)
            or self._queued_bytes > _UNREAD_BODY_BYTES
            or self.is_write_paused
            or (incoming is not None and incoming.unwanted_bytes > _UNREAD_BODY_BYTES)
        )
        if pauses != self._is_read_paused and not self.transport.is_closing():
            self._is_read_paused = pauses
            (self.transport.pause_reading if pauses else self.transport.resume_reading)()

    # -- the parser ----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Expect the rest of a head in time."""
        self._is_between_requests = False
        if self._phase is _IDLE:
            self._phase, self._phase_start = _HEAD, self.context.next_sweep

    def _check_trailers(self) -> None:
        if self._trailer_bytes > self.context.limits.head_bytes:
            raise self._refuse_head()

    def on_headers_complete(self) -> None:
        """Check the size and first line of the head, and handle upgrades."""
        if self._overhead_bytes > self.context.limits.head_bytes:
            raise self._refuse_head()
        length, is_chunked = self._fields.get(b"content-length"), b"transfer-encoding" in self._fields
        refusal = self._lines.check(*self._read_raw_head(), length, is_chunked=is_chunked)
        if refusal is not None:
            self.refuse(refusal.status, "malformed", refusal.message)
            raise _Refused
        self._overhead_bytes = 0
        if self._parser.should_upgrade():
            self._begin_upgrade()
        self._is_in_head = False

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body, usually the only one."""
        self._overhead_bytes = 0
        if self._incoming is None and not self._body:
            self._body = body
            return
        incoming = self._incoming or self._start_incomplete()
        if incoming is None:
            raise _Refused
        if incoming.is_complete:
            self._drop(len(body))
        else:
            self._add_body(incoming, body)

    def on_message_complete(self) -> None:
        """Serve a request that has arrived, or end the body of one that is being served."""
        self._lines.end_request()
        self._is_in_head = self._is_between_requests = True
        self._overhead_bytes = self._trailer_bytes = self._dropped_bytes = 0
        exchange = self._incoming
        if exchange is not None:
            self._end_incoming(exchange)
        elif self._upgrade is None or self._upgrade is Upgrade.IGNORED:
            body, self._body = self._body, b""
            exchange = self._make_exchange(body)
            if exchange is None:
                raise _Refused
            self._start_or_queue(exchange)

    # -- requests ------------------------------------------------------------------------

    def _read_raw_head(self) -> heads.RawHead:
        return self._parser.get_method(), self._url, self._parser.get_http_version()

    def _make_exchange(self, body: bytes | None = None) -> ServerExchange | None:
        """Make an exchange of the parsed head; return None if the head is refused, although llhttp accepts it."""
        fields, repeated, head = self._fields, self._repeated_fields, self._head
        raw = self._read_raw_head()
        self._content_length = fields.pop(b"content-length", None)
        self._clear_head()
        self._repeats_head = head is not None and repeated is None and head.is_same(raw, fields)
        if head is None or not self._repeats_head:
            self._template = None
            found = heads.read_head(raw, fields, repeated)
            if isinstance(found, Refusal):
                self.refuse(found.status, "malformed", found.message)
                return None
            head = found
            self._head = head if repeated is None else None
        exchange = ServerExchange(self, head, body)
        if self._upgrade is not None or head.asks_to_close or head.is_http_10 or not self._parser.should_keep_alive():
            exchange.keeps_alive = False
        return exchange

    def _start_incomplete(self) -> ServerExchange | None:
        """Serve a request whose body has not arrived: it may be refused now, or its caller wait for `100 Continue`."""
        body, self._body = self._body, b""
        exchange = self._make_exchange()
        if exchange is None:
            return None
        self._incoming = exchange
        limit = self.context.limits.message_bytes
        if self._content_length is not None and int(self._content_length) > limit:
            exchange.refuse_body(limit)
        elif body:
            self._add_body(exchange, body)
        self._start_or_queue(exchange)
        return exchange

    def _add_body(self, exchange: ServerExchange, body: bytes) -> None:
        """Add a piece of the body, and count the bytes that are kept until the rest has arrived."""
        size = exchange.add_body(body, self.context.limits.message_bytes)
        self.context.unfinished.update(self, self.client, size)
        self.context.unfinished.shed()
        self.update_reading()

    def _end_incoming(self, exchange: ServerExchange) -> None:
        self._incoming = None
        self.context.unfinished.remove(self)
        if not self._parser.should_keep_alive():  # a trailer can change it
            exchange.keeps_alive = False
        exchange.end_body()
        self._set_phase()
        self.update_reading()  # it may have paused for a body that then came with the same data

    def _start_or_queue(self, exchange: ServerExchange) -> None:
        if self._phase is _LINGER or self.transport.is_closing():  # an earlier request was refused
            raise _Refused
        if self._current is None and not self._pipeline and not self.is_write_paused:
            self._start(exchange)
            return
        if self._pipeline is None:
            self._pipeline = deque()
        if len(self._pipeline) >= self.context.limits.pipelined_requests:
            self.refuse(429, "pipelining", "Too many requests wait for a response (max_pipelined_requests); send fewer")
            raise _Refused
        self._pipeline.append(exchange)
        self.update_reading()

    def _start(self, exchange: ServerExchange) -> None:
        self._current = exchange
        self._phase = _BUSY if self._incoming is None else _BODY
        self._phase_start = self.context.next_sweep
        self.context.start(exchange)

    def end_response(self, exchange: ServerExchange) -> None:
        """Continue after a response: with the next request, or by closing."""
        self._current = None
        if exchange.keeps_alive and self._incoming is None and not self._pipeline and self._refusal is None:
            self._phase = _IDLE if self._is_between_requests else _HEAD
            self._phase_start = self.context.next_sweep
            return
        if self._incoming is exchange:
            exchange.drop_body()
            self.context.unfinished.remove(self)
            self.update_reading()
        if exchange.keeps_alive:
            self._start_next()
        elif self._incoming is exchange or self._upgrade is not None:
            self._linger()
        else:
            self.transport.close()

    def _start_next(self) -> None:
        if self._current is not None or self.is_write_paused or self._phase is _LINGER or self.transport.is_closing():
            return
        if self._pipeline:
            self._start(self._pipeline.popleft())
            if not self._pipeline:
                self._queued_bytes = 0
            self.update_reading()
        elif self._refusal is not None:
            self._send_refusal()
        else:
            self._set_phase()

    def _set_phase(self) -> None:
        """Set what the connection waits for, after a response or the end of a body."""
        if self._phase is not _LINGER:
            if self._incoming is not None:
                self._phase = _BODY
            elif self._current is not None:
                self._phase = _BUSY
            else:
                self._phase = _IDLE if self._is_between_requests else _HEAD
            self._phase_start = self.context.next_sweep

    # -- upgrades ------------------------------------------------------------------------

    def _begin_upgrade(self) -> None:
        upgrade = heads.choose_upgrade(self._parser.get_method(), self._list_fields())
        if upgrade is Upgrade.WEBSOCKET and (self._current is not None or self._pipeline):
            upgrade = Refusal(400, "Send a WebSocket handshake after the responses to earlier requests")
        if isinstance(upgrade, Refusal):
            self.refuse(upgrade.status, "malformed", upgrade.message)
            raise _Refused
        self._upgrade = upgrade

    def _end_upgrade(self, rest: bytes) -> None:
        """Continue after the head of an upgrade request, which is the last request unless the upgrade is accepted."""
        if self._upgrade is Upgrade.REPARSED:
            self._upgrade = None
            fields = [field for field in self._list_fields() if field[0] not in (b"upgrade", b"connection")]
            head = heads.encode_head(self._read_raw_head(), [*fields, (b"connection", b"close")])
            self._parser, self._lines = httptools.HttpRequestParser(self), RequestLines()
            self._clear_head()
            self.data_received(head + rest)
        elif self._upgrade is Upgrade.WEBSOCKET:
            if rest:  # a client has to wait for the response (RFC 6455, 4.1)
                self._upgrade = None
                self.refuse(400, "malformed", "Data follows the WebSocket handshake; send it after the response")
            else:
                self._open_websocket()

    def _open_websocket(self) -> None:
        raw, fields = self._read_raw_head(), self._list_fields()
        head = heads.read_head(raw, self._fields, self._repeated_fields)
        if isinstance(head, Refusal):
            self._upgrade = None
            self.refuse(head.status, "malformed", head.message)
            return
        self.context.connections.discard(self)
        socket = WebSocketConnection(self.context, self.transport, head)
        self.transport.set_protocol(socket)
        socket.start(heads.encode_handshake(raw, fields))

    # -- refusals and the end --------------------------------------------------------------

    def refuse(self, status: int, reason: str, message: str) -> None:
        """Refuse the request that is arriving, after the responses to earlier ones, and end the connection."""
        if self._refusal is not None or self._phase is _LINGER or self.transport.is_closing():
            return
        self.context.cut_off(reason, self.client)
        self._refusal = (status, message)
        incoming, self._incoming = self._incoming, None
        self.context.unfinished.remove(self)
        self._body = b""
        if incoming is not None:
            if self._pipeline and self._pipeline[-1] is incoming:
                self._pipeline.pop()
            elif incoming is self._current:
                self._current = None
                incoming.handle_disconnect()
            if incoming.has_responded:  # a refusal would be a second response to the same request
                self.transport.close()
                return
        if self._current is None and not self._pipeline:
            self._send_refusal()

    def _refuse_head(self) -> _Refused:
        limit = self.context.limits.head_bytes
        self.refuse(431, "large_head", f"The request line and headers exceed {limit} bytes (max_head_bytes); send less")
        return _Refused()

    def shed(self) -> None:
        """End the connection to free memory for other callers."""
        self.context.unfinished.remove(self)
        self.refuse(503, "unfinished_message", "Too many unfinished requests (max_unfinished_bytes); try again later")

    def _send_refusal(self) -> None:
        assert self._refusal is not None
        self.transport.write(self.heads.refusal(*self._refusal))
        self._linger()

    def _linger(self) -> None:
        """Stop writing, but read for a while: closing now would reset the connection before the response is read."""
        self._phase, self._phase_start = _LINGER, self.context.next_sweep
        self._pipeline = None
        self.update_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _drop(self, size: int) -> None:
        self._dropped_bytes += size
        if self._dropped_bytes > (bounds.LINGER_BYTES if self._refusal is None else bounds.REFUSED_BYTES):
            self.transport.abort()

    def sweep(self, now: float) -> None:
        """End the connection if the caller is too slow; keep an idle stream alive."""
        limits, waited_s = self.context.limits, now - self._phase_start
        if self._unread_output.is_stuck(self.transport, now, limits.slow_reader_s):
            self.context.cut_off("slow_reader", self.client)
            self.transport.abort()  # closing would wait until everything is read
        elif self._phase is _IDLE:
            self._head = self._template = None  # to save memory
            if waited_s > limits.idle_s:
                self.transport.close()
        elif self._phase is _LINGER:
            if waited_s > bounds.LINGER_TIMEOUT_S and not self.transport.get_write_buffer_size():
                self.transport.abort()
        elif self._phase is not _BUSY and self._is_read_paused:
            self._phase_start = now  # time in which we do not read does not count
        elif self._phase is _HEAD and waited_s > limits.head_s:
            self.refuse(408, "slow_sender", f"The request head took over {limits.head_s:g} s (head_s); send it at once")
        elif self._phase is _BODY and waited_s > limits.body_s:
            self.refuse(408, "slow_sender", f"The request body took over {limits.body_s:g} s (body_s); send it faster")
        if self._current is not None:
            self._current.keep_alive(now, bounds.KEEP_ALIVE_S)

    def shut_down(self) -> None:
        """Close the connection, after the response to the request that is being served."""
        if self._current is None:
            self.transport.close()
        else:
            self._pipeline = None
            self._current.keeps_alive = False
