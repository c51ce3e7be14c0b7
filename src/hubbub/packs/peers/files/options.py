"""How one session sends and takes files."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from hubbub import bounds
from hubbub.packs.peers.room import Room


class FileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `vdo_connect` and the settings say about files; numbers are within their bounds already."""

    chunk_bytes: int = bounds.FILE_CHUNK_BYTES
    max_bytes: int = bounds.FILE_MAX_BYTES
    """The largest file, either way."""
    ack_timeout_s: float = 1.2
    max_retries: int = 6
    spool_dir: str | None = None
    """Where files are kept that come; None: a private folder among the temporary ones."""
    spool_threshold_bytes: int = 4_194_304
    """Smaller files are kept in memory."""
    keep_spool_files: bool = False
    folders: tuple[str, ...] = ()
    """Below which files are read and written; none: the working directory and the spool folder."""


class FileSession(Protocol):
    """What files need of the session that they belong to."""

    room: Room
    file_options: FileOptions

    def emit(self, type: str, /, **fields: Any) -> None:
        """Tell what `vdo_receive` shows."""


class Telling(Protocol):
    """Hears how far a transfer is, for whoever waits for it."""

    async def __call__(self, done: int, total: int) -> None: ...


class Sending(msgspec.Struct, kw_only=True):
    """What a caller wants of one run of one transfer."""

    target: str | None = None
    """A stream id or a uuid; None: the only peer that there is."""
    transfer_id: str | None = None
    name: str = ""
    mime: str = "application/octet-stream"
    chunk_bytes: int | None = None
    timeout_s: float | None = None
    ack_timeout_s: float | None = None
    max_retries: int | None = None
    start_seq: int | None = None
    tell: Telling | None = None
