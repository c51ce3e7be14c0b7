"""The sending end of one transfer: a window of chunks in flight, read again from the source to resend them.

Replies of the other end are trusted only as far as they do no harm: chunks that were never sent cannot be acknowledged,
every step back counts as a retry, and a transfer is complete only when the other end has reported the hash of the whole
file. One `run` is one attempt, from the offer to the end; a later one continues where the other end asks for it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from hubbub.packs.peers import limits
from hubbub.packs.peers.admission import explain_unadmitted
from hubbub.packs.peers.errors import ChannelClosed, PeersError
from hubbub.packs.peers.files.chunk_map import ChunkLayout, Span
from hubbub.packs.peers.files.chunk_senders import ChunkSender, make_chunk_sender, max_envelope_chunk
from hubbub.packs.peers.files.options import FileSession, SendRequest
from hubbub.packs.peers.files.reply_state import UNKNOWN_TRANSFER, Interrupted, OfferAgain, ReplyState
from hubbub.packs.peers.files.transfer import OutgoingTransfer
from hubbub.packs.peers.room import PeerView
from hubbub.packs.peers.wire import Envelope, FileAck, Payload


class Sender:
    """Sends one file."""

    def __init__(self, session: FileSession, transfer: OutgoingTransfer, request: SendRequest) -> None:
        options = session.file_options
        self._session = session
        self._transfer = transfer
        self._on_progress = request.on_progress
        self._ack_timeout_s = options.ack_timeout_s if request.ack_timeout_s is None else request.ack_timeout_s
        self._max_retries = options.max_retries if request.max_retries is None else request.max_retries
        self._start_seq = request.start_seq
        self.wake_event = asyncio.Event()
        """Set it to make the sender check the peers of the room again."""
        self._replies = ReplyState(self._handle_ack, self.wake_event)
        self._next_seq = 0
        """The first chunk that the other end lacks, as far as it has reported."""
        self._sent_end = 0
        """The chunk after the last one that was sent in this run."""
        self._base_bytes = 0
        self._sent_bytes = 0
        self._reported_at = 0.0
        self._reported_bytes = 0
        self._chunk_sender: ChunkSender | None = None

    # -- replies of the other end ------------------------------------------------------------

    def handle_reply(self, envelope: Envelope, reply: Payload) -> None:
        """Handle an envelope of the receiving peer."""
        self._transfer.touch()
        self._replies.record(envelope, reply, self._transfer.layout.total_chunks)

    def _handle_ack(self, ack: FileAck) -> None:
        """Handle an acknowledgement; values beyond what was sent are ignored."""
        transfer = self._transfer
        if self._chunk_sender is not None:
            self._chunk_sender.record_ack(ack.seq)
        if ack.next_seq <= max(self._sent_end, self._next_seq):
            self._next_seq = max(self._next_seq, ack.next_seq)
            transfer.next_seq = self._next_seq
        if ack.received_bytes <= self._base_bytes + self._sent_bytes:
            transfer.confirmed_bytes = max(transfer.confirmed_bytes, ack.received_bytes)

    # -- one attempt -------------------------------------------------------------------------

    async def run(self) -> None:
        """Send the file.

        Raises: PeersError, with the reason.
        """
        transfer = self._transfer
        retries, confirmed = 0, -1
        gaps: list[Span] | None = None
        while True:
            try:
                peer = await self._wait_for_peer()
                if gaps is None:
                    gaps = await self._offer(peer)
                transfer.status = "transferring"
                self._chunk_sender = make_chunk_sender(
                    self._session.room, peer, transfer.transfer_id, transfer.layout.chunk_bytes
                )
                await self._send_gaps(gaps)
                await self._finish()
                return
            except (Interrupted, ChannelClosed) as interruption:
                if self._is_confirmed:
                    await self._record_confirmed()
                    return
                progress = max(transfer.confirmed_bytes, transfer.layout.offset(self._next_seq))
                retries = 1 if progress > confirmed else retries + 1
                confirmed = max(confirmed, progress)
                transfer.retries_total += 1
                transfer.last_error = str(interruption) or None
                if retries > self._max_retries:
                    raise PeersError(
                        f"max retries exceeded at chunk {self._next_seq}: {interruption}; vdo_file_resume continues it"
                    ) from interruption
                gaps = None if isinstance(interruption, OfferAgain | ChannelClosed) else await self._request_state()

    async def _wait_for_peer(self) -> PeerView:
        """Wait for the receiving peer; one that left may return under the same stream id."""
        transfer, room = self._transfer, self._session.room

        def found() -> PeerView | None:
            named = None if transfer.peer_stream_id is None else room.find(transfer.peer_stream_id)
            peer = named or room.find(transfer.peer_uuid or "")
            return peer if peer is not None and peer.is_connected and peer.is_admitted else None

        wait_s = max(self._ack_timeout_s * (self._max_retries + 1), limits.FILE_RESPONSE_TIMEOUT_S)
        await self._replies.wait_until(lambda: found() is not None, wait_s)
        await self._replies.wait_until(lambda: _is_handshake_done(found()), limits.FILE_HELLO_TIMEOUT_S)
        peer = found()
        if peer is None:
            reason = explain_unadmitted(room, transfer.peer_stream_id or transfer.peer_uuid or "")
            raise PeersError(reason or "the peer left; call vdo_file_resume when it is back")
        transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id or transfer.peer_stream_id
        return peer

    async def _offer(self, peer: PeerView) -> list[Span]:
        transfer = self._transfer
        self._fit_chunks(peer)
        layout = transfer.layout
        self._replies.reset()
        transfer.status = "offered"
        offer = {
            "transfer_id": transfer.transfer_id,
            "name": transfer.name,
            "mime": transfer.mime,
            "total_bytes": layout.total_bytes,
            "total_chunks": layout.total_chunks,
            "chunk_bytes": layout.chunk_bytes,
            "file_hash": transfer.file_hash,
        }
        if not self._send_envelope("file.offer", offer):
            raise ChannelClosed("failed to send file.offer")
        wait_s = max(self._ack_timeout_s, limits.FILE_RESPONSE_TIMEOUT_S)
        if not await self._replies.wait_until(lambda: self._replies.accept or self._replies.refusal, wait_s):
            raise OfferAgain("timed out waiting for file.accept")
        self._replies.check_refusal()
        assert self._replies.accept is not None
        return self._resume_from(*self._replies.accept)

    def _fit_chunks(self, peer: PeerView) -> None:
        """Choose chunks that fit into a frame, and into an envelope too: the channel may change during the transfer."""
        transfer = self._transfer
        size = min(transfer.wanted_chunk_bytes, max_envelope_chunk(peer))
        if size < 1:
            raise PeersError(
                f"the other end accepts messages of {peer.max_message_size} bytes, which is too small for a chunk"
            )
        if transfer.layout.chunk_bytes > size or not transfer.layout.total_chunks:
            transfer.layout = ChunkLayout(transfer.layout.total_bytes, size)

    def _resume_from(self, next_seq: int, missing: list[Span] | None) -> list[Span]:
        """Record the state of the other end; return the spans that it lacks."""
        layout, transfer = self._transfer.layout, self._transfer
        gaps = missing if missing is not None else [(next_seq, layout.total_chunks)]
        if self._start_seq is not None and self._start_seq < next_seq:
            gaps = [(self._start_seq, next_seq), *gaps]
        self._start_seq = None
        gaps = [gap for gap in gaps if gap[0] < gap[1]]
        self._next_seq = self._sent_end = transfer.next_seq = next_seq
        self._base_bytes = layout.total_bytes - sum(layout.size(*gap) for gap in gaps)
        self._sent_bytes = 0
        transfer.confirmed_bytes = self._base_bytes
        return gaps

    # -- chunks --------------------------------------------------------------------------------

    async def _send_gaps(self, gaps: list[Span]) -> None:
        self._replies.resend_reason = None
        starts = [first for first, _ in gaps[1:]]
        for (first, last), next_start in zip(gaps, [*starts, self._transfer.layout.total_chunks], strict=False):
            seq = first
            while seq < last:
                seq = await self._send_block(seq, last)
            self._sent_end = max(self._sent_end, next_start)
        while self._next_seq < self._transfer.layout.total_chunks:
            await self._wait_for_progress()

    async def _send_block(self, seq: int, last: int) -> int:
        """Read some chunks and send them; return the number of the next one."""
        layout, source, chunk_sender = self._transfer.layout, self._transfer.source, self._chunk_sender
        assert source is not None
        assert chunk_sender is not None
        chunks_per_frame = chunk_sender.chunks_per_send(layout.chunk_bytes)
        if not chunks_per_frame:
            raise OfferAgain("a chunk no longer fits into a frame")
        frames = max(limits.FILE_BLOCK_BYTES // (chunks_per_frame * layout.chunk_bytes), 1)
        end = min(seq + chunks_per_frame * frames, last)
        start = layout.offset(seq)
        block = memoryview(await asyncio.to_thread(source.read, start, layout.size(seq, end)))
        while seq < end:
            after = min(seq + chunks_per_frame, end)
            size = layout.size(seq, after)
            while self._in_flight_bytes + size > chunk_sender.window_bytes:
                await self._wait_for_progress()
            self._replies.check()
            offset = layout.offset(seq) - start
            self._sent_end = max(self._sent_end, after)
            self._sent_bytes += size
            await chunk_sender.send(seq, block[offset : offset + size])
            seq = after
        await self._report_progress()
        return seq

    @property
    def _in_flight_bytes(self) -> int:
        return self._base_bytes + self._sent_bytes - self._transfer.confirmed_bytes

    async def _wait_for_progress(self) -> None:
        """Wait for progress at the other end; while our send queue shrinks, its acknowledgement is not overdue."""
        chunk_sender = self._chunk_sender
        assert chunk_sender is not None
        before = (self._next_seq, self._transfer.confirmed_bytes)
        queued_bytes = chunk_sender.buffered_amount

        def has_progress() -> bool:
            return (self._next_seq, self._transfer.confirmed_bytes) != before or self._replies.resend_reason is not None

        while not await self._replies.wait_until(has_progress, self._ack_timeout_s):
            now = chunk_sender.buffered_amount
            if now >= queued_bytes:
                raise Interrupted("no answer from the other end")
            queued_bytes = now
        self._replies.check()
        await self._report_progress()

    async def _request_state(self) -> list[Span] | None:
        """Ask the other end for its state; return the missing spans, or None if the file has to be offered again."""
        self._replies.reset()
        if not self._send_envelope("file.resume_req", {"transfer_id": self._transfer.transfer_id}):
            return None
        await self._replies.wait_until(lambda: self._replies.state or self._replies.refusal, self._ack_timeout_s)
        self._replies.check_refusal()
        if self._replies.state is None:
            return None
        next_seq, missing, status = self._replies.state
        if status in (UNKNOWN_TRANSFER, "failed", "cancelled"):
            return None
        return self._resume_from(next_seq, missing)

    # -- completion ------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Ask the other end to verify the whole file.

        Raises: PeersError, if its hash is not ours.
        """
        transfer = self._transfer
        self._replies.reset()
        complete = {
            "transfer_id": transfer.transfer_id,
            "total_bytes": transfer.layout.total_bytes,
            "file_hash": transfer.file_hash,
        }
        if not self._send_envelope("file.complete", complete):
            raise ChannelClosed("failed to send file.complete")
        wait_s = max(2 * self._ack_timeout_s, limits.FILE_RESPONSE_TIMEOUT_S)
        await self._replies.wait_until(
            lambda: self._replies.complete or self._replies.refusal or self._replies.resend_reason, wait_s
        )
        self._replies.check()
        if self._replies.complete is None:
            raise Interrupted("timed out waiting for file.complete_ack")
        if self._replies.complete[0] != transfer.file_hash:
            raise PeersError("file hash mismatch")
        await self._record_confirmed()

    @property
    def _is_confirmed(self) -> bool:
        """Whether the other end has confirmed the file; it may have left since."""
        reply, transfer = self._replies.complete, self._transfer
        is_sent = self._sent_end >= transfer.layout.total_chunks > 0
        return is_sent and reply is not None and reply[0] == transfer.file_hash

    async def _record_confirmed(self) -> None:
        transfer = self._transfer
        transfer.confirmed_bytes, transfer.next_seq = transfer.layout.total_bytes, transfer.layout.total_chunks
        self._reported_at = 0.0
        await self._report_progress()

    # -- helpers -----------------------------------------------------------------------------------

    def _send_envelope(self, kind: str, payload: dict[str, Any]) -> bool:
        return self._session.room.send_envelope(kind, payload, to=self._transfer.peer_uuid).ok

    async def _report_progress(self) -> None:
        now, done = time.monotonic(), self._transfer.confirmed_bytes
        if (
            self._on_progress is not None
            and now - self._reported_at > limits.FILE_PROGRESS_S
            and done > self._reported_bytes
        ):
            self._reported_at, self._reported_bytes = now, done
            await self._on_progress(done, self._transfer.layout.total_bytes)


def _is_handshake_done(peer: PeerView | None) -> bool:
    """Return whether there is nothing to wait for: another Hubbub first sends a hello and opens the bulk channel."""
    if peer is None:
        return True
    return peer.handshake != "discovered" and (peer.has_bulk or not peer.capabilities.bulk_v1)
