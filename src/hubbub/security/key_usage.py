"""When each API key was last used, for `hubbub keys list`; kept in the state folder, never in the key file.

A use is noted in memory. `save` writes the file at most once a minute, away from the event loop. Several processes
share the file: each adds its own uses to those that it finds, so a write that was lost is repeated by the next.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from hubbub.settings.folders import make_private_folder, state_folder

FILE_NAME: Final = "keys-last-use.json"
SAVE_INTERVAL_S: Final = 60.0
MAX_KEYS: Final = 10_000
"""Keys in the file; those that were not used for the longest time are dropped."""
_MAX_FILE_BYTES: Final = 64 * MAX_KEYS

logger = logging.getLogger("hubbub.security")


class KeyUsage:
    """The last use of keys, by their ids; in whole seconds since 1970."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._clock = clock
        self._monotonic = monotonic
        self._last_uses: dict[str, int] = {}
        self._is_changed = False
        self._save_at = monotonic() + SAVE_INTERVAL_S

    def note(self, identifier: str) -> None:
        """Note that a key was used now."""
        now, uses = int(self._clock()), self._last_uses
        if uses.get(identifier) == now:
            return
        if identifier not in uses and len(uses) >= MAX_KEYS:
            del uses[min(uses, key=uses.__getitem__)]
        uses[identifier] = now
        self._is_changed = True

    async def save_if_due(self) -> None:
        """Save the uses in another thread, if something changed and a minute has passed."""
        if self._is_changed and self._monotonic() >= self._save_at:
            await asyncio.to_thread(self.save)

    def save(self) -> None:
        """Save the uses now. Errors are logged only: a server works without this file."""
        if not self._is_changed:
            return
        self._is_changed = False
        self._save_at = self._monotonic() + SAVE_INTERVAL_S
        path = state_folder() / FILE_NAME if self._path is None else self._path
        try:
            merged = read_last_uses(path)
            for identifier, moment in self._last_uses.copy().items():
                merged[identifier] = max(moment, merged.get(identifier, 0))
            newest = sorted(merged.items(), key=lambda item: item[1], reverse=True)[:MAX_KEYS]
            _write(path, msgspec.json.encode(dict(newest)))
        except OSError as error:
            logger.warning("key_usage_not_saved", extra={"path": str(path), "reason": error.strerror or str(error)})


def read_last_uses(path: Path | None = None) -> dict[str, int]:
    """Return the last use of each key by its id; empty if there is no file, or it is damaged."""
    path = state_folder() / FILE_NAME if path is None else path
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            return {}
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (OSError, msgspec.DecodeError):
        return {}


def _write(path: Path, content: bytes) -> None:
    make_private_folder(path.parent)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
