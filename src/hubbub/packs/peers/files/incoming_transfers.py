"""Accepting incoming transfers: validation of offers, quotas of peers, ownership of transfers.

A transfer belongs to the stream id of the peer that offered it; no other peer can add to it, end it or replace it.
Names that peers give are only displayed, never used in a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.files.chunk_map import ChunkLayout
from hubbub.packs.peers.files.options import DEFAULT_MIME, FileSession
from hubbub.packs.peers.files.receiver import Receiver
from hubbub.packs.peers.files.reply_state import UNKNOWN_TRANSFER
from hubbub.packs.peers.files.spool import MemoryStore, Spool
from hubbub.packs.peers.files.transfer import IncomingTransfer
from hubbub.packs.peers.names import display_name, is_transfer_id, strip_unprintable
from hubbub.packs.peers.room import PeerView
from hubbub.packs.peers.wire import FileCancel, FileChunk, FileComplete, FileOffer, FileResumeReq

_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)


class IncomingTransfers:
    """The incoming transfers of one session."""

    def __init__(self, session: FileSession, spool: Spool) -> None:
        self._session = session
        self._options = session.file_options
        self._spool = spool
        self.receivers: dict[str, Receiver] = {}

    def get(self, transfer_id: str) -> Receiver | None:
        """Return the transfer with that id."""
        return self.receivers.get(transfer_id)

    # -- messages of the sender ------------------------------------------------------------

    def handle_offer(self, peer: PeerView, offer: FileOffer) -> None:
        """Handle the offer of a file."""
        try:
            receiver = self._find_resumable(peer, offer) or self._accept_offer(peer, offer)
        except PeersError as error:
            self.refuse(peer, offer.transfer_id, str(error))
            return
        transfer = receiver.transfer
        transfer.peer_uuid, transfer.peer_stream_id, transfer.last_error = peer.uuid, peer.stream_id, None
        transfer.touch()
        receiver.replies.is_hubbub = peer.is_hubbub
        self.emit(
            "file_offer_received",
            transfer_id=transfer.transfer_id,
            from_uuid=peer.uuid,
            from_stream_id=peer.stream_id,
            total_bytes=transfer.layout.total_bytes,
            total_chunks=transfer.layout.total_chunks,
            next_seq=transfer.chunk_map.next_seq,
            name=transfer.name,
            mime=transfer.mime,
        )
        receiver.replies.accept()

    def refuse(self, peer: PeerView, transfer_id: str, reason: str) -> None:
        """Reject an offer, with the reason for the sender and for our own agent."""
        self.emit("file_offer_rejected", transfer_id=_display_id(transfer_id), reason=reason)
        self.send_envelope("file.nack", {"transfer_id": transfer_id, "expected_seq": 0, "reason": reason}, to=peer.uuid)

    def handle_chunk(self, peer: PeerView, chunk: FileChunk) -> None:
        """Handle a chunk in an envelope."""
        receiver = self._find(peer, chunk.transfer_id)
        if receiver is None:
            self.reject_chunk(peer, chunk.transfer_id, chunk.seq, UNKNOWN_TRANSFER)
        else:
            receiver.handle_chunk(chunk)

    def handle_bytes(self, peer: PeerView, transfer_id: str, seq: int, data: memoryview) -> None:
        """Handle chunks in a binary frame."""
        receiver = self._find(peer, transfer_id)
        if receiver is None:
            self.reject_chunk(peer, transfer_id, seq, UNKNOWN_TRANSFER)
        else:
            receiver.handle_bytes(seq, data)

    def handle_complete(self, peer: PeerView, complete: FileComplete) -> None:
        """Handle the sender's message that all chunks were sent."""
        receiver = self._find(peer, complete.transfer_id)
        if receiver is None:
            self.reject_chunk(peer, complete.transfer_id, 0, UNKNOWN_TRANSFER)
        else:
            receiver.handle_complete(complete)

    def handle_state_request(self, peer: PeerView, state_request: FileResumeReq) -> None:
        """Handle the sender's request for our state."""
        receiver = self._find(peer, state_request.transfer_id)
        if receiver is None:
            state = {"transfer_id": state_request.transfer_id, "next_seq": 0, "status": UNKNOWN_TRANSFER}
            self.send_envelope("file.resume_state", state, to=peer.uuid)
        else:
            receiver.replies.send_state()

    def handle_cancel(self, peer: PeerView, cancel: FileCancel) -> bool:
        """Handle the sender's cancellation; return whether the transfer is known."""
        receiver = self._find(peer, cancel.transfer_id)
        if receiver is None or receiver.transfer.is_over:
            return receiver is not None
        receiver.stop("cancelled by the sender")
        self.emit("file_transfer_cancelled", transfer_id=cancel.transfer_id, from_uuid=peer.uuid)
        self.handle_finished(receiver.transfer)
        return True

    def handle_peer_gone(self, peer: PeerView) -> None:
        """Handle a sender that left; its transfers wait for it to return."""
        for receiver in self.receivers.values():
            if receiver.transfer.peer_uuid == peer.uuid and not receiver.transfer.is_over:
                receiver.transfer.last_error = "the sender left; the transfer continues if it returns"

    def reject_chunk(self, peer: PeerView, transfer_id: str, seq: int | None, reason: str) -> None:
        """Reject a chunk that is malformed or of an unknown transfer; `seq` is None if the chunk has no number."""
        self.emit("file_chunk_rejected", transfer_id=_display_id(transfer_id), seq=seq, reason=reason)
        receiver = self._find(peer, transfer_id)
        if receiver is None:
            self.send_envelope(
                "file.nack", {"transfer_id": transfer_id, "expected_seq": 0, "reason": reason}, to=peer.uuid
            )
        else:
            receiver.replies.nack(reason)

    def _find(self, peer: PeerView, transfer_id: str) -> Receiver | None:
        receiver = self.receivers.get(transfer_id)
        return receiver if receiver is not None and _is_owner(peer, receiver.transfer) else None

    # -- offers ------------------------------------------------------------------------------

    def _find_resumable(self, peer: PeerView, offer: FileOffer) -> Receiver | None:
        """Return the transfer that an offer continues; None if the offer starts a new one."""
        receiver = self.receivers.get(offer.transfer_id)
        if receiver is None:
            return None
        transfer = receiver.transfer
        if not _is_owner(peer, transfer):
            raise PeersError("transfer_id is in use")
        is_same_file = (transfer.layout.total_bytes, transfer.file_hash) == (offer.total_bytes, offer.file_hash.lower())
        if transfer.status == "completed" and not is_same_file:
            raise PeersError("transfer_id was used for another file")
        if transfer.status == "completed":
            return receiver
        if transfer.status == "receiving" and is_same_file and transfer.layout.chunk_bytes == offer.chunk_bytes:
            return receiver
        receiver.stop("replaced by a new offer")
        del self.receivers[offer.transfer_id]
        return None

    def _accept_offer(self, peer: PeerView, offer: FileOffer) -> Receiver:
        layout = self._check_offer(offer)
        self._free_quota(peer, offer)
        mime = strip_unprintable(offer.mime)[:128] or DEFAULT_MIME
        transfer = IncomingTransfer(offer.transfer_id, display_name(offer.name), mime, layout)
        transfer.file_hash = offer.file_hash.lower()
        if offer.total_bytes >= self._options.spool_threshold_bytes:
            receiver = Receiver(self, transfer, self._spool.create_store(offer.transfer_id, offer.total_bytes))
        else:
            receiver = Receiver(self, transfer, MemoryStore(offer.total_bytes))
        self.receivers[offer.transfer_id] = receiver
        return receiver

    def _check_offer(self, offer: FileOffer) -> ChunkLayout:
        most = self._options.max_bytes
        if not is_transfer_id(offer.transfer_id):
            raise PeersError("invalid transfer_id")
        if not 1 <= offer.total_bytes <= most:
            raise PeersError(f"total_bytes must be 1..{most}")
        if not limits.FILE_CHUNK_MIN_BYTES <= offer.chunk_bytes <= limits.FILE_CHUNK_MAX_BYTES:
            raise PeersError("invalid chunk_bytes")
        layout = ChunkLayout(offer.total_bytes, offer.chunk_bytes)
        if offer.total_chunks != layout.total_chunks:
            raise PeersError("invalid total_chunks")
        if not _DIGEST.fullmatch(offer.file_hash):
            raise PeersError("invalid file_hash")
        return layout

    def _free_quota(self, peer: PeerView, offer: FileOffer) -> None:
        """Make room for a transfer within the quotas of one peer and of all peers.

        Finished files of the same peer are discarded first, the oldest before the others, then those of peers
        that left. A peer cannot displace files of another connected peer.
        """
        all_receivers = list(self.receivers.values())
        own = [each for each in all_receivers if _is_owner(peer, each.transfer)]
        connected_ids = {view.stream_id for view in self._session.room.peers if view.is_connected}
        absent = [each for each in all_receivers if each.transfer.peer_stream_id not in connected_ids]
        for receiver in own:
            if not receiver.transfer.is_over and not receiver.is_active:
                receiver.stop("the sender sent no more chunks")
        if _unfinished(own) >= limits.FILE_INCOMING_PER_PEER:
            raise PeersError(
                f"the receiver has {limits.FILE_INCOMING_PER_PEER} unfinished transfers of this peer already"
            )
        for receiver in _oldest_first(each for each in absent if not each.transfer.is_over):
            if _unfinished(all_receivers) < limits.FILE_INCOMING_TOTAL:
                break
            receiver.stop("the sender did not return, and the limit of unfinished transfers was reached")
        if _unfinished(all_receivers) >= limits.FILE_INCOMING_TOTAL:
            raise PeersError("the receiver has too many unfinished transfers; try again later")
        quota = limits.FILE_QUOTA_FILES * self._options.max_bytes
        _shrink(own, own, quota - offer.total_bytes)
        _shrink(all_receivers, absent, quota * limits.FILE_QUOTA_PEERS - offer.total_bytes)

    # -- called by receivers -----------------------------------------------------------------

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None) -> None:
        """Send an envelope to the sender; a sender that left will ask again."""
        if to is not None:
            self._session.room.send_envelope(kind, payload, to=to)

    def emit(self, type: str, /, **fields: Any) -> None:
        """Emit an event for `vdo_receive`."""
        self._session.emit(type, **fields)

    def handle_finished(self, transfer: IncomingTransfer) -> None:
        """Discard the oldest finished transfers above the limits."""
        finished_receivers = _oldest_first(each for each in self.receivers.values() if each.transfer.is_over)
        own = [each for each in finished_receivers if each.transfer.peer_stream_id == transfer.peer_stream_id]
        for receiver in {*own[: -limits.FILES_FINISHED_PER_PEER], *finished_receivers[: -limits.FILES_FINISHED_TOTAL]}:
            del self.receivers[receiver.transfer.transfer_id]
            receiver.discard()

    async def close(self) -> None:
        """Stop all transfers and release their storage."""
        for receiver in list(self.receivers.values()):
            await receiver.close(keep=self._options.keep_spool_files)
        self.receivers.clear()


def _display_id(transfer_id: str) -> str:
    return strip_unprintable(transfer_id[: limits.FILE_ID_CHARACTERS])


def _oldest_first(receivers: Iterable[Receiver]) -> list[Receiver]:
    return sorted(receivers, key=lambda each: each.transfer.last_activity_at)


def _unfinished(receivers: Iterable[Receiver]) -> int:
    return sum(not each.transfer.is_over for each in receivers)


def _shrink(counted: Iterable[Receiver], discardable: Iterable[Receiver], most: int) -> None:
    """Discard finished files until the counted ones take at most `most` bytes."""
    held_bytes = sum(each.transfer.layout.total_bytes for each in counted if each.transfer.store is not None)
    for receiver in _oldest_first(each for each in discardable if each.transfer.has_data):
        if held_bytes <= most:
            return
        held_bytes -= receiver.transfer.layout.total_bytes
        receiver.discard()
    if held_bytes > most:
        raise PeersError("the receiver's quota for files is used up")


def _is_owner(peer: PeerView, transfer: IncomingTransfer) -> bool:
    if transfer.peer_stream_id is not None:
        return peer.stream_id == transfer.peer_stream_id
    return peer.uuid == transfer.peer_uuid
