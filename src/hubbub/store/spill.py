"""Temporary storage for results that are too large to send, readable only by the caller that they belong to.

All pieces are in one unnamed temporary file: other processes cannot open it, it disappears with the process,
and it takes one file descriptor. Pieces expire; when there is no space for a new one, the tenant with the most bytes
loses a piece: the oldest of its owner with the most. When there are too many pieces, their numbers are compared.
Other callers cannot find out whether a piece exists or existed. Stores bytes only; `hubbub.hub.result_offload`
creates the links and pages.
"""

from __future__ import annotations

import errno
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
from hubbub.shares import Shares

logger = logging.getLogger("hubbub.store")
_ID_BYTES: Final = 16
_MAX_CHARACTER_BYTES: Final = 4
"""Maximum number of bytes of one character in UTF-8."""
_LEADING_BITS_MASK: Final = 0b1100_0000
_CONTINUATION_BITS: Final = 0b1000_0000
"""Leading bits of the second and later bytes of a character."""


class Owner(msgspec.Struct, frozen=True):
    """Who may read a piece: a principal, and the scope of its state if it has one."""

    principal: str
    scope: str | None = None
    is_authenticated: bool = False

    @property
    def share(self) -> str:
        """The share of the space that a piece uses: all sessions of an authenticated principal have one."""
        return self.principal if self.is_authenticated else f"{self.principal} {self.scope}"


class PieceInfo(msgspec.Struct, frozen=True):
    """The metadata of a piece."""

    id: str
    size: int
    media_type: str
    expires_at: float
    """In seconds since 1970."""
    is_removed: bool = False
    """Whether it has expired or was dropped to make room."""
    origin: object = None
    """What it is a result of, as its writer said."""


class Part(msgspec.Struct, frozen=True):
    """A part of a piece, cut between characters."""

    data: bytes
    offset: int
    """Where it starts: the first character at or after the requested offset."""
    next_offset: int | None
    """Where the next part starts; None at the end."""


