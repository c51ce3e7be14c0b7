"""Reads an audit journal: all records, those that match, or those that are added from now on.

Reads files line by line, so that memory does not depend on their size. Lines that are not records are skipped:
`hubbub.governance.journal_verification` reports them.
"""

from __future__ import annotations

import asyncio
import csv
import io
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub.governance.audit_events import AuditRecord, decode_record
from hubbub.governance.hidden_characters import escape_unprintable
from hubbub.governance.segments import (
    MAX_LINE_BYTES,
    Segment,
    decode_valid_link,
    list_segments,
    read_lines,
    read_seal,
)

POLL_S: Final = 0.25
"""How often a followed journal is read."""
MAX_TAIL: Final = 10_000
"""Records that `read_tail` returns at most."""
_CHUNK_BYTES: Final = 1024 * 1024
_DAY: Final = len("2026-01-01")

CSV_COLUMNS: Final = (
    "seq", "ts", "node", "event", "call", "tenant", "user", "client", "credential", "trace", "server", "tool",
    "shown_as", "action", "kind", "args_sha256", "effect", "rule", "policy_version", "reason", "outcome", "code", "ms",
    "bytes", "facts", "hash",
)  # fmt: skip


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which records are wanted; what is not given matches everything."""

    tenant: str | None = None
    user: str | None = None
    server: str | None = None
    tool: str | None = None
    event: str | None = None
    """Exact, or with a final `*`, the beginning."""
    effect: str | None = None
    since: str | None = None
    """The earliest time, as in records: UTC, ISO 8601; may be cut, such as `2026-11-18`."""
    until: str | None = None
    """The time before which records are wanted."""

    def matches(self, record: AuditRecord) -> bool:
        """Whether a record is wanted."""
        wanted = ((self.tenant, record.tenant), (self.user, record.user), (self.server, record.server))
        if any(value is not None and value != found for value, found in wanted):
            return False
        if self.tool is not None and self.tool not in (record.tool, record.shown_as):
            return False
        if self.effect is not None and (record.decision is None or record.decision.effect != self.effect):
            return False
        if self.event is not None and not _matches_event(self.event, record.event):
            return False
        return (self.since or "") <= record.ts and (self.until is None or record.ts < self.until)


def _matches_event(wanted: str, found: str) -> bool:
    return found.startswith(wanted[:-1]) if wanted.endswith("*") else wanted == found


def read_records(folder: Path, *, first_seq: int = 1, since: str = "") -> Iterator[tuple[bytes, AuditRecord]]:
    """Yield the records from a number on, each with its line.

    `since`: skip segments that have no record of this time or later, as in `Filter.since`.

    Raises: OSError.
    """
    for segment in _segments_from(folder, first_seq):
        if _is_before(segment, since):
            continue
        for line in read_lines(segment.path, _find_offset(segment, first_seq)):
            record = _decode(line)
            if record is not None and record.seq >= first_seq:
                yield line, record


def search_records(folder: Path, wanted: Filter, *, first_seq: int = 1) -> Iterator[tuple[bytes, AuditRecord]]:
    """Yield the records from a number on that match.

    Raises: OSError.
    """
    records = read_records(folder, first_seq=first_seq, since=wanted.since or "")
    return ((line, record) for line, record in records if wanted.matches(record))


def read_tail(folder: Path, number: int, wanted: Filter = Filter()) -> list[tuple[bytes, AuditRecord]]:  # noqa: B008
    """Return the last records that match, at most `MAX_TAIL`.

    Raises: OSError.
    """
    return read_bounded_tail(folder, number, wanted, sys.maxsize)[0]


def read_bounded_tail(
    folder: Path, number: int, wanted: Filter, max_bytes: int
) -> tuple[list[tuple[bytes, AuditRecord]], bool]:
    """Return the last records that match among the last bytes of the journal, and whether earlier ones were left out.

    That is meaningful only if fewer than `number` records are returned.

    Raises: OSError.
    """
    number = min(number, MAX_TAIL)
    found: list[tuple[bytes, AuditRecord]] = []
    for segment in reversed(list_segments(folder)):  # From the newest, so that a long journal is not read as a whole.
        if _is_before(segment, wanted.since or ""):
            continue
        size = segment.path.stat().st_size
        start = max(0, size - max_bytes)
        max_bytes -= size - start
        last: deque[tuple[bytes, AuditRecord]] = deque(maxlen=number - len(found))
        for line in read_lines(segment.path, start):  # The first line may be incomplete; it is skipped.
            record = _decode(line)
            if record is not None and wanted.matches(record):
                last.append((line, record))
        found = [*last, *found]
        if start or len(found) >= number:
            return found, bool(start)
    return found, False


async def follow_records(
    folder: Path, *, first_seq: int, durable_seq: Callable[[], int] | None = None
) -> AsyncIterator[list[tuple[bytes, AuditRecord]]]:
    """Yield records from a number on in batches of about a megabyte, and go on with those that are added; never ends.

    With `durable_seq` of the journal, records that can still disappear are left for later. An empty batch says that
    there is nothing new at the moment.

    Raises: OSError.
    """
    reader = _Follower(folder, first_seq)
    while True:
        limit = None if durable_seq is None else durable_seq()
        batch = await asyncio.to_thread(reader.read_batch, limit)
        yield batch
        if not batch:
            await asyncio.sleep(POLL_S)


class _Follower:
    """Reads on from where it stopped."""

    def __init__(self, folder: Path, first_seq: int) -> None:
        self._folder = folder
        self._next_seq = first_seq
        self._segment: Segment | None = None
        self._offset = 0

    def read_batch(self, limit: int | None) -> list[tuple[bytes, AuditRecord]]:
        """Return the next records; none if there are none up to the limit."""
        if limit is not None and limit < self._next_seq:
            return []
        batch: list[tuple[bytes, AuditRecord]] = []
        while not batch:
            if self._segment is None and not self._go_to_next():
                return batch
            assert self._segment is not None
            is_newest = not _is_followed(self._folder, self._segment)
            try:
                is_limited = self._read(self._segment, limit, batch)
            except FileNotFoundError:
                self._segment = None  # Retention deleted it.
                continue
            if not batch and (is_newest or is_limited or not self._go_to_next()):
                return batch
        return batch

    def _go_to_next(self) -> bool:
        """Go to the segment after the current one, or to the one that has the next record."""
        if self._segment is None:
            found = _segments_from(self._folder, self._next_seq)
        else:
            found = [later for later in list_segments(self._folder) if later.first_seq > self._segment.first_seq]
        if found:
            self._segment, self._offset = found[0], 0
        return bool(found)

    def _read(self, segment: Segment, limit: int | None, batch: list[tuple[bytes, AuditRecord]]) -> bool:
        """Add records to the batch; return whether one is beyond the limit."""
        with segment.path.open("rb") as file:
            file.seek(self._offset)
            size = 0
            while size < _CHUNK_BYTES and (line := file.readline(MAX_LINE_BYTES)):
                record = _decode(line)
                if record is None and not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                    return False  # It is being written.
                if record is not None and limit is not None and record.seq > limit:
                    return True
                size += len(line)
                self._offset += len(line)
                if record is not None and record.seq >= self._next_seq:
                    self._next_seq = record.seq + 1
                    batch.append((line, record))
        return False


def _is_followed(folder: Path, segment: Segment) -> bool:
    return any(later.first_seq > segment.first_seq for later in list_segments(folder))


def _segments_from(folder: Path, first_seq: int) -> list[Segment]:
    """Return the segments that have records from a number on."""
    segments = list_segments(folder)
    while len(segments) > 1 and segments[1].first_seq <= first_seq:
        segments.pop(0)
    return segments


def _is_before(segment: Segment, since: str) -> bool:
    """Whether all records of a segment are earlier than a time. Except for the seal, all are of the same day."""
    if not since:
        return False
    with segment.path.open("rb") as file:
        first = decode_valid_link(file.readline(MAX_LINE_BYTES))
    if first is None or first.ts[:_DAY] >= since[:_DAY]:
        return False
    seal = read_seal(segment.path)
    return seal is not None and seal.ts < since


def _find_offset(segment: Segment, seq: int) -> int:
    """Return where a record is in a segment, or a little before."""
    low = 0
    if seq <= segment.first_seq:
        return low
    with segment.path.open("rb") as file:
        high = file.seek(0, os.SEEK_END)
        while high - low > _CHUNK_BYTES:
            middle = (low + high) // 2
            file.seek(middle)
            file.readline(MAX_LINE_BYTES)  # the rest of a line
            start = file.tell()
            record = _decode(file.readline(MAX_LINE_BYTES))
            if record is not None and record.seq <= seq:
                low = start
            else:
                high = middle
    return low


def _decode(line: bytes) -> AuditRecord | None:
    try:
        return decode_record(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def format_csv(records: Iterable[AuditRecord]) -> Iterator[str]:
    """Yield lines of CSV, the first with the names of the columns.

    A text that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")

    def take() -> str:
        text = buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
        return text

    writer.writerow(CSV_COLUMNS)
    yield take()
    for record in records:
        writer.writerow([_format_cell(value) for value in _list_cells(record)])
        yield take()


def _list_cells(record: AuditRecord) -> list[Any]:
    decision = record.decision
    others = {
        "effect": decision.effect if decision else "",
        "rule": decision.rule if decision else "",
        "policy_version": decision.version if decision else "",
        "reason": decision.reason if decision else "",
        "facts": msgspec.json.encode(record.facts).decode() if record.facts else "",
    }
    return [others[name] if name in others else getattr(record, name) for name in CSV_COLUMNS]


def _format_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    # One line for each record, as in the journal; and no formulas (CWE-1236).
    text = escape_unprintable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
