"""Kill -9 at random moments: the journal stays valid, and no acknowledged record is lost."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.governance.journals import all_records, call_event, events, facts, open_journal, segments, write_journal

from hubbub.governance.journal_verification import verify

WRITERS = Path(__file__).with_name("journal_writers.py")
ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("AUDIT_KILLS", "10"))
"""For each of two settings: 20 in the suite; 100 by hand make 200."""


@pytest.mark.requirement("A2")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forked")
@pytest.mark.parametrize("sync", ["batch", "off"])
def test_no_acknowledged_record_is_lost_and_the_chain_holds_after_each_kill(tmp_path: Path, sync: str) -> None:
    done = subprocess.run(
        [sys.executable, str(WRITERS), str(tmp_path / "audit"), str(KILLS), "1", sync],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    acknowledged = {f"c{number}" for number in done.stdout.split()}
    assert len(acknowledged) > KILLS, "too few records to test anything"
    found = [record.call for record in all_records(tmp_path / "audit") if record.event == "decision"]
    assert acknowledged <= set(found)
    assert len(found) == len(set(found)), "a record was written twice"
    assert len(segments(tmp_path / "audit")) > 1


@pytest.mark.parametrize("kept", [1, 100, -1])
async def test_a_torn_line_is_moved_aside_and_the_chain_goes_on(tmp_path: Path, kept: int) -> None:
    await write_journal(tmp_path, range(3))
    (tmp_path / "head.json").unlink()
    path = segments(tmp_path)[0]
    lines = path.read_bytes().splitlines(keepends=True)
    torn = lines[-1][:kept]
    path.write_bytes(b"".join(lines[:-1]) + torn)
    await write_journal(tmp_path, [7])
    assert events(tmp_path) == [
        "journal.started", "decision", "decision", "journal.recovered", "journal.started", "decision",
    ]  # fmt: skip
    (recovered,) = facts(tmp_path, "journal.recovered")
    assert recovered["bytes"] == len(torn)
    assert (tmp_path / recovered["file"]).read_bytes() == torn
    report = verify(tmp_path)
    assert (report.holds, report.recoveries) == (True, 1)


async def test_a_segment_of_zeros_after_a_power_failure_is_moved_aside(tmp_path: Path) -> None:
    await write_journal(tmp_path, range(3))
    with segments(tmp_path)[0].open("ab") as file:
        file.write(bytes(5000) + b"\n" + bytes(300_000))
    await write_journal(tmp_path, [7])
    assert facts(tmp_path, "journal.recovered")[0]["bytes"] == 305_001
    assert verify(tmp_path).holds


async def test_an_empty_segment_of_a_killed_process_is_used(tmp_path: Path) -> None:
    await write_journal(tmp_path, range(3))
    (tmp_path / "journal-0000000000000005.jsonl").touch()
    assert verify(tmp_path).holds
    await write_journal(tmp_path, [7])
    assert verify(tmp_path).holds
    assert len(segments(tmp_path)) == 1


async def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("1\n")
    async with open_journal(tmp_path) as journal:
        await journal.record(call_event(1))
    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
