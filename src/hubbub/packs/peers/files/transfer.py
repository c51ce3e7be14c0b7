"""One transfer, outgoing or incoming, as the tools show it."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Literal, TypeAlias

from hubbub import ToolFailure
from hubbub.packs.peers.event_queue import iso_time
from hubbub.packs.peers.files.chunk_map import ChunkLayout, ChunkMap
from hubbub.packs.peers.files.source import Source
from hubbub.packs.peers.files.spool import Store

Status: TypeAlias = Literal["offered", "transferring", "receiving", "completed", "failed", "cancelled"]
"""`offered` and `transferring` are outgoing, `receiving` is incoming."""


class Transfer:
    """State that both directions share."""

    direction: ClassVar[Literal["incoming", "outgoing"]]

    def __init__(self, transfer_id: str, name: str, mime: str, status: Status) -> None:
        self.transfer_id = transfer_id
        self.name = name
        self.mime = mime
        self.status: Status = status
        self.layout = ChunkLayout(0, 1)
        self.file_hash = ""
        self.retries_total = 0
        self.peer_uuid: str | None = None
        self.peer_stream_id: str | None = None
        self.created_at = self.updated_at = time.time()
        self.completed_at: float | None = None
        self.last_error: str | None = None
        self.last_activity_at = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether the transfer has ended; a failed or cancelled one may be resumed."""
        return self.status in ("completed", "failed", "cancelled")

    def touch(self) -> None:
        """Record activity."""
        self.last_activity_at, self.updated_at = time.monotonic(), time.time()

    def set_status(self, status: Status, error: str | None = None) -> None:
        """Change the status, and record the error if there is one."""
        self.status, self.last_error = status, error
        self.touch()
        if status == "completed":
            self.completed_at = self.updated_at

    def summary(self) -> dict[str, Any]:
        """Return the transfer as the tools show it."""
        is_outgoing = self.direction == "outgoing"
        return {
            "transfer_id": self.transfer_id,
            "direction": self.direction,
            "status": self.status,
            "name": self.name,
            "mime": self.mime,
            "total_bytes": self.layout.total_bytes,
            "total_chunks": self.layout.total_chunks,
            "chunk_bytes": self.layout.chunk_bytes,
            **self._progress(),
            "target_uuid": self.peer_uuid if is_outgoing else None,
            "target_stream_id": self.peer_stream_id if is_outgoing else None,
            "from_uuid": None if is_outgoing else self.peer_uuid,
            "from_stream_id": None if is_outgoing else self.peer_stream_id,
            "file_hash": self.file_hash,
            "created_at": iso_time(self.created_at),
            "updated_at": iso_time(self.updated_at),
            "completed_at": None if self.completed_at is None else iso_time(self.completed_at),
            "last_error": self.last_error,
            "has_data": self.has_data,
        }

    @property
    def has_data(self) -> bool:
        """Whether there is data to read, or to send again."""
        raise NotImplementedError

    def _progress(self) -> dict[str, Any]:
        raise NotImplementedError


class OutgoingTransfer(Transfer):
    """A transfer that we send."""

    direction = "outgoing"

    def __init__(self, transfer_id: str, name: str, mime: str, source: Source) -> None:
        super().__init__(transfer_id, name, mime, "offered")
        self.source: Source | None = source
        self.source_kind, self.source_path = source.kind, source.path
        self.refusal: ToolFailure | None = None
        """Why the file could not be sent at all; nothing was offered, so there is nothing to resume."""
        self.wanted_chunk_bytes = 0
        self.next_seq = 0
        self.confirmed_bytes = 0

    @property
    def has_data(self) -> bool:
        """Whether there is data to send again."""
        return self.source is not None

    @property
    def confirmed_chunks(self) -> int:
        """How many chunks the other end has confirmed."""
        return -(-self.confirmed_bytes // self.layout.chunk_bytes)

    def _progress(self) -> dict[str, Any]:
        return {
            "next_seq": self.next_seq,
            "retries_total": self.retries_total,
            "acked_chunks": self.confirmed_chunks,
            "source": self.source_kind,
            "spooled": False,
            "spool_path": None,
            "source_path": self.source_path,
        }


class IncomingTransfer(Transfer):
    """A transfer that we receive."""

    direction = "incoming"

    def __init__(self, transfer_id: str, name: str, mime: str, layout: ChunkLayout) -> None:
        super().__init__(transfer_id, name, mime, "receiving")
        self.layout = layout
        self.chunk_map = ChunkMap(layout)
        self.store: Store | None = None
        self.is_spooled = False

    @property
    def has_data(self) -> bool:
        """Whether there is data to read."""
        return self.status == "completed" and self.store is not None

    def _progress(self) -> dict[str, Any]:
        return {
            "retries_total": self.retries_total,
            "acked_chunks": self.chunk_map.count,
            "source": "spool" if self.is_spooled else "memory",
            "spooled": self.is_spooled,
            "spool_path": None if self.store is None else self.store.path,
            "source_path": None,
        }
