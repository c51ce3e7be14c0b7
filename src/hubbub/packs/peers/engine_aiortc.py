"""WebRTC by `aiortc`, in Python: slower, and there where `wrtc` is not.

The one module that imports it. It finds all its addresses before it describes itself,
and cannot look for another way later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import aiortc
from aiortc.sdp import candidate_from_sdp

from hubbub import bounds
from hubbub.packs.peers.descriptions import check_description, largest_message
from hubbub.packs.peers.engine import Candidate, Channel, Connection, IceServer, State
from hubbub.packs.peers.engine_channel import EngineChannel
from hubbub.packs.peers.failures import ChannelClosed, NegotiationFailed

T = TypeVar("T")


class _Channel(EngineChannel):
    def __init__(self, native: aiortc.RTCDataChannel, limit: Callable[[], int]) -> None:
        super().__init__(native.label, limit)
        self._native = native
        native.on("open", self.now_open)
        native.on("message", self.received)
        native.on("bufferedamountlow", self.now_low)
        native.on("closing", self.now_closed)
        native.on("close", self.now_closed)

    def _push(self, data: bytes | str) -> None:
        try:
            self._native.send(data)
        except (aiortc.InvalidStateError, ConnectionError) as error:
            raise ChannelClosed("the channel is closed") from error

    def _waiting(self) -> int:
        return self._native.bufferedAmount

    def _watch(self, low: int) -> None:
        self._native.bufferedAmountLowThreshold = low

    def _shut(self) -> None:
        self._native.close()


class _Connection:
    def __init__(self, native: aiortc.RTCPeerConnection) -> None:
        self.on_candidate: Callable[[Candidate], None] = _ignore
        self.on_channel: Callable[[Channel], None] = _ignore
        self.on_state: Callable[[State], None] = _ignore
        self._native = native
        self._channels: list[_Channel] = []
        self._limit = bounds.PEER_FRAME_BYTES
        self._is_closed = False
        native.on("datachannel", self._announced)
        native.on("connectionstatechange", self._changed)

    @property
    def state(self) -> State:
        """How it is now."""
        state: Any = "closed" if self._is_closed else self._native.connectionState
        return state  # type: ignore[no-any-return]

    def create_channel(self, label: str) -> Channel:
        """Make a channel."""
        if self._is_closed:
            raise ChannelClosed("the connection is closed")
        try:
            return self._keep(self._native.createDataChannel(label))
        except (ValueError, TypeError) as error:  # It reads the addresses of servers with the first channel.
            raise NegotiationFailed(f"the ICE servers cannot be used: {error}") from error

    async def offer(self, *, restart: bool = False) -> str:
        """Our offer."""
        if restart:
            raise NegotiationFailed("this engine cannot look for another way")
        return await _mapped(self._described(self._native.createOffer))

    async def answer(self, offer_sdp: str) -> str:
        """Our answer to an offer."""
        await self._take("offer", offer_sdp)
        return await _mapped(self._described(self._native.createAnswer))

    async def accept(self, answer_sdp: str) -> None:
        """Take the answer to our offer."""
        await self._take("answer", answer_sdp)

    async def add_candidate(self, candidate: Candidate) -> None:
        """Take one more address of the other end."""
        try:
            found = candidate_from_sdp(candidate.candidate.removeprefix("candidate:"))
            found.sdpMid, found.sdpMLineIndex = candidate.mid, candidate.line
            await self._native.addIceCandidate(found)
        except Exception:
            pass  # What it raises for an address that it cannot read is anybody's guess.

    async def close(self) -> None:
        """Close it with all its channels."""
        if self._is_closed:
            return
        self._is_closed = True
        for channel in self._channels:
            channel.now_closed()
        await self._native.close()
        self.on_state("closed")

    async def _described(self, describe: Callable[[], Awaitable[Any]]) -> str:
        await self._native.setLocalDescription(await describe())
        return str(self._native.localDescription.sdp)

    async def _take(self, kind: str, sdp: str) -> None:
        check_description(sdp)
        await _mapped(self._native.setRemoteDescription(aiortc.RTCSessionDescription(sdp, kind)))
        self._limit = largest_message(sdp)

    def _keep(self, native: aiortc.RTCDataChannel) -> _Channel:
        channel = _Channel(native, lambda: self._limit)
        self._channels.append(channel)
        return channel

    def _announced(self, native: aiortc.RTCDataChannel) -> None:
        channel = self._keep(native)
        channel.now_open()
        self.on_channel(channel)

    def _changed(self) -> None:
        if not self._is_closed:
            self.on_state(self.state)


async def _mapped(work: Awaitable[T]) -> T:
    try:
        return await work
    except Exception as error:  # A description that it cannot read makes it raise whatever comes.
        raise NegotiationFailed(f"the other end's description cannot be used: {type(error).__name__}") from error


def _ignore(_: object) -> None: ...


class AiortcEngine:
    """See `engine.Engine`."""

    name = "aiortc"

    def connection(self, ice_servers: Sequence[IceServer] = (), *, relay_only: bool = False) -> Connection:
        """A new connection."""
        policy = aiortc.RTCIceTransportPolicy.RELAY if relay_only else aiortc.RTCIceTransportPolicy.ALL
        servers = [
            aiortc.RTCIceServer(server.url, server.username or None, server.credential or None)
            for server in ice_servers
        ]
        # Without a list it would ask a public STUN server.
        configuration = aiortc.RTCConfiguration(iceServers=servers, iceTransportPolicy=policy)
        return _Connection(aiortc.RTCPeerConnection(configuration))


ENGINE: Final = AiortcEngine()
