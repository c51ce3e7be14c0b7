"""Rooms for tests: a signalling server, and ends that write down what they hear."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from hubbub.packs.peers.engine import load_engine
from hubbub.packs.peers.mesh import Mesh
from hubbub.packs.peers.room import PeerView, RoomOptions
from hubbub.packs.peers.signal_rules import SignalLimits
from hubbub.packs.peers.signal_server import SignalServer
from hubbub.packs.peers.wire import Envelope

WAIT_S = 60.0
"""A deadline for what hangs; no test measures anything with it."""


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Notes:
    """An upper half that only listens."""

    def __init__(self) -> None:
        self.data: list[tuple[str | None, Any]] = []
        self.envelopes: list[tuple[str | None, Envelope]] = []
        self.bytes: list[tuple[str | None, bytes]] = []
        self.ready: list[str | None] = []
        self.gone: list[str | None] = []
        self.digests: list[str | None] = []
        self.events: list[dict[str, Any]] = []
        self.digest: str | None = None
        self._news = asyncio.Event()

    def on_data(self, peer: PeerView, data: Any) -> None:
        self._note(self.data, (peer.stream_id, data))

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        self._note(self.envelopes, (peer.stream_id, envelope))

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        self._note(self.bytes, (peer.stream_id, data))

    def on_peer_ready(self, peer: PeerView) -> None:
        self._note(self.ready, peer.stream_id)

    def on_bulk_open(self, peer: PeerView) -> None:
        self._news.set()

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
        self._news.set()

    def of(self, type: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == type]

    async def until(self, is_so: Callable[[], object], wait_s: float = WAIT_S) -> None:
        """Wait until something is so; looks whenever something new came, and now and then."""
        deadline = time.monotonic() + wait_s
        while not is_so():
            if time.monotonic() > deadline:
                raise AssertionError(f"it never came to that; events: {[event['type'] for event in self.events]}")
            self._news.clear()
            try:
                async with asyncio.timeout(0.05):
                    await self._news.wait()
            except TimeoutError:
                pass


class End:
    """One agent in a room."""

    make_notes: Callable[[], Any] = Notes

    def __init__(
        self,
        host: str,
        name: str,
        engine: str = "wrtc",
        room: str = "hall",
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.notes = self.make_notes()
        options = {"target_wait_s": 5.0} | options
        self.mesh = Mesh(
            RoomOptions(room=room, stream_id=name, host=host, **options),
            self.notes,
            engine=load_engine(engine),
            clock=clock,
        )

    def knows(self, *names: str) -> bool:
        """Whether it has a channel to these, and keys, and the way of bytes."""
        there = {peer.stream_id for peer in self.mesh.peers if peer.is_connected and peer.is_admitted and peer.has_key}
        return there >= set(names)

    async def until_knows(self, *names: str) -> None:
        await self.notes.until(lambda: self.knows(*names))

    def uuid(self, name: str) -> str:
        peer = self.mesh.find(name)
        assert peer is not None
        return peer.uuid


@asynccontextmanager
async def signalling(limits: SignalLimits | None = None, port: int = 0, **options: Any) -> AsyncIterator[str]:
    async with SignalServer(limits, **options).running("127.0.0.1", port) as taken:
        yield f"ws://127.0.0.1:{taken}"


@asynccontextmanager
async def room(*ends: End) -> AsyncIterator[None]:
    """Let these come in, one after the other, and leave together."""
    async with AsyncExitStack() as stack:
        for end in ends:
            stack.push_async_callback(end.mesh.disconnect)
            await end.mesh.connect()
        yield
