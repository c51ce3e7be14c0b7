"""One transfer as tools show it, going out or coming in."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, TypeAlias

from hubbub.packs.peers.files.parts import Layout, Parts
from hubbub.packs.peers.files.source import Source
from hubbub.packs.peers.files.spool import Store

Status: TypeAlias = Literal["offered", "transferring", "receiving", "completed", "failed", "cancelled"]
"""`offered` and `transferring` are going out, `receiving` is coming in."""


def time_text(moment: float) -> str:
    """A time as events have it."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Transfer:
    """What both directions have."""

    direction: ClassVar[Literal["incoming", "outgoing"]]

    def __init__(self, transfer_id: str, name: str, mime: str, status: Status) -> None:
        self.transfer_id = transfer_id
        self.name = name
        self.mime = mime
        self.status: Status = status
        self.layout = Layout(0, 1)
        self.file_hash = ""
        self.retries_total = 0
        self.peer_uuid: str | None = None
        self.peer_stream_id: str | None = None
        self.created_at = self.updated_at = time.time()
        self.completed_at: float | None = None
        self.last_error: str | None = None
        self.moved_at = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether nothing happens any more, unless it is resumed."""
        return self.status in ("completed", "failed", "cancelled")

    def touch(self) -> None:
        """Something happened."""
        self.moved_at, self.updated_at = time.monotonic(), time.time()

    def settle(self, status: Status, error: str | None = None) -> None:
        """It has another status now."""
        self.status, self.last_error = status, error
        self.touch()
        if status == "completed":
            self.completed_at = self.updated_at

    def summary(self) -> dict[str, Any]:
        """As tools show it."""
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
            "created_at": time_text(self.created_at),
            "updated_at": time_text(self.updated_at),
            "completed_at": None if self.completed_at is None else time_text(self.completed_at),
            "last_error": self.last_error,
            "has_data": self.has_data,
        }

    @property
    def has_data(self) -> bool:
        """Whether there is something to read, or to send again."""
        raise NotImplementedError

    def _progress(self) -> dict[str, Any]:
        raise NotImplementedError


class Outgoing(Transfer):
    """One that we send."""

    direction = "outgoing"

    def __init__(self, transfer_id: str, name: str, mime: str, source: Source) -> None:
        super().__init__(transfer_id, name, mime, "offered")
        self.source: Source | None = source
        self.source_kind, self.source_path = source.kind, source.path
        self.wanted_chunk_bytes = 0
        self.next_seq = 0
        self.confirmed_bytes = 0

    @property
    def has_data(self) -> bool:
        """Whether there is something to send again."""
        return self.source is not None

    @property
    def confirmed_chunks(self) -> int:
        """How many chunks the other end has."""
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


class Incoming(Transfer):
    """One that comes."""

    direction = "incoming"

    def __init__(self, transfer_id: str, name: str, mime: str, layout: Layout) -> None:
        super().__init__(transfer_id, name, mime, "receiving")
        self.layout = layout
        self.parts = Parts(layout)
        self.store: Store | None = None
        self.is_spooled = False

    @property
    def has_data(self) -> bool:
        """Whether there is something to read."""
        return self.status == "completed" and self.store is not None

    def _progress(self) -> dict[str, Any]:
        return {
            "retries_total": self.retries_total,
            "acked_chunks": self.parts.count,
            "source": "spool" if self.is_spooled else "memory",
            "spooled": self.is_spooled,
            "spool_path": None if self.store is None else self.store.path,
            "source_path": None,
        }
