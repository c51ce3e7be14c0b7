"""Verifies an audit journal from its files alone: every line, their order, the seals and the head.

Reads with constant memory. A journal that is being written can be verified; so can one whose oldest segments retention
deleted, because a later record says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from hubbub.governance.audit_events import JOURNAL_EXPIRED, JOURNAL_GAP, JOURNAL_RECOVERED, JOURNAL_SEALED
from hubbub.governance.journal_head import Head, read_head
from hubbub.governance.segments import HEAD_FILE, Link, Segment, decode_valid_link, list_segments, read_lines
from hubbub.security.crypto import VerifyingKey
from hubbub.store.hash_chain import GENESIS

Why: TypeAlias = Literal["edited", "deleted", "inserted", "reordered", "truncated", "head"]
Progress: TypeAlias = Callable[[int, int], None]
"""Gets the bytes that were read, and all."""


class BadRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first place where the journal is not what was written."""

    why: Why
    message: str
    file: str = ""
    line: int = 0
    seq: int = 0
    """The number of the record that should be there."""


class VerificationReport(msgspec.Struct, kw_only=True):
    """The result of a verification."""

    segments: int = 0
    records: int = 0
    first_seq: int = 0
    last_seq: int = 0
    head: str = GENESIS
    """The hash of the last valid record."""
    head_signature: Literal["none", "valid", "not checked"] = "none"
    gaps: int = 0
    """Records that say that others could not be written."""
    recoveries: int = 0
    """Records that say that a crash left an incomplete line."""
    torn_bytes: int = 0
    """The incomplete line at the end, if the journal is being written or was not opened since a crash."""
    bad: BadRecord | None = None

    @property
    def holds(self) -> bool:
        """Whether nothing is wrong."""
        return self.bad is None


class _Seal(msgspec.Struct):
    count: int
    first_seq: int
    last_seq: int
    head: str


class _SealRecord(msgspec.Struct):
    facts: _Seal


class _Expiry(msgspec.Struct):
    kept_from: int


class _ExpiryRecord(msgspec.Struct):
    facts: _Expiry


def verify(
    folder: Path,
    *,
    public_key: VerifyingKey | None = None,
    expected: Head | str | None = None,
    progress: Progress | None = None,
) -> VerificationReport:
    """Verify a journal. `expected` is a head that was stored elsewhere, or its hash: only it proves the end.

    Raises: OSError, if the files cannot be read.
    """
    # Before the records, which may be added meanwhile.
    stored = read_head(folder / HEAD_FILE)
    run = _Verification(folder, progress)
    run.heads = [head for head in (stored, expected) if head is not None]
    report = run.report
    report.bad = _check_signatures(report, stored, expected, public_key)
    if report.bad is None:
        report.bad = run.check_records() or run.check_end()
    return report


def _check_signatures(
    report: VerificationReport, stored: Head | None, expected: Head | str | None, key: VerifyingKey | None
) -> BadRecord | None:
    if key is None:
        report.head_signature = "not checked" if stored is not None and stored.signature else "none"
        return None
    if stored is None:
        return BadRecord(why="head", message=f"{HEAD_FILE} is missing or has no head, so nothing is signed")
    for head, name in ((stored, HEAD_FILE), (expected, "the expected head")):
        if isinstance(head, Head) and not head.is_signed_by(key):
            return BadRecord(why="head", message=f"{name} is not signed by this key", seq=head.seq)
    report.head_signature = "valid"
    return None


