"""The engine on `aiortc`, in pure Python: slower, for platforms without `wrtc`.

The only module that imports it. It gathers all ICE candidates before it describes itself, and does not support ICE
restarts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeVar

import aiortc
from aiortc.sdp import candidate_from_sdp

from hubbub.packs.peers.engine import Candidate, Connection, IceServer, State
from hubbub.packs.peers.engine_channel import EngineChannel, EngineConnection
from hubbub.packs.peers.errors import ChannelClosed, NegotiationFailed

T = TypeVar("T")


class _Channel(EngineChannel):
    def __init__(self, native: aiortc.RTCDataChannel, limit: Callable[[], int]) -> None:
        super().__init__(native.label, limit)
        self._native = native
        native.on("open", self.handle_open)
        native.on("message", self.handle_message)
        native.on("bufferedamountlow", self.handle_buffer_low)
        native.on("closing", self.handle_close)
        native.on("close", self.handle_close)

    def _send_native(self, data: bytes | str) -> None:
        try:
            self._native.send(data)
        except (aiortc.InvalidStateError, ConnectionError) as error:
            raise ChannelClosed("the channel is closed") from error

    def _buffered_bytes(self) -> int:
        return self._native.bufferedAmount

    def _set_low_threshold(self, low: int) -> None:
        self._native.bufferedAmountLowThreshold = low

    def _close_native(self) -> None:
        self._native.close()


class _Connection(EngineConnection):
    def __init__(self, native: aiortc.RTCPeerConnection) -> None:
        super().__init__()
        self._native = native
        native.on(
            "datachannel",
            lambda channel: self.handle_channel(self.track_channel(_Channel(channel, self.max_message_size))),
        )
        native.on("connectionstatechange", self.handle_state_change)

    def _native_state(self) -> State:
        state: State = self._native.connectionState  # type: ignore[assignment]
        return state

    def _make_channel(self, label: str) -> EngineChannel:
        try:
            return _Channel(self._native.createDataChannel(label), self.max_message_size)
        except (ValueError, TypeError) as error:  # The URLs of the ICE servers are parsed with the first channel.
            raise NegotiationFailed(f"the ICE servers cannot be used: {error}") from error

    async def offer(self, *, restart: bool = False) -> str:
        if restart:
            raise NegotiationFailed("the engine aiortc does not support ICE restarts")
        return await self._describe("offer")

    async def add_candidate(self, candidate: Candidate) -> None:
        try:
            found = candidate_from_sdp(candidate.candidate.removeprefix("candidate:"))
            found.sdpMid, found.sdpMLineIndex = candidate.mid, candidate.line
            await self._native.addIceCandidate(found)
        except Exception:
            pass  # aiortc raises many kinds of exceptions for a malformed candidate.

    async def _describe(self, kind: Literal["offer", "answer"]) -> str:
        async def describe() -> str:
            native = self._native
            await native.setLocalDescription(await (native.createOffer if kind == "offer" else native.createAnswer)())
            return str(native.localDescription.sdp)

        return await _map_errors(describe())

    async def _set_remote_description(self, kind: Literal["offer", "answer"], sdp: str) -> None:
        await _map_errors(self._native.setRemoteDescription(aiortc.RTCSessionDescription(sdp, kind)))

    async def _close_native(self) -> None:
        await self._native.close()


async def _map_errors(work: Awaitable[T]) -> T:
    try:
        return await work
    except Exception as error:  # aiortc raises many kinds of exceptions for a malformed description.
        raise NegotiationFailed(f"the other end's description cannot be used: {type(error).__name__}") from error


class AiortcEngine:
    """Implements `engine.Engine`."""

    name = "aiortc"

    def connection(self, ice_servers: Sequence[IceServer] = (), *, relay_only: bool = False) -> Connection:
        """Create a connection."""
        policy = aiortc.RTCIceTransportPolicy.RELAY if relay_only else aiortc.RTCIceTransportPolicy.ALL
        servers = [
            aiortc.RTCIceServer(server.url, server.username or None, server.credential or None)
            for server in ice_servers
        ]
        # Without a list aiortc would use a public STUN server.
        configuration = aiortc.RTCConfiguration(iceServers=servers, iceTransportPolicy=policy)
        return _Connection(aiortc.RTCPeerConnection(configuration))


ENGINE: Final = AiortcEngine()
