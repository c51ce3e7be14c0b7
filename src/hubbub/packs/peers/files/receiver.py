"""The receiving end of one transfer: checks each chunk, writes it once, and confirms only if the hash is correct.

Chunks arrive in any order, and repeatedly. They are marked on arrival and written by one task per transfer, in a thread
if there is a disk, so that the event loop is not blocked. The hash is computed along the way, as far as the chunks are
in order. `intake` decides which files are accepted.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import time
from collections import deque
from typing import Any, Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.files.answers import Answers, ReceivingEnd
from hubbub.packs.peers.files.spool import Store
from hubbub.packs.peers.files.transfer import Incoming
from hubbub.packs.peers.wire import FileChunk, FileComplete

HASH_MISMATCH: Final = "file hash mismatch"


class Receiver:
    """Receives one file."""

    def __init__(self, end: ReceivingEnd, transfer: Incoming, store: Store) -> None:
        self.transfer = transfer
        self.answers = Answers(end, transfer)
        self._end = end
        self._store = store
        self._digest = hashlib.sha256()
        self._hashed = 0
        """Number of chunks in the digest, from the first on; only the writing task changes both."""
        self._waiting: deque[tuple[int, int, memoryview]] = deque()
        self._acks: list[int] = []
        self._task: asyncio.Task[None] | None = None
        self._wants_answer = False
        self._is_forgotten = False
        transfer.store, transfer.is_spooled = store, store.path is not None

    @property
    def is_idle(self) -> bool:
        """Whether no write is in progress."""
        return self._task is None

    @property
    def is_moving(self) -> bool:
        """Whether a chunk or message of it arrived within `limits.FILE_IDLE_S`."""
        return not self.transfer.is_over and time.monotonic() - self.transfer.moved_at < limits.FILE_IDLE_S

    # -- incoming chunks -----------------------------------------------------------------

    def take_envelope(self, chunk: FileChunk) -> None:
        """Handle a chunk in an envelope."""
        transfer = self.transfer
        layout = transfer.layout
        if transfer.is_over:
            self._answer_late()
            return
        if chunk.seq >= layout.total_chunks:
            self._reject(chunk.seq, "out_of_range_seq")
            return
        try:
            data = base64.b64decode(chunk.data_base64, validate=True)
        except (binascii.Error, ValueError):
            self._reject(chunk.seq, "invalid_chunk_data")
            return
        if len(data) != layout.size(chunk.seq, chunk.seq + 1):
            self._reject(chunk.seq, "invalid_chunk_data")
        elif chunk.chunk_hash and hashlib.sha256(data).hexdigest() != chunk.chunk_hash.lower():
            self._reject(chunk.seq, "chunk_hash_mismatch")
        elif self._keep(chunk.seq, memoryview(data)):
            if len(self._acks) < limits.FILE_PENDING_ACKS:
                self._acks.append(chunk.seq)
            self._wake()

    def take_bytes(self, seq: int, data: memoryview) -> None:
        """Handle chunks in a binary frame."""
        if self.transfer.is_over:
            self._answer_late()
        elif self.transfer.layout.end_of(seq, len(data)) is None:
            self._reject(seq, "out_of_range_seq")
        elif self._keep(seq, data):
            self._wake()

    def _keep(self, seq: int, data: memoryview) -> bool:
        layout = self.transfer.layout
        last = layout.end_of(seq, len(data))
        assert last is not None
        if self.answers.unwritten_bytes + len(data) > limits.FILE_BACKLOG_BYTES:
            self._reject(seq, "too_fast")
            return False
        self.transfer.touch()
        start = layout.offset(seq)
        for first, end in self.transfer.parts.add(seq, last):
            part = data[layout.offset(first) - start : layout.offset(end) - start]
            self._waiting.append((first, end, part))
            self.answers.unwritten_bytes += len(part)
        return True

    def _reject(self, seq: int, reason: str) -> None:
        transfer = self.transfer
        transfer.retries_total += 1
        self._end.emit("file_chunk_rejected", transfer_id=transfer.transfer_id, seq=seq, reason=reason)
        self.answers.nack(reason)

    def _answer_late(self) -> None:
        """Reply to a chunk of a finished transfer, so that the sender can stop."""
        transfer = self.transfer
        if transfer.status == "completed":
            self.answers.ack(transfer.layout.total_chunks - 1)
        else:
            self.answers.nack(transfer.last_error or transfer.status)

    # -- writing -------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while (self._waiting or self._acks) and not self.transfer.is_over:
                await self._write_some()
            if self.transfer.parts.is_whole and not self.transfer.is_over:
                await self._finish()
        except OSError as error:
            self._fail(f"the file cannot be written: {error.strerror}")
        finally:
            self._task = None
            if self._is_forgotten or (self.transfer.is_over and self.transfer.status != "completed"):
                self._discard()

    async def _write_some(self) -> None:
        batch, acks = sorted(self._waiting, key=lambda part: part[0]), self._acks
        self._waiting.clear()
        self._acks = []
        # Chunks that are marked but not in this batch are written, so they can be read back for the hash.
        readable = min([self.transfer.parts.next_seq, *(first for first, _, _ in batch[:1])])
        await self._off_loop(self._absorb, batch, readable)
        self.answers.unwritten_bytes -= sum(len(data) for _, _, data in batch)
        if self.transfer.is_over:
            return
        self.answers.tell(batch[-1][1] - 1 if batch else acks[-1])
        if acks:
            for seq in acks:
                self.answers.ack(seq)
        elif batch:
            self.answers.ack(batch[-1][1] - 1)

    async def _off_loop(self, function: Any, *arguments: Any) -> Any:
        if self.transfer.is_spooled or self.transfer.layout.total_bytes > limits.FILE_BLOCK_BYTES:
            return await asyncio.to_thread(function, *arguments)
        return function(*arguments)

    def _absorb(self, batch: list[tuple[int, int, memoryview]], readable: int) -> None:
        self._catch_up(readable)
        layout = self.transfer.layout
        for first, last, data in batch:
            self._store.write(layout.offset(first), data)
            if first == self._hashed:
                self._digest.update(data)
                self._hashed = last

    def _catch_up(self, readable: int) -> None:
        """Hash chunks that were written out of order."""
        layout = self.transfer.layout
        offset, end = layout.offset(self._hashed), layout.offset(readable)
        while offset < end:
            block = self._store.read(offset, min(limits.FILE_BLOCK_BYTES, end - offset))
            if not block:
                raise OSError(0, "it is shorter than what was written")
            self._digest.update(block)
            offset += len(block)
        self._hashed = max(self._hashed, readable)

    # -- completion ------------------------------------------------------------------------

    def completed_by_sender(self, complete: FileComplete) -> None:
        """Handle the sender's message that all chunks were sent."""
        transfer = self.transfer
        if transfer.status == "completed":
            self.answers.confirm()
        elif transfer.is_over:
            self.answers.nack(transfer.last_error or transfer.status)
        elif complete.total_bytes != transfer.layout.total_bytes:
            got = transfer.layout.total_bytes
            self._fail(f"byte size mismatch expected={complete.total_bytes} got={got}")
        elif complete.file_hash.lower() != transfer.file_hash:
            self._fail(HASH_MISMATCH)
        elif not transfer.parts.is_whole:
            self.answers.nack("missing_chunks")
        else:
            self._wants_answer = True
            self._wake()

    async def _finish(self) -> None:
        transfer = self.transfer
        await self._off_loop(self._catch_up, transfer.layout.total_chunks)
        if transfer.is_over:
            return
        if self._digest.hexdigest() != transfer.file_hash:
            self._fail(HASH_MISMATCH)
            return
        transfer.settle("completed")
        # The caller may leave as soon as it sees the event, so confirm to the sender first.
        if self._wants_answer or self.answers.is_hubbub:
            self.answers.confirm()
        self._end.emit(
            "file_received",
            transfer_id=transfer.transfer_id,
            from_uuid=transfer.peer_uuid,
            from_stream_id=transfer.peer_stream_id,
            name=transfer.name,
            mime=transfer.mime,
            total_bytes=transfer.layout.total_bytes,
            file_hash=transfer.file_hash,
            spooled=transfer.is_spooled,
            spool_path=self._store.path,
        )
        self._end.finished(transfer)

    def _fail(self, reason: str) -> None:
        self.transfer.settle("failed", reason)
        self.answers.nack(reason)
        self._end.emit(
            "file_transfer_failed", transfer_id=self.transfer.transfer_id, direction="incoming", reason=reason
        )
        if self._task is None:
            self._discard()
        self._end.finished(self.transfer)

    def stop(self, reason: str) -> None:
        """Accept no more chunks, and discard those received."""
        if not self.transfer.is_over:
            self.transfer.settle("cancelled", reason)
        if self._task is None:
            self._discard()

    def forget(self) -> None:
        """Discard a finished transfer that was not collected in time."""
        self._is_forgotten = True
        if self._task is None:
            self._discard()

    async def close(self, *, keep: bool) -> None:
        """Release everything; `keep`: leave a finished file on disk."""
        is_kept = keep and self.transfer.status == "completed"
        if not self.transfer.is_over:
            self.transfer.settle("failed", "the session was closed")
        if self._task is not None:
            await asyncio.wait([self._task])
        self._store.close(keep=is_kept)
        self.transfer.store = None

    def _discard(self) -> None:
        self._waiting.clear()
        self.answers.unwritten_bytes = 0
        self._store.close()
        self.transfer.store = None
