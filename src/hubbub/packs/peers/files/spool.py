"""Storage for incoming files until they are read or saved: in memory, or in a private folder.

Both support random access. Only one thread at a time uses a store.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, Protocol

from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.files import stale_spools
from hubbub.packs.peers.files.path_sandbox import PathSandbox

_UNSAFE_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)
_CREATE_FLAGS: Final = (
    os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)  # fmt: skip


class Store(Protocol):
    """Random-access storage for the bytes of one file."""

    path: str | None
    """Path of the file on disk; None if in memory."""

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write bytes at an offset."""

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes that were written."""

    def close(self, *, keep: bool = False) -> None:
        """Discard the bytes; `keep`: leave the file on disk."""


class MemoryStore:
    """Storage in memory."""

    def __init__(self, total_bytes: int) -> None:
        self.path: str | None = None
        self._data = bytearray(total_bytes)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self._data[offset : offset + len(data)] = data

    def read(self, offset: int, size: int) -> bytes:
        return bytes(memoryview(self._data)[offset : offset + size])

    def close(self, *, keep: bool = False) -> None:
        self._data = bytearray()


class SpoolStore:
    """Storage in a file that only this user can read."""

    def __init__(self, path: Path, folder: int | None = None) -> None:
        """Create the file; `folder`: a descriptor of its folder, used even if the path is replaced later."""
        self.path: str | None = str(path)
        self._name = str(path) if folder is None else path.name
        self._folder = folder
        self._file = os.open(self._name, _CREATE_FLAGS, 0o600, dir_fd=folder)
        # A thread may still be reading when the store is closed.
        self._lock = threading.Lock()

    def write(self, offset: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        with self._lock:
            while view:
                written = _write_at(self._file, view, offset)
                view, offset = view[written:], offset + written

    def read(self, offset: int, size: int) -> bytes:
        with self._lock:
            return read_at(self._file, size, offset)

    def close(self, *, keep: bool = False) -> None:
        with self._lock:
            if self._file < 0:
                return
            os.close(self._file)
            self._file = -1
        if not keep:
            self.path = None
            try:
                os.unlink(self._name, dir_fd=self._folder)
            except OSError:
                pass


class Spool:
    """The private spool folder of one session; created for the first file, removed with the session."""

    def __init__(self, folders: PathSandbox, configured: str | None, *, keep: bool = False) -> None:
        self._folders = folders
        self._keep = keep
        self._lock: int | None = None
        self._folder_fd: int | None = None
        self._parent = None if configured is None else folders.make_folder(configured)
        self._folder: Path | None = None

    def create_store(self, transfer_id: str, total_bytes: int) -> SpoolStore:
        """Create the storage for a file.

        Raises: PeersError, if the disk has no space.
        """
        try:
            folder = self._open_folder()
            if shutil.disk_usage(folder if self._folder_fd is None else self._folder_fd).free < total_bytes:
                raise PeersError(f"the disk of the receiver has no space for a file of {total_bytes} bytes")
            safe_id = _UNSAFE_CHARACTERS.sub("_", transfer_id)[:64]
            name = f"incoming_{safe_id}_{int(time.time() * 1000)}_spool_{secrets.token_hex(4)}.bin"
            return SpoolStore(folder / name, self._folder_fd)
        except OSError as error:
            raise PeersError(f"the spool folder cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Remove the folder."""
        folder, self._folder = self._folder, None
        if folder is not None and not self._keep:
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self._lock, self._folder_fd):
            if file is not None:
                os.close(file)
        self._lock = self._folder_fd = None

    def _open_folder(self) -> Path:
        if self._folder is None:
            parent = Path(self._parent or default_spool_folder())
            allowed = PathSandbox([str(parent)]) if self._parent is None else self._folders
            stale_spools.remove_stale(parent)
            folder = parent / f"{stale_spools.SPOOL_PREFIX}{secrets.token_hex(8)}"
            with allowed.open_entry(str(folder)) as entry:
                entry.make_folder()
            self._folder_fd = allowed.open_folder(str(folder))
            self._folders.add(str(folder))  # Spool folders of other sessions stay forbidden.
            if not self._keep:
                self._lock = stale_spools.lock_spool(folder, self._folder_fd)
            self._folder = folder
        return self._folder


def default_spool_folder() -> str:
    """Return the default parent of spool folders, private to this user.

    Raises: PeersError, if it belongs to another user or others can access it.
    """
    owner = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(os.path.realpath(tempfile.gettempdir()), f"hubbub-peers-{owner}")
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        pass
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and (found.st_uid != owner or found.st_mode & 0o077)):
        raise PeersError(f"{folder} is not a private folder of this user; remove it, or pass file_spool_dir")
    return str(folder)


def read_at(file: int, size: int, offset: int) -> bytes:
    """Return bytes of a file from an offset on; fewer at its end."""
    if hasattr(os, "pread"):
        return os.pread(file, size, offset)
    os.lseek(file, offset, os.SEEK_SET)
    return os.read(file, size)


def _write_at(file: int, data: memoryview, offset: int) -> int:
    if hasattr(os, "pwrite"):
        return os.pwrite(file, data, offset)
    os.lseek(file, offset, os.SEEK_SET)
    return os.write(file, data)
