"""What a running hub leaves in the user's state folder, so that `hubbub plan` can compare with it.

One file for each process, readable by its user alone, locked as long as the process lives and
removed when it ends; one that nobody holds a lock on belongs to a process that was killed and
is cleared away. Values are described, not written down: see `hubbub.hub.described`.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub.hub.described import Description
from hubbub.settings.folders import state_folder

logger = logging.getLogger("hubbub.hub")
_FOLDER: Final = "hubs"
_ATTEMPTS: Final = 3


class RunningHub(msgspec.Struct, frozen=True, kw_only=True):
    """A hub that runs now."""

    pid: int
    started_at: float
    address: str
    """Where it listens, or `stdio`."""
    config: str | None = None
    """The whole path of its settings file."""
    mcp_json: str | None = None
    flags: dict[str, Any] = {}
    """What it was started with, but for secrets."""
    variables: dict[str, str] = {}
    """What it was started with in the environment, as far as `serve` reads it."""
    hidden_keys: tuple[str, ...] = ()
    """Keys whose values it was given in flags that are secret."""
    key: str
    """Of the digests, in hex."""
    description: Description
    problem: str | None = None
    """Why its files as they are now are not in effect."""


class StateFile:
    """The file of this process. Nothing here ever fails: a hub works without one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._descriptor: int | None = None

    def write(self, running: RunningHub) -> None:
        """Write it, or write it anew."""
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            data = msgspec.json.encode(running)
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
        except OSError as error:
            logger.warning("state_not_written", extra={"reason": error.strerror or str(error)})

    def remove(self) -> None:
        """Take it away again."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._path = self._descriptor = None

    def _open(self) -> int:
        folder = _folder(self._folder)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.json"
        draft = path.with_suffix(".new")  # Nobody may find it before it is locked.
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _hold(descriptor)
        self._path = draft.replace(path)
        return descriptor


def running_hubs(folder: Path | None = None) -> list[RunningHub]:
    """Every hub of this user that runs, the one that started last first; what others left behind is cleared away."""
    found: list[RunningHub] = []
    try:
        paths = sorted(_folder(folder).glob("*.json"))
    except OSError:
        return []
    for path in paths:
        hub = _read(path)
        if hub is not None:
            found.append(hub)
    return sorted(found, key=lambda hub: hub.started_at, reverse=True)


def _read(path: Path) -> RunningHub | None:
    try:
        with path.open("rb") as file:
            if not _is_held(file.fileno()):
                path.unlink(missing_ok=True)
                return None
            return _decoded(lambda: os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))
    except OSError:
        return None


def _decoded(read: Callable[[], bytes]) -> RunningHub | None:
    for _ in range(_ATTEMPTS):  # It may be written at this very moment.
        try:
            return msgspec.json.decode(read(), type=RunningHub)
        except msgspec.DecodeError:
            continue
    return None


def _hold(descriptor: int) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_held(descriptor: int) -> bool:
    """Whether the process that wrote the file is still there; where files have no locks, it counts as being there."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _folder(folder: Path | None) -> Path:
    return (state_folder() if folder is None else folder) / _FOLDER
