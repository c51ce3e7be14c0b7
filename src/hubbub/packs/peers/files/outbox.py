"""The outgoing transfers of one session, each in its own task until it is confirmed or has failed."""

from __future__ import annotations

import asyncio

from hubbub import ArgumentsInvalid, ToolError, ToolFailure
from hubbub.packs.peers import limits
from hubbub.packs.peers.admission import explain_unadmitted
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.files.options import FileSession, Sending
from hubbub.packs.peers.files.parts import Layout
from hubbub.packs.peers.files.sender import Sender
from hubbub.packs.peers.files.source import Source
from hubbub.packs.peers.files.transfer import Outgoing
from hubbub.packs.peers.names import is_id, printable, short_id, shown_name
from hubbub.packs.peers.room import PeerView


class Outbox:
    """The outgoing transfers, finished ones included."""

    def __init__(self, session: FileSession) -> None:
        self._session = session
        self._options = session.file_options
        self.transfers: dict[str, Outgoing] = {}
        self._senders: dict[str, Sender] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether any transfer is in progress."""
        return bool(self._running)

    def sender_to(self, peer: PeerView, transfer_id: str) -> Sender | None:
        """Return the sender that is sending this transfer to that peer; None if there is none."""
        transfer = self.transfers.get(transfer_id)
        is_meant = transfer is not None and transfer.peer_uuid == peer.uuid
        return self._senders.get(transfer_id) if is_meant else None

    def wake(self) -> None:
        """Let every sender check the peers of the room again."""
        for sender in self._senders.values():
            sender.news.set()

    async def send(self, source: Source, sending: Sending) -> Outgoing:
        """Send a source; return when the other end has confirmed all of it.

        Raises: ToolFailure.
        """
        transfer_id = sending.transfer_id or short_id("file")
        if not is_id(transfer_id):
            raise ArgumentsInvalid("invalid transfer_id: use up to 128 letters, digits and signs, without spaces")
        peer = self._target(sending.target)
        if transfer_id in self._running:
            raise ToolError(f"transfer_id is in use: {transfer_id}")
        transfer = Outgoing(transfer_id, shown_name(sending.name), printable(sending.mime)[:128], source)
        transfer.wanted_chunk_bytes = sending.chunk_bytes or self._options.chunk_bytes
        transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id
        return await self._run(transfer, sending)

    async def resume(self, transfer_id: str, sending: Sending) -> Outgoing:
        """Resume a transfer that stopped.

        Raises: ToolFailure.
        """
        transfer = self.transfers.get(transfer_id)
        if transfer is None:
            raise ArgumentsInvalid(f"unknown transfer_id: {transfer_id}")
        if transfer.status == "completed":
            return transfer
        if transfer_id in self._running:
            raise ToolError(f"transfer is running already: {transfer_id}")
        if sending.target is not None:
            peer = self._target(sending.target)
            transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id
        return await self._run(transfer, sending)

    async def _run(self, transfer: Outgoing, sending: Sending) -> Outgoing:
        """Run a transfer in its own task, which ends with the call that waits for it."""
        if self._is_closed:
            raise ToolError("the session was closed")
        if len(self._running) >= limits.FILES_SENT_AT_ONCE:
            raise ToolError("too many files are sent at once; wait for one of them")
        name = transfer.transfer_id
        before = self.transfers.get(name)
        self.transfers[name] = transfer
        transfer.settle("offered")
        task = self._running[name] = asyncio.create_task(self._work(transfer, sending))
        try:
            await self._wait(task, transfer, sending.timeout_s)
            await self._ended(task, transfer, "timed out")
        except asyncio.CancelledError:
            await self._ended(task, transfer, "the call was cancelled")
            raise
        finally:
            self._running.pop(name, None)
            if transfer.refusal is not None:
                self._withdraw(name, before)
            self._forget_old()
        if not task.cancelled():
            task.result()
        if transfer.status != "completed":
            raise self._failure(transfer)
        return transfer

    @staticmethod
    async def _wait(task: asyncio.Task[None], transfer: Outgoing, idle_s: float | None) -> None:
        """Wait until the transfer ends or makes no progress for `idle_s`; its total time is not limited."""
        while not task.done():
            confirmed = transfer.confirmed_bytes
            await asyncio.wait([task], timeout=idle_s)
            if transfer.confirmed_bytes <= confirmed:
                return

    def _withdraw(self, name: str, before: Outgoing | None) -> None:
        """Forget a transfer whose file was refused before it was offered; restore the one that had its id before."""
        if before is None:
            del self.transfers[name]
        else:
            self.transfers[name] = before

    async def _ended(self, task: asyncio.Task[None], transfer: Outgoing, reason: str) -> None:
        """Stop the transfer if its task is still running."""
        if not task.done():
            self.stop(transfer, reason, is_failure=True)
            await asyncio.wait([task])

    async def _work(self, transfer: Outgoing, sending: Sending) -> None:
        """Send a transfer, and record its result."""
        name = transfer.transfer_id
        sender = self._senders[name] = Sender(self._session, transfer, sending)
        source = transfer.source
        try:
            if source is None:
                raise PeersError("transfer payload unavailable")
            total, transfer.file_hash = await asyncio.to_thread(source.begin)
            self._check_size(total)
            if total != transfer.layout.total_bytes:
                transfer.layout = Layout(total, transfer.wanted_chunk_bytes)
            await sender.run()
            self._sent(transfer)
        except (ToolFailure, OSError) as error:
            failure = error if isinstance(error, ToolFailure) else ToolError(f"the file cannot be read: {error}")
            transfer.settle("failed", failure.message)
            if transfer.layout.total_bytes:
                self._failed(transfer, failure.message)
            else:
                transfer.refusal = failure
        except asyncio.CancelledError:
            pass  # `stop` has recorded the reason.
        finally:
            self._senders.pop(name, None)
            if not transfer.is_over:
                transfer.settle("failed", "something here is broken")
            if source is not None:
                source.end()

    def _check_size(self, total: int) -> None:
        if not total:
            raise PeersError("file data must not be empty")
        if total > self._options.max_bytes:
            raise PeersError(f"file exceeds max {self._options.max_bytes} bytes")

    def _sent(self, transfer: Outgoing) -> None:
        transfer.settle("completed")
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

    def _failed(self, transfer: Outgoing, reason: str) -> None:
        self._session.emit(
            "file_transfer_failed", transfer_id=transfer.transfer_id, direction="outgoing", reason=reason
        )

    def _failure(self, transfer: Outgoing) -> ToolFailure:
        if transfer.refusal is not None:
            return transfer.refusal
        done, total = transfer.confirmed_bytes, transfer.layout.total_bytes
        return ToolError(
            f"{transfer.last_error or transfer.status} "
            f"(transfer_id {transfer.transfer_id}, {done} of {total} bytes confirmed)"
        )

    def stop(self, transfer: Outgoing, reason: str, *, is_failure: bool = False) -> None:
        """End a transfer; one that failed can be resumed."""
        transfer.settle("failed" if is_failure else "cancelled", reason)
        if is_failure:
            self._failed(transfer, reason)
        task = self._running.get(transfer.transfer_id)
        if task is not None:
            task.cancel()

    def _target(self, target: str | None) -> PeerView:
        """Return the peer that a file is for."""
        room = self._session.room
        if target is not None:
            peer = room.find(target)
            if peer is None or not peer.is_connected or not peer.is_admitted:
                why = explain_unadmitted(room, target)
                raise ToolError(f"no open channel to {target}: failed to send file.offer" if why is None else why)
            return peer
        there = [peer for peer in room.peers if peer.is_connected and peer.is_admitted]
        if not there:
            why = explain_unadmitted(room, None)
            raise ToolError("no connected peers" if why is None else f"no admitted peers: {why}")
        if len(there) > 1:
            raise ArgumentsInvalid("ambiguous target: multiple peers connected")
        return there[0]

    def _forget_old(self) -> None:
        over = [transfer for transfer in self.transfers.values() if transfer.is_over]
        over.sort(key=lambda transfer: transfer.moved_at)
        for transfer in over[: -limits.FILES_KEPT]:
            del self.transfers[transfer.transfer_id]

    async def close(self) -> None:
        """Stop all transfers."""
        self._is_closed = True
        tasks = list(self._running.values())
        for transfer_id in list(self._running):
            self.stop(self.transfers[transfer_id], "the session was closed", is_failure=True)
        if tasks:
            await asyncio.wait(tasks)
