"""Agents that send and receive files, for tests: a mesh, its transfers, and the recorded events."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.packs.peers.room_agents import RecordingListener, RoomAgent, signalling

from hubbub.packs.peers.files.files import Files
from hubbub.packs.peers.files.options import FileOptions, SendRequest
from hubbub.packs.peers.files.transfer import IncomingTransfer
from hubbub.packs.peers.room import PeerView, Room
from hubbub.packs.peers.wire import Envelope


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Let the kernel refuse to write beyond some size, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class FileListener(RecordingListener):
    """A listener that passes file messages to `Files`."""

    files: Files | None = None
    received_bytes = 0

    def loses(self, frame: bytes | Envelope) -> bool:
        """Whether a frame is lost; tests override this."""
        return False

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        super().on_envelope(peer, envelope)
        if self.files is not None and envelope.kind.startswith("file.") and not self.loses(envelope):
            self.files.on_envelope(peer, envelope)

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        self.received_bytes += len(data)
        if self.files is not None and not self.loses(data):
            self.files.on_bytes(peer, data)
        self._changed.set()

    def on_peer_ready(self, peer: PeerView) -> None:
        super().on_peer_ready(peer)
        if self.files is not None:
            self.files.on_peer_ready()

    def on_bulk_open(self, peer: PeerView) -> None:
        super().on_bulk_open(peer)
        if self.files is not None:
            self.files.on_peer_ready()

    def on_peer_gone(self, peer: PeerView) -> None:
        super().on_peer_gone(peer)
        if self.files is not None:
            self.files.on_peer_gone(peer)


class FileAgent(RoomAgent):
    """One agent in a room, with files below its own folder."""

    listener: FileListener
    make_listener = FileListener

    def __init__(
        self,
        host: str,
        name: str,
        folder: Path,
        engine: str = "wrtc",
        *,
        files: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(host, name, engine, **more)
        self.folder = folder / name
        self.folder.mkdir(exist_ok=True)
        given: dict[str, Any] = {
            "folders": (str(self.folder),),
            "spool_dir": str(self.folder / "spool"),
            "ack_timeout_s": 0.6,
        }
        self.file_options = FileOptions(**given | (files or {}))
        self.room: Room = self.mesh
        self.files = self.listener.files = Files(self)

    def emit(self, type: str, /, **fields: Any) -> None:
        self.listener.on_event(type, fields)

    def write(self, name: str, size: int) -> str:
        """Write a file of random bytes; return its path."""
        path = self.folder / name
        path.write_bytes(os.urandom(size))
        return str(path)

    def received_payloads(self, kind: str) -> list[dict[str, Any]]:
        """Payloads of the received envelopes of one kind."""
        return [envelope.payload for _, envelope in self.listener.envelopes if envelope.kind == kind]

    def content(self, transfer: IncomingTransfer) -> bytes:
        assert transfer.store is not None
        return transfer.store.read(0, transfer.layout.total_bytes)

    async def wait_until_ready_for(self, name: str) -> None:
        """Wait until the bulk channel to a peer is open."""
        await self.wait_for_peers(name)
        await self.listener.until(lambda: self.mesh.bulk(self.uuid(name)))

    async def leave(self) -> None:
        await self.files.close()
        await self.mesh.disconnect()


@asynccontextmanager
async def joined_file_room(*agents: FileAgent) -> AsyncIterator[None]:
    """Connect these agents in order; all leave at the end."""
    async with AsyncExitStack() as stack:
        for agent in agents:
            stack.push_async_callback(agent.leave)
            await agent.mesh.connect()
        yield


@asynccontextmanager
async def file_agent_pair(
    folder: Path, engines: tuple[str, str] = ("wrtc", "wrtc"), **options: Any
) -> AsyncIterator[tuple[FileAgent, FileAgent]]:
    """Ann and Bob, connected to each other."""
    async with signalling() as host:
        ann = FileAgent(host, "ann", folder, engines[0], **options)
        bob = FileAgent(host, "bob", folder, engines[1], **options)
        async with joined_file_room(ann, bob):
            await ann.wait_until_ready_for("bob")
            await bob.wait_until_ready_for("ann")
            yield ann, bob


async def start_transfer(ann: FileAgent, path: str, sending: SendRequest | None = None) -> asyncio.Task[Any]:
    """Start a transfer, and wait until some of it is confirmed."""
    task = asyncio.create_task(ann.files.send_path(path, sending or SendRequest()))
    await ann.listener.until(lambda: any(each.confirmed_bytes and not each.is_over for each in ann.files.outgoing))
    return task