class _Piece(msgspec.Struct):
    owner: Owner
    info: PieceInfo
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
        max_pieces: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.total_bytes = bounds.RESULT_TOTAL_BYTES if total_bytes is None else total_bytes
        self.lifetime_s = bounds.RESULT_TTL_S if lifetime_s is None else lifetime_s
        self._max_pieces = bounds.STORED_RESULTS if max_pieces is None else max_pieces
        self._clock = clock
        self._lock = threading.Lock()
        self._pieces: dict[str, _Piece] = {}
        """Oldest first. Expired pieces stay for a while without their bytes, so that readers get a clear error."""
        self._file: IO[bytes] | None = None
        self._readable_count = 0
        self._bytes = 0
        self._is_closed = False

    def __len__(self) -> int:
        """How many pieces can be read."""
        with self._lock:
            self._sweep()
            return self._readable_count

    def store(self, owner: Owner, data: bytes, media_type: str, origin: object = None) -> PieceInfo | None:
        """Store a piece; None if it is larger than `total_bytes` or cannot be written. Blocks while it writes."""
        if len(data) > self.total_bytes:
            return None
        expires_at = self._clock() + self.lifetime_s
        info = PieceInfo(secrets.token_urlsafe(_ID_BYTES), len(data), media_type, expires_at, origin=origin)
        try:
            with self._lock:
                self._sweep()
                piece = self._reserve(owner, info)
            try:
                self._write(data, piece.start)
            except BaseException:
                self._finish(piece, is_written=False)
                raise
        except OSError as error:
            logger.warning("result_not_stored", extra={"reason": error.strerror or type(error).__name__})
            return None
        self._finish(piece, is_written=True)
        return info

    def _reserve(self, owner: Owner, info: PieceInfo) -> _Piece:
        """Reserve space for a piece, which cannot be read or dropped until it is written."""
        self._is_closed = False
        self._make_room(owner, info.size)
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open for as long as it is used
        piece = self._pieces[info.id] = _Piece(owner, info, self._find_gap(info.size))
        self._readable_count += 1
        self._bytes += info.size
        return piece

    def _finish(self, piece: _Piece, *, is_written: bool) -> None:
        with self._lock:
            piece.is_written = True
            if not is_written or self._is_closed:
                self._drop(piece)
                self._pieces.pop(piece.info.id, None)
            self._close_file_if_unused()

    def find(self, owner: Owner, identifier: str) -> PieceInfo | None:
        """The metadata of a piece; None if this owner has none with this id."""
        with self._lock:
            self._sweep()
            piece = self._pieces.get(identifier)
        return piece.info if piece is not None and piece.owner == owner else None

    def read(self, owner: Owner, identifier: str, offset: int, limit: int) -> Part | None:
        """Read from the first character at or after `offset`; None if this owner has no such piece, or no longer."""
        limit = max(limit, _MAX_CHARACTER_BYTES)
        with self._lock:
            self._sweep()
            piece = self._pieces.get(identifier)
            if piece is None or piece.owner != owner or piece.info.is_removed or not piece.is_written:
                return None
            assert self._file is not None
            self._file.seek(piece.start + offset)
            read = self._file.read(min(limit + _MAX_CHARACTER_BYTES, max(piece.info.size - offset, 0)))
        start = _find_character_start(read) if offset else 0
        data = cut_utf8(read[start:], limit)
        end = offset + start + len(data)
        return Part(data, offset + start, end if end < piece.info.size else None)

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
                    del self._pieces[piece.info.id]
            self._close_file_if_unused()

    def _close_file_if_unused(self) -> None:
        """Close the file of a closed spill, after the last thread that writes to it."""
        if self._is_closed and not self._pieces and self._file is not None:
            self._file.close()
            self._file = None

    def _sweep(self) -> None:
        now = self._clock()
        for piece in self._pieces.values():
            if piece.info.expires_at <= now:
                self._drop(piece)
        removed = [identifier for identifier, piece in self._pieces.items() if piece.info.is_removed]
        for identifier in removed[: max(0, len(removed) - self._max_pieces)]:
            del self._pieces[identifier]

    def _make_room(self, owner: Owner, size: int) -> None:
        """Drop pieces until one of this size fits."""
        while (is_by_count := self._readable_count >= self._max_pieces) or self._bytes + size > self.total_bytes:
            self._drop(self._pick_piece(owner, size, is_by_count=is_by_count))

    def _pick_piece(self, owner: Owner, size: int, *, is_by_count: bool) -> _Piece:
        """Return the oldest piece of the owner with the most, in the tenant with the most, including the new piece."""
        stored = [piece for piece in self._pieces.values() if not piece.info.is_removed]
        shares = Shares(self.total_bytes)
        shares.take(owner.share, 1 if is_by_count else size)
        for piece in stored:
            shares.take(piece.owner.share, 1 if is_by_count else piece.info.size)
        readable = [piece for piece in stored if piece.is_written]
        if not readable:
            raise OSError(errno.ENOSPC, "no space is free until the results that are being written are complete")
        # Of equal pieces, `max` returns the first, which is the oldest.
        return max(readable, key=lambda piece: shares.usage(piece.owner.share))

    def _find_gap(self, size: int) -> int:
        """Find free space in the file: between two pieces, or after the last."""
        end = 0
        for start, length in self._extents():
            if start - end >= size:
                return end
            end = start + length
        return end

    def _extents(self) -> list[tuple[int, int]]:
        return sorted((piece.start, piece.info.size) for piece in self._pieces.values() if not piece.info.is_removed)

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
        if piece.info.is_removed or not piece.is_written:
            return
        piece.info = msgspec.structs.replace(piece.info, is_removed=True)
        self._readable_count -= 1
        self._bytes -= piece.info.size
        if self._file is not None:
            start, length = max(self._extents(), default=(0, 0))
            self._file.truncate(start + length)


def cut_utf8(data: bytes, limit: int) -> bytes:
    """Cut UTF-8 text between characters, to at most `limit` bytes."""
    if len(data) <= limit:
        return data
    cut = limit
    while cut > 0 and data[cut] & _LEADING_BITS_MASK == _CONTINUATION_BITS:
        cut -= 1
    return data[:cut]


def _find_character_start(data: bytes) -> int:
    start = 0
    while start < min(len(data), _MAX_CHARACTER_BYTES) and data[start] & _LEADING_BITS_MASK == _CONTINUATION_BITS:
        start += 1
    return start
