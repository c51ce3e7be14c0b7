"""Sealed segments of the journal are copied by a program of the operator, before retention may delete them."""

from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.clock import advance_and_settle, wait_until
from tests.governance.journals import DAY_S, Clock, call_event, facts, open_journal, segments, write_journal

from hubbub import SettingsError
from hubbub.governance.journal import Journal
from hubbub.governance.journal_verification import verify
from hubbub.settings.governance import AuditSettings

pytestmark = pytest.mark.requirement("A5")

# Like storage that keeps what it has: a second copy of a file has to be the same.
COPY = 'test -e "$0/$2" && exec cmp "$1" "$0/$2"; cp "$1" "$0/$2" && echo "$2" >> "$0/order"'


def copying(storage: Path, script: str = COPY) -> tuple[str, ...]:
    storage.mkdir(exist_ok=True)
    return ("sh", "-c", script, str(storage), "{path}", "{name}")


def copies(storage: Path) -> list[Path]:
    return sorted(storage.glob("journal-*.jsonl"))


async def fill(journal: Journal, number: int = 40) -> None:
    for each in range(number):
        await journal.record(call_event(each))


def has_failed(journal: Journal, times: int) -> bool:
    return journal.status.archive_failures >= times


def has_copied(folder: Path, last: Path) -> bool:
    mark = (folder / "archived").read_text().strip() if (folder / "archived").exists() else ""
    return mark.isdecimal() and int(mark) >= int(last.stem.removeprefix("journal-"))


async def test_sealed_segments_are_copied_in_order_and_can_be_verified_there(tmp_path: Path) -> None:
    storage, folder = tmp_path / "worm", tmp_path / "audit"
    async with open_journal(folder, segment_bytes=4096, archive_command=copying(storage)) as journal:
        await fill(journal)
        sealed = segments(folder)[:-1]
        await advance_and_settle(61)
        await wait_until(partial(has_copied, folder, sealed[-1]))
    assert len(sealed) > 2
    assert [path.read_bytes() for path in copies(storage)] == [path.read_bytes() for path in sealed]
    assert (storage / "order").read_text().split() == [path.name for path in sealed]
    report = verify(storage)
    assert (report.holds, report.segments) == (True, len(sealed))


async def test_a_copy_that_fails_is_repeated_until_it_succeeds_and_nothing_expires_before(tmp_path: Path) -> None:
    storage, folder, clock = tmp_path / "worm", tmp_path / "audit", Clock()
    command = copying(storage, f'test -e "$0/online" || exit 4; {COPY}')
    async with open_journal(folder, clock, segment_bytes=4096, retention_days=7, archive_command=command) as journal:
        await fill(journal)
        old = segments(folder)[:-1]
        clock.advance(2 * 3600)  # the clock is steady
        await advance_and_settle(61)
        clock.advance(30 * DAY_S)
        for failures in (2, 3):  # tried again at each check, not only for new segments
            await advance_and_settle(61)
            await wait_until(partial(has_failed, journal, failures))
        assert all(path.exists() for path in old)
        assert facts(folder, "journal.expired") == []
        assert copies(storage) == []
        (storage / "online").touch()
        clock.advance(2 * 3600)
        await advance_and_settle(61)
        await wait_until(partial(has_copied, folder, old[-1]))
        clock.advance(2 * 3600)
        await advance_and_settle(61)
        await wait_until(lambda: not any(path.exists() for path in old))
    assert {path.name for path in old} <= {path.name for path in copies(storage)}
    assert verify(folder).holds


async def test_a_program_that_hangs_is_ended_and_calls_go_on(tmp_path: Path) -> None:
    storage, folder = tmp_path / "worm", tmp_path / "audit"
    command = copying(storage, 'echo $$ >> "$0/pids"; sleep 600')
    async with open_journal(folder, segment_bytes=4096, archive_command=command, head_interval_s=30) as journal:
        await fill(journal)
        await advance_and_settle(31)
        await wait_until(lambda: (storage / "pids").exists() and (storage / "pids").read_text().strip())
        await fill(journal)
        await advance_and_settle(601)
        await wait_until(lambda: journal.status.archive_failures == 1)
    pids = [int(line) for line in (storage / "pids").read_text().split()]
    assert pids
    assert not any(map(psutil.pid_exists, pids))  # the one that ran when the journal was closed, too
    assert verify(folder).holds


@pytest.mark.parametrize("mark", ["", "-5", "nonsense", None])
async def test_a_restarted_hub_goes_on_after_the_last_copy(tmp_path: Path, mark: str | None) -> None:
    storage, folder = tmp_path / "worm", tmp_path / "audit"
    await write_journal(folder, range(20), segment_bytes=4096)  # before the setting was made
    settings: dict[str, Any] = {"segment_bytes": 4096, "archive_command": copying(storage)}
    for _ in range(2):
        async with open_journal(folder, **settings) as journal:
            await fill(journal)
            await advance_and_settle(61)
            sealed = segments(folder)[:-1]
            await wait_until(partial(has_copied, folder, sealed[-1]))
        if mark is not None:
            (folder / "archived").write_text(mark)  # all are copied again, which changes nothing
    order = (storage / "order").read_text().split()
    assert order == sorted(set(order))
    assert order == [path.name for path in copies(storage)]
    assert verify(storage).holds


def test_a_program_that_would_not_get_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"audit.archive_command: no argument has \{path\}"):
        Journal(tmp_path, AuditSettings(archive_command=("cp",)))
