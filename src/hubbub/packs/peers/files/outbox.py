"""The files that one session sends: each in a task of its own, until it is there or the reason why not is known."""

from __future__ import annotations

import asyncio

from hubbub import bounds
from hubbub.errors import ToolFailure
from hubbub.packs.peers.arguments import refused
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.files.names import is_id, printable, shown_name
from hubbub.packs.peers.files.options import FileSession, Sending
from hubbub.packs.peers.files.parts import Layout
from hubbub.packs.peers.files.sender import Sender
from hubbub.packs.peers.files.source import Source
from hubbub.packs.peers.files.transfer import Outgoing
from hubbub.packs.peers.names import short_id
from hubbub.packs.peers.peer_view import PeerView


class Outbox:
    """What goes out, and went."""

    def __init__(self, session: FileSession) -> None:
        self._session = session
        self._options = session.file_options
        self.transfers: dict[str, Outgoing] = {}
        self._senders: dict[str, Sender] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """Whether anything is on its way."""
        return bool(self._running)

    def sender_to(self, peer: PeerView, transfer_id: str) -> Sender | None:
        """Who sends this to that peer now."""
        transfer = self.transfers.get(transfer_id)
        is_meant = transfer is not None and transfer.peer_uuid == peer.uuid
        return self._senders.get(transfer_id) if is_meant else None

    def wake(self) -> None:
        """Somebody came or went."""
        for sender in self._senders.values():
            sender.wake()

    async def send(self, source: Source, sending: Sending) -> Outgoing:
        """Send something; when it returns, the other end has all of it.

        Raises: ToolFailure.
        """
        transfer_id = sending.transfer_id or short_id("file")
        if not is_id(transfer_id):
            raise refused("invalid transfer_id: use up to 128 letters, digits and signs, without spaces")
        peer = self._target(sending.target)
        if transfer_id in self._running:
            raise refused(f"transfer_id is in use: {transfer_id}")
        transfer = Outgoing(transfer_id, shown_name(sending.name), printable(sending.mime)[:128], source)
        transfer.wanted_chunk_bytes = sending.chunk_bytes or self._options.chunk_bytes
        transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id
        return await self._run(transfer, sending)

    async def resume(self, transfer_id: str, sending: Sending) -> Outgoing:
        """Go on with a transfer that stopped.

        Raises: ToolFailure.
        """
        transfer = self.transfers.get(transfer_id)
        if transfer is None:
            raise refused(f"unknown transfer_id: {transfer_id}")
        if transfer.status == "completed":
            return transfer
        if transfer_id in self._running:
            raise refused(f"transfer is running already: {transfer_id}")
        if sending.target is not None:
            peer = self._target(sending.target)
            transfer.peer_uuid, transfer.peer_stream_id = peer.uuid, peer.stream_id
        return await self._run(transfer, sending)

    async def _run(self, transfer: Outgoing, sending: Sending) -> Outgoing:
        """Run it as a task of its own, which ends with the call that waits for it."""
        if self._is_closed:
            raise refused("the session was closed")
        if len(self._running) >= bounds.FILES_SENT_AT_ONCE:
            raise refused("too many files are sent at once; wait for one of them")
        name = transfer.transfer_id
        self.transfers[name] = transfer
        transfer.settle("offered")
        task = self._running[name] = asyncio.create_task(self._work(transfer, sending))
        try:
            await asyncio.wait([task], timeout=sending.timeout_s)
            await self._ended(task, transfer, "timed out")
        except asyncio.CancelledError:
            await self._ended(task, transfer, "the call was cancelled")
            raise
        finally:
            self._running.pop(name, None)
            self._forget_old()
        if not task.cancelled():
            task.result()
        if transfer.status != "completed":
            raise self._failure(transfer)
        return transfer

    async def _ended(self, task: asyncio.Task[None], transfer: Outgoing, reason: str) -> None:
        """Stop it if it has not come to its own end."""
        if not task.done():
            self.stop(transfer, reason, is_failure=True)
            await asyncio.wait([task])

    async def _work(self, transfer: Outgoing, sending: Sending) -> None:
        """Send it, and note how it ended."""
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
        except (PeersError, OSError) as error:
            reason = error.message if isinstance(error, PeersError) else f"the file cannot be read: {error}"
            transfer.settle("failed", reason)
            self._failed(transfer, reason)
        except asyncio.CancelledError:
            pass  # Whoever stopped it said why.
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
        failure = refused(f"{transfer.last_error or transfer.status} (transfer_id {transfer.transfer_id})")
        failure.data = {"transfer": transfer.summary()}
        return failure

    def stop(self, transfer: Outgoing, reason: str, *, is_failure: bool = False) -> None:
        """End a transfer; one that failed can be resumed."""
        transfer.settle("failed" if is_failure else "cancelled", reason)
        if is_failure:
            self._failed(transfer, reason)
        task = self._running.get(transfer.transfer_id)
        if task is not None:
            task.cancel()

    def _target(self, target: str | None) -> PeerView:
        """Whom a file is for."""
        room = self._session.room
        if target is not None:
            peer = room.find(target)
            if peer is None or not peer.is_connected or not peer.is_admitted:
                raise refused(f"no open channel to {target}: failed to send file.offer")
            return peer
        there = [peer for peer in room.peers if peer.is_connected and peer.is_admitted]
        if not there:
            raise refused("no connected peers")
        if len(there) > 1:
            raise refused("ambiguous target: multiple peers connected")
        return there[0]

    def _forget_old(self) -> None:
        over = [transfer for transfer in self.transfers.values() if transfer.is_over]
        over.sort(key=lambda transfer: transfer.moved_at)
        for transfer in over[: -bounds.FILES_KEPT]:
            del self.transfers[transfer.transfer_id]

    async def close(self) -> None:
        """Stop everything."""
        self._is_closed = True
        tasks = list(self._running.values())
        for transfer_id in list(self._running):
            self.stop(self.transfers[transfer_id], "the session was closed", is_failure=True)
        if tasks:
            await asyncio.wait(tasks)
