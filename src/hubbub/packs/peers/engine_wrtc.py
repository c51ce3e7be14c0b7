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
from hubbub.packs.peers.errors import ChannelClosed, NegotiationFailed, QueueFull

_NATIVE_ERRORS: Final = (webrtc.RTCException, ValueError, TypeError)
T = TypeVar("T")


class _Channel(EngineChannel):
    def __init__(self, native: webrtc.RTCDataChannel, limit: Callable[[], int]) -> None:
        super().__init__(native.label, limit)
        self._native = native
        native.on("open", lambda _: self.handle_open())
        native.on("message", self._handle_message_event)
        native.on("bufferedamountlow", lambda _: self.handle_buffer_low())
        native.on("closing", lambda _: self.handle_close())
        native.on("close", lambda _: self.handle_close())

    def _handle_message_event(self, event: Any) -> None:
        self.handle_message(event.data)

    def _send_native(self, data: bytes | str) -> None:
        try:
            self._native.send(data)
        except webrtc.InvalidStateError as error:
            raise ChannelClosed("the channel is closed") from error
        except webrtc.RTCException as error:
            raise QueueFull("the other end reads too slowly; wait before sending more") from error

    def _buffered_bytes(self) -> int:
        return self._native.buffered_amount

    def _set_low_threshold(self, low: int) -> None:
        self._native.buffered_amount_low_threshold = low

    def _close_native(self) -> None:
        self._native.close()


class _Connection(EngineConnection):
    def __init__(self, native: webrtc.RTCPeerConnection) -> None:
        super().__init__()
        self._native = native
        self._is_described = False
        self._gathering_changed = asyncio.Event()
        native.on("datachannel", self._handle_channel_event)
        native.on("icecandidate", self._handle_candidate_event)
        native.on("icegatheringstatechange", lambda _: self._gathering_changed.set())
        native.on("connectionstatechange", lambda _: self.handle_state_change())

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
        except _NATIVE_ERRORS:
            pass

    async def _describe(self, kind: Literal["offer", "answer"]) -> str:
        self._gathering_changed.clear()
        await _map_errors(self._set_local_description(kind))
        try:
            async with asyncio.timeout(limits.PEER_GATHER_S):
                while not self._is_closed and self._native.ice_gathering_state.value != "complete":
                    await self._gathering_changed.wait()
                    self._gathering_changed.clear()
        except TimeoutError:
            pass  # Candidates that are found later are sent one by one.
        self._is_described = True
        description = None if self._is_closed else self._native.local_description
        if description is None:
            raise NegotiationFailed("the connection was closed during negotiation")
        return str(description.sdp)

    async def _set_local_description(self, kind: Literal["offer", "answer"]) -> None:
        native = self._native
        await native.set_local_description(await (native.create_offer if kind == "offer" else native.create_answer)())

    async def _set_remote_description(self, kind: Literal["offer", "answer"], sdp: str) -> None:
        await _map_errors(self._native.set_remote_description(webrtc.RTCSessionDescriptionInit(kind, sdp)))

    async def _close_native(self) -> None:
        self._native.close()
        self._gathering_changed.set()

    def _handle_channel_event(self, event: Any) -> None:
        channel = self.track_channel(_Channel(event.channel, self.max_message_size))
        event.channel.once("open", lambda _: self.handle_channel(channel))

    def _handle_candidate_event(self, event: Any) -> None:
        found = event.candidate
        if found is not None and found.candidate and self._is_described:
            self.on_candidate(Candidate(found.candidate, found.sdp_mid or "0", found.sdp_m_line_index or 0))


async def _map_errors(work: Awaitable[T]) -> T:
    try:
        return await work
    except _NATIVE_ERRORS as error:
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
        except _NATIVE_ERRORS as error:
            raise NegotiationFailed(f"the ICE servers cannot be used: {error}") from error


ENGINE: Final = WrtcEngine()
