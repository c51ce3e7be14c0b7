"""The connection to a signalling server: enters a room, and reconnects after a loss.

Implements `signalling.Signalling`. A `Backoff` sets the time of the next attempt, which each loss reports. Messages
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
from hubbub.packs.peers.errors import SignallingFailed, StreamIdTaken, WireError
from hubbub.packs.peers.js_json import JsonError, parse, stringify
from hubbub.packs.peers.signalling import Alert, IncomingMessage, Listing, OutgoingMessage, read_message, redact_host

if TYPE_CHECKING:
    from hubbub.pack.http import WebSocket

_STREAM_ID_TAKEN: Final = "stream id is already in use"


class SignallingClient:
    """Membership in one room at one server."""

    def __init__(self, host: str, room_id: str, stream_id: str, backoff: Backoff | None = None) -> None:
        self.on_message: Callable[[IncomingMessage], None] = _ignore
        self.on_lost: Callable[[str, float], None] = _ignore_both
        self.on_rejoined: Callable[[], None] = _do_nothing
        self._host = host
        self._room_id = room_id
        self._stream_id = stream_id
        self._backoff = backoff or Backoff()
        self._http_client = HttpClient(ANY_ADDRESS)
        self._socket: WebSocket | None = None
        self._outgoing: deque[str] = deque(maxlen=limits.SIGNAL_CLIENT_QUEUE)
        self._early_messages: list[IncomingMessage] = []
        """Messages that arrived while we joined."""
        self._outgoing_added = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_joined(self) -> bool:
        """Whether we are in the room."""
        return self._socket is not None

    async def join(self) -> Listing:
        try:
            socket, listing = await self._open()
        except BaseException:
            await self.close()
            raise
        self._socket = socket
        self._task = asyncio.create_task(self._run(socket))
        return listing

    def send(self, message: OutgoingMessage) -> None:
        self._outgoing.append(stringify(message))
        while not self.is_joined and len(self._outgoing) > limits.SIGNAL_OFFLINE_MESSAGES:
            self._outgoing.popleft()
        self._outgoing_added.set()

    async def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()
        await self._http_client.close()

    # -- joining -----------------------------------------------------------------------

    async def _open(self) -> tuple[WebSocket, Listing]:
        if not self._host.startswith(("ws://", "wss://")):
            raise SignallingFailed(f"invalid host {redact_host(self._host)!r}: it must begin with ws:// or wss://")
        try:
            socket = await self._http_client.open_websocket(
                self._host, headers={}, protocols=(), limit=limits.SIGNAL_MESSAGE_BYTES
            )
        except TransportError as error:
            raise SignallingFailed(
                f"no signalling server at {redact_host(self._host)} ({error.message}); "
                "start one with `hubbub signal`, or pass another `host`"
            ) from error
        try:
            async with asyncio.timeout(limits.SIGNAL_JOIN_S):
                listing = await self._join(socket)
                await self._seed(socket, is_confirmed=listing.confirms_seed)
        except (TimeoutError, TransportError) as error:
            await socket.close()
            raise SignallingFailed(
                f"the signalling server at {redact_host(self._host)} did not confirm the join; try again later"
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
                    raise SignallingFailed(f"the signalling server at {redact_host(self._host)} refused: {message}")

    async def _seed(self, socket: WebSocket, *, is_confirmed: bool) -> None:
        await socket.send(stringify({"request": "seed", "streamID": self._stream_id}).encode())
        try:
            async with asyncio.timeout(None if is_confirmed else limits.SIGNAL_SEED_REFUSAL_S):
                while True:
                    match await self._next(socket):
                        case "seeded":
                            return
                        case Alert(message) if _STREAM_ID_TAKEN in message.lower():
                            raise StreamIdTaken("the stream id is already in use in this room; choose another")
                        case Alert(message, True):
                            raise SignallingFailed(
                                f"the signalling server at {redact_host(self._host)} refused: {message}"
                            )
                        case other if other is not None and not isinstance(other, str):
                            # Drop the rest if a server floods us.
                            if len(self._early_messages) < limits.SIGNAL_CLIENT_QUEUE:
                                self._early_messages.append(other)
        except TimeoutError:
            if is_confirmed:
                raise

    async def _next(self, socket: WebSocket) -> IncomingMessage | str | None:
        text = await socket.receive()
        if text is None:
            raise SignallingFailed(f"the signalling server at {redact_host(self._host)} closed the connection")
        fields = _parse_or_none(text)
        if isinstance(fields, dict) and fields.get("request") == "seeded":
            return "seeded"
        return _read_or_none(fields)

    # -- connected -----------------------------------------------------------------------

    async def _run(self, socket: WebSocket) -> None:
        while True:
            self._socket = socket
            self._backoff.reset()
            early, self._early_messages = self._early_messages, []
            for message in early:
                self.on_message(message)
            await self._receive_until_closed(socket)
            self._socket = None
            socket = await self._reconnect()

    async def _receive_until_closed(self, socket: WebSocket) -> None:
        """Send and receive until the connection breaks."""
        sender = asyncio.create_task(self._keep_sending(socket))
        try:
            while (text := await socket.receive()) is not None:
                message = _read_or_none(_parse_or_none(text))
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
            self._outgoing_added.clear()
            await self._outgoing_added.wait()

    async def _reconnect(self) -> WebSocket:
        reason = "the connection to the signalling server was lost"
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
            self.on_rejoined()
            self.on_message(listing)
            return socket


def _parse_or_none(text: bytes) -> Any:
    try:
        return parse(text)
    except JsonError:
        return None


def _read_or_none(fields: Any) -> IncomingMessage | None:
    try:
        return read_message(fields)
    except WireError:
        return None


def _ignore(_: object) -> None: ...


def _ignore_both(_: object, __: object) -> None: ...


def _do_nothing() -> None: ...
