"""The replies of a transfer's receiver, as its sender records and awaits them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.files.chunk_map import Span, read_spans
from hubbub.packs.peers.names import strip_unprintable
from hubbub.packs.peers.wire import (
    Envelope,
    FileAccept,
    FileAck,
    FileCompleteAck,
    FileNack,
    FileResumeState,
    Payload,
)

UNKNOWN_TRANSFER: Final = "unknown_transfer"
_RESEND_REASONS: Final = frozenset(
    (UNKNOWN_TRANSFER, "chunk_hash_mismatch", "missing_chunks", "out_of_range_seq", "invalid_chunk_data", "too_fast")
)


class Interrupted(PeersError):
    """This attempt failed; another may succeed, after asking the other end for its state."""


class OfferAgain(Interrupted):
    """The other end no longer knows the transfer: it has to be offered again."""


class ReplyState:
    """The latest reply of the other end, by kind."""

    def __init__(self, on_ack: Callable[[FileAck], None], changed: asyncio.Event) -> None:
        self.accept: tuple[int, list[Span] | None] | None = None
        """The first chunk to send, and the missing spans from there on."""
        self.state: tuple[int, list[Span] | None, str] | None = None
        """The same, and the status at the other end."""
        self.complete: tuple[str, int] | None = None
        """Hash and size of the file at the other end."""
        self.refusal: str | None = None
        """Why the other end refused the file."""
        self.resend_reason: str | None = None
        """Why the other end wants chunks again."""
        self._on_ack = on_ack
        self._changed = changed
        """Also set when a peer joins or leaves."""

    def record(self, envelope: Envelope, reply: Payload, total_chunks: int) -> None:
        """Record a reply; one that refers to chunks outside the file is ignored."""
        gaps = read_spans(envelope.payload.get("missing"), total_chunks)
        match reply:
            case FileAccept(next_seq=next_seq) if next_seq <= total_chunks:
                self.accept = next_seq, gaps
            case FileResumeState(next_seq=next_seq, status=status) if next_seq <= total_chunks:
                self.state = next_seq, gaps, status
            case FileAck():
                self._on_ack(reply)
            case FileNack(reason=reason) if reason in _RESEND_REASONS:
                self.resend_reason = reason
            case FileNack(reason=reason):
                self.refusal = strip_unprintable(reason[: limits.FILE_REASON_CHARACTERS]) or "refused"
            case FileCompleteAck():
                self.complete = reply.file_hash.lower(), reply.total_bytes
        self._changed.set()

    def reset(self) -> None:
        """Discard earlier replies before the next request; a refusal and the confirmation of the whole file stay."""
        self.accept = self.state = self.resend_reason = None

    def check(self) -> None:
        """Raise if the other end refused the file or wants chunks again.

        Raises: PeersError, if it refused the file; Interrupted, if it wants chunks again.
        """
        self.check_refusal()
        if self.resend_reason is not None:
            reason, self.resend_reason = self.resend_reason, None
            raise OfferAgain(reason) if reason == UNKNOWN_TRANSFER else Interrupted(reason)

    def check_refusal(self) -> None:
        """Raise if the other end refused the file.

        Raises: PeersError.
        """
        if self.refusal is not None:
            raise PeersError(self.refusal)

    async def wait_until(self, condition: Callable[[], object], wait_s: float) -> bool:
        """Wait until a condition holds; return whether it does."""
        try:
            async with asyncio.timeout(wait_s):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return bool(condition())
        return True
