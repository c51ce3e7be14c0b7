"""Rooms for tests: a signalling server, and agents that record what they receive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from hubbub.packs.peers.engine import load_engine
from hubbub.packs.peers.mesh import Mesh
from hubbub.packs.peers.room import PeerView, RoomOptions
from hubbub.packs.peers.signalling_router import SignalLimits
from hubbub.packs.peers.signalling_server import SignalServer
from hubbub.packs.peers.wire import Envelope

WAIT_S = 60.0
"""Deadline for tests that hang; not a measurement."""


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class RecordingListener:
    """A listener that records all callbacks."""

    def __init__(self) -> None:
        self.data: list[tuple[str | None, Any]] = []
        self.envelopes: list[tuple[str | None, Envelope]] = []
        self.bytes: list[tuple[str | None, bytes]] = []
        self.ready: list[str | None] = []
        self.gone: list[str | None] = []
        self.digests: list[str | None] = []
        self.events: list[dict[str, Any]] = []
        self.digest: str | None = None
        self._changed = asyncio.Event()

    def on_data(self, peer: PeerView, data: Any) -> None:
        self._note(self.data, (peer.stream_id, data))

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        self._note(self.envelopes, (peer.stream_id, envelope))

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        self._note(self.bytes, (peer.stream_id, data))

    def on_peer_ready(self, peer: PeerView) -> None:
        self._note(self.ready, peer.stream_id)

    def on_bulk_open(self, peer: PeerView) -> None:
        self._changed.set()

    def on_peer_gone(self, peer: PeerView) -> None:
        self._note(self.gone, peer.stream_id)

    def on_heartbeat(self, peer: PeerView, state_digest: str | None) -> None:
        self._note(self.digests, state_digest)

    def on_event(self, type: str, fields: Mapping[str, Any]) -> None:
        self._note(self.events, {"type": type, **fields})

    def state_digest(self) -> str | None:
        return self.digest

    def _note(self, notes: list[Any], note: Any) -> None:
        notes.append(note)
        self._changed.set()

    def of(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]

    async def until(self, condition: Callable[[], object], wait_s: float = WAIT_S) -> None:
        """Wait until a condition holds; checked after each callback, and every 50 ms."""
        deadline = time.monotonic() + wait_s
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"the condition never held; events: {[event['type'] for event in self.events]}")
            self._changed.clear()
            try:
                async with asyncio.timeout(0.05):
                    await self._changed.wait()
            except TimeoutError:
                pass


class RoomAgent:
    """One agent in a room."""

    make_listener: Callable[[], Any] = RecordingListener

    def __init__(
        self,
        host: str,
        name: str,
        engine: str = "wrtc",
        room: str = "hall",
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.listener = self.make_listener()
        options = {"target_wait_s": 5.0} | options
        self.mesh = Mesh(
            RoomOptions(room=room, stream_id=name, host=host, **options),
            self.listener,
            engine=load_engine(engine),
            clock=clock,
        )

    def knows(self, *names: str) -> bool:
        """Whether these peers are connected and admitted, with keys."""
        names_ready = {
            peer.stream_id for peer in self.mesh.peers if peer.is_connected and peer.is_admitted and peer.has_key
        }
        return names_ready >= set(names)

    async def wait_for_peers(self, *names: str) -> None:
        await self.listener.until(lambda: self.knows(*names))

    def uuid(self, name: str) -> str:
        peer = self.mesh.find(name)
        assert peer is not None
        return peer.uuid


@asynccontextmanager
async def signalling(limits: SignalLimits | None = None, port: int = 0, **options: Any) -> AsyncIterator[str]:
    async with SignalServer(limits, **options).running("127.0.0.1", port) as actual_port:
        yield f"ws://127.0.0.1:{actual_port}"


@asynccontextmanager
async def joined_room(*agents: RoomAgent) -> AsyncIterator[None]:
    """Connect these agents in order; disconnect all at the end."""
    async with AsyncExitStack() as stack:
        for agent in agents:
            stack.push_async_callback(agent.mesh.disconnect)
            await agent.mesh.connect()
        yield
