"""Replies of the receiving end of a transfer to its sender, and events for its own agent.

Another Hubbub gets the list of missing chunks. VDO.Ninja bridges get only the fields they understand, and in one case
another value than the actual one: see `Answers.tell_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from hubbub.packs.peers import limits
from hubbub.packs.peers.files.transfer import Incoming


class ReceivingEnd(Protocol):
    """What a receiver uses to reply and to report."""

    def say(self, kind: str, payload: Mapping[str, Any], *, to: str | None) -> None:
        """Send an envelope to the sender."""

    def emit(self, type: str, /, **fields: Any) -> None:
        """Emit an event for `vdo_receive`."""

    def finished(self, transfer: Incoming) -> None:
        """Handle the end of a transfer."""


class Answers:
    """The replies of one transfer."""

    def __init__(self, end: ReceivingEnd, transfer: Incoming) -> None:
        self.is_hubbub = False
        """Whether the sender is another Hubbub."""
        self.unwritten_bytes = 0
        """Bytes received but not yet written; they are acknowledged later."""
        self._end = end
        self._transfer = transfer
        self._told = -1

    def accept(self) -> None:
        """Let the sender begin or continue."""
        transfer = self._transfer
        accept = {"transfer_id": transfer.transfer_id, "next_seq": transfer.parts.next_seq}
        self._say("file.accept", {**accept, **self._gaps()} if self.is_hubbub else accept)

    def tell_state(self) -> None:
        """Report our progress.

        A VDO.Ninja bridge that asks keeps the chunk that it sent last, and sends its bytes under whatever
        number we request; so we request that number again. After a hash mismatch it would take the last number
        for success, so 0 is reported.
        """
        transfer = self._transfer
        next_seq = transfer.parts.next_seq
        if not self.is_hubbub and transfer.status == "receiving":
            next_seq = max(transfer.parts.highest, 0)
        elif transfer.status in ("failed", "cancelled"):
            next_seq = 0
        state = {"transfer_id": transfer.transfer_id, "next_seq": next_seq, "status": transfer.status}
        self._say("file.resume_state", {**state, **self._gaps()} if self.is_hubbub else state)

    def nack(self, reason: str) -> None:
        """Report what is wrong, and where to continue."""
        transfer = self._transfer
        payload: dict[str, Any] = {
            "transfer_id": transfer.transfer_id,
            "expected_seq": min(transfer.parts.next_seq, transfer.layout.total_chunks - 1),
            "reason": reason,
        }
        self._say("file.nack", {**payload, **self._gaps()} if self.is_hubbub else payload)

    def _gaps(self) -> dict[str, Any]:
        return {
            "missing": [list(gap) for gap in self._transfer.parts.gaps(limits.FILE_GAPS)],
            "received_bytes": self._confirmed_bytes,
        }

    @property
    def _confirmed_bytes(self) -> int:
        return self._transfer.parts.bytes - self.unwritten_bytes

    def ack(self, seq: int) -> None:
        """Acknowledge a chunk."""
        transfer = self._transfer
        self._say(
            "file.ack",
            {
                "transfer_id": transfer.transfer_id,
                "seq": seq,
                "next_seq": transfer.parts.next_seq,
                "received_bytes": self._confirmed_bytes,
            },
        )

    def confirm(self) -> None:
        """Confirm that the whole file arrived and its hash is correct."""
        transfer = self._transfer
        self._say(
            "file.complete_ack",
            {
                "transfer_id": transfer.transfer_id,
                "file_hash": transfer.file_hash,
                "total_bytes": transfer.layout.total_bytes,
            },
        )

    def tell(self, seq: int) -> None:
        """Emit an event for a chunk; for a long transfer, only for some of them."""
        transfer = self._transfer
        parts, total = transfer.parts, transfer.layout.total_chunks
        notice = parts.count * limits.FILE_NOTICES // total
        if total > limits.FILE_NOTICES and notice == self._told and not parts.is_whole:
            return
        self._told = notice
        self._end.emit(
            "file_chunk_received",
            transfer_id=transfer.transfer_id,
            seq=seq,
            next_seq=parts.next_seq,
            received_bytes=self._confirmed_bytes,
            total_bytes=transfer.layout.total_bytes,
        )

    def _say(self, kind: str, payload: Mapping[str, Any]) -> None:
        self._end.say(kind, payload, to=self._transfer.peer_uuid)
