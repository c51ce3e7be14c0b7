"""VDO.Ninja's SDK, emulated: signalling, at most two connections per peer, and which channel it sends on.

The publisher of a stream offers, its viewer answers. A peer may be connected in both directions at once; all messages
to it, including pongs, then use the channel on which we are the publisher. A publisher labels its
viewer's connection with its *own* stream id.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Literal, Protocol

import webrtc
from tests.packs.peers.emulation.crypto import RoomCipher, to_json
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

ConnectionType = Literal["publisher", "viewer"]
LABEL = "sendChannel"
JOIN_S = 10.0
VIEW_AGAIN_S = 2.0
VIEW_AFTER_ARRIVAL_S = 0.1
DROPPED_TYPES = ("subscribe", "unsubscribe", "channelMessage", "request", "response")


class PeerConnection:
    """One connection to one peer, in one of the two directions."""

    def __init__(self, uuid: str, type: ConnectionType, stream_id: str, session: str) -> None:
        self.uuid = uuid
        self.type = type
        self.stream_id = stream_id
        """Of the stream that is viewed: the peer's name for a viewer, our own for a publisher."""
        self.session = session
        self.native = webrtc.RTCPeerConnection(webrtc.RTCConfiguration(ice_servers=[]))
        self.channel: Any = None
        self.is_open = False
        self.is_closed = False
        self.is_described = False
        self.early_candidates: list[dict[str, Any]] = []
        self.pings: list[Any] = []
        """Pings that arrived on this connection."""
        self.pongs = 0
        """Number of pongs that arrived on this connection."""

    def send(self, frame: dict[str, Any]) -> None:
        self.channel.send(to_json(frame))

    def close(self) -> None:
        self.is_open, self.is_closed = False, True
        self.native.close()

    async def describe(self) -> dict[str, Any]:
        """The local description with all addresses."""
        complete = asyncio.Event()
        self.native.on("icegatheringstatechange", lambda _: complete.set())
        is_offer = self.type == "publisher"
        await self.native.set_local_description(
            await (self.native.create_offer() if is_offer else self.native.create_answer())
        )
        while self.native.ice_gathering_state.value != "complete":
            complete.clear()
            await complete.wait()
        assert self.native.local_description is not None
        return {"type": "offer" if is_offer else "answer", "sdp": self.native.local_description.sdp}

    async def set_description(self, description: dict[str, Any]) -> None:
        await self.native.set_remote_description(
            webrtc.RTCSessionDescriptionInit(description["type"], description["sdp"])
        )
        self.is_described = True
        early, self.early_candidates = self.early_candidates, []
        await self.add_candidates(early)

    async def add_candidates(self, candidates: list[dict[str, Any]]) -> None:
        if not self.is_described:
            self.early_candidates += candidates
            return
        for each in candidates:
            await self.native.add_ice_candidate(
                webrtc.RTCIceCandidateInit(
                    candidate=each["candidate"],
                    sdp_mid=each["sdpMid"],
                    sdp_m_line_index=each["sdpMLineIndex"],
                )
            )


class SdkListener(Protocol):
    """Callbacks of the bridge."""

    def channel_opened(self, connection: PeerConnection) -> None: ...

    def channel_closed(self, connection: PeerConnection) -> None: ...

    def data_received(self, connection: PeerConnection, data: Any) -> None: ...


