"""What the other end of a file that we send has said, and waiting for it to say something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.files.names import printable
from hubbub.packs.peers.files.parts import Span, read_spans
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
_REASON_CHARACTERS: Final = 200


class Interrupted(Exception):
    """This try cannot go on; another may, after asking where the other end is."""


class StartAnew(Interrupted):
    """The other end does not know of it any more: it has to be offered again."""


class Hearing:
    """The last word of the other end on each matter."""

    def __init__(self, acked: Callable[[FileAck], None]) -> None:
        self.accept: tuple[int, list[Span] | None] | None = None
        """Where to begin, and what is missing from there on."""
        self.state: tuple[int, list[Span] | None, str] | None = None
        """The same, and what the other end calls it."""
        self.complete: tuple[str, int] | None = None
        """The hash and the size of what it has."""
        self.refusal: str | None = None
        """Why it does not want the file."""
        self.back: str | None = None
        """Why it wants us to go back."""
        self._acked = acked
        self._news = asyncio.Event()

    def take(self, envelope: Envelope, said: Payload, total_chunks: int) -> None:
        """Note what was said; what lies outside the file was not."""
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
                self.refusal = printable(reason[:_REASON_CHARACTERS]) or "refused"
            case FileCompleteAck():
                self.complete = said.file_hash.lower(), said.total_bytes
        self._news.set()

    def forget(self) -> None:
        """What was said before does not answer the next question; only the last word on the whole file stands."""
        self.accept = self.state = self.back = None

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._news.set()

    def check(self) -> None:
        """Look whether the other end wants something else than to listen.

        Raises: PeersError, if it does not want the file; Interrupted, if it wants us to go back.
        """
        self.check_refusal()
        if self.back is not None:
            reason, self.back = self.back, None
            raise StartAnew(reason) if reason == UNKNOWN else Interrupted(reason)

    def check_refusal(self) -> None:
        """Look whether the other end wants the file at all.

        Raises: PeersError, if it does not.
        """
        if self.refusal is not None:
            raise PeersError(self.refusal)

    async def until(self, is_so: Callable[[], object], wait_s: float) -> bool:
        """Wait until something is so; whether it is."""
        try:
            async with asyncio.timeout(wait_s):
                while not is_so():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return bool(is_so())
        return True
