"""One WebSocket connection of our server, on the sans-I/O core of `websockets`.

Compression is not offered: it would take 300 KB for each connection, and the size of a message would be unknown
until it is decompressed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from hubbub import bounds
from hubbub.errors import ConnectionClosed
from hubbub.protocol.refusal import Refusal
from hubbub.transports.connection_limits import UnreadOutput
from hubbub.transports.request_heads import RequestHead
from hubbub.transports.response_heads import encode_fields
from hubbub.transports.server_context import ServerContext, client_address

_ABNORMAL_CLOSURE: Final = 1006
_POLICY_VIOLATION: Final = 1008
_MESSAGE_TOO_BIG: Final = 1009
_INTERNAL_ERROR: Final = 1011
_INVALID_DATA: Final = 1007
_SWITCHING_PROTOCOLS: Final = 101
_MASK_BYTES: Final = 4
_WRONG_HANDSHAKE: Final = (
    "Invalid WebSocket handshake; send it with HTTP/1.1, and 16 bytes in base64 as Sec-WebSocket-Key"
)


class WebSocketConnection(asyncio.Protocol):
    """A `WebSocketExchange` of our own server, with limits on incomplete messages and unread output."""

    def __init__(self, context: ServerContext, transport: asyncio.Transport, head: RequestHead) -> None:
        self.path = head.path
        self.headers = headers = head.headers
        self.transport = transport
        self._context = context
        address = client_address(transport)
        self.client = context.proxies.client_address(headers, address) if context.proxies else address
        self._protocol = ServerProtocol(max_size=context.limits.message_bytes)
        self._response: Response | None = None
        """The response that accepts the handshake; None once it is sent."""
        self._task: asyncio.Task[None] | None = None
        self._messages: deque[bytes] = deque()
        self._fragments: bytes | bytearray | memoryview | None = None
        self._is_text = False
        self._partial_bytes = 0
        """The bytes of an incomplete frame."""
        self._unfinished_since: float | None = None
        self._is_ended = self._is_read_paused = self._is_write_paused = False
        self._ended_at = 0.0
        self._last_received = context.next_sweep
        self._pinged_at: float | None = None
        """When the ping was sent that has not been answered."""
        self._held_pong: list[bytes] = []
        self._unread_output = UnreadOutput()
        self._wakeup: asyncio.Future[None] | None = None
        """Wakes the endpoint: a message has arrived, the caller reads again, or the connection has ended."""

    @property
    def root_path(self) -> str:
        """Empty: our server serves one app, at the root."""
        return ""

    @property
    def subprotocols(self) -> list[str]:
        """The subprotocols that the caller offers."""
        return [name.strip() for name in (self.headers.get(b"sec-websocket-protocol") or "").split(",") if name.strip()]

    # -- the handshake -------------------------------------------------------------------

    def start(self, head: bytes) -> None:
        """Check the handshake, and let the endpoint decide about it."""
        context = self._context
        context.connections.add(self)
        protocol = self._protocol
        protocol.receive_data(head)
        events = protocol.events_received()
        if not events or not isinstance(events[0], Request):
            self._refuse_malformed(context.heads.refusal(400, _WRONG_HANDSHAKE))
            return
        response = protocol.accept(events[0])
        if response.status_code != _SWITCHING_PROTOCOLS:
            message = (response.body or b"").decode(errors="replace")
            self._refuse_malformed(context.heads.refusal(response.status_code, message))
            return
        self._response = response
        self._pause_reading()  # until it is accepted: data that follows would be parsed as frames
        self._task = context.start_websocket(self)
        self._task.add_done_callback(lambda task: self._end_unless_closed())

    def _refuse_malformed(self, response: bytes) -> None:
        self._context.cut_off("malformed", self.client)
        self._send_and_close(response)

    def _send_and_close(self, response: bytes) -> None:
        self._response = None
        self._is_ended, self._ended_at = True, self._context.next_sweep
        self.transport.write(response)
        self.transport.close()

    async def accept(self, subprotocol: str | None) -> None:
        """Accept the handshake.

        Raises: ConnectionClosed.
        """
        response, self._response = self._response, None
        if response is None or self.transport.is_closing():
            raise ConnectionClosed("The caller disconnected during the handshake")
        if subprotocol is not None:
            response.headers["Sec-WebSocket-Protocol"] = subprotocol
        for name, value in self._context.headers:
            response.headers[name.decode()] = value.decode()
        self._protocol.send_response(response)
        self._flush()
        self._resume_reading()

    async def refuse(self, refusal: Refusal) -> None:
        """Answer the handshake with an HTTP error."""
        if self._response is None or self.transport.is_closing():
            return
        body = refusal.message.encode()
        fields = (
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *refusal.headers,
        )
        self._send_and_close(self._context.heads[refusal.status] + encode_fields(fields) + b"\r\n" + body)

    # -- messages ------------------------------------------------------------------------

    async def receive(self) -> bytes | None:
        """Return the next message; None once the connection has ended."""
        while not self._messages:
            if self._is_ended:
                return None
            self._resume_reading()
            await self._wait()
        return self._messages.popleft()

    async def send(self, message: bytes) -> None:
        """Send a text message; wait while the caller does not read.

        Raises: ConnectionClosed.
        """
        try:
            self._protocol.send_text(message)
        except InvalidState:
            raise ConnectionClosed("The caller has closed the WebSocket") from None
        self._flush()
        while self._is_write_paused and not self._is_ended:
            await self._wait()

    async def close(self, code: int, reason: str = "") -> None:
        """Start the closing handshake; the rest is up to the caller, for a limited time."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(code, reason)
            self._end()

    async def _wait(self) -> None:
        if self._wakeup is None:
            self._wakeup = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._wakeup)

    def _wake(self) -> None:
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            wakeup.set_result(None)

    # -- the transport -------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse frames, and count an incomplete message."""
        if self._is_ended:
            return  # read and dropped, so that the caller can read the close frame
        self._last_received = self._context.next_sweep
        self._pinged_at = None
        self._partial_bytes += len(data)
        protocol = self._protocol
        protocol.receive_data(data)
        for event in protocol.events_received():
            assert isinstance(event, Frame)
            self._partial_bytes -= _frame_bytes(event)
            if not self._handle_frame(event):
                break
        if protocol.parser_exc is not None:
            if protocol.close_sent is not None and protocol.close_sent.code == _MESSAGE_TOO_BIG:
                self._context.cut_off("large_message", self.client)
            self._end()
        elif protocol.state is not State.OPEN:
            self._end()
        else:
            self._flush_pongs()
            self._count_unfinished()

    def _handle_frame(self, frame: Frame) -> bool:
        """Store the content of a frame; return whether later frames are processed."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text = frame.opcode is Opcode.TEXT
            if frame.fin:
                return self._add_message(bytes(frame.data))
            self._fragments = frame.data
        elif frame.opcode is Opcode.CONT and self._fragments is not None:
            # Joined at once: a list of many small fragments would take many times their size.
            if not isinstance(self._fragments, bytearray):
                self._fragments = bytearray(self._fragments)
            self._fragments += frame.data
            if frame.fin:
                message, self._fragments = bytes(self._fragments), None
                return self._add_message(message)
        return True

    def _add_message(self, message: bytes) -> bool:
        if self._is_text and not _is_utf8(message):
            self._protocol.fail(_INVALID_DATA, "A text message must be UTF-8")
            return False
        self._messages.append(message)
        self._unfinished_since = None  # what follows it is another message
        self._pause_reading()
        self._wake()
        return True

    def _count_unfinished(self) -> None:
        size = self._partial_bytes + len(self._fragments or b"")
        self._context.unfinished.update(self, self.client, size)
        if not size and self._fragments is None:
            self._unfinished_since = None
        elif self._unfinished_since is None:
            self._unfinished_since = self._context.next_sweep
        self._context.unfinished.shed()

    def pause_writing(self) -> None:
        """Let `send` wait."""
        self._is_write_paused = True

    def resume_writing(self) -> None:
        """Let `send` continue, and send the pong that was held back."""
        self._is_write_paused = False
        self._unread_output.restart()
        if self._held_pong and not self._is_ended:
            self.transport.write(b"".join(self._held_pong))
        self._held_pong = []
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the endpoint end."""
        self._context.remove(self)
        self._is_ended = True
        self._drop_input()
        self._response = None
        self._wake()

    def _flush(self) -> None:
        output = self._protocol.data_to_send()
        if output and not self.transport.is_closing():
            self.transport.write(b"".join(output))

    def _flush_pongs(self) -> None:
        """Answer pings; while the caller does not read, only the last one (RFC 6455, 5.5.3)."""
        pongs = self._protocol.data_to_send()
        if self._is_write_paused:
            self._held_pong = pongs[-1:] or self._held_pong
        elif pongs:
            self.transport.write(b"".join(pongs))

    def _pause_reading(self) -> None:
        if not self._is_read_paused and not self.transport.is_closing():
            self._is_read_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_read_paused and not self.transport.is_closing():
            self._is_read_paused = False
            self.transport.resume_reading()

    # -- deadlines and the end -------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """End the connection if the caller is too slow; ping it from time to time."""
        limits = self._context.limits
        if self._unread_output.is_stuck(self.transport, now, limits.slow_reader_s):
            self._context.cut_off("slow_reader", self.client)
            self.transport.abort()  # closing would wait until everything is read
        elif self._is_ended:
            if now - self._ended_at > bounds.LINGER_TIMEOUT_S and not self.transport.get_write_buffer_size():
                self.transport.abort()
        elif self._unfinished_since is not None:
            if self._is_read_paused:
                self._unfinished_since = now  # time in which we do not read does not count
            elif now - self._unfinished_since > limits.body_s:
                self._fail(f"The message took longer than {limits.body_s:g} s (body_s)")
        elif self._response is None:
            self._ping(now)

    def _ping(self, now: float) -> None:
        if self._is_read_paused:
            self._last_received, self._pinged_at = now, None
        elif self._pinged_at is not None:
            if now - self._pinged_at > bounds.PONG_TIMEOUT_S:
                self._protocol.fail(_INTERNAL_ERROR, "The client did not answer a ping")
                self._end()
        elif now - self._last_received >= bounds.KEEP_ALIVE_S and not self._is_write_paused:
            self._pinged_at = now
            self._protocol.send_ping(b"")
            self._flush()

    def shed(self) -> None:
        """End the connection to free memory for other callers."""
        self._fail("Too many unfinished messages (max_unfinished_bytes); send again later")

    def _fail(self, reason: str) -> None:
        self._context.unfinished.remove(self)
        if not self._is_ended:
            self._context.cut_off("unfinished_message", self.client)
            self._protocol.fail(_POLICY_VIOLATION, reason)
            self._end()

    def _end(self) -> None:
        """Send what is left, and read for a while: closing now would reset the connection before it is read."""
        if self._is_ended:
            return
        self._is_ended = True
        self._ended_at = self._context.next_sweep
        self._flush()
        self._context.unfinished.remove(self)
        self._drop_input()
        self._wake()
        self._resume_reading()
        if self._protocol.close_rcvd is not None or not self.transport.can_write_eof():
            self.transport.close()
        else:
            self.transport.write_eof()

    def _drop_input(self) -> None:
        """Free an unfinished message now: the parts of the parser refer to each other, so they are freed late."""
        self._fragments = None
        self._protocol.fail(_ABNORMAL_CLOSURE)

    def _end_unless_closed(self) -> None:
        """Close what the endpoint left open."""
        if self._response is not None:
            self._send_and_close(self._context.heads.refusal(500, "Internal error"))
        elif not self._is_ended:
            self._protocol.fail(_INTERNAL_ERROR)
            self._end()

    def shut_down(self) -> None:
        """Refuse a pending handshake. Open connections are closed by the endpoint, after their calls."""
        if self._response is not None:
            self._send_and_close(self._context.heads.refusal(503, "The server is shutting down"))
        elif self._is_ended:
            self.transport.close()


def _frame_bytes(frame: Frame) -> int:
    """Return the size of a client's frame on the wire."""
    size = len(frame.data)
    length_bytes = 0 if size < 126 else 2 if size < 65536 else 8
    return 2 + length_bytes + _MASK_BYTES + size


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


__all__ = ["WebSocketConnection"]
