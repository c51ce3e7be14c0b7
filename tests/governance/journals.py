"""Journals for tests."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hubbub.governance.audit_events import AuditEvent, AuditRecord
from hubbub.governance.decision import PolicyDecision
from hubbub.governance.journal import Journal
from hubbub.governance.journal_reader import read_records
from hubbub.settings.governance import AuditSettings

ALLOW = PolicyDecision("allow", "policy.rules[0]", version="v1")
DENY = PolicyDecision("deny", "policy.rules[1]", "not on Sundays", version="v1")
DAY_S = 86400


class Clock:
    """A wall clock and a monotonic one, which tests set."""

    def __init__(self) -> None:
        self.now_s = 1_800_000_000.0
        self.monotonic_s = 1000.0

    def time_ns(self) -> int:
        return int(self.now_s * 1e9)

    def monotonic(self) -> float:
        return self.monotonic_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        self.monotonic_s += seconds


def call_event(number: int = 0, **fields: Any) -> AuditEvent:
    """The decision about a call."""
    given = {"event": "decision", "tenant": "acme", "user": "alice", "server": "files", "tool": "read"} | fields
    return AuditEvent(call=f"c{number}", decision=given.pop("decision", ALLOW), **given)


@asynccontextmanager
async def open_journal(folder: Path, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Journal]:
    clock_arguments: dict[str, Any] = {}
    if clock is not None:
        clock_arguments = {"clock_ns": clock.time_ns, "monotonic": clock.monotonic}
    journal = Journal(folder, AuditSettings(**settings), **clock_arguments)
    await journal.open()
    try:
        yield journal
    finally:
        await journal.close()


async def write_journal(folder: Path, numbers: Iterable[int], **settings: Any) -> None:
    """Write one record for each number."""
    async with open_journal(folder, **settings) as journal:
        for number in numbers:
            await journal.record(call_event(number))


def all_records(folder: Path) -> list[AuditRecord]:
    return [record for _, record in read_records(folder)]


def events(folder: Path) -> list[str]:
    return [record.event for record in all_records(folder)]


def facts(folder: Path, event: str) -> list[dict[str, Any]]:
    return [dict(record.facts or {}) for record in all_records(folder) if record.event == event]


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("journal-*.jsonl"))
