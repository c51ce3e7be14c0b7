"""Databases: an SQLite file by default, PostgreSQL by URL. The only module that imports SQLAlchemy.

    database = await open_database(read_url("sqlite:///games.db"), schema)
    await database.write(lambda connection: connection.execute(...))

Work is a plain function of a connection that runs in one transaction. When `write` returns,
the changes are durable, even after kill -9 (and with SQLite after a loss of power); if it
raises, nothing was changed. For SQLite it runs in a thread, since aiosqlite passes every
single statement to a thread and takes three times as long; writers queue for one connection,
readers have their own and see the last commit. For PostgreSQL it runs in the event loop, on asyncpg.

Other modules import what they need from SQLAlchemy to declare tables from here.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeVar

import msgspec
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Engine,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Row,
    Select,
    Table,
    Text,
    UniqueConstraint,
    and_,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from hubbub import bounds
from hubbub.errors import SettingsError, StoreConflict, StoreFailed
from hubbub.settings.folders import make_private_folder

__all__ = [
    "BigInteger",
    "CheckConstraint",
    "Column",
    "Connection",
    "Database",
    "ForeignKey",
    "ForeignKeyConstraint",
    "Index",
    "Integer",
    "MetaData",
    "PrimaryKeyConstraint",
    "Row",
    "Schema",
    "Select",
    "Table",
    "Text",
    "UniqueConstraint",
    "add_row",
    "and_",
    "delete",
    "func",
    "insert",
    "open_database",
    "position_column",
    "read_url",
    "select",
    "text",
    "update",
]

T = TypeVar("T")
Work = Callable[[Connection], T]

_SCHEMES: Final = {"sqlite": "sqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_LOCK_POLL_S: Final = 0.01
_OPTIONS: Final = {"sqlite": frozenset[str](), "postgresql+asyncpg": frozenset({"host", "port", "ssl", "sslmode"})}


class Schema(msgspec.Struct, frozen=True):
    """The tables of a database: their migrations and the version that the code needs."""

    migrations: Path
    """The folder that contains `versions`."""
    head: str
    """The latest revision. Opening a database that is already at it does not load Alembic."""
    version_table: str


class Database(Protocol):
    """An open database."""

    async def write(self, work: Work[T]) -> T:
        """Run `work` in a transaction and commit it.

        Raises:
            StoreConflict: a constraint of the tables forbids the change.
            StoreFailed: the database does not work.
            Any error that `work` raises. In each case the transaction is rolled back.
        """

    async def read(self, work: Work[T]) -> T:
        """Run `work`, which only reads, on one consistent state of the database.

        Raises: StoreFailed, and any error that `work` raises.
        """

    async def close(self) -> None:
        """Wait for running transactions, then close the database."""


_insert_cache: dict[tuple[str, str, tuple[str, ...]], tuple[str, list[str]]] = {}


def add_row(connection: Connection, table: Table, values: dict[str, Any]) -> None:
    """Insert one row of plain values: like `execute(insert(table), values)`, in less than half the time."""
    key = (connection.dialect.name, table.name, tuple(values))
    cached = _insert_cache.get(key)
    if cached is None:
        compiled = insert(table).inline().compile(dialect=connection.dialect, column_keys=list(values))
        cached = _insert_cache[key] = (str(compiled), list(compiled.positiontup or ()))
    statement, order = cached
    connection.exec_driver_sql(statement, tuple(values[name] for name in order))


def position_column() -> Column[int]:
    """A primary key that numbers rows in the order of their insertion."""
    return Column("position", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


def read_url(given: str) -> URL:
    """Parse the URL of a database.

    Raises: SettingsError, without the URL, because it may contain a password.
    """
    try:
        url = make_url(given)
        driver = _SCHEMES[url.drivername]
    except (ArgumentError, KeyError, ValueError):
        raise SettingsError("invalid database URL; write sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    if driver == "sqlite" and (not url.database or url.database == ":memory:" or url.host):
        raise SettingsError("an SQLite database must be a file, such as sqlite:///games.db or sqlite:////data/games.db")
    unknown = set(url.query) - _OPTIONS[driver]
    if unknown:
        allowed = ", ".join(sorted(_OPTIONS[driver])) or "none"
        raise SettingsError(f"the database URL has unknown options: {', '.join(sorted(unknown))}; allowed: {allowed}")
    if "sslmode" in url.query:  # The name that libpq uses, which people copy.
        url = url.difference_update_query(["sslmode"]).update_query_dict({"ssl": str(url.query["sslmode"])})
    return url.set(drivername=driver)


async def open_database(url: URL, schema: Schema) -> Database:
    """Open a database and run pending migrations; processes that do so at the same time wait for each other.

    Raises: StoreFailed.
    """
    database: Database = _Sqlite(url) if url.drivername == "sqlite" else _Postgresql(url)
    try:
        await database.write(lambda connection: _migrate(connection, schema))
    except BaseException:
        await database.close()
        raise
    return database


def _migrate(connection: Connection, schema: Schema) -> None:
    if connection.dialect.name == "postgresql":
        # SQLite needs no lock: its write transactions wait for each other anyway.
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": schema.version_table})
    found = _read_revision(connection, schema.version_table)
    if found == schema.head:
        return
    from hubbub.store import migrate

    if found is not None and not migrate.is_known(schema.migrations, found):
        raise StoreFailed("it was created by a later version of Hubbub; upgrade Hubbub, or use another database")
    migrate.upgrade(connection, schema.migrations, schema.version_table)


def _read_revision(connection: Connection, version_table: str) -> str | None:
    if not connection.dialect.has_table(connection, version_table):
        return None
    found: str | None = connection.execute(text(f"SELECT version_num FROM {version_table}")).scalar()
    return found


# -- SQLite ------------------------------------------------------------------------


class _Sqlite:
    """An SQLite file. Transactions run in threads; writes run one after the other."""

    def __init__(self, url: URL) -> None:
        path = Path(url.database or "")
        try:
            _create_file(path)
        except OSError as error:
            raise StoreFailed(f"{path} cannot be created: {error.strerror}") from error
        self._location = str(path)
        self._is_closed = False
        self._write_engine = _sqlite_engine(url, "BEGIN IMMEDIATE")
        self._read_engine = _sqlite_engine(url, "BEGIN", "PRAGMA query_only=ON")
        self._write_connection: Connection | None = None
        self._writer = ThreadPoolExecutor(1, "hubbub-sql-write")
        self._readers = ThreadPoolExecutor(bounds.SQL_READERS, "hubbub-sql-read")

    async def write(self, work: Work[T]) -> T:
        return await self._run(self._writer, self._write, work)

    async def read(self, work: Work[T]) -> T:
        return await self._run(self._readers, self._read, work)

    def _write(self, work: Work[T]) -> T:
        # Kept open, because taking one from a pool each time is a sixth of the cost of a small change.
        connection = self._write_connection
        if connection is None:
            connection = self._write_connection = self._write_engine.connect()
        try:
            with connection.begin():
                return work(connection)
        except SQLAlchemyError:
            self._write_connection = None
            connection.close()
            raise

    def _read(self, work: Work[T]) -> T:
        with self._read_engine.begin() as connection:
            return work(connection)

    async def _run(self, pool: ThreadPoolExecutor, run: Callable[[Work[T]], T], work: Work[T]) -> T:
        queued_at = time.monotonic()

        def transaction() -> T:
            # While others lock the file, each waits for the driver's timeout, after all before it in the queue.
            if time.monotonic() - queued_at > bounds.SQL_WAIT_S:
                raise StoreFailed(
                    f"{self._location} has been busy for more than {bounds.SQL_WAIT_S:g} s; try again later"
                )
            try:
                return run(work)
            except SQLAlchemyError as error:
                _raise_store_error(error, self._location)

        if self._is_closed:
            raise StoreFailed(f"{self._location} is closed")
        # Cancelling the caller does not stop the thread: the transaction is committed or rolled back as a whole.
        return await asyncio.get_running_loop().run_in_executor(pool, transaction)

    async def close(self) -> None:
        def end() -> None:
            self._writer.shutdown()
            self._readers.shutdown()
            if self._write_connection is not None:
                self._write_connection.close()
            self._read_engine.dispose()
            self._write_engine.dispose()

        self._is_closed = True
        await asyncio.to_thread(end)


def _create_file(path: Path) -> None:
    """Create the file, readable by its owner only; SQLite gives its journal files the same mode."""
    make_private_folder(path.parent)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _sqlite_engine(url: URL, begin: str, *pragmas: str) -> Engine:
    engine = create_engine(
        url,
        pool_size=bounds.SQL_READERS,
        max_overflow=0,
        connect_args={"check_same_thread": False, "timeout": bounds.SQL_WAIT_S, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        _use_wal(connection)
        for pragma in ("PRAGMA synchronous=FULL", "PRAGMA foreign_keys=ON", *pragmas):
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)  # The driver's own transactions start too late: others get in between.

    return engine


def _use_wal(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at the same time.

    While another process uses a new file, SQLite refuses this at once, without waiting for the driver's timeout.
    """
    deadline = time.monotonic() + bounds.SQL_WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_POLL_S)
        else:
            return


