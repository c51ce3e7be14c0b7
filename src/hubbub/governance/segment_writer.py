"""Writes an audit journal: appends groups of records to the newest segment, seals, recovers and deletes segments.

Blocking, for the thread of `hubbub.governance.journal`. Whatever fails, the chain on the disk stays valid: a group that
was not written as a whole is cut off again, and what a crash left incomplete is moved aside at the next start.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from hubbub.errors import SettingsError
from hubbub.governance.audit_events import (
    JOURNAL_EXPIRED,
    JOURNAL_RECOVERED,
    JOURNAL_SEALED,
    AuditEvent,
    Fact,
    encode_event,
    format_time,
)
from hubbub.governance.folder_lock import FolderLock
from hubbub.governance.journal_head import read_head
from hubbub.governance.segments import (
    HEAD_FILE,
    LOCK_FILE,
    NODE_FILE,
    Link,
    Segment,
    find_last_link,
    list_segments,
    read_lines,
    read_seal,
    segment_path,
)
from hubbub.settings.folders import make_private_folder, sync_folder
from hubbub.store.hash_chain import GENESIS, link_line

logger = logging.getLogger("hubbub.audit")

_APPEND: Final = os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)
_DAY: Final = len("2026-01-01")
_NODE_BYTES: Final = 256
sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)  # Windows has only the other.


class SegmentWriter:
    """The writing end of the journal in one folder."""

    def __init__(
        self, folder: Path, *, segment_bytes: int, is_synced: bool, node: str | None, clock_ns: Callable[[], int]
    ) -> None:
        self.head: tuple[int, str] = (0, GENESIS)
        """The number and hash of the last record; one value, because other threads read it."""
        self.written = 0
        """How many records of the last group are in the journal; all, unless `append` raised."""
        self.seals = 0
        self.node = node or ""
        self._is_named = node is not None
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._is_synced = is_synced
        self._clock_ns = clock_ns
        self._lock = FolderLock(folder / LOCK_FILE)
        self._prefix = b""
        self._is_open = False
        self._descriptor: int | None = None
        self._opened: os.stat_result | None = None
        """Identifies the file of the descriptor, once it is known."""
        self._path = folder
        self._location = str(folder)
        """The path of the newest segment, as text."""
        self._size = 0
        self._first_seq = 0
        self._day = ""
        self._recovered: list[AuditEvent] = []

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self.head[0]

    def open(self) -> None:
        """Lock the folder, create it if it is missing, and find the end of the chain.

        Raises:
            SettingsError: another process writes to it, or the name of the node cannot be read.
            OSError
        """
        make_private_folder(self._folder)
        self._folder.chmod(0o700)
        self._reopen()

    def append(self, payloads: Sequence[bytes]) -> None:
        """Write records, made by `encode_event`; when it returns, they are durable (if `is_synced`).

        Raises:
            SettingsError: another process writes to the folder since it was replaced.
            OSError: the first `written` records are in the journal, the others are not.
        """
        self.written = 0
        if not self._is_open or not self._is_in_place():
            self._reopen()
        if self._recovered:
            self._write([encode_event(event, self._clock_ns()) for event in self._recovered])
            self._recovered = []
        if self._descriptor is not None and format_time(self._clock_ns())[:_DAY] > self._day:
            self._seal()
        self._write(payloads, counts=True)

    def seal_if_due(self) -> None:
        """Seal the newest segment if it is of an earlier day.

        Raises: OSError.
        """
        if self._descriptor is not None and format_time(self._clock_ns())[:_DAY] > self._day and self._is_in_place():
            self._seal()

    def list_sealed(self, after_seq: int) -> list[Segment]:
        """Return the segments that never change again and begin after a record, in order.

        Raises: OSError.
        """
        return [
            segment
            for segment in list_segments(self._folder)
            if segment.first_seq > after_seq and segment.path != self._path
        ]

    def expire(self, before: str, up_to_seq: int | None = None) -> int:
        """Delete the segments that were sealed before this time; return their number. A record says so, before.

        `up_to_seq`: only segments that begin with this record or an earlier one.

        Raises: OSError.
        """
        segments = list_segments(self._folder)
        expired: list[Segment] = []
        for segment in segments:
            seal = None if segment.path == self._path else read_seal(segment.path)
            if seal is None or seal.ts >= before or (up_to_seq is not None and segment.first_seq > up_to_seq):
                break
            expired.append(segment)
        if not expired:
            return 0
        kept_from = segments[len(expired)].first_seq if len(expired) < len(segments) else self.seq + 1
        facts: dict[str, Fact] = {"kept_from": kept_from, "segments": len(expired)}
        self.append([encode_event(AuditEvent(event=JOURNAL_EXPIRED, facts=facts), self._clock_ns())])
        for segment in expired:
            segment.path.unlink(missing_ok=True)
        return len(expired)

    def close(self) -> None:
        """Close the files and release the lock."""
        self._is_open = False
        self._close_segment()
        self._lock.release()

    # -- writing -----------------------------------------------------------------------

    def _write(self, payloads: Sequence[bytes], *, counts: bool = False) -> None:
        lines: list[bytes] = []
        (seq, digest), size = self.head, self._size
        for payload in payloads:
            seq += 1
            line, digest = link_line(payload, digest, self._prefix % seq)
            lines.append(line)
            size += len(line)
            if size >= self._segment_bytes:
                self._commit(lines, seq, digest, counts)
                self._seal()
                lines = []
                (seq, digest), size = self.head, 0
        if lines:
            self._commit(lines, seq, digest, counts)

    def _commit(self, lines: list[bytes], seq: int, digest: str, counts: bool) -> None:
        """Write lines as a whole or not at all."""
        descriptor = self._create_segment() if self._descriptor is None else self._descriptor
        data = b"".join(lines)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if self._is_synced:
                sync_data(descriptor)
        except Exception:
            self._cut_off(descriptor)
            raise
        self._size += len(data)
        self.head = (seq, digest)
        if counts:
            self.written += len(lines)

    def _cut_off(self, descriptor: int) -> None:
        """Remove what was written of a group that failed."""
        try:
            os.ftruncate(descriptor, self._size)
        except OSError:
            self._close_segment()
            self._is_open = False

    def _create_segment(self) -> int:
        self._set_path(segment_path(self._folder, self.seq + 1))
        # Not exclusive: after a failure the file may exist, and is empty.
        self._descriptor = os.open(self._path, _APPEND | os.O_CREAT, 0o600)
        self._size, self._first_seq = 0, self.seq + 1
        self._day = format_time(self._clock_ns())[:_DAY]
        sync_folder(self._folder)
        return self._descriptor

    def _seal(self) -> None:
        seq, head = self.head
        facts: dict[str, Fact] = {
            "count": seq - self._first_seq + 1,
            "first_seq": self._first_seq,
            "last_seq": seq,
            "head": head,
        }
        payload = encode_event(AuditEvent(event=JOURNAL_SEALED, facts=facts), self._clock_ns())
        line, digest = link_line(payload, head, self._prefix % (seq + 1))
        self._commit([line], seq + 1, digest, False)
        self._close_segment()
        self.seals += 1

    def _close_segment(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None
        self._size = 0
        self._set_path(self._folder)

    def _set_path(self, path: Path) -> None:
        self._path, self._location, self._opened = path, str(path), None

    # -- recovery ----------------------------------------------------------------------

    def _is_in_place(self) -> bool:
        """Whether the newest segment is still in the folder; a deleted file could be written without an error."""
        try:
            if self._descriptor is None:
                return self._folder.is_dir()
            if self._opened is None:
                self._opened = os.fstat(self._descriptor)
            # For each group, so without pathlib, which takes three times as long, and with one call of the system:
            # this thread waits for the interpreter lock after each.
            return os.path.samestat(self._opened, os.stat(self._location))  # noqa: PTH116
        except FileNotFoundError:
            return False

    def _reopen(self) -> None:
        """Find the end of the chain.

        If we or `head.json` know of later records, which disappeared, continue after them, so that verification reports
        them as deleted.
        """
        self._is_open = False
        self._close_segment()
        self._lock.acquire()
        if not self._is_named:
            self.node = _read_or_create_node(self._folder, self.node)
        self._prefix = b'"seq":%%d,"node":%b,' % msgspec.json.encode(self.node).replace(b"%", b"%%")
        head = read_head(self._folder / HEAD_FILE)
        if head is not None and head.seq > self.seq:
            self.head = (head.seq, head.hash)
        found = self._find_end()
        found_seq = 0
        if found is not None:
            segment, first, last, size = found
            found_seq = last.seq
            if last.seq > self.seq:
                self.head = (last.seq, last.hash)
            if (last.seq, last.hash) == self.head and last.event != JOURNAL_SEALED:
                self._descriptor = os.open(segment.path, _APPEND)
                self._set_path(segment.path)
                self._size, self._first_seq = size, first.seq
                self._day = first.ts[:_DAY]
        if found_seq != self.seq:
            logger.error("audit_records_missing", extra={"last_seq": self.seq, "found_seq": found_seq})
        self._is_open = True

    def _find_end(self) -> tuple[Segment, Link, Link, int] | None:
        for segment in reversed(list_segments(self._folder)):
            first, last, end = find_last_link(segment.path)
            torn = segment.path.stat().st_size - end
            if torn:
                self._move_torn(segment.path, end, torn)
            if first is not None and last is not None:
                return segment, first, last, end
            segment.path.unlink()  # Created by a process that was killed before it wrote a record.
        return None

    def _move_torn(self, path: Path, end: int, torn: int) -> None:
        """Move incomplete lines to a file of their own; if we are killed meanwhile, it is done again."""
        aside = path.with_name(f"{path.stem}-{end}.torn")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for piece in read_lines(path, end):
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        with path.open("r+b") as segment:
            segment.truncate(end)
            os.fsync(segment.fileno())
        logger.warning("audit_journal_recovered", extra={"file": aside.name, "bytes": torn})
        facts: dict[str, Fact] = {"file": aside.name, "bytes": torn}
        self._recovered.append(AuditEvent(event=JOURNAL_RECOVERED, facts=facts))


def _read_or_create_node(folder: Path, name: str) -> str:
    """Return the name of the node: unique, so that records of two journals can be stored in one database.

    Raises: SettingsError, OSError.
    """
    path = folder / NODE_FILE
    try:
        with path.open(encoding="utf-8") as file:
            found = file.read(_NODE_BYTES).strip()
        if found:
            return found
    except FileNotFoundError:
        pass
    except UnicodeDecodeError:
        raise SettingsError(
            f"{path} is not text: write the name of the node into it, which is in every record, or delete it to get "
            "a new name"
        ) from None
    name = name or f"{socket.gethostname()}-{secrets.token_hex(4)}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{name}\n")
    return name
