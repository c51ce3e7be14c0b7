"""A peer whose messages the test writes by hand, valid or not."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

from hubbub.packs.peers.encryption import decrypt, encrypt
from hubbub.packs.peers.engine import Channel, Connection, load_engine
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.room import RoomOptions
from hubbub.packs.peers.trust import Trust
from hubbub.packs.peers.wire import TEXT_CHANNEL


class ScriptedPeer:
    """Views one agent, or is viewed by it, with the protocol of the VDO.Ninja bridge."""

    def __init__(self, host: str, name: str | None = "mallory", room: str = "hall", **options: Any) -> None:
        self.names = WireNames(options.get("password"))
        self.trust = Trust(RoomOptions(room=room, stream_id=name or "nobody", **options))
        self.received_frames: list[Any] = []
        self.server_messages: list[dict[str, Any]] = []
        self.closed = asyncio.Event()
        self._host, self._name, self._room = host, name, room
        self.socket: ClientConnection
        self.connection: Connection | None = None
        self.channel: Channel

    async def __aenter__(self) -> Self:
        self.socket = await connect(self._host)
        await self.send_signal(request="joinroom", roomid=self.names.room_id(self._room))
        await self.wait_for_signal("listing")
        if self._name is not None:
            await self.send_signal(request="seed", streamID=self.names.wire_stream_id(self._name))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.connection is not None:
            await self.connection.close()
        await self.socket.close()

    async def send_signal(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def wait_for_signal(self, *requests: str | None) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                message: dict[str, Any] = json.loads(await self.socket.recv())
                self.server_messages.append(message)
                if message.get("request") in requests:
                    return message

    def encrypt_description(self, value: Any) -> dict[str, Any]:
        assert self.names.key is not None
        text, vector = encrypt(self.names.key, value)
        return {"description": text, "vector": vector}

    async def view(self, name: str) -> None:
        """Request an offer, and answer it."""
        self.connection = load_engine("wrtc").connection()
        channel_future: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        self.connection.on_channel = lambda channel: (
            None if channel_future.done() else channel_future.set_result(channel)
        )
        await self.send_signal(request="play", streamID=self.names.wire_stream_id(name))
        while (offer := await self.wait_for_signal(None))["streamID"] != self.names.wire_stream_id(name):
            pass  # Other members of the room send unsolicited offers.
        assert self.names.key is not None
        sdp = decrypt(self.names.key, offer["description"], offer["vector"])["sdp"]
        answer = {"type": "answer", "sdp": await self.connection.answer(sdp)}
        await self.send_signal(
            UUID=offer["UUID"], session=offer["session"], streamID=offer["streamID"], **self.encrypt_description(answer)
        )
        async with asyncio.timeout(60):
            self._attach_channel(await channel_future)

    async def wait_for_viewer(self) -> None:
        """Wait for a request, and make an offer."""
        play_request = await self.wait_for_signal("offerSDP")
        assert self._name is not None
        await self.offer(play_request["UUID"], self._name)

    async def send_offer(self, uuid: str, name: str) -> Channel:
        """Make an offer under a name, requested or not, without waiting for the answer."""
        self.connection = load_engine("wrtc").connection()
        channel = self.connection.create_channel(TEXT_CHANNEL)
        offer = {"type": "offer", "sdp": await self.connection.offer()}
        await self.send_signal(
            UUID=uuid, session="abcdefgh", streamID=self.names.wire_stream_id(name), **self.encrypt_description(offer)
        )
        return channel

    async def offer(self, uuid: str, name: str) -> None:
        """Make an offer under a name, requested or not; wait for the open channel."""
        channel = await self.send_offer(uuid, name)
        answer = await self.wait_for_signal(None)
        assert (answer["session"], answer["streamID"]) == ("abcdefgh", self.names.wire_stream_id(name))
        assert self.connection is not None
        assert self.names.key is not None
        await self.connection.accept(decrypt(self.names.key, answer["description"], answer["vector"])["sdp"])
        async with asyncio.timeout(60):
            await channel.wait_open()
        self._attach_channel(channel)

    def _attach_channel(self, channel: Channel) -> None:
        self.channel = channel
        channel.on_message = lambda text: self.received_frames.append(json.loads(text))
        channel.on_close = self.closed.set

    def send_frame(self, frame: str | dict[str, Any]) -> None:
        self.channel.send(frame if isinstance(frame, str) else json.dumps(frame))

    def send_hello(self, **changes: Any) -> None:
        """Send a hello like a VDO.Ninja bridge, without Hubbub's capabilities."""
        hello = self.trust.hello()
        hello["capabilities"] = {"sync_v1": True, "file_transfer_v1": True, "state_v1": True, "session_mac_v1": True}
        self.send_frame(self.trust.frame(None, "sync.hello", {**hello, **changes}))

    def envelopes(self, kind: str) -> list[dict[str, Any]]:
        pipes = [frame["pipe"] for frame in self.received_frames if "pipe" in frame]
        return [pipe for pipe in pipes if isinstance(pipe, dict) and pipe.get("kind") == kind]