class Sdk:
    """One client in one room."""

    def __init__(
        self, listener: SdkListener, host: str, room: str, stream_id: str, *, accepts_unasked_offers: bool = True
    ) -> None:
        self.connections: dict[tuple[str, ConnectionType], PeerConnection] = {}
        self.members: dict[str, str] = {}
        """By uuid, the stream ids that the server listed."""
        self.unasked_offers = 0
        self.is_hung = False
        """Set by tests: neither reads nor writes its channels, like a stopped process."""
        self._listener = listener
        self._host, self._room, self._stream_id = host, room, stream_id
        self._accepts_unasked_offers = accepts_unasked_offers
        self._cipher = RoomCipher()
        self._viewed: set[str] = set()
        self._socket: ClientConnection
        self._reader: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- joining and leaving -----------------------------------------------------------------

    async def connect(self) -> None:
        """Connect, join the room and publish our stream."""
        self._socket = await connect(self._host)
        await self._send_signal({"request": "joinroom", "roomid": self._cipher.room_id(self._room)})
        async with asyncio.timeout(JOIN_S):
            while (message := json.loads(await self._socket.recv())).get("request") != "listing":
                pass
        for member in message["list"]:
            self._record_member(member)
        await self._send_signal({"request": "seed", "streamID": self._stream_id + self._cipher.suffix})
        self._reader = asyncio.create_task(self._read())

    async def close(self, *, sends_bye: bool = True) -> None:
        for connection in list(self.connections.values()):
            if sends_bye and connection.is_open:
                with suppress(webrtc.InvalidStateError):  # the other end has just closed it
                    connection.send({"bye": True})
        tasks = [*self._tasks, *([self._reader] if self._reader is not None else [])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._socket.close()
        for connection in list(self.connections.values()):
            connection.close()
        self.connections.clear()

    async def lose_signalling(self) -> None:
        """Close the connection to the server only; the channels stay as they are."""
        await self._socket.close()

    async def view(self, stream_id: str) -> None:
        """Ask the publisher of a stream for an offer, now and whenever it appears."""
        self._viewed.add(stream_id)
        await self._play(stream_id)

    # -- sending -----------------------------------------------------------------------------

    def preferred(self, uuid: str) -> PeerConnection | None:
        """The connection that is used for everything that is sent to a peer."""
        types: tuple[ConnectionType, ...] = ("publisher", "viewer")
        found = [self.connections.get((uuid, type)) for type in types]
        return next((each for each in found if each is not None and each.is_open), None)

    def send(self, uuid: str, frame: dict[str, Any]) -> bool:
        connection = self.preferred(uuid)
        if connection is None or self.is_hung:
            return False
        connection.send(frame)
        return True

    def open_peers(self) -> list[str]:
        return list(dict.fromkeys(each.uuid for each in self.connections.values() if each.is_open))

    # -- signalling --------------------------------------------------------------------------

    async def _send_signal(self, message: dict[str, Any]) -> None:
        try:
            await self._socket.send(to_json(message))
        except ConnectionClosed:
            pass

    async def _read(self) -> None:
        try:
            async for text in self._socket:
                await self._handle_signal(json.loads(text))
        except ConnectionClosed:
            pass

    async def _handle_signal(self, message: dict[str, Any]) -> None:
        match message.get("request"):
            case "someonejoined":
                self._record_member(message)
            case "videoaddedtoroom":
                self._record_member(message)
                stream_id = self.members[message["UUID"]]
                if stream_id in self._viewed:
                    self._schedule_play(VIEW_AFTER_ARRIVAL_S, stream_id)
            case "offerSDP" | "play":
                await self._publish(message["UUID"])
            case None if "description" in message:
                await self._handle_description(message)
            case None if "candidates" in message:
                type: ConnectionType = "viewer" if message["type"] == "local" else "publisher"
                connection = self.connections.get((message["UUID"], type))
                if connection is not None and connection.session == message["session"]:
                    await connection.add_candidates(self._cipher.decrypt(message["candidates"], message["vector"]))

    def _record_member(self, member: dict[str, Any]) -> None:
        if "streamID" in member:
            self.members[member["UUID"]] = member["streamID"].removesuffix(self._cipher.suffix)

    def _schedule_play(self, wait_s: float, stream_id: str) -> None:
        self._spawn(self._play_later(wait_s, stream_id))

    async def _play_later(self, wait_s: float, stream_id: str) -> None:
        await asyncio.sleep(wait_s)
        if not any(each.type == "viewer" and each.stream_id == stream_id for each in self.connections.values()):
            await self._play(stream_id)

    async def _play(self, stream_id: str) -> None:
        await self._send_signal({"request": "play", "streamID": stream_id + self._cipher.suffix})

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- negotiation -------------------------------------------------------------------------

    async def _publish(self, uuid: str) -> None:
        session = secrets.token_hex(4)
        connection = self._add(PeerConnection(uuid, "publisher", self._stream_id, session))
        self._attach_channel(connection, connection.native.create_data_channel(LABEL))
        await self._send_description(connection)

    async def _handle_description(self, message: dict[str, Any]) -> None:
        description = self._cipher.decrypt(message["description"], message["vector"])
        uuid, session = message["UUID"], message["session"]
        if description["type"] == "answer":
            connection = self.connections.get((uuid, "publisher"))
            if connection is not None and connection.session == session:
                await connection.set_description(description)
            return
        stream_id = message["streamID"].removesuffix(self._cipher.suffix)
        if stream_id not in self._viewed:
            self.unasked_offers += 1
            if not self._accepts_unasked_offers:
                return
        known = self.connections.get((uuid, "viewer"))
        if known is None or known.session != session:
            known = self._add(PeerConnection(uuid, "viewer", stream_id, session))
            connection = known
            known.native.on("datachannel", lambda event: self._attach_channel(connection, event.channel))
        await known.set_description(description)
        await self._send_description(known)

    async def _send_description(self, connection: PeerConnection) -> None:
        text, vector = self._cipher.encrypt(await connection.describe())
        await self._send_signal(
            {
                "UUID": connection.uuid,
                "session": connection.session,
                "streamID": connection.stream_id + self._cipher.suffix,
                "description": text,
                "vector": vector,
            }
        )

    def _add(self, connection: PeerConnection) -> PeerConnection:
        key = (connection.uuid, connection.type)
        replaced = self.connections.get(key)
        self.connections[key] = connection
        if replaced is not None:
            replaced.close()
        return connection

    # -- channels ----------------------------------------------------------------------------

    def _attach_channel(self, connection: PeerConnection, channel: Any) -> None:
        if channel.label != LABEL:
            return
        connection.channel = channel
        channel.on("message", lambda event: self._handle_text(connection, event.data))
        channel.on("close", lambda _: self._handle_close(connection))
        channel.once("open", lambda _: self._handle_open(connection))

    def _handle_open(self, connection: PeerConnection) -> None:
        if connection.is_closed:
            return
        connection.is_open = True
        info = {"info": {"label": "mcp_bridge"}}
        connection.send(info if connection.type == "publisher" else {"audio": False, "video": False, **info})
        self._listener.channel_opened(connection)

    def _handle_close(self, connection: PeerConnection) -> None:
        if self.connections.get((connection.uuid, connection.type)) is not connection:
            return
        del self.connections[(connection.uuid, connection.type)]
        connection.close()
        self._listener.channel_closed(connection)
        if connection.type == "viewer" and connection.stream_id in self._viewed:
            self._schedule_play(VIEW_AGAIN_S, connection.stream_id)

    def _handle_text(self, connection: PeerConnection, text: Any) -> None:
        if self.is_hung or connection.is_closed or not isinstance(text, str):
            return
        frame = json.loads(text)
        if "ping" in frame:
            connection.pings.append(frame["ping"])
            self.send(connection.uuid, {"pong": frame["ping"]})
        elif "pong" in frame:
            connection.pongs += 1
        elif frame.get("bye"):
            self._handle_close(connection)
        elif frame.get("pipe") and not _is_dropped(frame["pipe"]):
            self._listener.data_received(connection, frame["pipe"])


def _is_dropped(data: Any) -> bool:
    return isinstance(data, dict) and data.get("type") in DROPPED_TYPES


def now_ms() -> int:
    return int(time.time() * 1000)
