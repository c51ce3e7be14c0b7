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
from hubbub.packs.peers.failures import ChannelClosed, PeersError
from hubbub.packs.peers.files.hearing import UNKNOWN, Hearing, Interrupted, StartAnew
from hubbub.packs.peers.files.lines import Line, envelope_chunk, line_to
from hubbub.packs.peers.files.options import FileSession, Sending
from hubbub.packs.peers.files.parts import Layout, Span
from hubbub.packs.peers.files.transfer import Outgoing
from hubbub.packs.peers.room import PeerView
from hubbub.packs.peers.wire import Envelope, FileAck, Payload


class Sender:
    """Sends one file."""

    def __init__(self, session: FileSession, transfer: Outgoing, sending: Sending) -> None:
        options = session.file_options
        self._session = session
        self._transfer = transfer
        self._tell = sending.tell
        self._ack_timeout_s = options.ack_timeout_s if sending.ack_timeout_s is None else sending.ack_timeout_s
        self._max_retries = options.max_retries if sending.max_retries is None else sending.max_retries
        self._start_seq = sending.start_seq
        self.news = asyncio.Event()
        """Set it to make the sender check the peers of the room again."""
        self._hearing = Hearing(self._acked, self.news)
        self._next_seq = 0
        """The first chunk that the other end lacks, as far as it has reported."""
        self._sent_to = 0
        """The chunk after the last one that was sent in this run."""
        self._base_bytes = 0
        self._sent_bytes = 0
        self._told_at = 0.0
        self._told = 0
        self._line: Line | None = None

    # -- replies of the other end ------------------------------------------------------------

    def hear(self, envelope: Envelope, said: Payload) -> None:
        """Handle an envelope of the receiving peer."""
        self._transfer.touch()
        self._hearing.take(envelope, said, self._transfer.layout.total_chunks)

    def _acked(self, ack: FileAck) -> None:
        """Handle an acknowledgement; values beyond what was sent are ignored."""
        transfer = self._transfer
        if self._line is not None:
            self._line.acked(ack.seq)
        if ack.next_seq <= max(self._sent_to, self._next_seq):
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
                peer = await self._peer()
                if gaps is None:
                    gaps = await self._offer(peer)
                transfer.status = "transferring"
                self._line = line_to(self._session.room, peer, transfer.transfer_id, transfer.layout.chunk_bytes)
                await self._send(gaps)
                await self._finish()
                return
            except (Interrupted, ChannelClosed) as interruption:
                if self._is_confirmed:
                    await self._confirmed()
                    return
                progress = max(transfer.confirmed_bytes, transfer.layout.offset(self._next_seq))
                retries = 1 if progress > confirmed else retries + 1
                confirmed = max(confirmed, progress)
                transfer.retries_total += 1
                transfer.last_error = str(interruption) or None
                if retries > self._max_retries:
                    raise PeersError(
                        f"max retries exceeded at chunk {self._next_seq}: {interruption}; vdo_file_resume goes on"
                    ) from interruption
                gaps = None if isinstance(interruption, StartAnew | ChannelClosed) else await self._ask()

    async def _peer(self) -> PeerView:
        """Wait for the receiving peer; one that left may return under the same stream id."""
        transfer, room = self._transfer, self._session.room

        def found() -> PeerView | None:
            named = None if transfer.peer_stream_id is None else room.find(transfer.peer_stream_id)
            peer = named or room.find(transfer.peer_uuid or "")
            return peer if peer is not None and peer.is_connected and peer.is_admitted else None

        wait_s = max(self._ack_timeout_s * (self._max_retries + 1), limits.FILE_ANSWER_S)
        await self._hearing.until(lambda: found() is not None, wait_s)
        await self._hearing.until(lambda: _is_greeted(found()), limits.FILE_GREETING_S)
        peer = found()
        if peer is None:
            why = explain_unadmitted(room, transfer.peer_stream_id or transfer.peer_uuid or "")
            raise PeersError(why or "the peer is gone; vdo_file_resume goes on when it is back")
        transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id or transfer.peer_stream_id
        return peer

    async def _offer(self, peer: PeerView) -> list[Span]:
        transfer = self._transfer
        self._fit_chunks(peer)
        layout = transfer.layout
        self._hearing.forget()
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
        if not self._say("file.offer", offer):
            raise ChannelClosed("failed to send file.offer")
        wait_s = max(self._ack_timeout_s, limits.FILE_ANSWER_S)
        if not await self._hearing.until(lambda: self._hearing.accept or self._hearing.refusal, wait_s):
            raise StartAnew("timed out waiting for file.accept")
        self._hearing.check_refusal()
        assert self._hearing.accept is not None
        return self._begin_at(*self._hearing.accept)

    def _fit_chunks(self, peer: PeerView) -> None:
        """Choose chunks that fit into a frame, and into an envelope too: the line may change during the transfer."""
        transfer = self._transfer
        size = min(transfer.wanted_chunk_bytes, envelope_chunk(peer))
        if size < 1:
            raise PeersError("the other end takes no message that a chunk would fit into")
        if transfer.layout.chunk_bytes > size or not transfer.layout.total_chunks:
            transfer.layout = Layout(transfer.layout.total_bytes, size)

    def _begin_at(self, next_seq: int, missing: list[Span] | None) -> list[Span]:
        """Record the state of the other end; return the spans that it lacks."""
        layout, transfer = self._transfer.layout, self._transfer
        gaps = missing if missing is not None else [(next_seq, layout.total_chunks)]
        if self._start_seq is not None and self._start_seq < next_seq:
            gaps = [(self._start_seq, next_seq), *gaps]
        self._start_seq = None
        gaps = [gap for gap in gaps if gap[0] < gap[1]]
        self._next_seq = self._sent_to = transfer.next_seq = next_seq
        self._base_bytes = layout.total_bytes - sum(layout.size(*gap) for gap in gaps)
        self._sent_bytes = 0
        transfer.confirmed_bytes = self._base_bytes
        return gaps

    # -- chunks --------------------------------------------------------------------------------

    async def _send(self, gaps: list[Span]) -> None:
        self._hearing.back = None
        starts = [first for first, _ in gaps[1:]]
        for (first, last), beyond in zip(gaps, [*starts, self._transfer.layout.total_chunks], strict=False):
            seq = first
            while seq < last:
                seq = await self._send_block(seq, last)
            self._sent_to = max(self._sent_to, beyond)
        while self._next_seq < self._transfer.layout.total_chunks:
            await self._moved()

    async def _send_block(self, seq: int, last: int) -> int:
        """Read some chunks and send them; return the number of the next one."""
        layout, source, line = self._transfer.layout, self._transfer.source, self._line
        assert source is not None
        assert line is not None
        in_frame = line.chunks(layout.chunk_bytes)
        if not in_frame:
            raise StartAnew("a chunk does not fit into a frame any more")
        frames = max(limits.FILE_BLOCK_BYTES // (in_frame * layout.chunk_bytes), 1)
        end = min(seq + in_frame * frames, last)
        start = layout.offset(seq)
        block = memoryview(await asyncio.to_thread(source.read, start, layout.size(seq, end)))
        while seq < end:
            after = min(seq + in_frame, end)
            size = layout.size(seq, after)
            while self._on_its_way + size > line.window_bytes:
                await self._moved()
            self._hearing.check()
            offset = layout.offset(seq) - start
            self._sent_to = max(self._sent_to, after)
            self._sent_bytes += size
            await line.send(seq, block[offset : offset + size])
            seq = after
        await self._tell_progress()
        return seq

    @property
    def _on_its_way(self) -> int:
        return self._base_bytes + self._sent_bytes - self._transfer.confirmed_bytes

    async def _moved(self) -> None:
        """Wait for progress at the other end; while our send queue shrinks, its acknowledgement is not overdue."""
        line = self._line
        assert line is not None
        before = (self._next_seq, self._transfer.confirmed_bytes)
        waiting = line.buffered_amount

        def is_so() -> bool:
            return (self._next_seq, self._transfer.confirmed_bytes) != before or self._hearing.back is not None

        while not await self._hearing.until(is_so, self._ack_timeout_s):
            now = line.buffered_amount
            if now >= waiting:
                raise Interrupted("no answer from the other end")
            waiting = now
        self._hearing.check()
        await self._tell_progress()

    async def _ask(self) -> list[Span] | None:
        """Ask the other end for its state; return the missing spans, or None if the file has to be offered again."""
        self._hearing.forget()
        if not self._say("file.resume_req", {"transfer_id": self._transfer.transfer_id}):
            return None
        await self._hearing.until(lambda: self._hearing.state or self._hearing.refusal, self._ack_timeout_s)
        self._hearing.check_refusal()
        if self._hearing.state is None:
            return None
        next_seq, missing, status = self._hearing.state
        if status in (UNKNOWN, "failed", "cancelled"):
            return None
        return self._begin_at(next_seq, missing)

    # -- completion ------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Ask the other end to verify the whole file.

        Raises: PeersError, if its hash is not ours.
        """
        transfer = self._transfer
        self._hearing.forget()
        complete = {
            "transfer_id": transfer.transfer_id,
            "total_bytes": transfer.layout.total_bytes,
            "file_hash": transfer.file_hash,
        }
        if not self._say("file.complete", complete):
            raise ChannelClosed("failed to send file.complete")
        wait_s = max(2 * self._ack_timeout_s, limits.FILE_ANSWER_S)
        await self._hearing.until(lambda: self._hearing.complete or self._hearing.refusal or self._hearing.back, wait_s)
        self._hearing.check()
        if self._hearing.complete is None:
            raise Interrupted("timed out waiting for file.complete_ack")
        if self._hearing.complete[0] != transfer.file_hash:
            raise PeersError("file hash mismatch")
        await self._confirmed()

    @property
    def _is_confirmed(self) -> bool:
        """Whether the other end has confirmed the file; it may have left since."""
        said, transfer = self._hearing.complete, self._transfer
        is_sent = self._sent_to >= transfer.layout.total_chunks > 0
        return is_sent and said is not None and said[0] == transfer.file_hash

    async def _confirmed(self) -> None:
        transfer = self._transfer
        transfer.confirmed_bytes, transfer.next_seq = transfer.layout.total_bytes, transfer.layout.total_chunks
        self._told_at = 0.0
        await self._tell_progress()

    # -- helpers -----------------------------------------------------------------------------------

    def _say(self, kind: str, payload: dict[str, Any]) -> bool:
        return self._session.room.send_envelope(kind, payload, to=self._transfer.peer_uuid).ok

    async def _tell_progress(self) -> None:
        now, done = time.monotonic(), self._transfer.confirmed_bytes
        if self._tell is not None and now - self._told_at > limits.FILE_PROGRESS_S and done > self._told:
            self._told_at, self._told = now, done
            await self._tell(done, self._transfer.layout.total_bytes)


def _is_greeted(peer: PeerView | None) -> bool:
    """Return whether there is nothing to wait for: another Hubbub first sends a hello and opens the bulk channel."""
    if peer is None:
        return True
    return peer.handshake != "discovered" and (peer.has_bulk or not peer.capabilities.bulk_v1)
