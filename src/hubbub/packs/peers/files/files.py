"""The files of one session: what the room brings is handed to the right end, what tools ask is done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hubbub import bounds
from hubbub.packs.peers.arguments import refused
from hubbub.packs.peers.failures import ChannelClosed, PeersError, WireError
from hubbub.packs.peers.files import frames
from hubbub.packs.peers.files.folders import Folders
from hubbub.packs.peers.files.intake import Intake
from hubbub.packs.peers.files.names import is_id, printable, shown_name
from hubbub.packs.peers.files.options import FileSession, Sending
from hubbub.packs.peers.files.parts import Layout
from hubbub.packs.peers.files.sender import Sender
from hubbub.packs.peers.files.source import MemorySource, PathSource, Source
from hubbub.packs.peers.files.spool import Spool
from hubbub.packs.peers.files.transfer import Incoming, Outgoing, Transfer
from hubbub.packs.peers.names import short_id
from hubbub.packs.peers.peer_view import PeerView
from hubbub.packs.peers.wire import (
    Envelope,
    FileAccept,
    FileAck,
    FileCancel,
    FileChunk,
    FileComplete,
    FileCompleteAck,
    FileNack,
    FileOffer,
    FileResumeReq,
    FileResumeState,
)

_CANCELLED: Final = "cancelled by the caller"


class Files:
    """All transfers of one session."""

    def __init__(self, session: FileSession) -> None:
        """Begin with none.

        Raises: PeersError, if the spool folder is not below an allowed one.
        """
        self._session = session
        self._options = session.file_options
        self.folders = Folders(self._options.folders or _usual_folders())
        self._spool = Spool(self.folders, self._options.spool_dir, keep=self._options.keep_spool_files)
        self._intake = Intake(session, self._spool)
        self._outgoing: dict[str, Outgoing] = {}
        self._senders: dict[str, Sender] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    # -- what the room brings ----------------------------------------------------------------

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        """A `file.*` envelope of an admitted peer."""
        if self._is_closed:
            return
        try:
            said = envelope.read()
        except WireError:
            return
        match said:
            case FileOffer():
                self._intake.offered(peer, said)
            case FileChunk():
                self._intake.chunk(peer, said)
            case FileComplete():
                self._intake.complete(peer, said)
            case FileResumeReq():
                self._intake.asked(peer, said)
            case FileCancel():
                self._cancelled(peer, said)
            case FileAccept() | FileAck() | FileNack() | FileCompleteAck() | FileResumeState():
                sender = self._sender_to(peer, said.transfer_id)
                if sender is None:
                    self._unhandled(envelope, said.transfer_id)
                else:
                    sender.hear(envelope, said)
            case _:
                pass

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        """A frame of bytes of another Hubbub."""
        frame = frames.read_frame(data)
        if frame is not None and not self._is_closed:
            self._intake.bytes(peer, frame.transfer_id, frame.seq, frame.data)

    def on_peer_ready(self, peer: PeerView) -> None:
        """Somebody came, or came back."""
        self._wake()

    def on_peer_gone(self, peer: PeerView) -> None:
        """Somebody went."""
        self._intake.forsaken(peer)
        self._wake()

    def _wake(self) -> None:
        for sender in self._senders.values():
            sender.wake()

    def _sender_to(self, peer: PeerView, transfer_id: str) -> Sender | None:
        transfer = self._outgoing.get(transfer_id)
        is_meant = transfer is not None and transfer.peer_uuid == peer.uuid
        return self._senders.get(transfer_id) if is_meant else None

    def _unhandled(self, envelope: Envelope, transfer_id: str) -> None:
        if transfer_id not in self._outgoing:
            self._session.emit("file_protocol_unhandled", transfer_id=transfer_id, kind=envelope.kind)

    def _cancelled(self, peer: PeerView, cancel: FileCancel) -> None:
        if self._sender_to(peer, cancel.transfer_id) is not None:
            self._stop(self._outgoing[cancel.transfer_id], "cancelled by the receiver")
            self._session.emit("file_transfer_cancelled", transfer_id=cancel.transfer_id, from_uuid=peer.uuid)
        else:
            self._intake.cancelled(peer, cancel)

    # -- sending -----------------------------------------------------------------------------

    async def send_data(self, data: bytes, sending: Sending) -> Outgoing:
        """Send bytes; when it returns, the other end has all of them.

        Raises: ToolFailure.
        """
        return await self._send(MemorySource(data), sending)

    async def send_path(self, path: str, sending: Sending) -> Outgoing:
        """Send a file.

        Raises: ToolFailure.
        """
        sending.name = sending.name or Path(path).name
        return await self._send(PathSource(self.folders, path, self._options.max_bytes), sending)

    async def _send(self, source: Source, sending: Sending) -> Outgoing:
        transfer_id = sending.transfer_id or short_id("file")
        if not is_id(transfer_id):
            raise refused("invalid transfer_id: use up to 128 letters, digits and signs, without spaces")
        peer = self._target(sending.target)
        if self._is_closed:
            raise refused("the session was closed")
        if transfer_id in self._running:
            raise refused(f"transfer_id is in use: {transfer_id}")
        if len(self._running) >= bounds.FILES_SENT_AT_ONCE:
            raise refused("too many files are sent at once; wait for one of them")
        transfer = Outgoing(transfer_id, shown_name(sending.name), printable(sending.mime)[:128], source)
        transfer.wanted_chunk_bytes = sending.chunk_bytes or self._options.chunk_bytes
        transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id
        return await self._run(transfer, sending)

    async def resume(self, transfer_id: str, sending: Sending) -> Outgoing:
        """Go on with a transfer that stopped.

        Raises: ToolFailure.
        """
        transfer = self._outgoing.get(transfer_id)
        if transfer is None:
            raise refused(f"unknown transfer_id: {transfer_id}")
        if transfer.status == "completed":
            return transfer
        if transfer_id in self._running:
            raise refused(f"transfer is running already: {transfer_id}")
        if sending.target is not None:
            peer = self._target(sending.target)
            transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id
        return await self._run(transfer, sending)

    async def _run(self, transfer: Outgoing, sending: Sending) -> Outgoing:
        """Run it as a task of its own, which ends with the call that waits for it."""
        name = transfer.transfer_id
        self._outgoing[name] = transfer
        task = self._running[name] = asyncio.create_task(self._work(transfer, sending))
        try:
            await asyncio.wait([task], timeout=sending.timeout_s)
            if not task.done():
                self._stop(transfer, "timed out", is_failure=True)
                await asyncio.wait([task])
        except asyncio.CancelledError:
            self._stop(transfer, "the call was cancelled", is_failure=True)
            await asyncio.wait([task])
            raise
        finally:
            self._forget_old()
        task.result()
        if transfer.status != "completed":
            raise self._failure(transfer)
        return transfer

    async def _work(self, transfer: Outgoing, sending: Sending) -> None:
        """Send it, and note how it ended."""
        name = transfer.transfer_id
        sender = self._senders[name] = Sender(self._session, transfer, sending)
        source = transfer.source
        try:
            if source is None:
                raise PeersError("transfer payload unavailable")
            total, transfer.file_hash = await asyncio.to_thread(source.begin)
            self._check_size(total)
            if total != transfer.layout.total_bytes:
                transfer.layout = Layout(total, transfer.wanted_chunk_bytes)
            await sender.run()
            self._sent(transfer)
        except (PeersError, ChannelClosed, OSError) as error:
            reason = error.message if isinstance(error, PeersError) else f"the file cannot be read: {error}"
            transfer.settle("failed", reason)
            self._failed(transfer, reason)
        except asyncio.CancelledError:
            pass  # Whoever stopped it said why.
        finally:
            self._senders.pop(name, None)
            self._running.pop(name, None)
            if source is not None:
                source.end()

    def _check_size(self, total: int) -> None:
        if not total:
            raise PeersError("file data must not be empty")
        if total > self._options.max_bytes:
            raise PeersError(f"file exceeds max {self._options.max_bytes} bytes")

    def _sent(self, transfer: Outgoing) -> None:
        transfer.settle("completed")
        transfer.source = None
        self._session.emit(
            "file_transfer_complete",
            transfer_id=transfer.transfer_id,
            target_uuid=transfer.peer_uuid,
            total_bytes=transfer.layout.total_bytes,
            total_chunks=transfer.layout.total_chunks,
            retries_total=transfer.retries_total,
            file_hash=transfer.file_hash,
        )

    def _failed(self, transfer: Outgoing, reason: str) -> None:
        self._session.emit(
            "file_transfer_failed", transfer_id=transfer.transfer_id, direction="outgoing", reason=reason
        )

    def _failure(self, transfer: Outgoing) -> Exception:
        failure = refused(f"{transfer.last_error or transfer.status} (transfer_id {transfer.transfer_id})")
        failure.data = {"transfer": transfer.summary()}
        return failure

    def _stop(self, transfer: Outgoing, reason: str, *, is_failure: bool = False) -> None:
        transfer.settle("failed" if is_failure else "cancelled", reason)
        if is_failure:
            self._failed(transfer, reason)
        task = self._running.get(transfer.transfer_id)
        if task is not None:
            task.cancel()

    def _target(self, target: str | None) -> PeerView:
        """Whom a file is for."""
        room = self._session.room
        if target is not None:
            peer = room.find(target)
            if peer is None or not peer.is_connected or not peer.is_admitted:
                raise refused(f"no open channel to {target}: failed to send file.offer")
            return peer
        there = [peer for peer in room.peers if peer.is_connected and peer.is_admitted]
        if not there:
            raise refused("no connected peers")
        if len(there) > 1:
            raise refused("ambiguous target: multiple peers connected")
        return there[0]

    def _forget_old(self) -> None:
        over = [transfer for transfer in self._outgoing.values() if transfer.is_over]
        over.sort(key=lambda transfer: transfer.moved_at)
        for transfer in over[: -bounds.FILES_KEPT]:
            del self._outgoing[transfer.transfer_id]

    # -- what tools ask --------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether anything is on its way."""
        return bool(self._running) or any(receiver.is_moving for receiver in self._intake.receivers.values())

    @property
    def incoming(self) -> list[Incoming]:
        """The transfers that come, and came."""
        return [receiver.transfer for receiver in self._intake.receivers.values()]

    @property
    def outgoing(self) -> list[Outgoing]:
        """The transfers that go, and went."""
        return list(self._outgoing.values())

    def received(self, transfer_id: str) -> Incoming:
        """A transfer that is here, whole.

        Raises: ToolFailure.
        """
        receiver = self._intake.get(transfer_id)
        if receiver is None:
            raise refused(f"unknown transfer_id: {transfer_id}")
        if receiver.transfer.status != "completed":
            raise refused(f"transfer not complete: {transfer_id}")
        if receiver.transfer.store is None:
            raise refused(f"transfer payload unavailable: {transfer_id}")
        return receiver.transfer

    async def save(self, transfer: Incoming, path: str, *, overwrite: bool) -> tuple[str, int]:
        """Write a transfer that is here to a file; where it is, and how large.

        Raises: PeersError.
        """
        return await asyncio.to_thread(self._save, transfer, path, overwrite)

    def _save(self, transfer: Incoming, path: str, overwrite: bool) -> tuple[str, int]:
        with self.folders.new_file(path, overwrite=overwrite) as (file, shown):
            for block in self._blocks(transfer):
                view = memoryview(block)
                while view:
                    view = view[os.write(file, view) :]
        return shown, transfer.layout.total_bytes

    async def read(self, transfer: Incoming) -> bytes:
        """All of a small transfer that is here."""
        return await asyncio.to_thread(lambda: b"".join(self._blocks(transfer)))

    @staticmethod
    def _blocks(transfer: Incoming) -> Iterable[bytes]:
        store, total = transfer.store, transfer.layout.total_bytes
        for offset in range(0, total, bounds.FILE_BLOCK_BYTES):
            size = min(bounds.FILE_BLOCK_BYTES, total - offset)
            try:
                block = b"" if store is None else store.read(offset, size)
            except OSError:
                block = b""  # It was forgotten meanwhile.
            if len(block) != size:
                raise PeersError(f"transfer payload unavailable: {transfer.transfer_id}")
            yield block

    def cancel(self, transfer_id: str) -> Transfer:
        """Let a transfer be, whichever end it is of, and tell the other end.

        Raises: ToolFailure.
        """
        outgoing, receiver = self._outgoing.get(transfer_id), self._intake.get(transfer_id)
        if outgoing is None and receiver is None:
            raise refused(f"unknown transfer_id: {transfer_id}")
        if outgoing is not None and (not outgoing.is_over or receiver is None):
            transfer: Transfer = outgoing
            if outgoing.status in ("completed", "cancelled"):
                return outgoing
            self._stop(outgoing, _CANCELLED)
            outgoing.source = None
        else:
            assert receiver is not None
            transfer = receiver.transfer
            if transfer.is_over:
                return transfer
            receiver.stop(_CANCELLED)
        self._tell_cancelled(transfer)
        return transfer

    def _tell_cancelled(self, transfer: Transfer) -> None:
        self._session.emit("file_transfer_cancelled", transfer_id=transfer.transfer_id, from_uuid=None)
        if transfer.peer_uuid is not None:
            cancel = {"transfer_id": transfer.transfer_id, "reason": _CANCELLED}
            self._session.room.send_envelope("file.cancel", cancel, to=transfer.peer_uuid)

    async def close(self) -> None:
        """Stop everything, and remove what was spooled."""
        self._is_closed = True
        tasks = list(self._running.values())
        for transfer_id in list(self._running):
            self._stop(self._outgoing[transfer_id], "the session was closed", is_failure=True)
        if tasks:
            await asyncio.wait(tasks)
        await self._intake.close()
        self._spool.close()


def _usual_folders() -> tuple[str, ...]:
    """The working directory; but whoever starts us somewhere at the top did not mean everything below."""
    here = Path.cwd()
    return () if here == Path(here.anchor) else (str(here),)
