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
from hubbub.ports import Outgoing, Receiver, as_it_is
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.transports.websocket import SUBPROTOCOLS

if TYPE_CHECKING:
    from hubbub.net.websocket import WebSocket


class WebSocketLink:
    """WebSocket transport to one server at a `ws://` or `wss://` URL."""

    is_http = is_legacy = False

    def __init__(
        self,
        door: HttpClient,
        url: str,
        headers: Callable[[], Awaitable[dict[str, str]]],
        *,
        limit: int,
        on_diagnostic: Callable[[str], Any] | None = None,
        hide: Callable[[Any], Any] = as_it_is,
        backoff: Backoff | None = None,
    ) -> None:
        self.address = url
        self.hide = hide
        self._door = door
        self._url = url
        self._headers = headers
        self._limit = limit
        self._on_diagnostic = on_diagnostic
        self._backoff = backoff or Backoff()
        self._socket: WebSocket | None = None
        self._reader: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._connected = asyncio.Event()
        self._lacks_session = False
        self._asked_to_open: WebSocket | None = None
        """The connection over which the last `initialize` was sent."""
        self._is_closed = False
        self._failure: HubbubError | None = None

    async def start(self, receiver: Receiver) -> None:
        """Open the first connection.

        Raises: TransportError.
        """
        self._receiver = receiver
        await self._open()
        self._reader = asyncio.create_task(self._keep_reading())

    def send_now(self, outgoing: Outgoing) -> bool:
        """Return False: sending may have to wait."""
        return False

    async def exchange(self, outgoing: Outgoing) -> None:
        """Send a request once there is a connection; its response goes to the receiver."""
        socket = await self._ready()
        if outgoing.method == "initialize":
            self._asked_to_open = socket
        elif self._lacks_session and not outgoing.is_stateless:
            raise SessionLost
        await socket.send(outgoing.body)

    async def post(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a notification or a response."""
        await (await self._ready()).send(message)

    def withdraw(self, outgoing: Outgoing, reason: str) -> None:
        """Send a cancellation to the server."""
        if self._socket is not None:
            params = {"requestId": outgoing.id, "reason": reason}
            task = asyncio.create_task(self._tell(encode_notification("notifications/cancelled", params)))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    def settle(self, version: str) -> None:
        """Mark the session as open, unless its connection has broken since."""
        if self._asked_to_open is self._socket:
            self._lacks_session = False

    async def close(self) -> None:
        self._is_closed = True
        self._connected.set()
        tasks = [task for task in (self._reader, *self._telling) if task is not None]
        for task in tasks:
            task.cancel()
        try:
            if self._socket is not None:
                async with asyncio.timeout(bounds.CLOSE_S):
                    await self._socket.close()
        except TimeoutError:
            pass
        finally:  # also when closing is cancelled
            await self._door.close()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.CLOSE_S)

    async def _ready(self) -> WebSocket:
        if not self._connected.is_set():
            await self._connected.wait()
        if self._is_closed:
            raise ConnectionClosed("The client is closed")
        if self._socket is None:
            raise self._failure or ConnectionClosed("The connection is gone")
        return self._socket

    async def _open(self) -> None:
        self._socket = await self._door.open_websocket(
            self._url, headers=await self._headers(), protocols=SUBPROTOCOLS, limit=self._limit
        )
        self._connected.set()

    async def _keep_reading(self) -> None:
        while self._socket is not None:
            socket = self._socket
            while (message := await socket.receive()) is not None:
                self._backoff.reset()
                self._receiver.receive(message)
            self._connected.clear()
            self._socket = None
            self._lacks_session = True
            why = f": {socket.close_reason}" if socket.close_reason else ""
            broke = TransportClosed(f"The connection to the server broke{why}", {"close_code": socket.close_code})
            self._receiver.interrupted(broke)
            await socket.close()
            await self._reopen(broke)

    async def _reopen(self, broke: TransportError) -> None:
        """Try to connect several times, each time after a longer wait; then report the connection as lost."""
        error: HubbubError = broke
        for _ in range(bounds.WEBSOCKET_TRIES):
            self._say("the connection broke and is opened again")
            await asyncio.sleep(self._backoff.next_s())
            try:
                await self._open()
            except HubbubError as failure:
                error = failure
            else:
                return
        self._failure = error
        self._connected.set()
        self._receiver.lost(error)

    async def _tell(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(bounds.CLOSE_S):
                await self.post(message)
        except (HubbubError, TimeoutError):
            self._say("a cancellation could not be sent")

    def _say(self, line: str) -> None:
        if self._on_diagnostic is not None:
            try:
                self._on_diagnostic(line)
            except Exception:  # a user's hook must not break the transport
                return