class _Verification:
    """The state of one pass over the records."""

    def __init__(self, folder: Path, progress: Progress | None) -> None:
        self.report = VerificationReport()
        self.heads: list[Head | str] = []
        self._folder = folder
        self._progress = progress
        self._segments = list_segments(folder)
        self._kept_from = 1
        self._is_sealed = False
        self._first_in_segment = 0
        self._location = ("", 0)

    def check_records(self) -> BadRecord | None:
        report = self.report
        total = sum(segment.path.stat().st_size for segment in self._segments)
        done = 0
        for index, segment in enumerate(self._segments):
            report.segments += 1
            self._is_sealed = False
            for number, line in enumerate(read_lines(segment.path), 1):
                bad = self._check_line(segment, number, line)
                if bad is not None:
                    is_torn = index == len(self._segments) - 1 and bad.why == "edited" and not line.endswith(b"\n")
                    if not is_torn:
                        return bad
                    report.torn_bytes += len(line)
                done += len(line)
                if self._progress is not None:
                    self._progress(done, total)
        return None

    def check_end(self) -> BadRecord | None:
        report = self.report
        if report.first_seq > self._kept_from:
            missing = f"records 1 to {report.first_seq - 1}" if report.first_seq > 2 else "record 1"
            return BadRecord(
                why="deleted", message=f"{missing} are missing, and no record says that they expired", seq=1
            )
        if self.heads:
            head = self.heads[0]
            name = f"record {head.seq}" if isinstance(head, Head) else f"the record with the hash {head}"
            return BadRecord(
                why="truncated",
                message=f"{name}, which was the head, is not in the journal; its last record is {report.last_seq}",
                seq=report.last_seq + 1,
            )
        return None

    def _check_line(self, segment: Segment, number: int, line: bytes) -> BadRecord | None:
        report = self.report
        expected = report.last_seq + 1
        place = (segment.path.name, number)
        link = decode_valid_link(line)
        if link is None:
            return _bad("edited", "the record was changed, or is not a record", place, expected)
        if report.records == 0:
            report.first_seq = expected = link.seq
            report.head = link.previous_hash
            if link.seq == 1 and link.previous_hash != GENESIS:
                return _bad("edited", "the first record does not begin a chain", place, 1)
        if link.seq > expected:
            return self._explain_missing(segment, number, expected, link)
        if link.seq < expected:
            return _bad("inserted", f"record {link.seq} is there again, instead of {expected}", place, expected)
        if link.previous_hash != report.head:
            # Both are unchanged since their hashes were made, so one of them was made by someone else.
            return _bad("edited", f"record {link.seq} does not follow this one", self._location, link.seq - 1)
        if self._is_sealed:
            return _bad("inserted", "the segment was sealed before this record", place, expected)
        if number == 1:
            self._first_in_segment = link.seq
        if not self._is_special_valid(link, line):
            return _bad("edited", "the seal does not fit its segment", place, expected)
        self._location = place
        report.records += 1
        report.last_seq, report.head = link.seq, link.hash
        self.heads = [head for head in self.heads if not _is_reached(head, link)]
        return None

    def _is_special_valid(self, link: Link, line: bytes) -> bool:
        if not link.event.startswith("journal."):
            return True
        report = self.report
        report.gaps += link.event == JOURNAL_GAP
        report.recoveries += link.event == JOURNAL_RECOVERED
        try:
            if link.event == JOURNAL_EXPIRED:
                kept_from = msgspec.json.decode(line, type=_ExpiryRecord).facts.kept_from
                self._kept_from = max(self._kept_from, kept_from)
            elif link.event == JOURNAL_SEALED:
                self._is_sealed = True
                seal = msgspec.json.decode(line, type=_SealRecord).facts
                first = self._first_in_segment
                return (seal.first_seq, seal.last_seq, seal.count, seal.head) == (
                    first,
                    link.seq - 1,
                    link.seq - first,
                    report.head,
                )
        except msgspec.DecodeError:
            return False
        return True

    def _explain_missing(self, segment: Segment, number: int, expected: int, link: Link) -> BadRecord:
        """Find out whether the missing record is further on."""
        place = (segment.path.name, number)
        for later in self._links_from(segment):
            if later.seq == expected:
                return _bad(
                    "reordered", f"record {link.seq} is there instead of {expected}, which is later", place, expected
                )
        missing = f"record {expected} is" if link.seq == expected + 1 else f"records {expected} to {link.seq - 1} are"
        return _bad("deleted", f"{missing} missing before record {link.seq}", place, expected)

    def _links_from(self, segment: Segment) -> Iterator[Link]:
        for later in self._segments[self._segments.index(segment) :]:
            for line in read_lines(later.path):
                link = decode_valid_link(line)
                if link is not None:
                    yield link


def _is_reached(head: Head | str, link: Link) -> bool:
    return link.hash == head if isinstance(head, str) else (link.seq, link.hash) == (head.seq, head.hash)


def _bad(why: Why, message: str, place: tuple[str, int], seq: int) -> BadRecord:
    return BadRecord(why=why, message=message, file=place[0], line=place[1], seq=seq)
