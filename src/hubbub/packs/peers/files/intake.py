"""Which files are taken: what an offer may say, how much one peer may have here, whose transfer is whose.

A transfer belongs to the name of the peer that offered it; nobody else can add to it, end
it or take its place. Names that peers give are only shown: no path is ever made of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hubbub import bounds
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.files.names import is_id, printable, shown_name
from hubbub.packs.peers.files.options import FileSession
from hubbub.packs.peers.files.parts import Layout
from hubbub.packs.peers.files.receiver import Receiver
from hubbub.packs.peers.files.spool import MemoryStore, Spool
from hubbub.packs.peers.files.transfer import Incoming
from hubbub.packs.peers.peer_view import PeerView
from hubbub.packs.peers.wire import FileCancel, FileChunk, FileComplete, FileOffer, FileResumeReq

_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}", re.ASCII)
UNKNOWN: Final = "unknown_transfer"


class OfferRefused(ValueError):
    """Why an offer is not taken."""


class Intake:
    """The transfers that come, of one session."""

    def __init__(self, session: FileSession, spool: Spool) -> None:
        self._session = session
        self._options = session.file_options
        self._spool = spool
        self.receivers: dict[str, Receiver] = {}

    def get(self, transfer_id: str) -> Receiver | None:
        """The transfer with that id."""
        return self.receivers.get(transfer_id)

    # -- what the sender says --------------------------------------------------------------

    def offered(self, peer: PeerView, offer: FileOffer) -> None:
        """A file is about to come."""
        try:
            receiver = self._resumed(peer, offer) or self._taken(peer, offer)
        except (OfferRefused, PeersError) as error:
            reason = str(error)
            self.emit("file_offer_rejected", transfer_id=printable(offer.transfer_id), reason=reason)
            refusal = {"transfer_id": offer.transfer_id, "expected_seq": 0, "reason": reason}
            self.say("file.nack", refusal, to=peer.uuid)
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

    def chunk(self, peer: PeerView, chunk: FileChunk) -> None:
        """A chunk in an envelope."""
        receiver = self._of(peer, chunk.transfer_id)
        if receiver is None:
            self._unknown(peer, chunk.transfer_id, chunk.seq)
        else:
            receiver.take_envelope(chunk)

    def bytes(self, peer: PeerView, transfer_id: str, seq: int, data: memoryview) -> None:
        """Chunks as bytes."""
        receiver = self._of(peer, transfer_id)
        if receiver is None:
            self._unknown(peer, transfer_id, seq)
        else:
            receiver.take_bytes(seq, data)

    def complete(self, peer: PeerView, complete: FileComplete) -> None:
        """The sender says that this was all."""
        receiver = self._of(peer, complete.transfer_id)
        if receiver is None:
            self._unknown(peer, complete.transfer_id, 0)
        else:
            receiver.completed_by_sender(complete)

    def asked(self, peer: PeerView, question: FileResumeReq) -> None:
        """The sender wants to know how far we are."""
        receiver = self._of(peer, question.transfer_id)
        if receiver is None:
            state = {"transfer_id": question.transfer_id, "next_seq": 0, "status": UNKNOWN}
            self.say("file.resume_state", state, to=peer.uuid)
        else:
            receiver.answers.tell_state()

    def cancelled(self, peer: PeerView, cancel: FileCancel) -> bool:
        """The sender lets it be; whether there was anything to let be."""
        receiver = self._of(peer, cancel.transfer_id)
        if receiver is None or receiver.transfer.is_over:
            return receiver is not None
        receiver.stop("cancelled by the sender")
        self.emit("file_transfer_cancelled", transfer_id=cancel.transfer_id, from_uuid=peer.uuid)
        self.finished(receiver.transfer)
        return True

    def forsaken(self, peer: PeerView) -> None:
        """A sender is gone; what it began waits for it."""
        for receiver in self.receivers.values():
            if receiver.transfer.peer_uuid == peer.uuid and not receiver.transfer.is_over:
                receiver.transfer.last_error = "the sender is gone; it may come back and go on"

    def _unknown(self, peer: PeerView, transfer_id: str, seq: int) -> None:
        self.emit("file_chunk_rejected", transfer_id=printable(transfer_id), seq=seq, reason=UNKNOWN)
        self.say("file.nack", {"transfer_id": transfer_id, "expected_seq": 0, "reason": UNKNOWN}, to=peer.uuid)

    def _of(self, peer: PeerView, transfer_id: str) -> Receiver | None:
        receiver = self.receivers.get(transfer_id)
        return receiver if receiver is not None and _owns(peer, receiver.transfer) else None

    # -- offers ------------------------------------------------------------------------------

    def _resumed(self, peer: PeerView, offer: FileOffer) -> Receiver | None:
        """The transfer that an offer goes on with; None if it is a new one."""
        receiver = self.receivers.get(offer.transfer_id)
        if receiver is None:
            return None
        transfer = receiver.transfer
        if not _owns(peer, transfer):
            raise OfferRefused("transfer_id is in use")
        is_same_file = (transfer.layout.total_bytes, transfer.file_hash) == (offer.total_bytes, offer.file_hash.lower())
        if transfer.status == "completed" and not is_same_file:
            raise OfferRefused("transfer_id was used for another file")
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
        transfer = Incoming(offer.transfer_id, shown_name(offer.name), printable(offer.mime)[:128], layout)
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
            raise OfferRefused("invalid transfer_id")
        if not 1 <= offer.total_bytes <= most:
            raise OfferRefused(f"total_bytes must be 1..{most}")
        if not bounds.FILE_CHUNK_LEAST <= offer.chunk_bytes <= bounds.FILE_CHUNK_MOST:
            raise OfferRefused("invalid chunk_bytes")
        layout = Layout(offer.total_bytes, offer.chunk_bytes)
        if offer.total_chunks != layout.total_chunks:
            raise OfferRefused("invalid total_chunks")
        if not _DIGEST.fullmatch(offer.file_hash):
            raise OfferRefused("invalid file_hash")
        return layout

    def _make_room(self, peer: PeerView, offer: FileOffer) -> None:
        """Find a place within what one peer, and all of them, may have here.

        Finished files of the same peer give theirs, the oldest first, then those of peers
        that are gone; nobody can drive out what another who is here has sent.
        """
        all_of_them = list(self.receivers.values())
        own = [each for each in all_of_them if _owns(peer, each.transfer)]
        here = {view.stream_id for view in self._session.room.peers if view.is_connected}
        gone = [each for each in all_of_them if each.transfer.peer_stream_id not in here]
        for receiver in own:
            if not receiver.transfer.is_over and not receiver.is_moving:
                receiver.stop("the sender did not go on")
        if _unfinished(own) >= bounds.FILE_INCOMING_OF_ONE_PEER:
            raise OfferRefused("too many transfers of one peer")
        for receiver in _oldest_first(each for each in gone if not each.transfer.is_over):
            if _unfinished(all_of_them) < bounds.FILE_INCOMING_IN_ALL:
                break
            receiver.stop("the sender did not come back, and others needed the place")
        if _unfinished(all_of_them) >= bounds.FILE_INCOMING_IN_ALL:
            raise OfferRefused("too many transfers")
        quota = bounds.FILE_QUOTA_FILES * self._options.max_bytes
        _shrink(own, own, quota - offer.total_bytes)
        _shrink(all_of_them, gone, quota * bounds.FILE_QUOTA_PEERS - offer.total_bytes)

    # -- what receivers ask ------------------------------------------------------------------

    def say(self, kind: str, payload: Mapping[str, Any], *, to: str | None) -> None:
        """Send an envelope to the sender; one that is gone will ask again."""
        if to is not None:
            self._session.room.send_envelope(kind, payload, to=to)

    def emit(self, type: str, /, **fields: Any) -> None:
        """Tell what `vdo_receive` shows."""
        self._session.emit(type, **fields)

    def finished(self, transfer: Incoming) -> None:
        """Forget the oldest of those that are over."""
        over = _oldest_first(each for each in self.receivers.values() if each.transfer.is_over)
        own = [each for each in over if each.transfer.peer_stream_id == transfer.peer_stream_id]
        for receiver in {*own[: -bounds.FILES_KEPT], *over[: -bounds.FILES_KEPT_IN_ALL]}:
            del self.receivers[receiver.transfer.transfer_id]
            receiver.forget()

    async def close(self) -> None:
        """Let go of everything."""
        for receiver in list(self.receivers.values()):
            await receiver.close(keep=self._options.keep_spool_files)
        self.receivers.clear()


def _oldest_first(receivers: Iterable[Receiver]) -> list[Receiver]:
    return sorted(receivers, key=lambda each: each.transfer.moved_at)


def _unfinished(receivers: Iterable[Receiver]) -> int:
    return sum(not each.transfer.is_over for each in receivers)


def _shrink(counted: Iterable[Receiver], droppable: Iterable[Receiver], most: int) -> None:
    """Let finished files go until what is counted is no more than `most` bytes."""
    held = sum(each.transfer.layout.total_bytes for each in counted if each.transfer.store is not None)
    for receiver in _oldest_first(each for each in droppable if each.transfer.has_data):
        if held <= most:
            return
        held -= receiver.transfer.layout.total_bytes
        receiver.forget()
    if held > most:
        raise OfferRefused("quota is used up")


def _owns(peer: PeerView, transfer: Incoming) -> bool:
    if transfer.peer_stream_id is not None:
        return peer.stream_id == transfer.peer_stream_id
    return peer.uuid == transfer.peer_uuid
