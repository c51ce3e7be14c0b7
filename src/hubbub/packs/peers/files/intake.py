"""Accepting incoming transfers: validation of offers, quotas of peers, ownership of transfers.

A transfer belongs to the stream id of the peer that offered it; no other peer can add to it, end it or replace it.
Names that peers give are only displayed, never used in a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.files.hearing import UNKNOWN
from hubbub.packs.peers.files.options import USUAL_MIME, FileSession
from hubbub.packs.peers.files.parts import Layout
from hubbub.packs.peers.files.receiver import Receiver
from hubbub.packs.peers.files.spool import MemoryStore, Spool
from hubbub.packs.peers.files.transfer import Incoming
from hubbub.packs.peers.names import is_id, printable, shown_name
from hubbub.packs.peers.room import PeerView
from hubbub.packs.peers.wire import FileCancel, FileChunk, FileComplete, FileOffer, FileResumeReq

_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)


class Intake:
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

    def offered(self, peer: PeerView, offer: FileOffer) -> None:
        """Handle the offer of a file."""
        try:
            receiver = self._resumed(peer, offer) or self._taken(peer, offer)
        except PeersError as error:
            self.refuse(peer, offer.transfer_id, str(error))
            return
        transfer = receiver.transfer
        transfer.peer_uuid, transfer.peer_stream_id, transfer.last_error = peer.uuid, peer.stream_id, None
        transfer.touch()
        receiver.answers.is_hubbub = peer.is_hubbub
        self.emit(
            "file_offer_received",
            transfer_id=transfer.transfer_id,
            from_uuid=peer.uuid,
            from_stream_id=peer.stream_id,
            total_bytes=transfer.layout.total_bytes,
            total_chunks=transfer.layout.total_chunks,
            next_seq=transfer.parts.next_seq,
            name=transfer.name,
            mime=transfer.mime,
        )
        receiver.answers.accept()

    def refuse(self, peer: PeerView, transfer_id: str, reason: str) -> None:
        """Reject an offer, with the reason for the sender and for our own agent."""
        self.emit("file_offer_rejected", transfer_id=_shown_id(transfer_id), reason=reason)
        self.say("file.nack", {"transfer_id": transfer_id, "expected_seq": 0, "reason": reason}, to=peer.uuid)

    def chunk(self, peer: PeerView, chunk: FileChunk) -> None:
        """Handle a chunk in an envelope."""
        receiver = self._of(peer, chunk.transfer_id)
        if receiver is None:
            self.reject_chunk(peer, chunk.transfer_id, chunk.seq, UNKNOWN)
        else:
            receiver.take_envelope(chunk)

    def bytes(self, peer: PeerView, transfer_id: str, seq: int, data: memoryview) -> None:
        """Handle chunks in a binary frame."""
        receiver = self._of(peer, transfer_id)
        if receiver is None:
            self.reject_chunk(peer, transfer_id, seq, UNKNOWN)
        else:
            receiver.take_bytes(seq, data)

    def complete(self, peer: PeerView, complete: FileComplete) -> None:
        """Handle the sender's message that all chunks were sent."""
        receiver = self._of(peer, complete.transfer_id)
        if receiver is None:
            self.reject_chunk(peer, complete.transfer_id, 0, UNKNOWN)
        else:
            receiver.completed_by_sender(complete)

    def asked(self, peer: PeerView, question: FileResumeReq) -> None:
        """Handle the sender's request for our state."""
        receiver = self._of(peer, question.transfer_id)
        if receiver is None:
            state = {"transfer_id": question.transfer_id, "next_seq": 0, "status": UNKNOWN}
            self.say("file.resume_state", state, to=peer.uuid)
        else:
            receiver.answers.tell_state()

    def cancelled(self, peer: PeerView, cancel: FileCancel) -> bool:
        """Handle the sender's cancellation; return whether the transfer is known."""
        receiver = self._of(peer, cancel.transfer_id)
        if receiver is None or receiver.transfer.is_over:
            return receiver is not None
        receiver.stop("cancelled by the sender")
        self.emit("file_transfer_cancelled", transfer_id=cancel.transfer_id, from_uuid=peer.uuid)
        self.finished(receiver.transfer)
        return True

    def forsaken(self, peer: PeerView) -> None:
        """Handle a sender that left; its transfers wait for it to return."""
        for receiver in self.receivers.values():
            if receiver.transfer.peer_uuid == peer.uuid and not receiver.transfer.is_over:
                receiver.transfer.last_error = "the sender is gone; it may come back and go on"

    def reject_chunk(self, peer: PeerView, transfer_id: str, seq: int | None, reason: str) -> None:
        """Reject a chunk that is malformed or of an unknown transfer; `seq` is None if the chunk has no number."""
        self.emit("file_chunk_rejected", transfer_id=_shown_id(transfer_id), seq=seq, reason=reason)
        receiver = self._of(peer, transfer_id)
        if receiver is None:
            self.say("file.nack", {"transfer_id": transfer_id, "expected_seq": 0, "reason": reason}, to=peer.uuid)
        else:
            receiver.answers.nack(reason)

    def _of(self, peer: PeerView, transfer_id: str) -> Receiver | None:
        receiver = self.receivers.get(transfer_id)
        return receiver if receiver is not None and _owns(peer, receiver.transfer) else None

    # -- offers ------------------------------------------------------------------------------

    def _resumed(self, peer: PeerView, offer: FileOffer) -> Receiver | None:
        """Return the transfer that an offer continues; None if the offer starts a new one."""
        receiver = self.receivers.get(offer.transfer_id)
        if receiver is None:
            return None
        transfer = receiver.transfer
        if not _owns(peer, transfer):
            raise PeersError("transfer_id is in use")
        is_same_file = (transfer.layout.total_bytes, transfer.file_hash) == (offer.total_bytes, offer.file_hash.lower())
        if transfer.status == "completed" and not is_same_file:
            raise PeersError("transfer_id was used for another file")
        if transfer.status == "completed":
            return receiver
        if transfer.status == "receiving" and is_same_file and transfer.layout.chunk_bytes == offer.chunk_bytes:
            return receiver
        receiver.stop("offered anew")
        del self.receivers[offer.transfer_id]
        return None

    def _taken(self, peer: PeerView, offer: FileOffer) -> Receiver:
        layout = self._checked(offer)
        self._make_room(peer, offer)
        mime = printable(offer.mime)[:128] or USUAL_MIME
        transfer = Incoming(offer.transfer_id, shown_name(offer.name), mime, layout)
        transfer.file_hash = offer.file_hash.lower()
        if offer.total_bytes >= self._options.spool_threshold_bytes:
            receiver = Receiver(self, transfer, self._spool.make(offer.transfer_id, offer.total_bytes))
        else:
            receiver = Receiver(self, transfer, MemoryStore(offer.total_bytes))
        self.receivers[offer.transfer_id] = receiver
        return receiver

    def _checked(self, offer: FileOffer) -> Layout:
        most = self._options.max_bytes
        if not is_id(offer.transfer_id):
            raise PeersError("invalid transfer_id")
        if not 1 <= offer.total_bytes <= most:
            raise PeersError(f"total_bytes must be 1..{most}")
        if not limits.FILE_CHUNK_LEAST <= offer.chunk_bytes <= limits.FILE_CHUNK_MOST:
            raise PeersError("invalid chunk_bytes")
        layout = Layout(offer.total_bytes, offer.chunk_bytes)
        if offer.total_chunks != layout.total_chunks:
            raise PeersError("invalid total_chunks")
        if not _DIGEST.fullmatch(offer.file_hash):
            raise PeersError("invalid file_hash")
        return layout

    def _make_room(self, peer: PeerView, offer: FileOffer) -> None:
        """Make room for a transfer within the quotas of one peer and of all peers.

        Finished files of the same peer are discarded first, the oldest before the others, then those of peers
        that left. A peer cannot displace files of another connected peer.
        """
        all_of_them = list(self.receivers.values())
        own = [each for each in all_of_them if _owns(peer, each.transfer)]
        here = {view.stream_id for view in self._session.room.peers if view.is_connected}
        gone = [each for each in all_of_them if each.transfer.peer_stream_id not in here]
        for receiver in own:
            if not receiver.transfer.is_over and not receiver.is_moving:
                receiver.stop("the sender did not go on")
        if _unfinished(own) >= limits.FILE_INCOMING_OF_ONE_PEER:
            raise PeersError("too many transfers of one peer")
        for receiver in _oldest_first(each for each in gone if not each.transfer.is_over):
            if _unfinished(all_of_them) < limits.FILE_INCOMING_IN_ALL:
                break
            receiver.stop("the sender did not come back, and others needed the place")
        if _unfinished(all_of_them) >= limits.FILE_INCOMING_IN_ALL:
            raise PeersError("too many transfers")
        quota = limits.FILE_QUOTA_FILES * self._options.max_bytes
        _shrink(own, own, quota - offer.total_bytes)
        _shrink(all_of_them, gone, quota * limits.FILE_QUOTA_PEERS - offer.total_bytes)

    # -- called by receivers -----------------------------------------------------------------

    def say(self, kind: str, payload: Mapping[str, Any], *, to: str | None) -> None:
        """Send an envelope to the sender; a sender that left will ask again."""
        if to is not None:
            self._session.room.send_envelope(kind, payload, to=to)

    def emit(self, type: str, /, **fields: Any) -> None:
        """Emit an event for `vdo_receive`."""
        self._session.emit(type, **fields)

    def finished(self, transfer: Incoming) -> None:
        """Discard the oldest finished transfers above the limits."""
        over = _oldest_first(each for each in self.receivers.values() if each.transfer.is_over)
        own = [each for each in over if each.transfer.peer_stream_id == transfer.peer_stream_id]
        for receiver in {*own[: -limits.FILES_KEPT], *over[: -limits.FILES_KEPT_IN_ALL]}:
            del self.receivers[receiver.transfer.transfer_id]
            receiver.forget()

    async def close(self) -> None:
        """Stop all transfers and release their storage."""
        for receiver in list(self.receivers.values()):
            await receiver.close(keep=self._options.keep_spool_files)
        self.receivers.clear()


def _shown_id(transfer_id: str) -> str:
    return printable(transfer_id[: limits.FILE_ID_CHARACTERS])


def _oldest_first(receivers: Iterable[Receiver]) -> list[Receiver]:
    return sorted(receivers, key=lambda each: each.transfer.moved_at)


def _unfinished(receivers: Iterable[Receiver]) -> int:
    return sum(not each.transfer.is_over for each in receivers)


def _shrink(counted: Iterable[Receiver], droppable: Iterable[Receiver], most: int) -> None:
    """Discard finished files until the counted ones take at most `most` bytes."""
    held = sum(each.transfer.layout.total_bytes for each in counted if each.transfer.store is not None)
    for receiver in _oldest_first(each for each in droppable if each.transfer.has_data):
        if held <= most:
            return
        held -= receiver.transfer.layout.total_bytes
        receiver.forget()
    if held > most:
        raise PeersError("quota is used up")


def _owns(peer: PeerView, transfer: Incoming) -> bool:
    if transfer.peer_stream_id is not None:
        return peer.stream_id == transfer.peer_stream_id
    return peer.uuid == transfer.peer_uuid
