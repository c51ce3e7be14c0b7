"""The state file of a running hub, which `hubbub plan` compares with the settings.

One file for each process in the user's state folder, readable by that user only, locked while the process lives and
removed when it ends. A file without a lock belongs to a process that was killed, and is deleted. It contains digests of
values instead of secrets: see `hubbub.hub.config_description`.
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

from hubbub import bounds
from hubbub.hub.config_description import ConfigDescription
from hubbub.settings.folders import make_private_folder, state_folder

logger = logging.getLogger("hubbub.hub")
_FOLDER: Final = "hubs"


class RunningHub(msgspec.Struct, frozen=True, kw_only=True):
    """A hub that runs now."""

    pid: int
    started_at: float
    address: str
    """Where it listens, or `stdio`."""
    config: str | None = None
    """The absolute path of its settings file."""
    is_config_named: bool = True
    """Whether the user named that file; otherwise it was found in the working folder, and must be trusted."""
    mcp_json: str | None = None
    flags: dict[str, Any] = {}
    """The flags that it was started with, without secrets."""
    variables: dict[str, str] = {}
    """The environment variables that `serve` reads, as they were at the start."""
    hidden_keys: tuple[str, ...] = ()
    """Keys of the secret flags that it was started with."""
    key: str
    """The key of the digests, in hex."""
    description: ConfigDescription
    problem: str | None = None
    """Why its current files are not in effect."""
    socket: str | None = None
    """The Unix socket for administration."""


class StateFile:
    """The state file of this process. Errors of writing are logged, not raised, because a hub works without it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._descriptor: int | None = None

    def write(self, running: RunningHub) -> None:
        """Write the file, or replace its contents."""
        try:
            if self._descriptor is None:
                self._descriptor = self._open()
            data = msgspec.json.encode(running)
            os.pwrite(self._descriptor, data, 0)
            os.ftruncate(self._descriptor, len(data))
        except OSError as error:
            logger.warning("state_not_written", extra={"reason": error.strerror or str(error)})

    def remove(self) -> None:
        """Delete the file and release its lock."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._path = self._descriptor = None

    def _open(self) -> int:
        folder = _folder(self._folder)
        make_private_folder(folder)
        path = folder / f"{os.getpid()}-{secrets.token_hex(4)}.json"
        temporary = path.with_suffix(".new")  # Readers must not find it before it is locked.
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        _lock(descriptor)
        self._path = temporary.replace(path)
        return descriptor


def running_hubs(folder: Path | None = None) -> list[RunningHub]:
    """Return the running hubs of this user, the newest first; delete the files of killed processes."""
    found: list[RunningHub] = []
    try:
        paths = sorted(_folder(folder).glob("*.json"))
    except OSError:
        return []
    for path in paths:
        hub = _read_hub(path)
        if hub is not None:
            found.append(hub)
    return sorted(found, key=lambda hub: hub.started_at, reverse=True)


def _read_hub(path: Path) -> RunningHub | None:
    try:
        with path.open("rb") as file:
            if not _is_locked(file.fileno()):
                path.unlink(missing_ok=True)
                return None
            return _decode_with_retries(lambda: os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))
    except OSError:
        return None


def _decode_with_retries(read: Callable[[], bytes]) -> RunningHub | None:
    for _ in range(bounds.STATE_FILE_TRIES):  # It may be written at the same time.
        try:
            return msgspec.json.decode(read(), type=RunningHub)
        except msgspec.DecodeError:
            continue
    return None


def _lock(descriptor: int) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_locked(descriptor: int) -> bool:
    """Whether the process that wrote the file still runs; always True on Windows, where it is not locked."""
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
