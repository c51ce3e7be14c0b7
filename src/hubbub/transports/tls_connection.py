"""TLS for the connections of the HTTP server, with `ssl.SSLObject`, which works the same on every event loop.

asyncio could do it by itself (`create_server(ssl=...)`), but then connections would be counted only after their
handshakes, failed handshakes would not be reported, output that the caller does not read would not be counted, a
connection could not be half-closed, and new certificates would need a new listener.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final

from hubbub import bounds
from hubbub.observe import rate_limit_logger
from hubbub.transports.server_context import ServerContext, client_address
from hubbub.transports.server_tls import TlsFiles

logger = logging.getLogger("hubbub.tls")
rate_limit_logger(logger.name)
_READ_BYTES: Final = 64 * 1024
_PLAIN_HTTP: Final = "HTTP_REQUEST"
"""OpenSSL's reason for a handshake that is an HTTP request."""


class TlsConnection(asyncio.Transport, asyncio.Protocol):
    """The protocol of a TCP connection or Unix socket, and the transport of the `HttpConnection` on it.

    Until the handshake is complete, it is itself one of the server's connections.
    """

    transport: asyncio.Transport
    """The underlying transport, which carries encrypted data."""

    def __init__(
        self, context: ServerContext, files: TlsFiles, make_connection: Callable[[], asyncio.Protocol]
    ) -> None:
        super().__init__()
        self._context = context
        self._make_connection = make_connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = files.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._protocol: asyncio.Protocol | None = None
        """The HTTP or WebSocket connection; None during the handshake."""
        self._started_at = context.next_sweep
        self._client = ""
        self._is_read_paused = False
        self._is_shut_down = False
        """Whether the end of our stream was sent. What still arrives is dropped."""
        self._is_half_closed = self._is_closing = False
        self._dropped_bytes = 0
        self._close_timer: asyncio.TimerHandle | None = None

    # -- the protocol of the underlying transport ----------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the handshake, unless the network of the caller has too many connections."""
        context = self._context
        self.transport = transport
        self._client = client_address(transport)
        if not context.table.admit(transport, self._client):
            context.cut_off("too_many_connections", self._client)
            transport.abort()
            return
        context.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the HTTP connection."""
        if self._close_timer is not None:
            self._close_timer.cancel()
        protocol, self._protocol = self._protocol, None  # they refer to each other
        if protocol is not None:
            protocol.connection_lost(exc)
        elif self in self._context.connections:
            self._fail_handshake("disconnected")
            self._context.remove(self)

    def data_received(self, data: bytes) -> None:
        """Decrypt the data."""
        if self._is_shut_down:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > bounds.REFUSED_BYTES:
                self.transport.abort()
            return
        self._incoming.write(data)
        self._process()

    def eof_received(self) -> None:
        """Let the underlying transport close itself, as without TLS."""
        if self._protocol is not None and not self._is_shut_down:
            self._protocol.eof_received()

    def pause_writing(self) -> None:
        """Pause the HTTP connection, because the caller does not read."""
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Let the HTTP connection continue."""
        if self._protocol is not None:
            self._protocol.resume_writing()

    def _process(self) -> None:
        """Continue the handshake, or pass on what has arrived."""
        if self.is_closing():
            return
        if self._protocol is None and not self._complete_handshake():
            return
        while not self._is_read_paused and not self.is_closing() and not self._is_shut_down:
            try:
                data = self._tls.read(_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                data = b""
            except ssl.SSLError as error:
                self._context.cut_off("malformed", self._client)
                logger.debug("invalid TLS data: %s", error.reason)
                self._flush()  # the alert
                self._close_transport()
                return
            assert self._protocol is not None
            if data:
                self._protocol.data_received(data)
            else:
                self._protocol.eof_received()
                self._send_close()
                self.transport.close()
        self._flush()  # answers of the TLS layer, such as new keys

    def _complete_handshake(self) -> bool:
        """Continue the handshake; return whether it is complete."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        except ssl.SSLError as error:
            if error.reason == _PLAIN_HTTP:
                self.transport.write(self._context.heads.refusal(400, "This port is for https; use https:// or wss://"))
            else:
                self._flush()  # the alert
            self._fail_handshake(error.reason or type(error).__name__)
            self._close_transport()
            return False
        self._flush()
        self._context.remove(self)  # the HTTP connection is counted instead
        self._protocol = self._make_connection()
        self._protocol.connection_made(self)
        return True

    def _fail_handshake(self, reason: str) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._context.cut_off("tls_handshake", self._client)
            logger.debug("TLS handshake failed: %s", reason)

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and not self.transport.is_closing():
            self.transport.write(data)

    # -- a connection of the server, during the handshake ----------------------------------

    def sweep(self, now: float) -> None:
        """End a handshake that takes too long."""
        if now - self._started_at > self._context.limits.head_s:
            self._fail_handshake("timeout")
            self.transport.abort()

    def shed(self) -> None:
        """Close the connection; it has no unfinished message."""
        self.shut_down()

    def shut_down(self) -> None:
        """Close the connection at once: no request has arrived."""
        self._is_closing = True
        self.transport.abort()

    # -- the transport of the HTTP connection ----------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Encrypt and send."""
        if self._is_shut_down or self.transport.is_closing():
            return
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
        self._flush()

    def can_write_eof(self) -> bool:
        """Whether the underlying transport can be half-closed."""
        return self.transport.can_write_eof()

    def write_eof(self) -> None:
        """Send the end of the stream. Data that still arrives is dropped."""
        self._send_close()
        self._is_half_closed = True
        self.transport.write_eof()

    def close(self) -> None:
        """Send what is left and the end of the stream, and close."""
        if not self._is_closing:
            self._send_close()
            self._close_transport()

    def _send_close(self) -> None:
        if not self._is_shut_down and not self.transport.is_closing():
            try:
                self._tls.unwrap()
            except ssl.SSLError:
                pass  # the answer of the caller is missing, or is not the end of its stream
            self._flush()
            self._is_shut_down = True

    def _close_transport(self) -> None:
        """Half-close the underlying transport, and close it when the caller does.

        Most callers answer the end of our stream with theirs. A connection that is closed before that is reset, and a
        caller may then lose a response that has arrived, but has not been read.
        """
        self._is_closing = self._is_shut_down = True
        if self.transport.is_closing():
            return
        if self._is_half_closed or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.transport.resume_reading()
        self._close_later()

    def _close_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._close_timer = loop.call_later(bounds.LINGER_TIMEOUT_S, self._end_close)

    def _end_close(self) -> None:
        if self.transport.get_write_buffer_size():
            self._close_later()  # a slow reader, for which there is another limit
        else:
            self.transport.abort()

    def abort(self) -> None:
        """Close at once, and drop what is left."""
        self.transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self._is_closing or self.transport.is_closing()

    def pause_reading(self) -> None:
        """Read no more than what has arrived."""
        self._is_read_paused = True
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, first what has arrived."""
        self._is_read_paused = False
        self.transport.resume_reading()
        if self._incoming.pending or self._tls.pending():
            asyncio.get_running_loop().call_soon(self._process)

    def is_reading(self) -> bool:
        """Whether data is passed on."""
        return not self._is_read_paused and self.transport.is_reading()

    def get_write_buffer_size(self) -> int:
        """Encrypted bytes that the caller has not read."""
        return self.transport.get_write_buffer_size()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass data on to another protocol."""
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the HTTP or WebSocket connection."""
        assert self._protocol is not None
        return self._protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the TLS object or context, or information about the underlying transport."""
        if name == "ssl_object":
            return self._tls
        return self._tls.context if name == "sslcontext" else self.transport.get_extra_info(name, default)
