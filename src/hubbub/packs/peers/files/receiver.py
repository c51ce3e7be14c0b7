"""The receiving end of one transfer: checks each chunk, writes it once, and confirms only if the hash is correct.

Chunks arrive in any order, and repeatedly. They are marked on arrival and written by one task per transfer, in a thread
if there is a disk, so that the event loop is not blocked. The hash is computed along the way, as far as the chunks are
in order. `incoming_transfers` decides which files are accepted.
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
from hubbub.packs.peers.files.replies import ReceiverCallbacks, Replies
from hubbub.packs.peers.files.spool import Store
from hubbub.packs.peers.files.transfer import IncomingTransfer
from hubbub.packs.peers.wire import FileChunk, FileComplete

HASH_MISMATCH: Final = "file hash mismatch"


class Receiver:
    """Receives one file."""

    def __init__(self, callbacks: ReceiverCallbacks, transfer: IncomingTransfer, store: Store) -> None:
        self.transfer = transfer
        self.replies = Replies(callbacks, transfer)
        self._callbacks = callbacks
        self._store = store
        self._digest = hashlib.sha256()
        self._hashed_chunks = 0
        """Number of chunks in the digest, from the first on; only the writing task changes both."""
        self._unwritten: deque[tuple[int, int, memoryview]] = deque()
        self._acks: list[int] = []
        self._task: asyncio.Task[None] | None = None
        self._must_confirm = False
        self._is_discarded = False
        transfer.store, transfer.is_spooled = store, store.path is not None

    @property
    def is_idle(self) -> bool:
        """Whether no write is in progress."""
        return self._task is None

    @property
    def is_active(self) -> bool:
        """Whether a chunk or message of it arrived within `limits.FILE_IDLE_S`."""
        return not self.transfer.is_over and time.monotonic() - self.transfer.last_activity_at < limits.FILE_IDLE_S

    # -- incoming chunks -----------------------------------------------------------------

    def handle_chunk(self, chunk: FileChunk) -> None:
        """Handle a chunk in an envelope."""
        transfer = self.transfer
        layout = transfer.layout
        if transfer.is_over:
            self._reply_late()
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
        elif self._accept_chunks(chunk.seq, memoryview(data)):
            if len(self._acks) < limits.FILE_PENDING_ACKS:
                self._acks.append(chunk.seq)
            self._wake()

    def handle_bytes(self, seq: int, data: memoryview) -> None:
        """Handle chunks in a binary frame."""
        if self.transfer.is_over:
            self._reply_late()
        elif self.transfer.layout.end_chunk(seq, len(data)) is None:
            self._reject(seq, "out_of_range_seq")
        elif self._accept_chunks(seq, data):
            self._wake()

    def _accept_chunks(self, seq: int, data: memoryview) -> bool:
        layout = self.transfer.layout
        last = layout.end_chunk(seq, len(data))
        assert last is not None
        if self.replies.unwritten_bytes + len(data) > limits.FILE_BACKLOG_BYTES:
            self._reject(seq, "too_fast")
            return False
        self.transfer.touch()
        start = layout.offset(seq)
        for first, end in self.transfer.chunk_map.add(seq, last):
            part = data[layout.offset(first) - start : layout.offset(end) - start]
            self._unwritten.append((first, end, part))
            self.replies.unwritten_bytes += len(part)
        return True

    def _reject(self, seq: int, reason: str) -> None:
        transfer = self.transfer
        transfer.retries_total += 1
        self._callbacks.emit("file_chunk_rejected", transfer_id=transfer.transfer_id, seq=seq, reason=reason)
        self.replies.nack(reason)

    def _reply_late(self) -> None:
        """Reply to a chunk of a finished transfer, so that the sender can stop."""
        transfer = self.transfer
        if transfer.status == "completed":
            self.replies.ack(transfer.layout.total_chunks - 1)
        else:
            self.replies.nack(transfer.last_error or transfer.status)

    # -- writing -------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        try:
            while (self._unwritten or self._acks) and not self.transfer.is_over:
                await self._write_some()
            if self.transfer.chunk_map.is_complete and not self.transfer.is_over:
                await self._finish()
        except OSError as error:
            self._fail(f"the file cannot be written: {error.strerror}")
        finally:
            self._task = None
            if self._is_discarded or (self.transfer.is_over and self.transfer.status != "completed"):
                self._discard()

    async def _write_some(self) -> None:
        batch, acks = sorted(self._unwritten, key=lambda part: part[0]), self._acks
        self._unwritten.clear()
        self._acks = []
        # Chunks that are marked but not in this batch are written, so they can be read back for the hash.
        readable = min([self.transfer.chunk_map.next_seq, *(first for first, _, _ in batch[:1])])
        await self._run_blocking(self._write_batch, batch, readable)
        self.replies.unwritten_bytes -= sum(len(data) for _, _, data in batch)
        if self.transfer.is_over:
            return
        self.replies.emit_chunk_event(batch[-1][1] - 1 if batch else acks[-1])
        if acks:
            for seq in acks:
                self.replies.ack(seq)
        elif batch:
            self.replies.ack(batch[-1][1] - 1)

    async def _run_blocking(self, function: Any, *arguments: Any) -> Any:
        if self.transfer.is_spooled or self.transfer.layout.total_bytes > limits.FILE_BLOCK_BYTES:
            return await asyncio.to_thread(function, *arguments)
        return function(*arguments)

    def _write_batch(self, batch: list[tuple[int, int, memoryview]], readable: int) -> None:
        self._hash_up_to(readable)
        layout = self.transfer.layout
        for first, last, data in batch:
            self._store.write(layout.offset(first), data)
            if first == self._hashed_chunks:
                self._digest.update(data)
                self._hashed_chunks = last

    def _hash_up_to(self, readable: int) -> None:
        """Hash chunks that were written out of order."""
        layout = self.transfer.layout
        offset, end = layout.offset(self._hashed_chunks), layout.offset(readable)
        while offset < end:
            block = self._store.read(offset, min(limits.FILE_BLOCK_BYTES, end - offset))
            if not block:
                raise OSError(0, "the spool file is shorter than the data written to it")
            self._digest.update(block)
            offset += len(block)
        self._hashed_chunks = max(self._hashed_chunks, readable)

    # -- completion ------------------------------------------------------------------------

    def handle_complete(self, complete: FileComplete) -> None:
        """Handle the sender's message that all chunks were sent."""
        transfer = self.transfer
        if transfer.status == "completed":
            self.replies.confirm()
        elif transfer.is_over:
            self.replies.nack(transfer.last_error or transfer.status)
        elif complete.total_bytes != transfer.layout.total_bytes:
            actual = transfer.layout.total_bytes
            self._fail(f"byte size mismatch expected={complete.total_bytes} got={actual}")
        elif complete.file_hash.lower() != transfer.file_hash:
            self._fail(HASH_MISMATCH)
        elif not transfer.chunk_map.is_complete:
            self.replies.nack("missing_chunks")
        else:
            self._must_confirm = True
            self._wake()

    async def _finish(self) -> None:
        transfer = self.transfer
        await self._run_blocking(self._hash_up_to, transfer.layout.total_chunks)
        if transfer.is_over:
            return
        if self._digest.hexdigest() != transfer.file_hash:
            self._fail(HASH_MISMATCH)
            return
        transfer.set_status("completed")
        # The caller may leave as soon as it sees the event, so confirm to the sender first.
        if self._must_confirm or self.replies.is_hubbub:
            self.replies.confirm()
        self._callbacks.emit(
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
        self._callbacks.handle_finished(transfer)

    def _fail(self, reason: str) -> None:
        self.transfer.set_status("failed", reason)
        self.replies.nack(reason)
        self._callbacks.emit(
            "file_transfer_failed", transfer_id=self.transfer.transfer_id, direction="incoming", reason=reason
        )
        if self._task is None:
            self._discard()
        self._callbacks.handle_finished(self.transfer)

    def stop(self, reason: str) -> None:
        """Accept no more chunks, and discard those received."""
        if not self.transfer.is_over:
            self.transfer.set_status("cancelled", reason)
        if self._task is None:
            self._discard()

    def discard(self) -> None:
        """Discard a finished transfer that was not read or saved in time."""
        self._is_discarded = True
        if self._task is None:
            self._discard()

    async def close(self, *, keep: bool) -> None:
        """Release everything; `keep`: leave a finished file on disk."""
        keeps_file = keep and self.transfer.status == "completed"
        if not self.transfer.is_over:
            self.transfer.set_status("failed", "the session was closed")
        if self._task is not None:
            await asyncio.wait([self._task])
        self._store.close(keep=keeps_file)
        self.transfer.store = None

    def _discard(self) -> None:
        self._unwritten.clear()
        self.replies.unwritten_bytes = 0
        self._store.close()
        self.transfer.store = None
