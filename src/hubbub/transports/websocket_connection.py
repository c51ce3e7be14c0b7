"""One WebSocket connection of the server: uvicorn's, with the limits that uvicorn lacks.

uvicorn limits the size of one message, but neither its duration, nor the size of all incomplete
messages, nor the pongs for a caller that sends pings and reads nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from hubbub import bounds
from hubbub.transports.connection_limits import UnreadOutput
from hubbub.transports.http_connection import (
    BAD_REQUEST,
    SERVICE_UNAVAILABLE,
    BoundedConfig,
    client_address,
    encode_refusal,
)
from hubbub.transports.uvicorn_parts import WebSocketsSansIOProtocol

_ABNORMAL: Final = 1006
_POLICY_VIOLATION: Final = 1008
_MESSAGE_TOO_BIG: Final = 1009


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket connection with limits on the time and total size of incomplete messages, and on unread output."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert isinstance(self.config, BoundedConfig)
        self._limits, self._cut_off = self.config.limits, self.config.cut_off
        self._unfinished = self.config.unfinished
        self._unfinished_since: float | None = None
        self._pong = b""
        self.unread = UnreadOutput()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the incomplete message now: parser and connection refer to each other, so they are freed late."""
        super().connection_lost(exc)
        assert isinstance(self.config, BoundedConfig)
        self.config.table.remove(self.transport)
        self._clear_unfinished()
        self.conn.parser.close()

    def data_received(self, data: bytes) -> None:
        """Parse the data, and count an incomplete message."""
        if self.disconnected:
            return  # closed: data is read and dropped, so that the caller can read the close frame
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            # `websockets` refuses some handshakes by itself, which uvicorn does not notice.
            self._refuse(b"".join(self.conn.data_to_send()) or encode_refusal(BAD_REQUEST, self.default_headers))
            return
        size = len(self.conn.reader.buffer) + (self.conn.current_size or 0)
        self._unfinished.update(self, client_address(self), size)
        if not size and self.conn.current_size is None:
            self._unfinished_since = None
        elif self._unfinished_since is None:
            self._unfinished_since = self.loop.time()
        self._unfinished.shed()

    def shed(self) -> None:
        """End the connection to free memory for other callers."""
        self.give_up("Too many unfinished messages; send again later")

    def handle_cont(self, event: Any) -> None:
        """Join fragments at once: a list of many small ones would take many times their size."""
        joined = _join(self.frames[0], event.data)
        self.frames = [bytes(joined) if event.fin else joined]  # type: ignore[list-item]
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        """Pass on a complete message."""
        self._unfinished_since = None
        super().send_receive_event_to_app()

    def is_overdue(self, now: float) -> bool:
        """Whether its message takes too long to arrive; time in which we do not read does not count."""
        if self._unfinished_since is not None and self.read_paused:
            self._unfinished_since = now
        return self._unfinished_since is not None and now - self._unfinished_since > self._limits.body_s

    def give_up(self, reason: str) -> None:
        """End a connection whose message did not arrive in time."""
        if self.transport.is_closing():
            self._clear_unfinished()
            return
        self._cut_off("unfinished_message", client_address(self))
        self.conn.fail(_POLICY_VIOLATION, reason)
        self._end()

    def handle_parser_exception(self) -> None:
        """End a connection whose parser found a violation of the protocol or a limit."""
        assert self.conn.close_sent is not None
        if self.conn.close_sent.code == _MESSAGE_TOO_BIG:
            self._cut_off("large_message", client_address(self))
        self._end()

    def _end(self) -> None:
        """Send the reason, and read for a while: closing now would reset the connection before it is read."""
        close = self.conn.close_sent
        self.queue.put_nowait({"type": "websocket.disconnect", "code": close.code if close else _ABNORMAL})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = self.disconnected = True
        self.writable.set()
        self._clear_unfinished()
        self.stop_keepalive()
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        if self.close_timer is not None:
            self.close_timer.cancel()
        self.close_timer = self.loop.call_later(bounds.LINGER_TIMEOUT_S, self.transport.close)
        self.transport.write_eof()

    def _clear_unfinished(self) -> None:
        self._unfinished.update(self, "", 0)
        self._unfinished_since = None
        self.frames = []
        self.conn.reader.discard()

    def handle_ping(self) -> None:
        """Answer a ping; while the caller does not read, only the last one (RFC 6455, 5.5.3)."""
        pongs = self.conn.data_to_send()
        if pongs and not self.writable.is_set():
            self._pong = pongs[-1]
        else:
            self.transport.write(b"".join(pongs))

    def resume_writing(self) -> None:
        """Send the pong that was held back."""
        super().resume_writing()
        pong, self._pong = self._pong, b""
        if pong and not self.disconnected:
            self.transport.write(pong)

    def _refuse(self, response: bytes) -> None:
        self.handshake_complete = True
        self.transport.write(response)
        self.transport.close()

    def handle_connect(self, event: Any) -> None:
        """Pause reading until the handshake is decided: further data would be parsed as if it were accepted."""
        super().handle_connect(event)
        if not self.handshake_complete:
            self.transport.pause_reading()

    async def send(self, message: Any) -> None:
        """Send a message; for a refusal, add our headers and complete the handshake, which uvicorn does not."""
        kind = message["type"]
        if kind == "websocket.accept" and not self.transport.is_closing():
            self.transport.resume_reading()
        if kind == "websocket.http.response.start":
            message = {**message, "headers": [*self.default_headers, *message.get("headers", ())]}
        await super().send(message)
        if kind == "websocket.http.response.body":
            self.handshake_complete = True

    def shutdown(self) -> None:
        """Refuse pending handshakes at shutdown. Open connections are closed by the app, after their calls."""
        if not self.handshake_complete:
            self._refuse(encode_refusal(SERVICE_UNAVAILABLE, self.default_headers))
        elif self.disconnected:
            self.transport.close()


def _join(start: bytes | bytearray, more: bytes) -> bytearray:
    joined = start if isinstance(start, bytearray) else bytearray(start)
    joined += more
    return joined
