"""Reading a journal: search, tail, follow and export."""

import asyncio
import csv
from pathlib import Path

import pytest
from tests.governance.journals import DENY, Clock, call_event, open_journal, segments, write_journal

from hubbub.governance.audit_events import AuditEvent
from hubbub.governance.journal_reader import (
    Filter,
    follow_records,
    format_csv,
    read_records,
    read_tail,
    search_records,
)


async def write_mixed(folder: Path) -> None:
    clock = Clock()
    async with open_journal(folder, clock, segment_bytes=4096) as journal:
        await journal.record(call_event(1))
        await journal.record(call_event(2, tenant="globex", user="bob", server="mail", tool="send", decision=DENY))
        clock.advance(3600)
        await journal.record(call_event(3, event="call.end", shown_as="files_read", outcome="ok", ms=2.5, bytes=10))


@pytest.mark.parametrize(
    ("wanted", "calls"),
    [
        (Filter(tenant="acme"), ["c1", "c3"]),
        (Filter(user="bob"), ["c2"]),
        (Filter(server="mail"), ["c2"]),
        (Filter(tool="read"), ["c1", "c3"]),
        (Filter(tool="files_read"), ["c3"]),
        (Filter(effect="deny"), ["c2"]),
        (Filter(event="call.end"), ["c3"]),
        (Filter(event="call.*"), ["c3"]),
        (Filter(event="journal.*"), [""]),
        (Filter(since="2027-01-15T09:00"), ["c3"]),
        (Filter(until="2027-01-15T09", tenant="acme"), ["c1"]),
        (Filter(tenant="acme", effect="deny"), []),
    ],
)
async def test_records_are_found_by_their_fields(tmp_path: Path, wanted: Filter, calls: list[str]) -> None:
    await write_mixed(tmp_path)
    assert [record.call for _, record in search_records(tmp_path, wanted)] == calls


async def test_records_are_read_from_a_number_on_over_several_segments(tmp_path: Path) -> None:
    await write_journal(tmp_path, range(40), segment_bytes=4096)
    assert len(segments(tmp_path)) > 2
    every = [record.seq for _, record in read_records(tmp_path)]
    assert every == list(range(1, len(every) + 1))
    assert [record.seq for _, record in read_records(tmp_path, first_seq=25)] == every[24:]
    assert [record.seq for _, record in read_tail(tmp_path, 15)] == every[-15:]
    assert read_tail(tmp_path, 0) == []
    assert len(read_tail(tmp_path, 10**9)) == len(every)


async def test_a_followed_journal_yields_what_is_added_over_seals(tmp_path: Path) -> None:
    seen: list[int] = []
    async with open_journal(tmp_path, segment_bytes=4096) as journal:
        following = follow_records(tmp_path, first_seq=1)
        for number in range(60):
            await journal.record(call_event(number))
            while not seen or seen[-1] < journal.durable_seq:
                seen += [record.seq for _, record in await anext(following)]
        await following.aclose()  # type: ignore[attr-defined]
    assert seen == list(range(1, journal.durable_seq + 1))
    assert len(segments(tmp_path)) > 2


async def test_a_follower_stops_at_the_last_durable_record_and_at_an_incomplete_line(tmp_path: Path) -> None:
    await write_journal(tmp_path, range(5))
    limited = follow_records(tmp_path, first_seq=2, durable_seq=lambda: 4)
    assert [record.seq for _, record in await anext(limited)] == [2, 3, 4]
    assert await anext(limited) == []
    path = segments(tmp_path)[0]
    line = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as file:
        file.write(line[:50])
        file.flush()
        following = follow_records(tmp_path, first_seq=5)
        assert [record.seq for _, record in await anext(following)] == [5, 6]
        assert await anext(following) == []
    for one in (limited, following):
        await one.aclose()  # type: ignore[attr-defined]


async def test_a_follower_goes_on_when_its_segment_was_deleted(tmp_path: Path) -> None:
    await write_journal(tmp_path, range(40), segment_bytes=4096)
    second = segments(tmp_path)[1]
    following = follow_records(tmp_path, first_seq=1)
    first = [record.seq for _, record in await anext(following)]
    second.unlink()
    rest = [record.seq for _, record in await anext(following)]
    assert rest[0] > first[-1] + 1
    await following.aclose()  # type: ignore[attr-defined]


async def test_csv_has_one_line_for_each_record_and_no_formulas(tmp_path: Path) -> None:
    async with open_journal(tmp_path) as journal:
        await journal.record(call_event(1, tool="=cmd|' /C calc'!A0", user='a,"b"\nc', code="-1", decision=DENY))
        await journal.record(AuditEvent(event="call.end", ms=1.5, facts={"by": "carol"}))
    lines = list(format_csv(record for _, record in read_records(tmp_path)))
    assert all(line.count("\n") == 1 for line in lines)
    rows = list(csv.DictReader(lines))
    assert (rows[1]["tool"], rows[1]["user"], rows[1]["code"]) == ("'=cmd|' /C calc'!A0", 'a,"b"\\u000ac', "'-1")
    assert (rows[1]["effect"], rows[1]["reason"], rows[1]["policy_version"]) == ("deny", "not on Sundays", "v1")
    assert (rows[2]["ms"], rows[2]["facts"]) == ("1.5", '{"by":"carol"}')


async def test_lines_that_are_no_records_are_skipped(tmp_path: Path) -> None:
    await write_journal(tmp_path, range(2))
    path = segments(tmp_path)[0]
    path.write_bytes(b"\xff\xfe nonsense\n[]\n" + path.read_bytes())
    assert await asyncio.to_thread(lambda: [record.call for _, record in read_records(tmp_path)]) == ["", "c0", "c1"]
