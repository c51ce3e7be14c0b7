"""A stranger: somebody in the room who speaks the protocol by hand, and not always the truth."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

from hubbub.packs.peers.engine import Channel, Connection, load_engine
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.room import RoomOptions
from hubbub.packs.peers.sealing import seal, unseal
from hubbub.packs.peers.trust import Trust
from hubbub.packs.peers.wire import CHANNEL


class Stranger:
    """Views one end, or is viewed by it, over the original's protocol, and says what it likes."""

    def __init__(self, host: str, name: str | None = "mallory", room: str = "hall", **options: Any) -> None:
        self.names = WireNames(options.get("password"))
        self.trust = Trust(RoomOptions(room=room, stream_id=name or "nobody", **options))
        self.heard: list[Any] = []
        self.said_by_server: list[dict[str, Any]] = []
        self.closed = asyncio.Event()
        self._host, self._name, self._room = host, name, room
        self.socket: ClientConnection
        self.connection: Connection | None = None
        self.channel: Channel

    async def __aenter__(self) -> Self:
        self.socket = await connect(self._host)
        await self.tell(request="joinroom", roomid=self.names.room(self._room))
        await self.server_says("listing")
        if self._name is not None:
            await self.tell(request="seed", streamID=self.names.stream(self._name))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.connection is not None:
            await self.connection.close()
        await self.socket.close()

    async def tell(self, **message: Any) -> None:
        await self.socket.send(json.dumps(message))

    async def server_says(self, *requests: str | None) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                message: dict[str, Any] = json.loads(await self.socket.recv())
                self.said_by_server.append(message)
                if message.get("request") in requests:
                    return message

    def sealed(self, value: Any) -> dict[str, Any]:
        assert self.names.key is not None
        text, vector = seal(self.names.key, value)
        return {"description": text, "vector": vector}

    async def view(self, name: str) -> None:
        """Ask for an offer, and answer it."""
        self.connection = load_engine("wrtc").connection()
        there: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        self.connection.on_channel = lambda channel: None if there.done() else there.set_result(channel)
        await self.tell(request="play", streamID=self.names.stream(name))
        while (offer := await self.server_says(None))["streamID"] != self.names.stream(name):
            pass  # Others in the room offer of their own accord.
        assert self.names.key is not None
        sdp = unseal(self.names.key, offer["description"], offer["vector"])["sdp"]
        answer = {"type": "answer", "sdp": await self.connection.answer(sdp)}
        await self.tell(UUID=offer["UUID"], session=offer["session"], streamID=offer["streamID"], **self.sealed(answer))
        async with asyncio.timeout(60):
            self._use(await there)

    async def be_viewed(self) -> None:
        """Wait for somebody to ask, and make an offer."""
        asked = await self.server_says("offerSDP")
        assert self._name is not None
        await self.offer(asked["UUID"], self._name)

    async def send_offer(self, uuid: str, name: str) -> Channel:
        """Make an offer under a name, asked or not, and do not wait for the answer."""
        self.connection = load_engine("wrtc").connection()
        channel = self.connection.create_channel(CHANNEL)
        offer = {"type": "offer", "sdp": await self.connection.offer()}
        await self.tell(UUID=uuid, session="abcdefgh", streamID=self.names.stream(name), **self.sealed(offer))
        return channel

    async def offer(self, uuid: str, name: str) -> None:
        """Make an offer under a name, asked or not."""
        channel = await self.send_offer(uuid, name)
        answer = await self.server_says(None)
        assert (answer["session"], answer["streamID"]) == ("abcdefgh", self.names.stream(name))
        assert self.connection is not None
        assert self.names.key is not None
        await self.connection.accept(unseal(self.names.key, answer["description"], answer["vector"])["sdp"])
        async with asyncio.timeout(60):
            await channel.opened()
        self._use(channel)

    def _use(self, channel: Channel) -> None:
        self.channel = channel
        channel.on_message = lambda text: self.heard.append(json.loads(text))
        channel.on_close = self.closed.set

    def say(self, frame: str | dict[str, Any]) -> None:
        self.channel.send(frame if isinstance(frame, str) else json.dumps(frame))

    def greet(self, **changes: Any) -> None:
        """A hello as an original says it: no word of Hubbub."""
        hello = self.trust.hello()
        hello["capabilities"] = {"sync_v1": True, "file_transfer_v1": True, "state_v1": True, "session_mac_v1": True}
        self.say(self.trust.frame(None, "sync.hello", {**hello, **changes}))

    def envelopes(self, kind: str) -> list[dict[str, Any]]:
        pipes = [frame["pipe"] for frame in self.heard if "pipe" in frame]
        return [pipe for pipe in pipes if isinstance(pipe, dict) and pipe.get("kind") == kind]
