"""The audit journal: durable records, groups, segments, retention, and what happens if it cannot be written."""

import asyncio
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.clock import advance_and_settle, wait_until
from tests.governance.journals import (
    DAY_S,
    DENY,
    Clock,
    all_records,
    call_event,
    events,
    facts,
    open_journal,
    segments,
    write_journal,
)

from hubbub import AuditUnavailable, SettingsError
from hubbub.governance import journal as journal_module
from hubbub.governance.audit_events import AuditEvent
from hubbub.governance.journal import Journal
from hubbub.governance.journal_verification import verify
from hubbub.settings.governance import AuditSettings


async def test_a_record_is_in_the_file_when_record_returns(tmp_path: Path) -> None:
    event = call_event(1, decision=DENY, trace="00-aa-bb-01", args_sha256="f" * 64, shown_as="files_read")
    async with open_journal(tmp_path / "audit") as journal:
        await journal.record(event)
        record = all_records(tmp_path / "audit")[-1]
    fields = {name: getattr(record, name) for name in AuditEvent.__struct_fields__}
    assert AuditEvent(**fields) == event
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", record.ts)
    assert (record.seq, record.node) == (2, journal.node)


@pytest.mark.parametrize("sync", ["batch", "each", "off"])
async def test_concurrent_records_are_all_written_in_order(tmp_path: Path, sync: str) -> None:
    async with open_journal(tmp_path, sync=sync) as journal:
        await asyncio.gather(*(journal.record(call_event(number)) for number in range(200)))
        for number in range(200, 220):
            journal.record_later(call_event(number))
    found = [record.call for record in all_records(tmp_path) if record.call]
    assert found == [f"c{number}" for number in range(220)]
    assert verify(tmp_path).records == 221


async def test_callers_of_one_moment_share_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushes: list[int] = []
    monkeypatch.setattr("hubbub.governance.segment_writer.sync_data", flushes.append)
    async with open_journal(tmp_path, sync="batch") as journal:
        flushes.clear()
        await asyncio.gather(*(journal.record(call_event(number)) for number in range(64)))
        assert len(flushes) == 1
    async with open_journal(tmp_path, sync="each") as journal:
        flushes.clear()
        await asyncio.gather(*(journal.record(call_event(number)) for number in range(64)))
        assert len(flushes) == 64
    async with open_journal(tmp_path, sync="off") as journal:
        flushes.clear()
        await journal.record(call_event(0))
        assert flushes == []


async def test_a_later_record_is_written_without_being_awaited(tmp_path: Path) -> None:
    async with open_journal(tmp_path) as journal:
        journal.record_later(AuditEvent(event="call.end", outcome="ok"))
        assert events(tmp_path) == ["journal.started"]
        await wait_until(lambda: events(tmp_path) == ["journal.started", "call.end"])


async def test_a_record_whose_caller_was_cancelled_is_written(tmp_path: Path) -> None:
    async with open_journal(tmp_path) as journal:
        waiting = asyncio.ensure_future(journal.record(call_event(1)))
        await asyncio.sleep(0)
        waiting.cancel()
        await journal.record(call_event(2))
    assert [record.call for record in all_records(tmp_path)] == ["", "c1", "c2"]
    assert waiting.cancelled()


async def test_files_are_private(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "audit"
    await write_journal(folder, range(3))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


async def test_a_second_process_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    program = "import asyncio, sys; from tests.governance.journals import *; from pathlib import Path\n"
    program += "asyncio.run(write_journal(Path(sys.argv[1]), range(1)))"
    async with open_journal(tmp_path):
        command = [sys.executable, "-c", program, str(tmp_path)]
        process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])
        error = (await process.communicate())[1].decode()
    assert f"is written by another process (pid {os.getpid()})" in error
    assert error.splitlines()[-1].startswith("hubbub.errors.SettingsError")
    assert verify(tmp_path).holds


# -- segments and retention ------------------------------------------------------------


