"""The outgoing transfers of one session, each in its own task until it is confirmed or has failed."""

from __future__ import annotations

import asyncio

from hubbub import ArgumentsInvalid, ToolError, ToolFailure
from hubbub.packs.peers import limits
from hubbub.packs.peers.admission import explain_unadmitted
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.files.chunk_map import ChunkLayout
from hubbub.packs.peers.files.options import FileSession, SendRequest
from hubbub.packs.peers.files.sender import Sender
from hubbub.packs.peers.files.source import Source
from hubbub.packs.peers.files.transfer import OutgoingTransfer
from hubbub.packs.peers.names import display_name, is_transfer_id, make_id, strip_unprintable
from hubbub.packs.peers.room import PeerView


class OutgoingTransfers:
    """The outgoing transfers, finished ones included."""

    def __init__(self, session: FileSession) -> None:
        self._session = session
        self._options = session.file_options
        self.transfers: dict[str, OutgoingTransfer] = {}
        self._senders: dict[str, Sender] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether any transfer is in progress."""
        return bool(self._running)

    def find_sender(self, peer: PeerView, transfer_id: str) -> Sender | None:
        """Return the sender that is sending this transfer to that peer; None if there is none."""
        transfer = self.transfers.get(transfer_id)
        is_recipient = transfer is not None and transfer.peer_uuid == peer.uuid
        return self._senders.get(transfer_id) if is_recipient else None

    def wake(self) -> None:
        """Let every sender check the peers of the room again."""
        for sender in self._senders.values():
            sender.wake_event.set()

    async def send(self, source: Source, request: SendRequest) -> OutgoingTransfer:
        """Send a source; return when the other end has confirmed all of it.

        Raises: ToolFailure.
        """
        transfer_id = request.transfer_id or make_id("file")
        if not is_transfer_id(transfer_id):
            raise ArgumentsInvalid("invalid transfer_id: use 1 to 128 printable ASCII characters without spaces")
        peer = self._find_peer(request.target)
        if transfer_id in self._running:
            raise ToolError(f"transfer_id is in use: {transfer_id}")
        transfer = OutgoingTransfer(
            transfer_id, display_name(request.name), strip_unprintable(request.mime)[:128], source
        )
        transfer.wanted_chunk_bytes = request.chunk_bytes or self._options.chunk_bytes
        transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id
        return await self._run(transfer, request)

    async def resume(self, transfer_id: str, request: SendRequest) -> OutgoingTransfer:
        """Resume a transfer that stopped.

        Raises: ToolFailure.
        """
        transfer = self.transfers.get(transfer_id)
        if transfer is None:
            raise ArgumentsInvalid(f"unknown transfer_id: {transfer_id}")
        if transfer.status == "completed":
            return transfer
        if transfer_id in self._running:
            raise ToolError(f"transfer is already in progress: {transfer_id}")
        if request.target is not None:
            peer = self._find_peer(request.target)
            transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id
        return await self._run(transfer, request)

    async def _run(self, transfer: OutgoingTransfer, request: SendRequest) -> OutgoingTransfer:
        """Run a transfer in its own task, which ends with the call that waits for it."""
        if self._is_closed:
            raise ToolError("the session was closed")
        if len(self._running) >= limits.FILE_CONCURRENT_SENDS:
            raise ToolError(f"{limits.FILE_CONCURRENT_SENDS} files are being sent already; wait until one is complete")
        name = transfer.transfer_id
        previous = self.transfers.get(name)
        self.transfers[name] = transfer
        transfer.set_status("offered")
        task = self._running[name] = asyncio.create_task(self._send_transfer(transfer, request))
        try:
            await self._wait(task, transfer, request.timeout_s)
            await self._stop_if_running(task, transfer, "timed out")
        except asyncio.CancelledError:
            await self._stop_if_running(task, transfer, "the call was cancelled")
            raise
        finally:
            self._running.pop(name, None)
            if transfer.refusal is not None:
                self._restore_previous(name, previous)
            self._forget_old()
        if not task.cancelled():
            task.result()
        if transfer.status != "completed":
            raise self._make_error(transfer)
        return transfer

    @staticmethod
    async def _wait(task: asyncio.Task[None], transfer: OutgoingTransfer, idle_s: float | None) -> None:
        """Wait until the transfer ends or makes no progress for `idle_s`; its total time is not limited."""
        while not task.done():
            confirmed = transfer.confirmed_bytes
            await asyncio.wait([task], timeout=idle_s)
            if transfer.confirmed_bytes <= confirmed:
                return

    def _restore_previous(self, name: str, previous: OutgoingTransfer | None) -> None:
        """Forget a transfer whose file was refused before it was offered; restore the one that had its id before."""
        if previous is None:
            del self.transfers[name]
        else:
            self.transfers[name] = previous

    async def _stop_if_running(self, task: asyncio.Task[None], transfer: OutgoingTransfer, reason: str) -> None:
        """Stop the transfer if its task is still running."""
        if not task.done():
            self.stop(transfer, reason, is_failure=True)
            await asyncio.wait([task])

    async def _send_transfer(self, transfer: OutgoingTransfer, request: SendRequest) -> None:
        """Send a transfer, and record its result."""
        name = transfer.transfer_id
        sender = self._senders[name] = Sender(self._session, transfer, request)
        source = transfer.source
        try:
            if source is None:
                raise PeersError("transfer payload unavailable")
            total, transfer.file_hash = await asyncio.to_thread(source.open)
            self._check_size(total)
            if total != transfer.layout.total_bytes:
                transfer.layout = ChunkLayout(total, transfer.wanted_chunk_bytes)
            await sender.run()
            self._record_completed(transfer)
        except (ToolFailure, OSError) as error:
            failure = error if isinstance(error, ToolFailure) else ToolError(f"the file cannot be read: {error}")
            transfer.set_status("failed", failure.message)
            if transfer.layout.total_bytes:
                self._emit_failed(transfer, failure.message)
            else:
                transfer.refusal = failure
        except asyncio.CancelledError:
            pass  # `stop` has recorded the reason.
        finally:
            self._senders.pop(name, None)
            if not transfer.is_over:
                transfer.set_status("failed", "internal error")
            if source is not None:
                source.close()

    def _check_size(self, total: int) -> None:
        if not total:
            raise PeersError("file data must not be empty")
        if total > self._options.max_bytes:
            raise PeersError(f"file exceeds max {self._options.max_bytes} bytes")

    def _record_completed(self, transfer: OutgoingTransfer) -> None:
        transfer.set_status("completed")
        transfer.source = None
        self._session.emit(
            "file_transfer_complete",
            transfer_id=transfer.transfer_id,
            target_uuid=transfer.peer_uuid,
            total_bytes=transfer.layout.total_bytes,
            total_chunks=transfer.layout.total_chunks,
            retries_total=transfer.retries_total,
            file_hash=transfer.file_hash,
        )

    def _emit_failed(self, transfer: OutgoingTransfer, reason: str) -> None:
        self._session.emit(
            "file_transfer_failed", transfer_id=transfer.transfer_id, direction="outgoing", reason=reason
        )

    def _make_error(self, transfer: OutgoingTransfer) -> ToolFailure:
        if transfer.refusal is not None:
            return transfer.refusal
        done, total = transfer.confirmed_bytes, transfer.layout.total_bytes
        return ToolError(
            f"{transfer.last_error or transfer.status} "
            f"(transfer_id {transfer.transfer_id}, {done} of {total} bytes confirmed)"
        )

    def stop(self, transfer: OutgoingTransfer, reason: str, *, is_failure: bool = False) -> None:
        """End a transfer; one that failed can be resumed."""
        transfer.set_status("failed" if is_failure else "cancelled", reason)
        if is_failure:
            self._emit_failed(transfer, reason)
        task = self._running.get(transfer.transfer_id)
        if task is not None:
            task.cancel()

    def _find_peer(self, target: str | None) -> PeerView:
        """Return the peer that a file is for."""
        room = self._session.room
        if target is not None:
            peer = room.find(target)
            if peer is None or not peer.is_connected or not peer.is_admitted:
                explanation = explain_unadmitted(room, target)
                raise ToolError(
                    f"no open channel to {target}: failed to send file.offer" if explanation is None else explanation
                )
            return peer
        available = [peer for peer in room.peers if peer.is_connected and peer.is_admitted]
        if not available:
            explanation = explain_unadmitted(room, None)
            raise ToolError("no connected peers" if explanation is None else f"no admitted peers: {explanation}")
        if len(available) > 1:
            raise ArgumentsInvalid("ambiguous target: multiple peers connected")
        return available[0]

    def _forget_old(self) -> None:
        finished = [transfer for transfer in self.transfers.values() if transfer.is_over]
        finished.sort(key=lambda transfer: transfer.last_activity_at)
        for transfer in finished[: -limits.FILES_FINISHED_PER_PEER]:
            del self.transfers[transfer.transfer_id]

    async def close(self) -> None:
        """Stop all transfers."""
        self._is_closed = True
        tasks = list(self._running.values())
        for transfer_id in list(self._running):
            self.stop(self.transfers[transfer_id], "the session was closed", is_failure=True)
        if tasks:
            await asyncio.wait(tasks)
