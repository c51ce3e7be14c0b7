"""Ends that send and take files, for tests: a mesh, its files, and a note of what was told."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from tests.packs.peers.rooms import End, Notes, signalling

from hubbub.packs.peers.files.files import Files
from hubbub.packs.peers.files.options import FileOptions, Sending
from hubbub.packs.peers.files.transfer import Incoming
from hubbub.packs.peers.room import PeerView, Room
from hubbub.packs.peers.wire import Envelope


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """Let the kernel refuse to write beyond some size, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class FileNotes(Notes):
    """An upper half with files."""

    files: Files | None = None
    received_bytes = 0

    def loses(self, frame: bytes | Envelope) -> bool:
        """Whether the way here loses something; a test may say so."""
        return False

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        super().on_envelope(peer, envelope)
        if self.files is not None and envelope.kind.startswith("file.") and not self.loses(envelope):
            self.files.on_envelope(peer, envelope)

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        self.received_bytes += len(data)
        if self.files is not None and not self.loses(data):
            self.files.on_bytes(peer, data)
        self._news.set()

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


class FileEnd(End):
    """One agent in a room, with files below a folder of its own."""

    notes: FileNotes
    make_notes = FileNotes

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
        self.files = self.notes.files = Files(self)

    def emit(self, type: str, /, **fields: Any) -> None:
        self.notes.on_event(type, fields)

    def write(self, name: str, size: int) -> str:
        """A file with bytes that no other has."""
        path = self.folder / name
        path.write_bytes(os.urandom(size))
        return str(path)

    def said(self, kind: str) -> list[dict[str, Any]]:
        """What it was told in envelopes of a kind."""
        return [envelope.payload for _, envelope in self.notes.envelopes if envelope.kind == kind]

    def content(self, transfer: Incoming) -> bytes:
        assert transfer.store is not None
        return transfer.store.read(0, transfer.layout.total_bytes)

    async def until_ready_for(self, name: str) -> None:
        """Until it has a way of bytes to another end."""
        await self.until_knows(name)
        await self.notes.until(lambda: self.mesh.bulk(self.uuid(name)))

    async def leave(self) -> None:
        await self.files.close()
        await self.mesh.disconnect()


@asynccontextmanager
async def file_room(*ends: FileEnd) -> AsyncIterator[None]:
    """Let these come in, and leave together."""
    async with AsyncExitStack() as stack:
        for end in ends:
            stack.push_async_callback(end.leave)
            await end.mesh.connect()
        yield


@asynccontextmanager
async def pair(
    folder: Path, engines: tuple[str, str] = ("wrtc", "wrtc"), **options: Any
) -> AsyncIterator[tuple[FileEnd, FileEnd]]:
    """Ann and Bob, who know each other."""
    async with signalling() as host:
        ann = FileEnd(host, "ann", folder, engines[0], **options)
        bob = FileEnd(host, "bob", folder, engines[1], **options)
        async with file_room(ann, bob):
            await ann.until_ready_for("bob")
            await bob.until_ready_for("ann")
            yield ann, bob


async def begun(ann: FileEnd, path: str, sending: Sending | None = None) -> asyncio.Task[Any]:
    """A transfer that is on its way."""
    task = asyncio.create_task(ann.files.send_path(path, sending or Sending()))
    await ann.notes.until(lambda: any(each.confirmed_bytes and not each.is_over for each in ann.files.outgoing))
    return task
