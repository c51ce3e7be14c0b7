"""The names that servers had when they were last reached, kept in the user's state folder.

While a hub starts, some servers are not connected yet. Their last names are used to find name collisions,
so that names do not change when these servers connect. Only names are kept, one file for each server
config. Errors are ignored: a hub works without these files.
"""

from __future__ import annotations

import logging
import os
import secrets
from pathlib import Path
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.hub.config import UpstreamConfig
from hubbub.hub.snapshot import Snapshot
from hubbub.settings.folders import state_folder

logger = logging.getLogger("hubbub.hub")
_FOLDER: Final = "names"


class UpstreamNames(msgspec.Struct, frozen=True):
    """The names that one server had."""

    tools: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    uniform_version: str | None = msgspec.field(default=None, name="plain_version")
    """The version of the server that is known to list the same tools to every client."""


NO_KNOWN_NAMES: Final = UpstreamNames()


class KnownNames:
    """The names of all servers that any hub of this user has reached."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._cache: dict[str, UpstreamNames] = {}

    def load(self, config: UpstreamConfig) -> UpstreamNames:
        """Load the last known names of a server; empty for servers in this process, which are always listed."""
        if config.remote is None:
            return NO_KNOWN_NAMES
        path = self._path(config)
        found = self._cache.get(path.name)
        if found is None:
            try:
                found = msgspec.json.decode(path.read_bytes(), type=UpstreamNames)
            except (OSError, msgspec.DecodeError):
                found = NO_KNOWN_NAMES
            self._cache[path.name] = found
        return found

    def save(self, config: UpstreamConfig, snapshot: Snapshot) -> None:
        """Save the names that a server has now. Blocks on the disk if they have changed."""
        if config.remote is None or snapshot.revision is None:
            return
        known = UpstreamNames(
            tuple(tool.name for tool in snapshot.tools),
            tuple(prompt.name for prompt in snapshot.prompts),
            snapshot.uniform_version,
        )
        if known == self.load(config):
            return
        path = self._path(config)
        self._cache[path.name] = known
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{secrets.token_hex(4)}")
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(known))
            temporary.replace(path)
            self._delete_oldest(path.parent)
        except OSError as error:
            logger.debug("names_not_saved", extra={"reason": error.strerror or str(error)})

    def _delete_oldest(self, folder: Path) -> None:
        paths = list(folder.iterdir())
        if len(paths) > bounds.HUB_KNOWN_SERVERS:
            min(paths, key=lambda path: path.stat().st_mtime).unlink(missing_ok=True)

    def _path(self, config: UpstreamConfig) -> Path:
        from hashlib import sha256  # Only hubs need it.

        remote = config.remote
        assert remote is not None
        target = msgspec.json.encode([remote.command, list(remote.args), remote.url])
        return (self._folder or state_folder() / _FOLDER) / f"{sha256(target).hexdigest()[:32]}.json"
