"""Remembers legacy servers, so that they are not probed again.

Clients use `DEFAULT_KNOWN_ERAS`, which is in memory only, unless they are given another. The command line and `hubbub
serve` also store, in the user's state folder, servers for which the probe was expensive: those that broke or did not
answer. The file contains salted digests and times, but no commands or arguments.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from hubbub import bounds

logger = logging.getLogger("hubbub.client")

_FILE_NAME: Final = "legacy-servers.json"
_SALT_BYTES: Final = 16


class _File(msgspec.Struct):
    salt: str
    until: dict[str, float] = {}
    """Unix times by digest, the oldest first."""


class KnownEras:
    """The known legacy servers. If the file cannot be read or written, servers are probed again."""

    def __init__(self, folder: Callable[[], Path] | None = None, *, clock: Callable[[], float] = time.time) -> None:
        """`folder` is where entries that outlive the process are stored; None: store nothing."""
        self._folder = folder
        self._clock = clock
        self._until: dict[str, float] = {}

    def is_legacy(self, key: str) -> bool:
        """Whether the server of this key is known to be a legacy one."""
        until = self._until.get(key)
        if until is None and self._folder is not None:
            file = self._read_file()
            until = file.until.get(_digest(file.salt, key))
        return until is not None and self._clock() < until

    def remember(self, key: str, *, outlives_process: bool = False) -> None:
        """Remember a legacy server."""
        until = self._clock() + bounds.KNOWN_ERA_TTL_S
        if key in self._until or len(self._until) < bounds.KNOWN_ERAS:
            self._until[key] = until
        if outlives_process:
            self._update_file(lambda file: file.until.update({_digest(file.salt, key): until}))

    def forget(self, key: str) -> None:
        """Forget a server."""
        self._until.pop(key, None)
        self._update_file(lambda file: file.until.pop(_digest(file.salt, key), None))

    def _read_file(self) -> _File:
        assert self._folder is not None
        try:
            return msgspec.json.decode((self._folder() / _FILE_NAME).read_bytes(), type=_File)
        except (OSError, msgspec.DecodeError, UnicodeError):
            return _File(secrets.token_hex(_SALT_BYTES))

    def _update_file(self, change: Callable[[_File], object]) -> None:
        if self._folder is None:
            return
        file = self._read_file()
        before = dict(file.until)
        change(file)
        if file.until == before:
            return
        now = self._clock()
        fresh = sorted((item for item in file.until.items() if item[1] > now), key=lambda item: item[1])
        file.until = dict(fresh[-bounds.KNOWN_ERAS_ON_DISK :])
        try:
            self._write_file(file)
        except OSError as error:
            logger.debug("the list of known legacy servers could not be saved: %s", error.strerror)

    def _write_file(self, file: _File) -> None:
        assert self._folder is not None
        folder = self._folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = folder / f"{_FILE_NAME}.{secrets.token_hex(4)}.new"
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(msgspec.json.encode(file))
        temporary.replace(folder / _FILE_NAME)


def _digest(salt: str, key: str) -> str:
    return hashlib.blake2b(key.encode(errors="surrogateescape"), key=salt.encode()[:64], digest_size=16).hexdigest()


DEFAULT_KNOWN_ERAS: Final = KnownEras()
"""The default of clients: a server that was probed once in this process is not probed again. It holds no task, lock or
file, and at most `bounds.KNOWN_ERAS` keys, so that event loops and threads can share it."""
