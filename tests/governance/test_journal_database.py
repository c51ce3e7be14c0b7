"""The copy of the journal in PostgreSQL: complete, without duplicates, and never in the way of calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.clock import wait_until
from tests.governance.journals import DENY, call_event, open_journal, segments
from tests.packs.tabletop.backends import new_database

from hubbub import SettingsError
from hubbub.governance.audit_tables import SCHEMA, metadata, records
from hubbub.governance.journal import Journal
from hubbub.governance.journal_database import JournalCopy
from hubbub.pack.store import Connection, open_database, read_url, select, text
from hubbub.store.hash_chain import check_line
from hubbub.store.migrate import differences


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return new_database(request.getfixturevalue("postgresql"))
    return f"sqlite:///{tmp_path / 'audit.db'}"


@asynccontextmanager
async def copying(url: str, folder: Path, journal: Journal, **options: Any) -> AsyncIterator[JournalCopy]:
    copy = JournalCopy(url, folder, lambda: journal.node, lambda: journal.durable_seq, **options)
    copy.start()
    try:
        yield copy
    finally:
        await copy.close()


async def read_rows(url: str) -> list[Any]:
    database = await open_database(read_url(url), SCHEMA)
    try:
        return await database.read(lambda c: list(c.execute(select(records).order_by(records.c.node, records.c.seq))))
    finally:
        await database.close()


@pytest.mark.requirement("A5")
async def test_records_arrive_in_the_table_as_they_are_in_the_file(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "audit"
    async with open_journal(folder) as journal, copying(url, folder, journal) as copy:
        await journal.record(call_event(1, decision=DENY, tool="pay\x00\n\u2028\ud800", user="Zoë"))
        await journal.record(call_event(2, outcome="ok"))
        await wait_until(lambda: copy.copied_seq == 3)
    rows = await read_rows(url)
    assert [row.line for row in rows] == segments(folder)[0].read_text("utf-8").splitlines()
    assert all(check_line(row.line.encode() + b"\n") == row.hash for row in rows)
    assert (rows[1].seq, rows[1].node, rows[1].tenant, rows[1].user_name) == (2, journal.node, "acme", "Zoë")
    assert (rows[1].effect, rows[1].server, rows[2].outcome) == ("deny", "files", "ok")
    assert rows[1].tool == "pay\N{REPLACEMENT CHARACTER}\n\u2028\\ud800"


async def test_a_restart_copies_nothing_twice_and_leaves_nothing_out(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "audit"
    durable_seq = 0
    for start in range(0, 30, 10):
        async with open_journal(folder, segment_bytes=4096) as journal, copying(url, folder, journal) as copy:
            for number in range(start, start + 10):
                await journal.record(call_event(number))
            if start != 10:  # The second time it is stopped at any moment.
                await wait_until(lambda: copy.copied_seq == journal.durable_seq)
            durable_seq = journal.durable_seq
    assert [row.seq for row in await read_rows(url)] == list(range(1, durable_seq + 1))


async def test_two_nodes_share_a_table(tmp_path: Path, url: str) -> None:
    async with (
        open_journal(tmp_path / "a", node="a") as first,
        open_journal(tmp_path / "b") as second,
        copying(url, tmp_path / "a", first) as one,
        copying(url, tmp_path / "b", second) as two,
    ):
        await wait_until(lambda: one.copied_seq == two.copied_seq == 1)
    assert {row.node for row in await read_rows(url)} == {"a", second.node}


async def test_a_database_that_is_down_stops_no_call_and_gets_everything_later(tmp_path: Path, postgresql: Any) -> None:
    name = f"late{id(tmp_path)}"
    url = postgresql.get_uri(name)
    folder = tmp_path / "audit"
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    async with open_journal(folder) as journal, copying(url, folder, journal, sleep=sleep) as copy:
        await wait_until(lambda: copy.problem is not None and len(pauses) > 3)
        await journal.record(call_event(1))
        assert name in str(copy.problem)
        assert pauses[2] > pauses[0]
        postgresql.psql(f"CREATE DATABASE {name}")
        await wait_until(lambda: copy.copied_seq == 2)
        await wait_until(lambda: copy.problem is None)
    assert len(await read_rows(url)) == 2


async def test_records_that_expired_before_they_were_copied_do_not_stop_the_copy(tmp_path: Path, url: str) -> None:
    folder = tmp_path / "audit"
    async with open_journal(folder, segment_bytes=4096) as journal:
        for number in range(40):
            await journal.record(call_event(number))
        first = segments(folder)[0]
        kept_from = msgspec.json.decode(segments(folder)[1].read_bytes().splitlines()[0])["seq"]
        first.unlink()
        async with copying(url, folder, journal) as copy:
            await wait_until(lambda: copy.copied_seq == journal.durable_seq)
    assert (await read_rows(url))[0].seq == kept_from


async def test_the_migration_makes_the_declared_table(url: str) -> None:
    database = await open_database(read_url(url), SCHEMA)

    def compare(connection: Connection) -> list[Any]:
        connection.execute(text("SELECT 1"))
        return differences(connection, metadata, SCHEMA.version_table)

    assert await database.read(compare) == []
    await database.close()


def test_a_wrong_url_is_refused_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        JournalCopy("mysql://user:hunter2@host/db", tmp_path, lambda: "n", lambda: 0)
    assert "hunter2" not in raised.value.message
