"""The engine on `wrtc`, Chrome's WebRTC implementation: the fast one.

The only module that imports it (its package is called `webrtc`). Its events arrive on the event loop's thread. It emits
no events after `close`, so this module does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, TypeVar

import webrtc

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import Candidate, Connection, IceServer, State
from hubbub.packs.peers.engine_channel import EngineChannel, EngineConnection
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


class _Connection(EngineConnection):
    def __init__(self, native: webrtc.RTCPeerConnection) -> None:
        super().__init__()
        self._native = native
        self._is_described = False
        self._gathered = asyncio.Event()
        native.on("datachannel", self._found_channel)
        native.on("icecandidate", self._found_candidate)
        native.on("icegatheringstatechange", lambda _: self._gathered.set())
        native.on("connectionstatechange", lambda _: self.state_changed())

    def _native_state(self) -> State:
        state: State = self._native.connection_state.value
        return state

    def _make_channel(self, label: str) -> EngineChannel:
        return _Channel(self._native.create_data_channel(label), self.max_message_size)

    async def offer(self, *, restart: bool = False) -> str:
        if restart:
            self._native.restart_ice()
        self._is_described = False
        return await self._describe("offer")

    async def add_candidate(self, candidate: Candidate) -> None:
        try:
            await self._native.add_ice_candidate(
                webrtc.RTCIceCandidateInit(
                    candidate=candidate.candidate, sdp_mid=candidate.mid, sdp_m_line_index=candidate.line
                )
            )
        except _REFUSALS:
            pass

    async def _describe(self, kind: Literal["offer", "answer"]) -> str:
        self._gathered.clear()
        await _mapped(self._set_local(kind))
        try:
            async with asyncio.timeout(limits.PEER_GATHER_S):
                while not self._is_closed and self._native.ice_gathering_state.value != "complete":
                    await self._gathered.wait()
                    self._gathered.clear()
        except TimeoutError:
            pass  # Candidates that are found later are sent one by one.
        self._is_described = True
        described = None if self._is_closed else self._native.local_description
        if described is None:
            raise NegotiationFailed("the connection was closed meanwhile")
        return str(described.sdp)

    async def _set_local(self, kind: Literal["offer", "answer"]) -> None:
        native = self._native
        await native.set_local_description(await (native.create_offer if kind == "offer" else native.create_answer)())

    async def _set_remote(self, kind: Literal["offer", "answer"], sdp: str) -> None:
        await _mapped(self._native.set_remote_description(webrtc.RTCSessionDescriptionInit(kind, sdp)))

    async def _shut(self) -> None:
        self._native.close()
        self._gathered.set()

    def _found_channel(self, event: Any) -> None:
        channel = self.keep(_Channel(event.channel, self.max_message_size))
        event.channel.once("open", lambda _: self.announced(channel))

    def _found_candidate(self, event: Any) -> None:
        found = event.candidate
        if found is not None and found.candidate and self._is_described:
            self.on_candidate(Candidate(found.candidate, found.sdp_mid or "0", found.sdp_m_line_index or 0))


async def _mapped(work: Awaitable[T]) -> T:
    try:
        return await work
    except _REFUSALS as error:
        raise NegotiationFailed(f"the other end's description cannot be used: {type(error).__name__}") from error


class WrtcEngine:
    """Implements `engine.Engine`."""

    name = "wrtc"

    def connection(self, ice_servers: Sequence[IceServer] = (), *, relay_only: bool = False) -> Connection:
        """Create a connection."""
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