async def test_a_full_segment_is_sealed_and_the_next_continues_its_chain(tmp_path: Path) -> None:
    await write_journal(tmp_path, range(40), segment_bytes=4096)
    assert len(segments(tmp_path)) > 2
    report = verify(tmp_path)
    assert (report.holds, report.segments) == (True, len(segments(tmp_path)))
    lines = [json.loads(line) for line in segments(tmp_path)[0].read_text().splitlines()]
    seal = lines[-1]
    assert seal["event"] == "journal.sealed"
    count = len(lines) - 1
    assert seal["facts"] == {"count": count, "first_seq": 1, "last_seq": count, "head": lines[-2]["hash"]}
    following = json.loads(segments(tmp_path)[1].read_text().splitlines()[0])
    assert following["previous_hash"] == seal["hash"]
    assert all(path.stat().st_size < 4096 + 2048 for path in segments(tmp_path))


async def test_a_group_that_fills_several_segments_is_split(tmp_path: Path) -> None:
    async with open_journal(tmp_path, segment_bytes=4096) as journal:
        await asyncio.gather(*(journal.record(call_event(number)) for number in range(100)))
    assert len(segments(tmp_path)) > 4
    assert verify(tmp_path).holds


async def test_a_segment_is_sealed_after_its_day(tmp_path: Path) -> None:
    clock = Clock()
    async with open_journal(tmp_path, clock) as journal:
        await journal.record(call_event(1))
        clock.advance(DAY_S)
        await journal.record(call_event(2))
        assert len(segments(tmp_path)) == 2
        clock.advance(DAY_S)
        await advance_and_settle(61)  # Without a record too.
        await wait_until(lambda: events(tmp_path)[-1] == "journal.sealed")
    assert verify(tmp_path).holds


async def test_a_clock_that_jumps_back_changes_nothing(tmp_path: Path) -> None:
    clock = Clock()
    async with open_journal(tmp_path, clock) as journal:
        for step in (-10 * DAY_S, 3 * DAY_S, -DAY_S):
            clock.now_s += step
            await journal.record(call_event(1))
    assert len(segments(tmp_path)) == 1
    assert [record.seq for record in all_records(tmp_path)] == [1, 2, 3, 4]
    assert verify(tmp_path).holds


@pytest.mark.requirement("A5")
async def test_retention_deletes_sealed_segments_only_and_records_it(tmp_path: Path) -> None:
    clock = Clock()
    async with open_journal(tmp_path, clock, retention_days=7, segment_bytes=4096) as journal:
        for number in range(40):
            await journal.record(call_event(number))
        old = segments(tmp_path)
        clock.advance(8 * DAY_S)
        await advance_and_settle(61)
        await wait_until(lambda: facts(tmp_path, "journal.expired"))
        await wait_until(lambda: not old[0].exists())
        await journal.record(call_event(41))
    report = verify(tmp_path)
    assert report.holds
    assert report.first_seq > 1
    (expiry, *_) = facts(tmp_path, "journal.expired")
    assert expiry["kept_from"] == report.first_seq


@pytest.mark.requirement("A5")
async def test_a_clock_that_jumps_ahead_deletes_nothing(tmp_path: Path) -> None:
    clock = Clock()
    async with open_journal(tmp_path, clock, retention_days=7, segment_bytes=4096) as journal:
        for number in range(40):
            await journal.record(call_event(number))
        old = segments(tmp_path)
        clock.now_s += 5000 * DAY_S
        await advance_and_settle(61)
        clock.now_s -= 5000 * DAY_S
        clock.advance(2 * 3600)
        await advance_and_settle(61)
        await journal.record(call_event(41))
    assert set(old) <= set(segments(tmp_path))
    assert verify(tmp_path).holds


# -- failures --------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """A file system of this size."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    is_mounted = os.name == "posix" and subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    if not is_mounted:
        pytest.skip("mounting a small file system needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True, timeout=60)


async def fill_until_refused(journal: Journal) -> int:
    """Record until the disk is full; return how many were acknowledged."""
    for number in range(100_000):
        try:
            await journal.record(call_event(number))
        except AuditUnavailable:
            return number
    pytest.fail("the disk never filled up")


@pytest.mark.requirement("A2")
async def test_a_full_disk_refuses_calls_and_the_journal_recovers_when_there_is_space(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 512 * 1024) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(256 * 1024))
        async with open_journal(disk / "audit") as journal:
            acknowledged = await fill_until_refused(journal)
            with pytest.raises(AuditUnavailable, match="No space left on device"):
                await journal.record(call_event(-1))
            failing = journal.status
            assert failing.problem == "No space left on device"
            assert verify(disk / "audit").records == acknowledged + 1
            ballast.unlink()
            await journal.record(call_event(-2))
            assert journal.status.problem is None
        assert verify(disk / "audit").holds
        (gap,) = facts(disk / "audit", "journal.gap")
        assert (gap["refused"], gap["lost"]) == (2, 0)
        calls = [record.call for record in all_records(disk / "audit") if record.call]
        assert calls == [*(f"c{number}" for number in range(acknowledged)), "c-2"]


