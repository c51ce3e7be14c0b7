"""The campaign backend in this process, on an SQL database.

It opens the database at the first request that needs it; dice rolls without a scene do not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from hubbub import SettingsError, StoreConflict, StoreFailed
from hubbub.packs.tabletop import sql
from hubbub.packs.tabletop.failures import STORE_UNAVAILABLE, FailedPrecondition, Unavailable
from hubbub.packs.tabletop.model import Scene
from hubbub.packs.tabletop.rolls import LocalRolls
from hubbub.packs.tabletop.store_status import Access, StoreStatus

if TYPE_CHECKING:
    from hubbub.pack.store import Connection, Database

P = ParamSpec("P")
T = TypeVar("T")
Transaction: TypeAlias = "Callable[Concatenate[Connection, P], T]"
Method: TypeAlias = "Callable[Concatenate[StoreBackend, P], Coroutine[Any, Any, T]]"


def _write_method(load: Callable[[], Transaction[P, T]]) -> Method[P, T]:
    """Return a method that runs a writing transaction; the transaction's module is loaded when it is first used."""

    async def method(self: StoreBackend, /, *arguments: P.args, **options: P.kwargs) -> T:
        return await self.run_write(lambda connection: load()(connection, *arguments, **options))

    return method


def _read_method(load: Callable[[], Transaction[P, T]]) -> Method[P, T]:
    """Return a method that runs a read-only transaction."""

    async def method(self: StoreBackend, /, *arguments: P.args, **options: P.kwargs) -> T:
        return await self.run_read(lambda connection: load()(connection, *arguments, **options))

    return method


class StoreBackend(LocalRolls):
    """A `Backend` that stores campaigns at a database URL."""

    def __init__(self, url: str | None) -> None:
        """Without a URL, the database is a file in the data folder."""
        self._url = url
        self.status = StoreStatus()
        self._database: Database | None = None
        self._open_lock = asyncio.Lock()
        self._is_closed = False

    create_campaign = _write_method(lambda: sql.campaigns.create)
    get_campaign = _read_method(lambda: sql.campaigns.get)
    list_campaigns = _read_method(lambda: sql.campaigns.page)
    export_campaign = _read_method(lambda: sql.transfer.export_campaign)
    import_campaign = _write_method(lambda: sql.transfer.import_campaign)

    create_participant = _write_method(lambda: sql.participants.create)
    get_participant = _read_method(lambda: sql.participants.get)
    list_participants = _read_method(lambda: sql.participants.page)
    update_participant = _write_method(lambda: sql.participants.change)
    delete_participant = _write_method(lambda: sql.participants.remove)

    create_actor = _write_method(lambda: sql.actors.create)
    get_actor = _read_method(lambda: sql.actors.get)
    list_actors = _read_method(lambda: sql.actors.page)
    update_actor = _write_method(lambda: sql.actors.change)
    delete_actor = _write_method(lambda: sql.actors.remove)
    set_control = _write_method(lambda: sql.actors.set_control)
    get_control = _read_method(lambda: sql.actors.get_control)

    start_session = _write_method(lambda: sql.sessions.start)
    end_session = _write_method(lambda: sql.sessions.end)
    get_session = _read_method(lambda: sql.sessions.get)
    list_sessions = _read_method(lambda: sql.sessions.page)
    append_event = _write_method(lambda: sql.events.append)
    list_events = _read_method(lambda: sql.events.page)
    verify_events = _read_method(lambda: sql.events.find_first_break)

    async def write_roll(self, scene: Scene, type: str, data: dict[str, Any]) -> int:
        return (await self._write_scene(scene, type, data)).seq

    _write_scene = _write_method(lambda: sql.events.write_in_scene)
    _check_readable = _read_method(lambda: sql.tables.check_readable)
    _check_writable = _write_method(lambda: sql.tables.check_writable)

    # -- the database --------------------------------------------------------------

    async def check(self) -> None:
        if self._database is None and self._url is None and not default_path().exists():
            self._check_folder()  # A check must not create a database.
            return
        await self._check_readable()
        if self.status.is_failing("write"):
            await self._check_writable()

    def _check_folder(self) -> None:
        path = default_path()
        folder = next(parent for parent in path.parents if parent.exists())
        if not os.access(folder, os.W_OK):
            raise self._unavailable("write", f"{path} cannot be created: {folder} is not writable")

    async def close(self) -> None:
        self._is_closed = True
        async with self._open_lock:
            database, self._database = self._database, None
        if database is not None:
            await database.close()

    async def run_write(self, transaction: Callable[[Connection], T]) -> T:
        """Run a transaction that changes something, and return its result.

        Raises: FailedPrecondition, Unavailable.
        """
        try:
            found = await (await self._open()).write(transaction)
        except StoreConflict as error:
            raise FailedPrecondition(
                "another request changed the same record at the same time; read it again and retry"
            ) from error
        except (StoreFailed, SettingsError) as error:
            raise self._unavailable("write", error.message) from error
        self.status.record_success("write")
        return found

    async def run_read(self, transaction: Callable[[Connection], T]) -> T:
        """Run a read-only transaction, and return its result.

        Raises: Unavailable.
        """
        try:
            found = await (await self._open()).read(transaction)
        except (StoreFailed, SettingsError) as error:
            raise self._unavailable("read", error.message) from error
        self.status.record_success("read")
        return found

    def _unavailable(self, access: Access, reason: str) -> Unavailable:
        self.status.record_failure(access, reason)
        return Unavailable(STORE_UNAVAILABLE, reason=reason)

    async def _open(self) -> Database:
        if self._database is not None:
            return self._database
        async with self._open_lock:
            if self._is_closed:
                raise Unavailable("The campaign store is closed, because the server is stopping")
            if self._database is None:
                self._database = await sql.tables.open_tables(self._url or f"sqlite:///{default_path()}")
            return self._database


def default_path() -> Path:
    """Return the path of the default database."""
    from hubbub.pack import data_folder

    return data_folder() / "tabletop.db"
