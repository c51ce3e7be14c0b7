"""The received chunks of a file: in any order, each counted once. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from hubbub.packs.peers import limits

Span: TypeAlias = tuple[int, int]
"""First chunk, and the chunk after the last."""


class ChunkLayout:
    """How a file is divided into chunks."""

    def __init__(self, total_bytes: int, chunk_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.chunk_bytes = chunk_bytes
        self.total_chunks = -(-total_bytes // chunk_bytes)

    def offset(self, seq: int) -> int:
        """Return where a chunk begins; the end of the file for the chunk after the last."""
        return min(seq * self.chunk_bytes, self.total_bytes)

    def size(self, first: int, last: int) -> int:
        """Return the number of bytes from chunk `first` up to but not including chunk `last`."""
        return self.offset(last) - self.offset(first)

    def end_chunk(self, first: int, size: int) -> int | None:
        """Return the chunk after `size` bytes from `first` on; None if they are not whole chunks of this file."""
        if not 0 <= first < self.total_chunks or size <= 0:
            return None
        last = first + -(-size // self.chunk_bytes)
        return last if last <= self.total_chunks and self.size(first, last) == size else None


class ChunkMap:
    """The set of received chunks."""

    def __init__(self, layout: ChunkLayout) -> None:
        self._layout = layout
        self._received = bytearray(layout.total_chunks)
        self.next_seq = 0
        """The first missing chunk."""
        self.count = 0
        self.bytes = 0
        self.highest = -1

    @property
    def is_complete(self) -> bool:
        """Whether no chunk is missing."""
        return self.count == self._layout.total_chunks

    def has(self, seq: int) -> bool:
        """Return whether a chunk was received."""
        return self._received[seq] == 1

    def add(self, first: int, last: int) -> list[Span]:
        """Mark chunks as received; return those that were new."""
        new = list(self._gaps(first, last))
        for start, end in new:
            self._received[start:end] = b"\x01" * (end - start)
            self.count += end - start
            self.bytes += self._layout.size(start, end)
            self.highest = max(self.highest, end - 1)
        if first <= self.next_seq < last:
            found = self._received.find(0, last)
            self.next_seq = len(self._received) if found < 0 else found
        return new

    def gaps(self, limit: int) -> list[Span]:
        """Return the first gaps; if there are more than `limit`, the last one extends to the end."""
        found: list[Span] = []
        for gap in self._gaps(self.next_seq, len(self._received)):
            if len(found) == limit:
                return [*found[:-1], (found[-1][0], len(self._received))]
            found.append(gap)
        return found

    def _gaps(self, first: int, last: int) -> Iterator[Span]:
        received = self._received
        while first < last:
            start = received.find(0, first, last)
            if start < 0:
                return
            end = received.find(1, start, last)
            end = last if end < 0 else end
            yield start, end
            first = end


def read_spans(value: Any, total_chunks: int) -> list[Span] | None:
    """Parse the gaps that another Hubbub reports; None if they are malformed."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not 0 < len(value) <= limits.FILE_GAPS:
        return None
    spans: list[Span] = []
    for item in value:
        match item:
            case [int(first), int(last)] if (spans[-1][1] if spans else 0) <= first < last <= total_chunks:
                spans.append((first, last))
            case _:
                return None
    return spans
