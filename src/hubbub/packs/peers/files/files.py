"""The files of one session: what the room brings is handed to the right end, what tools ask is done."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hubbub import bounds
from hubbub.packs.peers.arguments import refused
from hubbub.packs.peers.failures import PeersError, WireError
from hubbub.packs.peers.files import frames
from hubbub.packs.peers.files.folders import Folders
from hubbub.packs.peers.files.intake import Intake
from hubbub.packs.peers.files.names import printable
from hubbub.packs.peers.files.options import FileSession, Sending
from hubbub.packs.peers.files.outbox import Outbox
from hubbub.packs.peers.files.source import MemorySource, PathSource
from hubbub.packs.peers.files.spool import Spool
from hubbub.packs.peers.files.transfer import Incoming, Outgoing, Transfer
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
        self._outbox = Outbox(session)
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
                sender = self._outbox.sender_to(peer, said.transfer_id)
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
        self._outbox.wake()

    def on_peer_gone(self, peer: PeerView) -> None:
        """Somebody went."""
        self._intake.forsaken(peer)
        self._outbox.wake()

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
        """Send bytes; when it returns, the other end has all of them.

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
        """Go on with a transfer that stopped.

        Raises: ToolFailure.
        """
        return await self._outbox.resume(transfer_id, sending)

    # -- what tools ask --------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether anything is on its way."""
        return self._outbox.is_busy or any(receiver.is_moving for receiver in self._intake.receivers.values())

    @property
    def incoming(self) -> list[Incoming]:
        """The transfers that come, and came."""
        return [receiver.transfer for receiver in self._intake.receivers.values()]

    @property
    def outgoing(self) -> list[Outgoing]:
        """The transfers that go, and went."""
        return list(self._outbox.transfers.values())

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
        outgoing, receiver = self._outbox.transfers.get(transfer_id), self._intake.get(transfer_id)
        if outgoing is None and receiver is None:
            raise refused(f"unknown transfer_id: {transfer_id}")
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
        """Stop everything, and remove what was spooled."""
        self._is_closed = True
        await self._outbox.close()
        await self._intake.close()
        self._spool.close()


def _usual_folders() -> tuple[str, ...]:
    """The working directory; but whoever starts us somewhere at the top did not mean everything below."""
    here = Path.cwd()
    return () if here == Path(here.anchor) else (str(here),)
