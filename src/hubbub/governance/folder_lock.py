"""A lock that lets one process at a time write to a folder; released when the process ends, however it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from hubbub.errors import SettingsError

_PID_BYTES: Final = 32


class FolderLock:
    """Holds a lock file with the id of this process. On Windows, nothing is locked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock; also if this process has it, but its file was replaced.

        Raises:
            SettingsError: another process has it.
            OSError: the file cannot be created.
        """
        if self._is_held():
            return
        self.release()
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not _lock(descriptor):
                owner = os.read(descriptor, _PID_BYTES).decode("ascii", "replace").strip() or "unknown"
                raise SettingsError(
                    f"the audit journal in {self._path.parent} is written by another process (pid {owner}); "
                    "stop that process, or set another folder in [audit]"
                )
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock. The file stays: deleting it would let two processes lock two files."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_held(self) -> bool:
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except FileNotFoundError:
            return False


def _lock(descriptor: int) -> bool:
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
