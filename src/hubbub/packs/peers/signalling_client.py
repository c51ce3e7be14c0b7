"""The connection to a signalling server: enters a room, and reconnects after a loss.

Implements `signalling.Signalling`. `net.backoff` sets the time of the next attempt, which each loss reports. Messages
that could not be sent are queued, up to a limit, the newest ones.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hubbub import TransportError
from hubbub.pack.http import ANY_ADDRESS, Backoff, HttpClient
from hubbub.packs.peers import limits
from hubbub.packs.peers.failures import SignallingFailed, StreamIdTaken, WireError
from hubbub.packs.peers.javascript import Unreadable, parse, stringify
from hubbub.packs.peers.signalling import Alert, Incoming, Listing, Message, read_message, shown_host

if TYPE_CHECKING:
    from hubbub.pack.http import WebSocket

_TAKEN: Final = "stream id is already in use"


class SignallingClient:
    """Membership in one room at one server."""

    def __init__(self, host: str, room_id: str, stream_id: str, backoff: Backoff | None = None) -> None:
        self.on_message: Callable[[Incoming], None] = _ignore
        self.on_lost: Callable[[str, float], None] = _ignore_both
        self.on_entered: Callable[[], None] = _nothing
        self._host = host
        self._room_id = room_id
        self._stream_id = stream_id
        self._backoff = backoff or Backoff()
        self._door = HttpClient(ANY_ADDRESS)
        self._socket: WebSocket | None = None
        self._outgoing: deque[str] = deque(maxlen=limits.SIGNAL_CLIENT_QUEUE)
        self._early: list[Incoming] = []
        """Messages that arrived while we joined."""
        self._something_to_send = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_up(self) -> bool:
        """Whether we are in the room."""
        return self._socket is not None

    async def enter(self) -> Listing:
        try:
            socket, listing = await self._open()
        except BaseException:
            await self.close()
            raise
        self._socket = socket
        self._keeper = asyncio.create_task(self._keep(socket))
        return listing

    def send(self, message: Message) -> None:
        self._outgoing.append(stringify(message))
        while not self.is_up and len(self._outgoing) > limits.SIGNAL_OFFLINE:
            self._outgoing.popleft()
        self._something_to_send.set()

    async def close(self) -> None:
        self._is_closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()
        await self._door.close()

    # -- joining -----------------------------------------------------------------------

    async def _open(self) -> tuple[WebSocket, Listing]:
        if not self._host.startswith(("ws://", "wss://")):
            raise SignallingFailed(f"invalid host {shown_host(self._host)!r}: it must begin with ws:// or wss://")
        try:
            socket = await self._door.open_websocket(
                self._host, headers={}, protocols=(), limit=limits.SIGNAL_MESSAGE_BYTES
            )
        except TransportError as error:
            raise SignallingFailed(
                f"no signalling server at {shown_host(self._host)} ({error.message}); "
                "run `hubbub signal` or pass `host`"
            ) from error
        try:
            async with asyncio.timeout(limits.SIGNAL_JOIN_S):
                listing = await self._join(socket)
                await self._seed(socket, is_answered=listing.is_seeding)
        except (TimeoutError, TransportError) as error:
            await socket.close()
            raise SignallingFailed(
                f"the signalling server at {shown_host(self._host)} did not let us in in time"
            ) from error
        except BaseException:
            await socket.close()
            raise
        return socket, listing

    async def _join(self, socket: WebSocket) -> Listing:
        await socket.send(stringify({"request": "joinroom", "roomid": self._room_id}).encode())
        while True:
            match await self._next(socket):
                case Listing() as listing:
                    return listing
                case Alert(message, True):
                    raise SignallingFailed(f"the signalling server at {shown_host(self._host)} says: {message}")

    async def _seed(self, socket: WebSocket, *, is_answered: bool) -> None:
        await socket.send(stringify({"request": "seed", "streamID": self._stream_id}).encode())
        try:
            async with asyncio.timeout(None if is_answered else limits.SIGNAL_UNANSWERED_S):
                while True:
                    match await self._next(socket):
                        case "seeded":
                            return
                        case Alert(message) if _TAKEN in message.lower():
                            raise StreamIdTaken("the stream id is already in use in this room; choose another")
                        case Alert(message, True):
                            raise SignallingFailed(f"the signalling server at {shown_host(self._host)} says: {message}")
                        case other if other is not None and not isinstance(other, str):
                            # Drop the rest if a server floods us.
                            if len(self._early) < limits.SIGNAL_CLIENT_QUEUE:
                                self._early.append(other)
        except TimeoutError:
            if is_answered:
                raise

    async def _next(self, socket: WebSocket) -> Incoming | str | None:
        text = await socket.receive()
        if text is None:
            raise SignallingFailed(f"the signalling server at {shown_host(self._host)} closed the connection")
        fields = _parsed(text)
        if isinstance(fields, dict) and fields.get("request") == "seeded":
            return "seeded"
        return _read(fields)

    # -- connected -----------------------------------------------------------------------

    async def _keep(self, socket: WebSocket) -> None:
        while True:
            self._socket = socket
            self._backoff.reset()
            early, self._early = self._early, []
            for message in early:
                self.on_message(message)
            await self._talk(socket)
            self._socket = None
            socket = await self._return()

    async def _talk(self, socket: WebSocket) -> None:
        """Send and receive until the connection breaks."""
        sender = asyncio.create_task(self._keep_sending(socket))
        try:
            while (text := await socket.receive()) is not None:
                message = _read(_parsed(text))
                if message is not None:
                    self.on_message(message)
        finally:
            sender.cancel()
            await asyncio.wait([sender])
            await socket.close()

    async def _keep_sending(self, socket: WebSocket) -> None:
        while True:
            while self._outgoing:
                text = self._outgoing.popleft()
                try:
                    await socket.send(text.encode())
                except TransportError:
                    self._outgoing.appendleft(text)
                    return
            self._something_to_send.clear()
            await self._something_to_send.wait()

    async def _return(self) -> WebSocket:
        reason = "the connection to the signalling server broke"
        while True:
            wait_s = self._backoff.next_s()
            self.on_lost(reason, wait_s)
            await asyncio.sleep(wait_s)
            try:
                socket, listing = await self._open()
            except SignallingFailed as error:
                reason = error.message
                continue
            self._socket = socket
            self.on_entered()
            self.on_message(listing)
            return socket


def _parsed(text: bytes) -> Any:
    try:
        return parse(text)
    except Unreadable:
        return None


def _read(fields: Any) -> Incoming | None:
    try:
        return read_message(fields)
    except WireError:
        return None


def _ignore(_: object) -> None: ...


def _ignore_both(_: object, __: object) -> None: ...


def _nothing() -> None: ...
