"""WebSocket client: the opening handshake over a socket that `hubbub.net.pool` has connected, and messages.

The handshake is one request and one response, so a redirect is an error. No compression, no cookies, no proxies.
Owns the library `websockets`, which is loaded with the first WebSocket.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from websockets.asyncio.client import ClientConnection
from websockets.client import ClientProtocol
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)
from websockets.frames import CloseCode, Frame, Opcode
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from hubbub import bounds
from hubbub.errors import ConnectionFailed, HttpError, TransportError
from hubbub.net.connection import broken_error
from hubbub.net.redirects import describe_redirect

_SILENT_LOGGER: Final = logging.Logger("hubbub.net.websocket", logging.CRITICAL + 1)
"""The library logs the headers of the handshake, which may hold secrets."""
_REDIRECT_STATUSES: Final = range(300, 400)


class _Connection(ClientConnection):
    """Closes itself at once if the server violates the protocol, or sends pings without reading our pongs."""

    _unread_pongs = 0

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.protocol.parser_exc is not None and not self.transport.is_closing():
            # The library would wait until the server closes the connection, and so would our callers.
            self.transport.close()
            self.loop.call_later(bounds.CLOSE_TIMEOUT_S, self.transport.abort)

    def process_event(self, event: Any) -> None:
        if self.paused and isinstance(event, Frame) and event.opcode is Opcode.PING:
            self._unread_pongs += 1
            if self._unread_pongs > bounds.UNREAD_PONGS:
                self.transport.abort()
        super().process_event(event)

    def resume_writing(self) -> None:
        self._unread_pongs = 0
        super().resume_writing()


class WebSocket:
    """An open WebSocket."""

    def __init__(self, connection: ClientConnection, limit: int) -> None:
        self._connection = connection
        self._limit = limit

    @property
    def protocol(self) -> str | None:
        """The subprotocol that the server chose."""
        return self._connection.subprotocol

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed."""
        return self._connection.connection_lost_waiter.done()

    async def send(self, message: bytes) -> None:
        """Send one text message, as UTF-8.

        Raises: TransportError.
        """
        try:
            await self._connection.send(message, text=True)
        except (WebSocketException, OSError) as error:
            raise broken_error(type(error).__name__) from error

    async def receive(self) -> bytes | None:
        """Return the next message, without checking its UTF-8; None after the connection was closed."""
        try:
            return await self._connection.recv(decode=False)
        except (ConnectionClosed, OSError):
            return None

    @property
    def close_code(self) -> int | None:
        """The close code of the server, once it was closed."""
        return self._connection.close_code

    @property
    def close_reason(self) -> str:
        """Why it was closed on this side, if the server sent something invalid; empty otherwise."""
        close_frame = self._connection.protocol.close_sent
        if close_frame is not None and close_frame.code == CloseCode.MESSAGE_TOO_BIG:
            return f"the server sent a message of more than {self._limit} bytes"
        if close_frame is not None and close_frame.code in (CloseCode.PROTOCOL_ERROR, CloseCode.INVALID_DATA):
            return "the server violated the WebSocket protocol"
        return ""

    async def close(self) -> None:
        """Close it; wait a short time for the server's close frame."""
        await self._connection.close()

    def abort(self) -> None:
        """Drop the connection at once."""
        self._connection.transport.abort()


def make_connection(url: str, protocols: Sequence[str], limit: int) -> ClientConnection:
    """Create the asyncio protocol for a connection that is about to be opened.

    Raises:
        ValueError: it is not a WebSocket URL.
    """
    subprotocols = [Subprotocol(name) for name in protocols] or None
    try:
        uri = parse_uri(url)
    except WebSocketException:
        raise ValueError("not a WebSocket URL") from None
    return _Connection(
        ClientProtocol(uri, subprotocols=subprotocols, max_size=limit, logger=_SILENT_LOGGER),
        ping_interval=bounds.KEEP_ALIVE_S,
        ping_timeout=bounds.KEEP_ALIVE_S,
        close_timeout=bounds.CLOSE_TIMEOUT_S,
        max_queue=bounds.WEBSOCKET_FRAMES,
    )


async def perform_handshake(
    connection: ClientConnection, url: str, headers: Mapping[str, str], limit: int
) -> WebSocket:
    """Send the opening handshake and check the response.

    Raises:
        TransportError: the server does not open a WebSocket.
        OSError: the connection broke.
    """
    try:
        await connection.handshake(headers, user_agent_header=None)
    except BaseException as error:
        connection.transport.abort()
        match error:
            case InvalidStatus():
                raise _handshake_error(url, error) from error
            case InvalidMessage() | EOFError():
                raise ConnectionResetError("no response to the handshake") from error
            case InvalidHandshake():
                description = f"The server did not open a WebSocket: its handshake is invalid ({type(error).__name__})"
                raise ConnectionFailed(description, may_have_executed=False) from error
        raise
    opened = WebSocket(connection, limit)
    if not opened.is_closed:  # data that came with the response may already have closed it
        connection.start_keepalive()
    return opened


def _handshake_error(url: str, error: InvalidStatus) -> TransportError:
    status = error.response.status_code
    description = f"The server did not open a WebSocket (status {status})"
    if status in _REDIRECT_STATUSES:
        description = describe_redirect(url, status, error.response.headers.get("Location", ""))
    headers = error.response.headers
    names = (("www_authenticate", "WWW-Authenticate"), ("dpop_nonce", "DPoP-Nonce"))
    data = {name: ", ".join(headers.get_all(header)) for name, header in names if header in headers}
    return HttpError(description, status, data, may_have_executed=False)
