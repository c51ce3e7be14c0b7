"""What the end that takes a file says to the one that sends it, and tells its own agent.

Another Hubbub is told which parts are missing; an original only what it knows of, and
in one place something else than the truth, because it would make the worst of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from hubbub import bounds
from hubbub.packs.peers.files.transfer import Incoming


class ReceivingEnd(Protocol):
    """Who a receiver answers through."""

    def say(self, kind: str, payload: Mapping[str, Any], *, to: str | None) -> None:
        """Send an envelope to the sender."""

    def emit(self, type: str, /, **fields: Any) -> None:
        """Tell what `vdo_receive` shows."""

    def finished(self, transfer: Incoming) -> None:
        """It is over."""


class Answers:
    """Of one transfer."""

    def __init__(self, end: ReceivingEnd, transfer: Incoming) -> None:
        self.is_hubbub = False
        """Whether the sender is."""
        self.unwritten_bytes = 0
        """What came and is not yet where it belongs: it is confirmed later."""
        self._end = end
        self._transfer = transfer
        self._told = -1

    def accept(self) -> None:
        """Let the sender begin, or go on."""
        transfer = self._transfer
        accept = {"transfer_id": transfer.transfer_id, "next_seq": transfer.parts.next_seq}
        self._say("file.accept", {**accept, **self._gaps()} if self.is_hubbub else accept)

    def tell_state(self) -> None:
        """Say how far we are.

        An original that asks holds on to the chunk it sent last, and sends its bytes as
        whatever we ask for: so it is asked for that one again. After a wrong hash it would
        take the last number for success.
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
        """Say what is wrong, and where to go on."""
        transfer = self._transfer
        payload: dict[str, Any] = {
            "transfer_id": transfer.transfer_id,
            "expected_seq": min(transfer.parts.next_seq, transfer.layout.total_chunks - 1),
            "reason": reason,
        }
        self._say("file.nack", {**payload, **self._gaps()} if self.is_hubbub else payload)

    def _gaps(self) -> dict[str, Any]:
        return {
            "missing": [list(gap) for gap in self._transfer.parts.gaps(bounds.FILE_GAPS)],
            "received_bytes": self._confirmed_bytes,
        }

    @property
    def _confirmed_bytes(self) -> int:
        return self._transfer.parts.bytes - self.unwritten_bytes

    def ack(self, seq: int) -> None:
        """Say that a part is here."""
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
        """Say that all is here, and right."""
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
        """Tell of a part; of a long transfer only some."""
        transfer = self._transfer
        parts, total = transfer.parts, transfer.layout.total_chunks
        notice = parts.count * bounds.FILE_NOTICES // total
        if total > bounds.FILE_NOTICES and notice == self._told and not parts.is_whole:
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
