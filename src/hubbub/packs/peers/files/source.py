"""Sources of outgoing files: bytes from a caller, or a file that is read again for each attempt."""

from __future__ import annotations

import hashlib
import os
import threading
from typing import Final, Protocol

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.files.path_sandbox import PathSandbox
from hubbub.packs.peers.files.spool import read_at

_FILE_CHANGED: Final = "the file changed since it was offered; send it again"


class Source(Protocol):
    """The bytes of one file. Methods may block on a disk: call them in a thread, one at a time."""

    kind: str
    path: str | None

    def open(self) -> tuple[int, str]:
        """Open the source; return its size and SHA-256.

        Raises: PeersError, if it changed since the first call.
        """

    def read(self, offset: int, size: int) -> bytes:
        """Return exactly these bytes.

        Raises: PeersError, if there are fewer.
        """

    def close(self) -> None:
        """Release the file."""


class MemorySource:
    """Bytes from a caller."""

    kind = "memory"

    def __init__(self, data: bytes) -> None:
        self.path: str | None = None
        self._data = data

    def open(self) -> tuple[int, str]:
        return len(self._data), hashlib.sha256(self._data).hexdigest()

    def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]

    def close(self) -> None:
        """Do nothing: there is no file to release."""


class PathSource:
    """A file on disk; an error if it changes after its first use."""

    kind = "path"

    def __init__(self, folders: PathSandbox, path: str, max_bytes: int) -> None:
        self.path: str | None = path
        self._folders = folders
        self._path = path
        self._max_bytes = max_bytes
        self._file: int | None = None
        # A thread may still be reading when the event loop calls `close`: the file must not be closed during a read.
        self._lock = threading.Lock()
        self._stamp: tuple[int, ...] | None = None
        self._size_and_hash: tuple[int, str] | None = None

    def open(self) -> tuple[int, str]:
        self.close()
        self._file, found = self._folders.open(self._path)
        stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if self._size_and_hash is None or stamp != self._stamp:
            size_and_hash = self._hash_file(found.st_size)
            if self._size_and_hash not in (None, size_and_hash):
                raise PeersError(_FILE_CHANGED)
            self._size_and_hash, self._stamp = size_and_hash, stamp
        return self._size_and_hash

    def read(self, offset: int, size: int) -> bytes:
        data = self._read(offset, size)
        if len(data) != size:
            raise PeersError(_FILE_CHANGED)
        return data

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _read(self, offset: int, size: int) -> bytes:
        with self._lock:
            return b"" if self._file is None else read_at(self._file, size, offset)

    def _hash_file(self, size: int) -> tuple[int, str]:
        if size > self._max_bytes:
            raise PeersError(f"file exceeds max {self._max_bytes} bytes")
        digest, offset = hashlib.sha256(), 0
        while block := self._read(offset, limits.FILE_BLOCK_BYTES):
            digest.update(block)
            offset += len(block)
            if offset > size:
                raise PeersError(_FILE_CHANGED)
        if offset != size:
            raise PeersError(_FILE_CHANGED)
        return size, digest.hexdigest()