async def test_with_continue_a_full_disk_stops_no_call_and_records_are_kept(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 256 * 1024) as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(128 * 1024))
        async with open_journal(disk / "audit", on_failure="continue") as journal:
            for number in range(400):
                await journal.record(call_event(number))
            assert journal.status.problem == "No space left on device"
            ballast.unlink()
            await advance_and_settle(2)
            await wait_until(lambda: journal.status.problem is None)
        assert [record.call for record in all_records(disk / "audit")][1:] == [f"c{number}" for number in range(400)]
        assert verify(disk / "audit").holds


async def test_a_file_size_limit_refuses_calls(tmp_path: Path) -> None:
    """The same without root: the system refuses to write more than so many bytes."""
    program = """
import asyncio, resource, signal, sys
from pathlib import Path
from tests.governance.journals import call_event, open_journal
from hubbub import AuditUnavailable
async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    async with open_journal(Path(sys.argv[1])) as journal:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
        acknowledged = 0
        try:
            while True:
                await journal.record(call_event(acknowledged))
                acknowledged += 1
        except AuditUnavailable as error:
            print(acknowledged, error.reason)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await journal.record(call_event(acknowledged))
asyncio.run(main())
"""
    pytest.importorskip("resource")
    command = [sys.executable, "-c", program, str(tmp_path)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    acknowledged, _, reason = (await process.communicate())[0].decode().strip().partition(" ")
    assert process.returncode == 0
    assert reason == "File too large"
    calls = [record.call for record in all_records(tmp_path) if record.call]
    assert calls == [f"c{number}" for number in range(int(acknowledged) + 1)]
    assert facts(tmp_path, "journal.gap")[0]["refused"] == 1
    assert verify(tmp_path).holds


async def test_a_removed_folder_refuses_calls_until_it_is_back(tmp_path: Path) -> None:
    folder, aside = tmp_path / "audit", tmp_path / "aside"
    async with open_journal(folder) as journal:
        await journal.record(call_event(1))
        folder.rename(aside)
        with pytest.raises(AuditUnavailable, match="No such file or directory"):
            await journal.record(call_event(2))
        aside.rename(folder)
        await journal.record(call_event(3))
    assert [record.call for record in all_records(folder) if record.call] == ["c1", "c3"]
    assert verify(folder).holds


async def test_records_that_cannot_be_written_before_the_end_are_reported_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "audit"
    async with open_journal(folder, on_failure="continue") as journal:
        folder.rename(tmp_path / "aside")
        for number in range(3):
            await journal.record(call_event(number))
    assert journal.status.lost == 3
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["audit_journal_failed", "audit_head_not_written", "audit_records_lost"]


async def test_records_that_someone_deleted_while_the_hub_ran_are_reported(tmp_path: Path) -> None:
    async with open_journal(tmp_path) as journal:
        await journal.record(call_event(1))
        segments(tmp_path)[0].unlink()
        await journal.record(call_event(2))
    report = verify(tmp_path)
    assert report.bad is not None
    assert report.bad.why == "deleted"


async def test_records_that_someone_cut_off_before_a_restart_are_reported(tmp_path: Path) -> None:
    await write_journal(tmp_path, range(5))
    path = segments(tmp_path)[0]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    await write_journal(tmp_path, range(2))
    report = verify(tmp_path)
    assert report.bad is not None
    assert (report.bad.why, report.bad.seq) == ("deleted", 5)


async def test_a_journal_that_cannot_be_opened_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "audit")
    with pytest.raises(AuditUnavailable, match="ask its operator"):
        await journal.open()


