"""The client side of WebSockets: one message per frame, subprotocol `mcp.v1`.

A broken connection is opened again, each time after a longer wait. Pending requests are lost
with it, and so is a legacy session: its next request fails with `SessionLost`, so that the
client opens a new session first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from hubbub import bounds
from hubbub.errors import ConnectionClosed, HubbubError, SessionLost, TransportClosed, TransportError
from hubbub.net.backoff import Backoff
from hubbub.net.client import HttpClient
from hubbub.ports import OutgoingRequest, Receiver, hide_nothing
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.transports.websocket import SUBPROTOCOLS

if TYPE_CHECKING:
    from hubbub.net.websocket import WebSocket


class WebSocketTransport:
    """WebSocket transport to one server at a `ws://` or `wss://` URL."""

    is_http = is_legacy = False

    def __init__(
        self,
        http_client: HttpClient,
        url: str,
        headers: Callable[[], Awaitable[dict[str, str]]],
        *,
        limit: int,
        on_diagnostic: Callable[[str], Any] | None = None,
        hide: Callable[[Any], Any] = hide_nothing,
        backoff: Backoff | None = None,
    ) -> None:
        self.address = url
        self.hide = hide
        self._http_client = http_client
        self._url = url
        self._headers = headers
        self._limit = limit
        self._on_diagnostic = on_diagnostic
        self._backoff = backoff or Backoff()
        self._socket: WebSocket | None = None
        self._reader: asyncio.Task[None] | None = None
        self._cancellations: set[asyncio.Task[None]] = set()
        self._connected = asyncio.Event()
        self._lacks_session = False
        self._initialize_socket: WebSocket | None = None
        """The connection over which the last `initialize` was sent."""
        self._is_closed = False
        self._failure: HubbubError | None = None

    async def start(self, receiver: Receiver) -> None:
        """Open the first connection.

        Raises: TransportError.
        """
        self._receiver = receiver
        await self._open()
        self._reader = asyncio.create_task(self._read_messages())

    def send_nowait(self, outgoing: OutgoingRequest) -> bool:
        """Return False: sending may have to wait."""
        return False

    async def send_request(self, outgoing: OutgoingRequest) -> None:
        """Send a request once there is a connection; its response goes to the receiver."""
        socket = await self._wait_connected()
        if outgoing.method == "initialize":
            self._initialize_socket = socket
        elif self._lacks_session and not outgoing.is_stateless:
            raise SessionLost
        await socket.send(outgoing.body)

    async def send_message(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a notification or a response."""
        await (await self._wait_connected()).send(message)

    def cancel_request(self, outgoing: OutgoingRequest, reason: str) -> None:
        """Send a cancellation to the server."""
        if self._socket is not None:
            params = {"requestId": outgoing.id, "reason": reason}
            task = asyncio.create_task(self._send_cancellation(encode_notification("notifications/cancelled", params)))
            self._cancellations.add(task)
            task.add_done_callback(self._cancellations.discard)

    def finish_handshake(self, version: str) -> None:
        """Mark the session as open, unless its connection has broken since."""
        if self._initialize_socket is self._socket:
            self._lacks_session = False

    async def close(self) -> None:
        self._is_closed = True
        self._connected.set()
        tasks = [task for task in (self._reader, *self._cancellations) if task is not None]
        for task in tasks:
            task.cancel()
        try:
            if self._socket is not None:
                async with asyncio.timeout(bounds.CLOSE_TIMEOUT_S):
                    await self._socket.close()
        except TimeoutError:
            pass
        finally:  # also when closing is cancelled
            await self._http_client.close()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.CLOSE_TIMEOUT_S)

    async def _wait_connected(self) -> WebSocket:
        if not self._connected.is_set():
            await self._connected.wait()
        if self._is_closed:
            raise ConnectionClosed("The client is closed")
        if self._socket is None:
            raise self._failure or ConnectionClosed("The connection is lost")
        return self._socket

    async def _open(self) -> None:
        self._socket = await self._http_client.open_websocket(
            self._url, headers=await self._headers(), protocols=SUBPROTOCOLS, limit=self._limit
        )
        self._connected.set()

    async def _read_messages(self) -> None:
        while self._socket is not None:
            socket = self._socket
            while (message := await socket.receive()) is not None:
                self._backoff.reset()
                self._receiver.receive(message)
            self._connected.clear()
            self._socket = None
            self._lacks_session = True
            detail = f": {socket.close_reason}" if socket.close_reason else ""
            closed_error = TransportClosed(
                f"The connection to the server broke{detail}", {"close_code": socket.close_code}
            )
            self._receiver.transport_interrupted(closed_error)
            await socket.close()
            await self._reopen(closed_error)

    async def _reopen(self, closed_error: TransportError) -> None:
        """Try to connect several times, each time after a longer wait; then report the connection as lost."""
        error: HubbubError = closed_error
        for _ in range(bounds.WEBSOCKET_RECONNECTS):
            self._report_diagnostic("the connection broke; reconnecting")
            await asyncio.sleep(self._backoff.next_s())
            try:
                await self._open()
            except HubbubError as failure:
                error = failure
            else:
                return
        self._failure = error
        self._connected.set()
        self._receiver.transport_lost(error)

    async def _send_cancellation(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(bounds.CLOSE_TIMEOUT_S):
                await self.send_message(message)
        except (HubbubError, TimeoutError):
            self._report_diagnostic("a cancellation could not be sent")

    def _report_diagnostic(self, line: str) -> None:
        if self._on_diagnostic is not None:
            try:
                self._on_diagnostic(line)
            except Exception:  # a user's hook must not break the transport
                return
