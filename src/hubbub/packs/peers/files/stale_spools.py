"""Removal of spool folders whose process was killed before it could remove them.

A process holds a lock on a file in each folder that it uses; a lock that can be taken belongs to a dead process. On
platforms without such locks nothing is removed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

SPOOL_PREFIX: Final = "session_"
_SPOOL_NAME: Final = re.compile(SPOOL_PREFIX + "[0-9a-f]{16}", re.ASCII)
_LOCK: Final = "hubbub.lock"
_FLAGS: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def lock_spool(folder: Path, folder_fd: int | None) -> int | None:
    """Lock a folder until the returned descriptor is closed; `folder_fd`: its descriptor, if it is open."""
    if sys.platform == "win32":
        return None
    parent = folder if folder_fd is None else Path()
    new = parent / f"{_LOCK}.new"
    lock = os.open(new, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder_fd)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.rename(
        new, parent / _LOCK, src_dir_fd=folder_fd, dst_dir_fd=folder_fd
    )  # Visible to others only once it is held.
    return lock


def remove_stale(parent: Path) -> None:
    """Remove the folders that no process holds any longer."""
    if sys.platform == "win32":
        return
    for folder in parent.glob(f"{SPOOL_PREFIX}*"):
        if not _SPOOL_NAME.fullmatch(folder.name):
            continue  # Other files in a configured spool folder are not ours.
        try:
            lock = os.open(folder / _LOCK, _FLAGS)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # A running process holds it.
        finally:
            os.close(lock)
