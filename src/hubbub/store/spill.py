"""Keeps what is too large to send, for a while, for the one who asked for it.

Each piece is a file without a name: nobody else on the machine can open it, and it is gone
with the process, however that ends. Pieces have a lifetime, the oldest make room for new
ones, and whoever is not the owner of a piece learns nothing of it, not even that it was.
Knows bytes only; `hubbub.hub.large` makes links and pages of them.
"""

from __future__ import annotations

import logging
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO, Final

import msgspec

from hubbub import bounds

logger = logging.getLogger("hubbub.store")
_ID_BYTES: Final = 16
_LONGEST_CHARACTER: Final = 4
"""Bytes of one character in UTF-8."""
_LEADING_BITS: Final = 0b1100_0000
_CONTINUATION: Final = 0b1000_0000
"""How the second and later bytes of a character begin."""


class Owner(msgspec.Struct, frozen=True):
    """Who may read a piece: a principal, and where its state lives if it has such a place."""

    principal: str
    scope: str | None = None


class Kept(msgspec.Struct, frozen=True):
    """What is known of a piece."""

    id: str
    size: int
    media_type: str
    expires_at: float
    """In seconds since 1970."""
    is_gone: bool = False
    """Whether its time is over, or it made room for others."""


class Part(msgspec.Struct, frozen=True):
    """Some of a piece, cut between characters."""

    data: bytes
    offset: int
    """Where it really begins: at the start of a character."""
    next_offset: int | None
    """Where the rest begins; None at the end."""


class _Piece(msgspec.Struct):
    owner: Owner
    kept: Kept
    file: IO[bytes] | None


class Spill:
    """The pieces of one process. May be used from any thread."""

    def __init__(
        self,
        *,
        total_bytes: int = bounds.RESULT_TOTAL_BYTES,
        lifetime_s: float = bounds.RESULT_TTL_S,
        most: int = bounds.RESULTS_KEPT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.total_bytes = total_bytes
        self.lifetime_s = lifetime_s
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._pieces: dict[str, _Piece] = {}
        """Oldest first. Those that are gone stay for a while without their file, so that readers can be told."""
        self._held = 0
        self._bytes = 0

    def __len__(self) -> int:
        """How many pieces can be read."""
        with self._lock:
            self._sweep()
            return self._held

    @property
    def bytes_held(self) -> int:
        """What all pieces take."""
        with self._lock:
            self._sweep()
            return self._bytes

    def keep(self, owner: Owner, data: bytes, media_type: str) -> Kept | None:
        """Keep a piece; None if it is larger than all that may be kept, or cannot be written. Waits for the disk."""
        if len(data) > self.total_bytes:
            return None
        try:
            file = _unnamed_file(data)
        except OSError as error:
            logger.warning("result_not_kept", extra={"reason": error.strerror or type(error).__name__})
            return None
        kept = Kept(secrets.token_urlsafe(_ID_BYTES), len(data), media_type, self._clock() + self.lifetime_s)
        with self._lock:
            self._sweep()
            self._make_room(len(data))
            self._pieces[kept.id] = _Piece(owner, kept, file)
            self._held += 1
            self._bytes += len(data)
        return kept

    def find(self, owner: Owner, identifier: str) -> Kept | None:
        """What is known of a piece; None if this owner has none of that id."""
        with self._lock:
            self._sweep()
            piece = self._pieces.get(identifier)
        return piece.kept if piece is not None and piece.owner == owner else None

    def read(self, owner: Owner, identifier: str, offset: int, limit: int) -> Part | None:
        """Some of a piece, from the first character at or after `offset`; None if it is not there, or no more."""
        limit = max(limit, _LONGEST_CHARACTER)
        with self._lock:
            self._sweep()
            piece = self._pieces.get(identifier)
            if piece is None or piece.owner != owner or piece.file is None:
                return None
            piece.file.seek(offset)
            read = piece.file.read(limit + _LONGEST_CHARACTER)
        start = _start_of_character(read) if offset else 0
        data = whole_characters(read[start:], limit)
        end = offset + start + len(data)
        return Part(data, offset + start, end if end < piece.kept.size else None)

    def close(self) -> None:
        """Let go of everything."""
        with self._lock:
            for piece in self._pieces.values():
                self._drop(piece)
            self._pieces.clear()

    def _sweep(self) -> None:
        now = self._clock()
        for piece in self._pieces.values():
            if piece.kept.expires_at <= now:
                self._drop(piece)
        gone = [identifier for identifier, piece in self._pieces.items() if piece.file is None]
        for identifier in gone[: max(0, len(gone) - self._most)]:
            del self._pieces[identifier]

    def _make_room(self, size: int) -> None:
        for piece in self._pieces.values():
            if self._held < self._most and self._bytes + size <= self.total_bytes:
                return
            self._drop(piece)

    def _drop(self, piece: _Piece) -> None:
        if piece.file is None:
            return
        piece.file.close()
        piece.file = None
        piece.kept = msgspec.structs.replace(piece.kept, is_gone=True)
        self._held -= 1
        self._bytes -= piece.kept.size


def whole_characters(data: bytes, limit: int) -> bytes:
    """The beginning of UTF-8 text, at most so many bytes, cut between characters."""
    if len(data) <= limit:
        return data
    cut = limit
    while cut > 0 and data[cut] & _LEADING_BITS == _CONTINUATION:
        cut -= 1
    return data[:cut]


def _start_of_character(data: bytes) -> int:
    start = 0
    while start < min(len(data), _LONGEST_CHARACTER) and data[start] & _LEADING_BITS == _CONTINUATION:
        start += 1
    return start


def _unnamed_file(data: bytes) -> IO[bytes]:
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open for as long as it is kept
    try:
        written = 0
        view = memoryview(data)
        while written < len(view):
            written += os.write(file.fileno(), view[written:])
    except BaseException:
        file.close()
        raise
    return file
