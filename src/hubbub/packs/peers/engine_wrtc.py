"""WebRTC by `wrtc`, Chrome's own implementation: the fast engine.

The one module that imports it (its package is called `webrtc`). Its events come on the
loop's thread. It gives no events after `close`, so we give them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import webrtc

from hubbub import bounds
from hubbub.packs.peers.descriptions import check_description, largest_message
from hubbub.packs.peers.engine import Candidate, Channel, Connection, IceServer, State
from hubbub.packs.peers.engine_channel import EngineChannel
from hubbub.packs.peers.failures import ChannelClosed, NegotiationFailed, QueueFull

_REFUSALS: Final = (webrtc.RTCException, ValueError, TypeError)
T = TypeVar("T")


class _Channel(EngineChannel):
    def __init__(self, native: webrtc.RTCDataChannel, limit: Callable[[], int]) -> None:
        super().__init__(native.label, limit)
        self._native = native
        native.on("open", lambda _: self.now_open())
        native.on("message", self._came)
        native.on("bufferedamountlow", lambda _: self.now_low())
        native.on("closing", lambda _: self.now_closed())
        native.on("close", lambda _: self.now_closed())

    def _came(self, event: Any) -> None:
        self.received(event.data)

    def _push(self, data: bytes | str) -> None:
        try:
            self._native.send(data)
        except webrtc.InvalidStateError as error:
            raise ChannelClosed("the channel is closed") from error
        except webrtc.RTCException as error:
            raise QueueFull("the other end reads too slowly; wait before sending more") from error

    def _waiting(self) -> int:
        return self._native.buffered_amount

    def _watch(self, low: int) -> None:
        self._native.buffered_amount_low_threshold = low

    def _shut(self) -> None:
        self._native.close()


class _Connection:
    def __init__(self, native: webrtc.RTCPeerConnection) -> None:
        self.on_candidate: Callable[[Candidate], None] = _ignore
        self.on_channel: Callable[[Channel], None] = _ignore
        self.on_state: Callable[[State], None] = _ignore
        self._native = native
        self._channels: list[_Channel] = []
        self._limit = bounds.PEER_FRAME_BYTES
        self._is_closed = False
        self._is_described = False
        self._gathered: asyncio.Event = asyncio.Event()
        native.on("datachannel", self._announced)
        native.on("icecandidate", self._found)
        native.on("icegatheringstatechange", lambda _: self._gathering())
        native.on("connectionstatechange", lambda _: self._changed())

    @property
    def state(self) -> State:
        """How it is now."""
        state: State = "closed" if self._is_closed else self._native.connection_state.value
        return state

    def create_channel(self, label: str) -> Channel:
        """Make a channel."""
        if self._is_closed:
            raise ChannelClosed("the connection is closed")
        return self._keep(self._native.create_data_channel(label))

    async def offer(self, *, restart: bool = False) -> str:
        """Our offer."""
        if restart:
            self._native.restart_ice()
        self._is_described = False
        return await self._described(self._native.create_offer)

    async def answer(self, offer_sdp: str) -> str:
        """Our answer to an offer."""
        await self._take("offer", offer_sdp)
        return await self._described(self._native.create_answer)

    async def accept(self, answer_sdp: str) -> None:
        """Take the answer to our offer."""
        await self._take("answer", answer_sdp)

    async def add_candidate(self, candidate: Candidate) -> None:
        """Take one more address of the other end."""
        try:
            await self._native.add_ice_candidate(
                webrtc.RTCIceCandidateInit(
                    candidate=candidate.candidate, sdp_mid=candidate.mid, sdp_m_line_index=candidate.line
                )
            )
        except _REFUSALS:
            pass

    async def close(self) -> None:
        """Close it with all its channels."""
        if self._is_closed:
            return
        self._is_closed = True
        self._native.close()
        self._gathered.set()
        for channel in self._channels:
            channel.now_closed()
        self.on_state("closed")

    async def _described(self, describe: Callable[[], Awaitable[Any]]) -> str:
        self._gathered.clear()
        await _mapped(self._set_local(describe))
        try:
            async with asyncio.timeout(bounds.PEER_GATHER_S):
                while not self._is_closed and self._native.ice_gathering_state.value != "complete":
                    await self._gathered.wait()
                    self._gathered.clear()
        except TimeoutError:
            pass  # What is found later is told one by one.
        self._is_described = True
        described = None if self._is_closed else self._native.local_description
        if described is None:
            raise NegotiationFailed("the connection was closed meanwhile")
        return str(described.sdp)

    async def _set_local(self, describe: Callable[[], Awaitable[Any]]) -> None:
        await self._native.set_local_description(await describe())

    async def _take(self, kind: Any, sdp: str) -> None:
        check_description(sdp)
        await _mapped(self._native.set_remote_description(webrtc.RTCSessionDescriptionInit(kind, sdp)))
        self._limit = largest_message(sdp)

    def _keep(self, native: webrtc.RTCDataChannel) -> _Channel:
        channel = _Channel(native, lambda: self._limit)
        self._channels.append(channel)
        return channel

    def _announced(self, event: Any) -> None:
        channel = self._keep(event.channel)

        def hand_out(_: Any) -> None:
            channel.now_open()
            self.on_channel(channel)

        event.channel.once("open", hand_out)

    def _found(self, event: Any) -> None:
        found = event.candidate
        if found is not None and found.candidate and self._is_described:
            self.on_candidate(Candidate(found.candidate, found.sdp_mid or "0", found.sdp_m_line_index or 0))

    def _gathering(self) -> None:
        self._gathered.set()

    def _changed(self) -> None:
        if not self._is_closed:
            self.on_state(self.state)


async def _mapped(work: Awaitable[T]) -> T:
    try:
        return await work
    except _REFUSALS as error:
        raise NegotiationFailed(f"the other end's description cannot be used: {type(error).__name__}") from error


def _ignore(_: object) -> None: ...


class WrtcEngine:
    """See `engine.Engine`."""

    name = "wrtc"

    def connection(self, ice_servers: Sequence[IceServer] = (), *, relay_only: bool = False) -> Connection:
        """A new connection."""
        servers = [
            webrtc.RTCIceServer(server.url, server.username or None, server.credential or None)
            for server in ice_servers
        ]
        configuration = webrtc.RTCConfiguration(
            ice_servers=servers, ice_transport_policy="relay" if relay_only else "all"
        )
        try:
            return _Connection(webrtc.RTCPeerConnection(configuration))
        except _REFUSALS as error:
            raise NegotiationFailed(f"the ICE servers cannot be used: {error}") from error


ENGINE: Final = WrtcEngine()
