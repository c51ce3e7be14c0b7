"""Options of file transfer for one session, and for one transfer."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from hubbub.packs.peers import limits
from hubbub.packs.peers.room import Room

DEFAULT_MIME: Final = "application/octet-stream"


class FileOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options from `vdo_connect` and the settings; numbers are already within their limits."""

    chunk_bytes: int = msgspec.field(default_factory=lambda: limits.FILE_CHUNK_BYTES)
    max_bytes: int = msgspec.field(default_factory=lambda: limits.FILE_MAX_BYTES)
    """The largest file, in either direction."""
    ack_timeout_s: float = 1.2
    max_retries: int = 6
    spool_dir: str | None = None
    """Folder for incoming files; None: a private folder among the temporary files."""
    spool_threshold_bytes: int = 4_194_304
    """Smaller files are kept in memory."""
    keep_spool_files: bool = False
    folders: tuple[str, ...] = ()
    """Folders that files are read from and written to; if empty, see `allowed_folders`. The spool folder is added."""


class FileSession(Protocol):
    """What file transfer needs of its session."""

    room: Room
    file_options: FileOptions

    def emit(self, type: str, /, **fields: Any) -> None:
        """Emit an event for `vdo_receive`."""


class ProgressCallback(Protocol):
    """Receives the progress of a transfer."""

    async def __call__(self, done: int, total: int) -> None: ...


class SendRequest(msgspec.Struct, kw_only=True):
    """What the caller of one transfer asks for."""

    target: str | None = None
    """A stream id or a uuid; None: the only connected peer."""
    transfer_id: str | None = None
    name: str = ""
    mime: str = DEFAULT_MIME
    chunk_bytes: int | None = None
    timeout_s: float | None = None
    """How long to wait for the next acknowledgement; None: until the retries are used up."""
    ack_timeout_s: float | None = None
    max_retries: int | None = None
    start_seq: int | None = None
    on_progress: ProgressCallback | None = None
