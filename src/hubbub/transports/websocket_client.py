"""The client's end of a WebSocket: one message a frame, subprotocol `mcp.v1`.

A connection that breaks is opened again, each time after a longer wait. What was open is
lost with it, and so is a legacy session: the next request of one is refused as such, so
that the client starts a new session first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from hubbub import bounds
from hubbub.errors import ConnectionClosed, HubbubError, SessionLost, TransportError
from hubbub.net.backoff import Backoff
from hubbub.net.door import Door, Socket
from hubbub.ports import Outgoing, Receiver, as_it_is
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.transports.websocket import SUBPROTOCOLS

_TRIES: Final = 8


class WebSocketLink:
    """One server at one `ws://` or `wss://` URL."""

    is_http = is_legacy = False

    def __init__(
        self,
        door: Door,
        url: str,
        headers: Callable[[], Awaitable[dict[str, str]]],
        *,
        limit: int = bounds.RESPONSE_BYTES,
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
        self._socket: Socket | None = None
        self._reader: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._connected = asyncio.Event()
        self._lacks_session = False
        self._asked_to_open: Socket | None = None
        """The connection that the last `initialize` went over."""
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
        """Never: sending may take a while."""
        return False

    async def exchange(self, outgoing: Outgoing) -> None:
        """Send a request, once there is a connection; its answer will come."""
        socket = await self._ready()
        if outgoing.method == "initialize":
            self._asked_to_open = socket
        elif self._lacks_session and not outgoing.is_stateless:
            raise SessionLost
        await socket.send(outgoing.body)

    async def post(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a notification or an answer."""
        await (await self._ready()).send(message)

    def withdraw(self, outgoing: Outgoing, reason: str) -> None:
        """Tell the server to stop."""
        if self._socket is not None:
            params = {"requestId": outgoing.id, "reason": reason}
            task = asyncio.create_task(self._tell(encode_notification("notifications/cancelled", params)))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    def settle(self, version: str) -> None:
        """There is a session, unless its connection is gone already."""
        if self._asked_to_open is self._socket:
            self._lacks_session = False

    async def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        self._connected.set()
        tasks = [task for task in (self._reader, *self._telling) if task is not None]
        for task in tasks:
            task.cancel()
        if self._socket is not None:
            try:
                async with asyncio.timeout(bounds.CLOSE_S):
                    await self._socket.close()
            except TimeoutError:
                pass
        await self._door.close()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.CLOSE_S)

    async def _ready(self) -> Socket:
        if not self._connected.is_set():
            await self._connected.wait()
        if self._is_closed:
            raise ConnectionClosed("The client is closed")
        if self._socket is None:
            raise self._failure or ConnectionClosed("The connection is gone")
        return self._socket

    async def _open(self) -> None:
        self._socket = await self._door.open_socket(
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
            broke = TransportError(
                "TRANSPORT_CLOSED", "The connection to the server broke", {"close_code": socket.close_code}
            )
            self._receiver.interrupted(broke)
            await socket.close()
            await self._reopen(broke)

    async def _reopen(self, broke: TransportError) -> None:
        """Try again, and again later; in the end give up."""
        error: HubbubError = broke
        for _ in range(_TRIES):
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
            except Exception:  # A hook of the user's must not stop anything.
                return
