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

PREFIX: Final = "session_"
_OURS: Final = re.compile(PREFIX + "[0-9a-f]{16}", re.ASCII)
_LOCK: Final = "hubbub.lock"
_FLAGS: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def hold(folder: Path, opened: int | None) -> int | None:
    """Lock a folder until the returned descriptor is closed; `opened`: a descriptor of the folder, if it is open."""
    if sys.platform == "win32":
        return None
    above = folder if opened is None else Path()
    new = above / f"{_LOCK}.new"
    lock = os.open(new, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=opened)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.rename(new, above / _LOCK, src_dir_fd=opened, dst_dir_fd=opened)  # Visible to others only once it is held.
    return lock


def remove(above: Path) -> None:
    """Remove the folders that no process holds any longer."""
    if sys.platform == "win32":
        return
    for folder in above.glob(f"{PREFIX}*"):
        if not _OURS.fullmatch(folder.name):
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
