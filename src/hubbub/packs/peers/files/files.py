"""All file transfers of one session: dispatches envelopes to the right end, and implements the tools."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hubbub import ArgumentsInvalid, ToolError
from hubbub.packs.peers import limits
from hubbub.packs.peers.failures import PeersError, WireError
from hubbub.packs.peers.files import frames
from hubbub.packs.peers.files.allowed_folders import allowed_folders
from hubbub.packs.peers.files.intake import Intake
from hubbub.packs.peers.files.options import FileSession, Sending
from hubbub.packs.peers.files.outbox import Outbox
from hubbub.packs.peers.files.source import MemorySource, PathSource
from hubbub.packs.peers.files.spool import Spool
from hubbub.packs.peers.files.transfer import Incoming, Outgoing, Transfer
from hubbub.packs.peers.names import printable
from hubbub.packs.peers.room import PeerView
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
        """Start without transfers.

        Raises: PeersError, if the spool folder is not below an allowed one.
        """
        self._session = session
        self._options = session.file_options
        self.folders = allowed_folders(self._options.folders)
        self._spool = Spool(self.folders, self._options.spool_dir, keep=self._options.keep_spool_files)
        self._intake = Intake(session, self._spool)
        self._outbox = Outbox(session)
        self._is_closed = False

    # -- called by the room ------------------------------------------------------------------

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        """Handle a `file.*` envelope of an admitted peer."""
        if self._is_closed:
            return
        try:
            said = envelope.read()
        except WireError as error:
            self._unreadable(peer, envelope, error)
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
                sender = self._outbox.sender_to(peer, said.transfer_id)
                if sender is None:
                    self._unhandled(envelope, said.transfer_id)
                else:
                    sender.hear(envelope, said)
            case _:
                pass

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        """Handle a binary frame of another Hubbub."""
        frame = frames.read_frame(data)
        if frame is not None and not self._is_closed:
            self._intake.bytes(peer, frame.transfer_id, frame.seq, frame.data)

    def on_peer_ready(self) -> None:
        """Handle a peer that joined or returned, or whose bulk channel opened."""
        self._outbox.wake()

    def on_peer_gone(self, peer: PeerView) -> None:
        """Handle a peer that left."""
        self._intake.forsaken(peer)
        self._outbox.wake()

    def _unreadable(self, peer: PeerView, envelope: Envelope, error: WireError) -> None:
        """Answer a malformed payload, so that the sender need not wait for its timeout."""
        transfer_id = envelope.payload.get("transfer_id")
        if not isinstance(transfer_id, str) or not transfer_id:
            return  # A reply could not name the transfer.
        if envelope.kind == FileOffer.kind:
            self._intake.refuse(peer, transfer_id, f"invalid offer: {error}")
        elif envelope.kind == FileChunk.kind:
            self._intake.reject_chunk(peer, transfer_id, None, "invalid_chunk_data")
        else:
            self._session.emit("file_protocol_error", reason="invalid_payload", kind=envelope.kind, from_uuid=peer.uuid)

    def _unhandled(self, envelope: Envelope, transfer_id: str) -> None:
        if transfer_id not in self._outbox.transfers:
            self._session.emit("file_protocol_unhandled", transfer_id=printable(transfer_id), kind=envelope.kind)

    def _cancelled(self, peer: PeerView, cancel: FileCancel) -> None:
        if self._outbox.sender_to(peer, cancel.transfer_id) is not None:
            self._outbox.stop(self._outbox.transfers[cancel.transfer_id], "cancelled by the receiver")
            self._session.emit("file_transfer_cancelled", transfer_id=cancel.transfer_id, from_uuid=peer.uuid)
        else:
            self._intake.cancelled(peer, cancel)

    # -- sending -----------------------------------------------------------------------------

    async def send_data(self, data: bytes, sending: Sending) -> Outgoing:
        """Send bytes; return when the other end has confirmed all of them.

        Raises: ToolFailure.
        """
        return await self._outbox.send(MemorySource(data), sending)

    async def send_path(self, path: str, sending: Sending) -> Outgoing:
        """Send a file.

        Raises: ToolFailure.
        """
        sending.name = sending.name or Path(path).name
        return await self._outbox.send(PathSource(self.folders, path, self._options.max_bytes), sending)

    async def resume(self, transfer_id: str, sending: Sending) -> Outgoing:
        """Resume a transfer that stopped.

        Raises: ToolFailure.
        """
        return await self._outbox.resume(transfer_id, sending)

    # -- called by the tools ---------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether any transfer is in progress."""
        return self._outbox.is_busy or any(receiver.is_moving for receiver in self._intake.receivers.values())

    @property
    def incoming(self) -> list[Incoming]:
        """The incoming transfers, finished ones included."""
        return [receiver.transfer for receiver in self._intake.receivers.values()]

    @property
    def outgoing(self) -> list[Outgoing]:
        """The outgoing transfers, finished ones included."""
        return list(self._outbox.transfers.values())

    def received(self, transfer_id: str) -> Incoming:
        """Return a completely received transfer.

        Raises: ToolFailure.
        """
        receiver = self._intake.get(transfer_id)
        if receiver is None:
            raise ArgumentsInvalid(f"unknown transfer_id: {transfer_id}")
        if receiver.transfer.status != "completed":
            raise ToolError(f"transfer not complete: {transfer_id}")
        if receiver.transfer.store is None:
            raise ToolError(f"transfer payload unavailable: {transfer_id}")
        return receiver.transfer

    async def save(self, transfer: Incoming, path: str, *, overwrite: bool) -> tuple[str, int]:
        """Write a received transfer to a file; return its path and size.

        Raises: PeersError.
        """
        return await asyncio.to_thread(self._save, transfer, path, overwrite)

    def _save(self, transfer: Incoming, path: str, overwrite: bool) -> tuple[str, int]:
        with self.folders.new_file(path, overwrite=overwrite) as (file, shown):
            for block in self._blocks(transfer, 0, transfer.layout.total_bytes):
                view = memoryview(block)
                while view:
                    view = view[os.write(file, view) :]
        return shown, transfer.layout.total_bytes

    async def read(self, transfer: Incoming, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of a received transfer from `start` up to but not including `end`.

        Raises: PeersError.
        """
        end = transfer.layout.total_bytes if end is None else end
        return await asyncio.to_thread(lambda: b"".join(self._blocks(transfer, start, end)))

    @staticmethod
    def _blocks(transfer: Incoming, start: int, end: int) -> Iterable[bytes]:
        store = transfer.store
        for offset in range(start, end, limits.FILE_BLOCK_BYTES):
            size = min(limits.FILE_BLOCK_BYTES, end - offset)
            try:
                block = b"" if store is None else store.read(offset, size)
            except OSError:
                block = b""  # It was discarded in the meantime.
            if len(block) != size:
                raise PeersError(f"transfer payload unavailable: {transfer.transfer_id}")
            yield block

    def cancel(self, transfer_id: str) -> Transfer:
        """Cancel a transfer in either direction, and notify the other end.

        Raises: ToolFailure.
        """
        outgoing, receiver = self._outbox.transfers.get(transfer_id), self._intake.get(transfer_id)
        if outgoing is None and receiver is None:
            raise ArgumentsInvalid(f"unknown transfer_id: {transfer_id}")
        if outgoing is not None and (not outgoing.is_over or receiver is None):
            transfer: Transfer = outgoing
            if outgoing.status in ("completed", "cancelled"):
                return outgoing
            self._outbox.stop(outgoing, _CANCELLED)
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
        """Stop all transfers, and remove spooled files."""
        self._is_closed = True
        await self._outbox.close()
        await self._intake.close()
        self._spool.close()
