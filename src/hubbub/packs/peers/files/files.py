"""All file transfers of one session: dispatches envelopes to the right end, and implements the tools."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hubbub import ArgumentsInvalid, ToolError
from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import PeersError, WireError
from hubbub.packs.peers.files import frames
from hubbub.packs.peers.files.allowed_folders import allowed_folders
from hubbub.packs.peers.files.incoming_transfers import IncomingTransfers
from hubbub.packs.peers.files.options import FileSession, SendRequest
from hubbub.packs.peers.files.outgoing_transfers import OutgoingTransfers
from hubbub.packs.peers.files.source import MemorySource, PathSource
from hubbub.packs.peers.files.spool import Spool
from hubbub.packs.peers.files.transfer import IncomingTransfer, OutgoingTransfer, Transfer
from hubbub.packs.peers.names import strip_unprintable
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

_CANCEL_REASON: Final = "cancelled by the caller"


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
        self._incoming = IncomingTransfers(session, self._spool)
        self._outgoing = OutgoingTransfers(session)
        self._is_closed = False

    # -- called by the room ------------------------------------------------------------------

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        """Handle a `file.*` envelope of an admitted peer."""
        if self._is_closed:
            return
        try:
            message = envelope.read_payload()
        except WireError as error:
            self._reply_malformed(peer, envelope, error)
            return
        match message:
            case FileOffer():
                self._incoming.handle_offer(peer, message)
            case FileChunk():
                self._incoming.handle_chunk(peer, message)
            case FileComplete():
                self._incoming.handle_complete(peer, message)
            case FileResumeReq():
                self._incoming.handle_state_request(peer, message)
            case FileCancel():
                self._handle_cancel(peer, message)
            case FileAccept() | FileAck() | FileNack() | FileCompleteAck() | FileResumeState():
                sender = self._outgoing.find_sender(peer, message.transfer_id)
                if sender is None:
                    self._emit_unhandled(envelope, message.transfer_id)
                else:
                    sender.handle_reply(envelope, message)
            case _:
                pass

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        """Handle a binary frame of another Hubbub."""
        frame = frames.read_frame(data)
        if frame is not None and not self._is_closed:
            self._incoming.handle_bytes(peer, frame.transfer_id, frame.seq, frame.data)

    def on_peer_ready(self) -> None:
        """Handle a peer that joined or returned, or whose bulk channel opened."""
        self._outgoing.wake()

    def on_peer_gone(self, peer: PeerView) -> None:
        """Handle a peer that left."""
        self._incoming.handle_peer_gone(peer)
        self._outgoing.wake()

    def _reply_malformed(self, peer: PeerView, envelope: Envelope, error: WireError) -> None:
        """Answer a malformed payload, so that the sender need not wait for its timeout."""
        transfer_id = envelope.payload.get("transfer_id")
        if not isinstance(transfer_id, str) or not transfer_id:
            return  # A reply could not name the transfer.
        if envelope.kind == FileOffer.kind:
            self._incoming.refuse(peer, transfer_id, f"invalid offer: {error}")
        elif envelope.kind == FileChunk.kind:
            self._incoming.reject_chunk(peer, transfer_id, None, "invalid_chunk_data")
        else:
            self._session.emit("file_protocol_error", reason="invalid_payload", kind=envelope.kind, from_uuid=peer.uuid)

    def _emit_unhandled(self, envelope: Envelope, transfer_id: str) -> None:
        if transfer_id not in self._outgoing.transfers:
            self._session.emit(
                "file_protocol_unhandled", transfer_id=strip_unprintable(transfer_id), kind=envelope.kind
            )

    def _handle_cancel(self, peer: PeerView, cancel: FileCancel) -> None:
        if self._outgoing.find_sender(peer, cancel.transfer_id) is not None:
            self._outgoing.stop(self._outgoing.transfers[cancel.transfer_id], "cancelled by the receiver")
            self._session.emit("file_transfer_cancelled", transfer_id=cancel.transfer_id, from_uuid=peer.uuid)
        else:
            self._incoming.handle_cancel(peer, cancel)

    # -- sending -----------------------------------------------------------------------------

    async def send_data(self, data: bytes, request: SendRequest) -> OutgoingTransfer:
        """Send bytes; return when the other end has confirmed all of them.

        Raises: ToolFailure.
        """
        return await self._outgoing.send(MemorySource(data), request)

    async def send_path(self, path: str, request: SendRequest) -> OutgoingTransfer:
        """Send a file.

        Raises: ToolFailure.
        """
        request.name = request.name or Path(path).name
        return await self._outgoing.send(PathSource(self.folders, path, self._options.max_bytes), request)

    async def resume(self, transfer_id: str, request: SendRequest) -> OutgoingTransfer:
        """Resume a transfer that stopped.

        Raises: ToolFailure.
        """
        return await self._outgoing.resume(transfer_id, request)

    # -- called by the tools ---------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether any transfer is in progress."""
        return self._outgoing.is_busy or any(receiver.is_active for receiver in self._incoming.receivers.values())

    @property
    def incoming(self) -> list[IncomingTransfer]:
        """The incoming transfers, finished ones included."""
        return [receiver.transfer for receiver in self._incoming.receivers.values()]

    @property
    def outgoing(self) -> list[OutgoingTransfer]:
        """The outgoing transfers, finished ones included."""
        return list(self._outgoing.transfers.values())

    def get_received(self, transfer_id: str) -> IncomingTransfer:
        """Return a completely received transfer.

        Raises: ToolFailure.
        """
        receiver = self._incoming.get(transfer_id)
        if receiver is None:
            raise ArgumentsInvalid(f"unknown transfer_id: {transfer_id}")
        if receiver.transfer.status != "completed":
            raise ToolError(f"transfer not complete: {transfer_id}")
        if receiver.transfer.store is None:
            raise ToolError(f"transfer payload unavailable: {transfer_id}")
        return receiver.transfer

    async def save(self, transfer: IncomingTransfer, path: str, *, overwrite: bool) -> tuple[str, int]:
        """Write a received transfer to a file; return its path and size.

        Raises: PeersError.
        """
        return await asyncio.to_thread(self._save, transfer, path, overwrite)

    def _save(self, transfer: IncomingTransfer, path: str, overwrite: bool) -> tuple[str, int]:
        with self.folders.new_file(path, overwrite=overwrite) as (file, display_path):
            for block in self._blocks(transfer, 0, transfer.layout.total_bytes):
                view = memoryview(block)
                while view:
                    view = view[os.write(file, view) :]
        return display_path, transfer.layout.total_bytes

    async def read(self, transfer: IncomingTransfer, start: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of a received transfer from `start` up to but not including `end`.

        Raises: PeersError.
        """
        end = transfer.layout.total_bytes if end is None else end
        return await asyncio.to_thread(lambda: b"".join(self._blocks(transfer, start, end)))

    @staticmethod
    def _blocks(transfer: IncomingTransfer, start: int, end: int) -> Iterable[bytes]:
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
        outgoing, receiver = self._outgoing.transfers.get(transfer_id), self._incoming.get(transfer_id)
        if outgoing is None and receiver is None:
            raise ArgumentsInvalid(f"unknown transfer_id: {transfer_id}")
        if outgoing is not None and (not outgoing.is_over or receiver is None):
            transfer: Transfer = outgoing
            if outgoing.status in ("completed", "cancelled"):
                return outgoing
            self._outgoing.stop(outgoing, _CANCEL_REASON)
            outgoing.source = None
        else:
            assert receiver is not None
            transfer = receiver.transfer
            if transfer.is_over:
                return transfer
            receiver.stop(_CANCEL_REASON)
        self._send_cancel(transfer)
        return transfer

    def _send_cancel(self, transfer: Transfer) -> None:
        self._session.emit("file_transfer_cancelled", transfer_id=transfer.transfer_id, from_uuid=None)
        if transfer.peer_uuid is not None:
            cancel = {"transfer_id": transfer.transfer_id, "reason": _CANCEL_REASON}
            self._session.room.send_envelope("file.cancel", cancel, to=transfer.peer_uuid)

    async def close(self) -> None:
        """Stop all transfers, and remove spooled files."""
        self._is_closed = True
        await self._outgoing.close()
        await self._incoming.close()
        self._spool.close()