# -- PostgreSQL --------------------------------------------------------------------


class _Postgresql:
    """A PostgreSQL server, with a pool of connections."""

    def __init__(self, url: URL) -> None:
        self._location = url.set(query={}).render_as_string(hide_password=True).replace("+asyncpg", "")
        self._engine: AsyncEngine = create_async_engine(
            url,
            pool_size=bounds.SQL_CONNECTIONS,
            max_overflow=0,
            pool_timeout=bounds.SQL_WAIT_S,
            pool_pre_ping=True,
            connect_args={"timeout": bounds.SQL_WAIT_S, "command_timeout": bounds.SQL_STATEMENT_TIMEOUT_S},
        )

    async def write(self, work: Work[T]) -> T:
        try:
            async with self._engine.begin() as connection:
                return await connection.run_sync(work)
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            _raise_store_error(error, self._location)

    async def read(self, work: Work[T]) -> T:
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        try:
            async with self._engine.connect() as connection:
                await connection.execution_options(**options)
                return await connection.run_sync(work)
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            _raise_store_error(error, self._location)

    async def close(self) -> None:
        await self._engine.dispose()


def _raise_store_error(error: Exception, location: str) -> NoReturn:
    """Convert a database error to one of ours, without the values that the database quotes."""
    if isinstance(error, IntegrityError):
        raise StoreConflict(str(error.orig)) from error
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    lines = [] if isinstance(error, DataError | ProgrammingError) else str(cause).splitlines()
    raise StoreFailed(f"{location}: {lines[0] if lines else type(cause).__name__}") from error
