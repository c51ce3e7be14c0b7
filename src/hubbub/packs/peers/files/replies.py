"""Replies of the receiving end of a transfer to its sender, and events for its own agent.

Another Hubbub gets the list of missing chunks. VDO.Ninja bridges get only the fields they understand, and in one case
another value than the actual one: see `Replies.send_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from hubbub.packs.peers import limits
from hubbub.packs.peers.files.transfer import IncomingTransfer


class ReceiverCallbacks(Protocol):
    """What a receiver uses to reply and to report."""

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None) -> None:
        """Send an envelope to the sender."""

    def emit(self, type: str, /, **fields: Any) -> None:
        """Emit an event for `vdo_receive`."""

    def handle_finished(self, transfer: IncomingTransfer) -> None:
        """Handle the end of a transfer."""


class Replies:
    """The replies of one transfer."""

    def __init__(self, callbacks: ReceiverCallbacks, transfer: IncomingTransfer) -> None:
        self.is_hubbub = False
        """Whether the sender is another Hubbub."""
        self.unwritten_bytes = 0
        """Bytes received but not yet written; they are acknowledged later."""
        self._callbacks = callbacks
        self._transfer = transfer
        self._last_notice = -1

    def accept(self) -> None:
        """Let the sender begin or continue."""
        transfer = self._transfer
        accept = {"transfer_id": transfer.transfer_id, "next_seq": transfer.chunk_map.next_seq}
        self._send("file.accept", {**accept, **self._gaps()} if self.is_hubbub else accept)

    def send_state(self) -> None:
        """Report our progress.

        A VDO.Ninja bridge that asks keeps the chunk that it sent last, and sends its bytes under whatever
        number we request; so we request that number again. After a hash mismatch it would take the last number
        for success, so 0 is reported.
        """
        transfer = self._transfer
        next_seq = transfer.chunk_map.next_seq
        if not self.is_hubbub and transfer.status == "receiving":
            next_seq = max(transfer.chunk_map.highest, 0)
        elif transfer.status in ("failed", "cancelled"):
            next_seq = 0
        state = {"transfer_id": transfer.transfer_id, "next_seq": next_seq, "status": transfer.status}
        self._send("file.resume_state", {**state, **self._gaps()} if self.is_hubbub else state)

    def nack(self, reason: str) -> None:
        """Report what is wrong, and where to continue."""
        transfer = self._transfer
        payload: dict[str, Any] = {
            "transfer_id": transfer.transfer_id,
            "expected_seq": min(transfer.chunk_map.next_seq, transfer.layout.total_chunks - 1),
            "reason": reason,
        }
        self._send("file.nack", {**payload, **self._gaps()} if self.is_hubbub else payload)

    def _gaps(self) -> dict[str, Any]:
        return {
            "missing": [list(gap) for gap in self._transfer.chunk_map.gaps(limits.FILE_GAPS)],
            "received_bytes": self._confirmed_bytes,
        }

    @property
    def _confirmed_bytes(self) -> int:
        return self._transfer.chunk_map.bytes - self.unwritten_bytes

    def ack(self, seq: int) -> None:
        """Acknowledge a chunk."""
        transfer = self._transfer
        self._send(
            "file.ack",
            {
                "transfer_id": transfer.transfer_id,
                "seq": seq,
                "next_seq": transfer.chunk_map.next_seq,
                "received_bytes": self._confirmed_bytes,
            },
        )

    def confirm(self) -> None:
        """Confirm that the whole file arrived and its hash is correct."""
        transfer = self._transfer
        self._send(
            "file.complete_ack",
            {
                "transfer_id": transfer.transfer_id,
                "file_hash": transfer.file_hash,
                "total_bytes": transfer.layout.total_bytes,
            },
        )

    def emit_chunk_event(self, seq: int) -> None:
        """Emit an event for a chunk; for a long transfer, only for some of them."""
        transfer = self._transfer
        parts, total = transfer.chunk_map, transfer.layout.total_chunks
        notice = parts.count * limits.FILE_CHUNK_EVENTS // total
        if total > limits.FILE_CHUNK_EVENTS and notice == self._last_notice and not parts.is_complete:
            return
        self._last_notice = notice
        self._callbacks.emit(
            "file_chunk_received",
            transfer_id=transfer.transfer_id,
            seq=seq,
            next_seq=parts.next_seq,
            received_bytes=self._confirmed_bytes,
            total_bytes=transfer.layout.total_bytes,
        )

    def _send(self, kind: str, payload: Mapping[str, Any]) -> None:
        self._callbacks.send_envelope(kind, payload, to=self._transfer.peer_uuid)
