"""Reading a journal: search, tail, follow and export."""

import asyncio
import csv
from pathlib import Path

import pytest
from tests.governance.journals import DAY_S, DENY, Clock, call_event, open_journal, segments, write_journal

from hubbub.governance.audit_events import AuditEvent
from hubbub.governance.journal_reader import (
    Filter,
    follow_records,
    format_csv,
    read_bounded_tail,
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


@pytest.mark.requirement("A1")
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


async def test_a_record_is_found_in_a_large_segment_by_its_number(tmp_path: Path) -> None:
    async with open_journal(tmp_path, sync="off") as journal:
        await asyncio.gather(*(journal.record(call_event(number)) for number in range(9000)))
    (segment,) = segments(tmp_path)
    assert segment.stat().st_size > 3 * 1024 * 1024
    for first in (1, 2, 17, 4500, 8999, 9001, 9002):
        assert [record.seq for _, record in read_records(tmp_path, first_seq=first)] == list(range(first, 9002))
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:2000]) + b"damaged\n" * 300_000 + b"".join(lines[2000:]))
    for first in (1, 1999, 2001, 8999):
        assert [record.seq for _, record in read_records(tmp_path, first_seq=first)] == list(range(first, 9002))


async def test_a_search_by_time_skips_segments_of_earlier_days_and_misses_no_record(tmp_path: Path) -> None:
    clock = Clock()
    steps = [0, 3600, DAY_S, 60, 40 * DAY_S, -40 * DAY_S, -60, DAY_S, 7200, -7200, 3 * DAY_S]
    async with open_journal(tmp_path, clock, segment_bytes=4096) as journal:
        for number, step in enumerate(steps):
            clock.now_s += step
            for _ in range(5):
                await journal.record(call_event(number))
    everything = [record for _, record in read_records(tmp_path)]
    assert len({record.ts for record in everything}) > len(steps) - 4
    for since in {record.ts[:size] for record in everything for size in (10, 13, 27)}:
        wanted = [record.seq for record in everything if record.ts >= since]
        assert [record.seq for _, record in search_records(tmp_path, Filter(since=since))] == wanted
        assert [record.seq for _, record in read_tail(tmp_path, 1000, Filter(since=since))] == wanted
    first = segments(tmp_path)[0]
    lines = first.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"ts":"2027', b'"ts":"9999')  # found if it were read
    first.write_bytes(b"".join(lines))
    assert [record for _, record in search_records(tmp_path, Filter(since="9999"))] == []
    assert len([record for _, record in read_records(tmp_path) if record.ts > "9999"]) == 1


async def test_a_tail_reads_no_more_than_it_may(tmp_path: Path) -> None:
    await write_journal(tmp_path, range(40), segment_bytes=4096)
    everything = list(read_records(tmp_path))
    total = sum(len(line) for line, _ in everything)
    for max_bytes in (1000, 4200, 9000, total - 1, total):
        found, is_limited = read_bounded_tail(tmp_path, 1000, Filter(), max_bytes)
        assert is_limited is (max_bytes < total)
        assert found == everything[-len(found) :]
        assert max_bytes - 4096 < sum(len(line) for line, _ in found) <= max_bytes
    assert read_bounded_tail(tmp_path, 3, Filter(), total) == (everything[-3:], False)


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
