"""Databases by URL: which are refused, and how processes that start at the same time share a file."""

import asyncio
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection

from hubbub import SettingsError, StoreConflict, StoreFailed, bounds
from hubbub.pack.store import (
    Column,
    Integer,
    MetaData,
    Schema,
    Table,
    add_row,
    insert,
    open_database,
    read_url,
    select,
    text,
)

VERSION = """
from hubbub.store.migrate import op
from hubbub.store.sql import Column, Integer
revision = "1"
down_revision = None
def upgrade():
    op.create_table("numbers", Column("n", Integer, primary_key=True))
"""
numbers = Table("numbers", MetaData(), Column("n", Integer, primary_key=True))
OPENER = """
import asyncio, sys
from pathlib import Path
from hubbub.store.sql import Schema, open_database, read_url, text
async def main():
    database = await open_database(read_url(sys.argv[1]), Schema(Path(sys.argv[2]), "1", "version"))
    await database.write(lambda c: c.execute(text(f"INSERT INTO numbers VALUES ({sys.argv[3]})")))
    await database.close()
asyncio.run(main())
"""


@pytest.fixture
def schema(tmp_path: Path) -> Schema:
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / "one.py").write_text(VERSION)
    return Schema(tmp_path, "1", "version")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "games.db",
        "mysql://user:hunter2@host/games",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite://hunter2/games.db",
        "postgresql://user:hunter2@host/games?wrong=1",
        "postgresql://host:hunter2/games",
    ],
)
def test_an_invalid_database_url_is_refused_and_not_repeated_in_the_error(url: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read_url(url)
    assert "hunter2" not in raised.value.message


def test_a_postgres_url_with_sslmode_is_converted_for_asyncpg() -> None:
    url = read_url("postgres://user@host/games?sslmode=require")
    assert url.drivername == "postgresql+asyncpg"
    assert url.query == {"ssl": "require"}


async def test_a_failed_transaction_is_rolled_back(tmp_path: Path, schema: Schema) -> None:
    database = await open_database(read_url(f"sqlite:///{tmp_path / 'a.db'}"), schema)

    def work(connection: Connection) -> None:
        connection.execute(insert(numbers).values(n=1))
        raise LookupError("no")

    with pytest.raises(LookupError):
        await database.write(work)
    assert await database.read(lambda connection: connection.execute(select(numbers)).all()) == []
    await database.close()


async def test_a_read_transaction_cannot_write(tmp_path: Path, schema: Schema) -> None:
    database = await open_database(read_url(f"sqlite:///{tmp_path / 'a.db'}"), schema)
    with pytest.raises(StoreFailed, match="readonly"):
        await database.read(lambda connection: connection.execute(insert(numbers).values(n=1)))
    await database.close()


async def test_readers_do_not_wait_for_a_writer(tmp_path: Path, schema: Schema) -> None:
    import threading

    database = await open_database(read_url(f"sqlite:///{tmp_path / 'a.db'}"), schema)
    has_written, may_go = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        connection.execute(insert(numbers).values(n=1))
        has_written.set()
        assert may_go.wait(60)

    writing = asyncio.create_task(database.write(slow))
    assert await asyncio.to_thread(has_written.wait, 60)
    count = text("SELECT count(*) FROM numbers")
    assert await database.read(lambda connection: connection.execute(count).scalar()) == 0
    may_go.set()
    await writing
    assert await database.read(lambda connection: connection.execute(count).scalar()) == 1
    await database.close()


async def test_writers_that_wait_for_a_locked_file_time_out_side_by_side(
    tmp_path: Path, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "SQL_WAIT_S", 0.3)
    database = await open_database(read_url(f"sqlite:///{tmp_path / 'a.db'}"), schema)
    other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    async with asyncio.timeout(60):
        calls = [database.write(lambda connection: connection.execute(insert(numbers).values(n=1))) for _ in range(150)]
        problems = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(problem, StoreFailed) for problem in problems)
    other.execute("ROLLBACK")
    other.close()
    await database.write(lambda connection: connection.execute(insert(numbers).values(n=1)))
    count = text("SELECT count(*) FROM numbers")
    assert await database.read(lambda connection: connection.execute(count).scalar()) == 1
    await database.close()


async def test_a_new_file_that_another_process_writes_to_can_be_opened(
    tmp_path: Path, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE other (id INTEGER)")
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO other VALUES (1)")
        monkeypatch.setattr("time.sleep", lambda seconds: other.commit())  # it ends while we wait for it
        database = await open_database(read_url(f"sqlite:///{path}"), schema)
        assert not other.in_transaction
        await database.close()


def test_processes_that_start_at_the_same_time_create_the_tables_once(tmp_path: Path, schema: Schema) -> None:
    url = f"sqlite:///{tmp_path / 'new' / 'a.db'}"
    arguments = [sys.executable, "-c", OPENER, url, str(schema.migrations)]
    openers = [subprocess.Popen([*arguments, str(number)], stderr=subprocess.PIPE, text=True) for number in range(6)]
    for opener in openers:
        problem = opener.communicate(timeout=60)[1]
        assert opener.returncode == 0, problem

    async def count() -> int:
        database = await open_database(read_url(url), schema)
        found: int = await database.read(lambda c: c.execute(text("SELECT count(*) FROM numbers")).scalar_one())
        await database.close()
        return found

    assert asyncio.run(count()) == 6


async def test_databases_opened_at_the_same_time_each_get_their_tables(tmp_path: Path, schema: Schema) -> None:
    more = "".join(f'    op.create_table("more_{n}", Column("n", Integer, primary_key=True))\n' for n in range(20))
    (tmp_path / "versions" / "one.py").write_text(VERSION + more)
    urls = [read_url(f"sqlite:///{tmp_path / f'{number}.db'}") for number in range(8)]
    databases = await asyncio.gather(*(open_database(url, schema) for url in urls))
    for database in databases:
        tables = await database.read(
            lambda c: c.execute(text("SELECT name FROM sqlite_master WHERE type='table'")).all()
        )
        assert len(tables) == 22  # including the table of the schema version
        await database.close()


async def test_the_error_names_a_folder_that_cannot_be_created(tmp_path: Path, schema: Schema) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match="cannot be created"):
        await open_database(read_url(f"sqlite:///{tmp_path / 'file' / 'a.db'}"), schema)


async def test_a_refused_write_does_not_stop_the_next(tmp_path: Path, schema: Schema) -> None:
    database = await open_database(read_url(f"sqlite:///{tmp_path / 'a.db'}"), schema)
    for number in (1, 2):
        await database.write(partial(add_row, table=numbers, values={"n": number}))
    with pytest.raises(StoreConflict):
        await database.write(lambda connection: add_row(connection, numbers, {"n": 1}))
    with pytest.raises(StoreFailed):
        await database.write(lambda connection: connection.execute(text("SELECT * FROM nowhere")))
    await database.write(lambda connection: add_row(connection, numbers, {"n": 3}))
    found = await database.read(lambda connection: connection.execute(select(numbers)).scalars().all())
    assert found == [1, 2, 3]
    await database.close()
