"""What is sent: bytes that a caller gave, or a file that is read again for each run."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Final, Protocol

from hubbub import bounds
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.files.folders import Folders
from hubbub.packs.peers.files.spool import read_at

_CHANGED: Final = "the file changed since it was offered; send it again"


class Source(Protocol):
    """The bytes of one file. All of it may wait for a disk: call it in a thread, one call at a time."""

    kind: str
    path: str | None

    def begin(self) -> tuple[int, str]:
        """Its size and its SHA-256; from now on it can be read.

        Raises: PeersError, if it is not what it was.
        """

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes.

        Raises: PeersError, if there are fewer.
        """

    def end(self) -> None:
        """Let go of the disk."""


class MemorySource:
    """Bytes that a caller gave."""

    kind = "memory"

    def __init__(self, data: bytes) -> None:
        self.path: str | None = None
        self._data = data

    def begin(self) -> tuple[int, str]:
        """Its size and its SHA-256."""
        return len(self._data), hashlib.sha256(self._data).hexdigest()

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes."""
        return self._data[offset : offset + size]

    def end(self) -> None:
        """Nothing to let go of."""


class PathSource:
    """A file on the disk, as it was when it was first looked at."""

    kind = "path"

    def __init__(self, folders: Folders, path: str, max_bytes: int) -> None:
        self.path: str | None = path
        self._folders = folders
        self._path = path
        self._max_bytes = max_bytes
        self._file: int | None = None
        # A thread may still read when the loop lets go: the file must not be closed under its hands.
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._known: tuple[int, str] | None = None

    def begin(self) -> tuple[int, str]:
        """Its size and its SHA-256."""
        self.end()
        self._file, found = self._folders.open(self._path)
        stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if self._known is None or stamp != self._stamp:
            known = self._measured(found.st_size)
            if self._known not in (None, known):
                raise PeersError(_CHANGED)
            self._known, self._stamp = known, stamp
        return self._known

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes."""
        data = self._read(offset, size)
        if len(data) != size:
            raise PeersError(_CHANGED)
        return data

    def end(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _read(self, offset: int, size: int) -> bytes:
        with self._lock:
            return b"" if self._file is None else read_at(self._file, size, offset)

    def _measured(self, size: int) -> tuple[int, str]:
        if size > self._max_bytes:
            raise PeersError(f"file exceeds max {self._max_bytes} bytes")
        digest, offset = hashlib.sha256(), 0
        while block := self._read(offset, bounds.FILE_BLOCK_BYTES):
            digest.update(block)
            offset += len(block)
            if offset > size:
                raise PeersError(_CHANGED)
        if offset != size:
            raise PeersError(_CHANGED)
        return size, digest.hexdigest()