async def test_when_the_queue_is_full_record_waits_and_later_records_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "MAX_QUEUED_BYTES", 2000)
    async with open_journal(tmp_path) as journal:
        for number in range(100):
            journal.record_later(call_event(number))
        lost = journal.status.lost
        assert 0 < lost < 100
        await asyncio.gather(*(journal.record(call_event(number)) for number in range(100, 200)))
    calls = [record.call for record in all_records(tmp_path) if record.call]
    assert calls == [f"c{number}" for number in (*range(100 - lost), *range(100, 200))]
    assert sum(gap["lost"] for gap in facts(tmp_path, "journal.gap")) == lost
    assert verify(tmp_path).holds


async def test_a_decision_is_not_acknowledged_for_the_gap_record_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[bool] = []

    def flush(descriptor: int) -> None:
        if outcomes and not outcomes.pop(0):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("hubbub.governance.segment_writer.sync_data", flush)
    async with open_journal(tmp_path, segment_bytes=1024, node="n") as journal:
        (segment,) = segments(tmp_path)
        room = 1024 - segment.stat().st_size
        await journal.record(AuditEvent(event="x" * (room - 300)))  # The next record fills the segment.
        assert segments(tmp_path) == [segment]
        outcomes += [False]
        with pytest.raises(AuditUnavailable, match="Input/output error"):
            await journal.record(call_event(1))
        outcomes += [True, False]  # The gap record is written, and its seal is not.
        with pytest.raises(AuditUnavailable, match="Input/output error"):
            await journal.record(call_event(2))
        assert events(tmp_path)[-1] == "journal.gap"
        await journal.record(call_event(3))
    assert [record.call for record in all_records(tmp_path) if record.call] == ["c3"]
    assert [gap["refused"] for gap in facts(tmp_path, "journal.gap")] == [1, 1]
    assert verify(tmp_path).holds


async def test_an_unexpected_error_refuses_the_calls_of_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures: list[Exception] = []

    def flush(descriptor: int) -> None:
        if failures:
            raise failures[0]

    monkeypatch.setattr("hubbub.governance.segment_writer.sync_data", flush)
    async with open_journal(tmp_path) as journal:
        failures.append(ValueError("secret text"))
        found = await asyncio.gather(*(journal.record(call_event(1)) for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in found] == [AuditUnavailable("unexpected ValueError").message] * 3
        failing = journal.status
        assert failing.problem == "unexpected ValueError"
        await advance_and_settle(61)  # The head and the seals are still taken care of.
        failures.clear()
        await journal.record(call_event(2))
        assert journal.status.problem is None
        await advance_and_settle(61)
        await wait_until(lambda: json.loads((tmp_path / "head.json").read_text())["seq"] == journal.durable_seq)
    assert [record.call for record in all_records(tmp_path) if record.call] == ["c2"]
    assert verify(tmp_path).holds
    assert "secret text" in caplog.text  # With its stack trace, once.


async def test_a_damaged_name_of_the_node_refuses_calls_and_stops_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    async with open_journal(folder) as journal:
        name = (folder / "node").read_bytes()
        (folder / "node").write_bytes(b"\xff\xfe")
        segments(folder)[0].rename(tmp_path / "aside")  # The journal looks for its end again.
        with pytest.raises(AuditUnavailable, match="node is not text"):
            await journal.record(call_event(1))
        (tmp_path / "aside").rename(folder / "journal-0000000000000001.jsonl")
        with pytest.raises(AuditUnavailable, match="node is not text"):
            await journal.record(call_event(2))
        (folder / "node").write_bytes(name)
        await journal.record(call_event(3))
        (folder / "node").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="write the name of the node into it"):
        await Journal(folder).open()
    assert [record.call for record in all_records(folder) if record.call] == ["c3"]
    assert verify(folder).holds


async def test_a_closed_journal_refuses_records(tmp_path: Path) -> None:
    async with open_journal(tmp_path) as journal:
        pass
    with pytest.raises(AuditUnavailable, match="closed"):
        await journal.record(call_event(1))


def test_a_signing_key_that_is_none_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("hunter2")
    with pytest.raises(SettingsError, match="openssl genpkey") as raised:
        Journal(tmp_path / "audit", AuditSettings(signing_key_file=str(key)))
    assert "hunter2" not in raised.value.message
