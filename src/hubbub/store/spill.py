"""Temporary storage for results that are too large to send, readable only by the caller that they belong to.

All pieces are in one unnamed temporary file: other processes cannot open it, it disappears with the process,
and it takes one file descriptor. Pieces expire; when there is no space for a new one, the owner with the most
bytes loses its oldest piece. Other callers cannot find out whether a piece exists or existed. Stores bytes only;
`hubbub.hub.large` creates the links and pages.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import IO, Final

import msgspec

from hubbub import bounds

logger = logging.getLogger("hubbub.store")
_ID_BYTES: Final = 16
_LONGEST_CHARACTER: Final = 4
"""Maximum number of bytes of one character in UTF-8."""
_LEADING_BITS: Final = 0b1100_0000
_CONTINUATION: Final = 0b1000_0000
"""Leading bits of the second and later bytes of a character."""


class Owner(msgspec.Struct, frozen=True):
    """Who may read a piece: a principal, and the scope of its state if it has one."""

    principal: str
    scope: str | None = None
    is_authenticated: bool = False

    @property
    def share(self) -> tuple[str, str | None]:
        """The share of the space that a piece uses: all sessions of an authenticated principal have one."""
        return self.principal, None if self.is_authenticated else self.scope


class Kept(msgspec.Struct, frozen=True):
    """The metadata of a piece."""

    id: str
    size: int
    media_type: str
    expires_at: float
    """In seconds since 1970."""
    is_gone: bool = False
    """Whether it has expired or was dropped to make room."""


class Part(msgspec.Struct, frozen=True):
    """A part of a piece, cut between characters."""

    data: bytes
    offset: int
    """Where it starts: the first character at or after the requested offset."""
    next_offset: int | None
    """Where the next part starts; None at the end."""


class _Piece(msgspec.Struct):
    owner: Owner
    kept: Kept
    start: int
    """Its offset in the file."""
    is_written: bool = False


class Spill:
    """The pieces of one process. May be used from any thread."""

    def __init__(
        self,
        *,
        total_bytes: int | None = None,
        lifetime_s: float | None = None,
        most: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.total_bytes = bounds.RESULT_TOTAL_BYTES if total_bytes is None else total_bytes
        self.lifetime_s = bounds.RESULT_TTL_S if lifetime_s is None else lifetime_s
        self._most = bounds.RESULTS_KEPT if most is None else most
        self._clock = clock
        self._lock = threading.Lock()
        self._pieces: dict[str, _Piece] = {}
        """Oldest first. Expired pieces stay for a while without their bytes, so that readers get a clear error."""
        self._file: IO[bytes] | None = None
        self._held = 0
        self._bytes = 0
        self._is_closed = False

    def __len__(self) -> int:
        """How many pieces can be read."""
        with self._lock:
            self._sweep()
            return self._held

    def keep(self, owner: Owner, data: bytes, media_type: str) -> Kept | None:
        """Store a piece; None if it is larger than `total_bytes` or cannot be written. Blocks while it writes."""
        if len(data) > self.total_bytes:
            return None
        kept = Kept(secrets.token_urlsafe(_ID_BYTES), len(data), media_type, self._clock() + self.lifetime_s)
        try:
            with self._lock:
                self._sweep()
                piece = self._reserve(owner, kept)
            try:
                self._write(data, piece.start)
            except BaseException:
                self._finish(piece, is_written=False)
                raise
        except OSError as error:
            logger.warning("result_not_kept", extra={"reason": error.strerror or type(error).__name__})
            return None
        self._finish(piece, is_written=True)
        return kept

    def _reserve(self, owner: Owner, kept: Kept) -> _Piece:
        """Reserve space for a piece, which cannot be read or dropped until it is written."""
        self._is_closed = False
        self._make_room(owner, kept.size)
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open for as long as it is used
        piece = self._pieces[kept.id] = _Piece(owner, kept, self._gap(kept.size))
        self._held += 1
        self._bytes += kept.size
        return piece

    def _finish(self, piece: _Piece, *, is_written: bool) -> None:
        with self._lock:
            piece.is_written = True
            if not is_written or self._is_closed:
                self._drop(piece)
                self._pieces.pop(piece.kept.id, None)
            self._close_file_if_unused()

    def find(self, owner: Owner, identifier: str) -> Kept | None:
        """The metadata of a piece; None if this owner has none with this id."""
        with self._lock:
            self._sweep()
            piece = self._pieces.get(identifier)
        return piece.kept if piece is not None and piece.owner == owner else None

    def read(self, owner: Owner, identifier: str, offset: int, limit: int) -> Part | None:
        """Read from the first character at or after `offset`; None if this owner has no such piece, or no longer."""
        limit = max(limit, _LONGEST_CHARACTER)
        with self._lock:
            self._sweep()
            piece = self._pieces.get(identifier)
            if piece is None or piece.owner != owner or piece.kept.is_gone or not piece.is_written:
                return None
            assert self._file is not None
            self._file.seek(piece.start + offset)
            read = self._file.read(min(limit + _LONGEST_CHARACTER, max(piece.kept.size - offset, 0)))
        start = _start_of_character(read) if offset else 0
        data = whole_characters(read[start:], limit)
        end = offset + start + len(data)
        return Part(data, offset + start, end if end < piece.kept.size else None)

    def reopen(self) -> None:
        """Accept pieces again after `close`."""
        with self._lock:
            self._is_closed = False

    def close(self) -> None:
        """Drop all pieces."""
        with self._lock:
            self._is_closed = True
            for piece in list(self._pieces.values()):
                self._drop(piece)
                if piece.is_written:
                    del self._pieces[piece.kept.id]
            self._close_file_if_unused()

    def _close_file_if_unused(self) -> None:
        """Close the file of a closed spill, after the last thread that writes to it."""
        if self._is_closed and not self._pieces and self._file is not None:
            self._file.close()
            self._file = None

    def _sweep(self) -> None:
        now = self._clock()
        for piece in self._pieces.values():
            if piece.kept.expires_at <= now:
                self._drop(piece)
        gone = [identifier for identifier, piece in self._pieces.items() if piece.kept.is_gone]
        for identifier in gone[: max(0, len(gone) - self._most)]:
            del self._pieces[identifier]

    def _make_room(self, owner: Owner, size: int) -> None:
        """Drop pieces until one of this size fits: the oldest of the owner with the most bytes."""
        while self._held >= self._most or self._bytes + size > self.total_bytes:
            held = [piece for piece in self._pieces.values() if piece.is_written and not piece.kept.is_gone]
            if not held:
                raise OSError(errno.ENOSPC, "no space is free until the results that are being written are complete")
            taken: Counter[tuple[str, str | None]] = Counter({owner.share: size})
            for piece in held:
                taken[piece.owner.share] += piece.kept.size
            self._drop(
                max(held, key=lambda piece: taken[piece.owner.share])
            )  # `max` returns the first of several, which is the oldest

    def _gap(self, size: int) -> int:
        """Find free space in the file: between two pieces, or after the last."""
        end = 0
        for start, length in self._extents():
            if start - end >= size:
                return end
            end = start + length
        return end

    def _extents(self) -> list[tuple[int, int]]:
        return sorted((piece.start, piece.kept.size) for piece in self._pieces.values() if not piece.kept.is_gone)

    def _write(self, data: bytes, start: int) -> None:
        file = self._file
        assert file is not None
        view, written = memoryview(data), 0
        while written < len(view):
            if hasattr(os, "pwrite"):
                written += os.pwrite(file.fileno(), view[written:], start + written)
            else:
                with self._lock:
                    file.seek(start + written)
                    written += file.write(view[written:])

    def _drop(self, piece: _Piece) -> None:
        if piece.kept.is_gone or not piece.is_written:
            return
        piece.kept = msgspec.structs.replace(piece.kept, is_gone=True)
        self._held -= 1
        self._bytes -= piece.kept.size
        if self._file is not None:
            start, length = max(self._extents(), default=(0, 0))
            self._file.truncate(start + length)


def whole_characters(data: bytes, limit: int) -> bytes:
    """Cut UTF-8 text between characters, to at most `limit` bytes."""
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
