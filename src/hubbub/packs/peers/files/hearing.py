"""The replies of a transfer's receiver, as its sender records and awaits them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.files.parts import Span, read_spans
from hubbub.packs.peers.names import printable
from hubbub.packs.peers.wire import (
    Envelope,
    FileAccept,
    FileAck,
    FileCompleteAck,
    FileNack,
    FileResumeState,
    Payload,
)

UNKNOWN: Final = "unknown_transfer"
_GOES_BACK: Final = frozenset(
    (UNKNOWN, "chunk_hash_mismatch", "missing_chunks", "out_of_range_seq", "invalid_chunk_data", "too_fast")
)


class Interrupted(PeersError):
    """This attempt failed; another may succeed, after asking the other end for its state."""


class StartAnew(Interrupted):
    """The other end no longer knows the transfer: it has to be offered again."""


class Hearing:
    """The latest reply of the other end, by kind."""

    def __init__(self, acked: Callable[[FileAck], None], news: asyncio.Event) -> None:
        self.accept: tuple[int, list[Span] | None] | None = None
        """The first chunk to send, and the missing spans from there on."""
        self.state: tuple[int, list[Span] | None, str] | None = None
        """The same, and the status at the other end."""
        self.complete: tuple[str, int] | None = None
        """Hash and size of the file at the other end."""
        self.refusal: str | None = None
        """Why the other end refused the file."""
        self.back: str | None = None
        """Why the other end wants chunks again."""
        self._acked = acked
        self._news = news
        """Also set when a peer joins or leaves."""

    def take(self, envelope: Envelope, said: Payload, total_chunks: int) -> None:
        """Record a reply; one that refers to chunks outside the file is ignored."""
        gaps = read_spans(envelope.payload.get("missing"), total_chunks)
        match said:
            case FileAccept(next_seq=next_seq) if next_seq <= total_chunks:
                self.accept = next_seq, gaps
            case FileResumeState(next_seq=next_seq, status=status) if next_seq <= total_chunks:
                self.state = next_seq, gaps, status
            case FileAck():
                self._acked(said)
            case FileNack(reason=reason) if reason in _GOES_BACK:
                self.back = reason
            case FileNack(reason=reason):
                self.refusal = printable(reason[: limits.FILE_REASON_CHARACTERS]) or "refused"
            case FileCompleteAck():
                self.complete = said.file_hash.lower(), said.total_bytes
        self._news.set()

    def forget(self) -> None:
        """Discard earlier replies before the next request; a refusal and the confirmation of the whole file stay."""
        self.accept = self.state = self.back = None

    def check(self) -> None:
        """Raise if the other end refused the file or wants chunks again.

        Raises: PeersError, if it refused the file; Interrupted, if it wants chunks again.
        """
        self.check_refusal()
        if self.back is not None:
            reason, self.back = self.back, None
            raise StartAnew(reason) if reason == UNKNOWN else Interrupted(reason)

    def check_refusal(self) -> None:
        """Raise if the other end refused the file.

        Raises: PeersError.
        """
        if self.refusal is not None:
            raise PeersError(self.refusal)

    async def until(self, is_so: Callable[[], object], wait_s: float) -> bool:
        """Wait until a condition holds; return whether it does."""
        try:
            async with asyncio.timeout(wait_s):
                while not is_so():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return bool(is_so())
        return True
