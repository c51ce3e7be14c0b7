"""The keeper of campaigns in this process, on an SQL database.

It opens the database when it is first asked for something that is kept there; dice need none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from hubbub import bounds
from hubbub.errors import SettingsError, StoreConflict, StoreFailed
from hubbub.packs.tabletop import sql
from hubbub.packs.tabletop.failures import FailedPrecondition, Unavailable
from hubbub.packs.tabletop.model import (
    FIRST_PAGE,
    Actor,
    ActorChange,
    ActorKind,
    Campaign,
    Control,
    Controller,
    Event,
    GmMode,
    Page,
    PageRequest,
    Participant,
    ParticipantChange,
    Role,
    Scene,
    Session,
)
from hubbub.packs.tabletop.rolls import LocalRolls

if TYPE_CHECKING:
    from hubbub.packs.tabletop.transfer import CampaignDocument
    from hubbub.store.sql import Connection, Database

P = ParamSpec("P")
T = TypeVar("T")
Transaction: TypeAlias = "Callable[Concatenate[Connection, P], T]"


class StoreBackend(LocalRolls):
    """A `Backend` that keeps campaigns at a database URL."""

    def __init__(self, url: str | None) -> None:
        """Without a URL, it is a file in the data folder."""
        self._url = url
        self._database: Database | None = None
        self._opening = asyncio.Lock()
        self._is_closed = False

    # -- campaigns and participants ----------------------------------------------

    async def create_campaign(self, name: str, gm_mode: GmMode, theme_prompt: str = "") -> Campaign:
        return await self._write(sql.campaigns.create, name, gm_mode, theme_prompt)

    async def get_campaign(self, campaign_id: str) -> Campaign:
        return await self._read(sql.campaigns.get, campaign_id)

    async def list_campaigns(self, page: PageRequest = FIRST_PAGE) -> Page[Campaign]:
        return await self._read(sql.campaigns.page, page)

    async def export_campaign(self, campaign_id: str, *, with_events: bool = True) -> CampaignDocument:
        return await self._read(sql.transfer.take_out, campaign_id, with_events)

    async def import_campaign(self, document: CampaignDocument) -> Campaign:
        return await self._write(sql.transfer.put_in, document)

    async def create_participant(
        self, campaign_id: str, display_name: str, role: Role, controller: Controller = Controller.HUMAN
    ) -> Participant:
        return await self._write(sql.campaigns.add_participant, campaign_id, display_name, role, controller)

    async def get_participant(self, campaign_id: str, participant_id: str) -> Participant:
        return await self._read(sql.campaigns.get_participant, campaign_id, participant_id)

    async def list_participants(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Participant]:
        return await self._read(sql.campaigns.page_of_participants, campaign_id, page)

    async def update_participant(self, campaign_id: str, participant_id: str, change: ParticipantChange) -> Participant:
        return await self._write(sql.campaigns.change_participant, campaign_id, participant_id, change)

    async def delete_participant(self, campaign_id: str, participant_id: str) -> Participant:
        return await self._write(sql.campaigns.remove_participant, campaign_id, participant_id)

    # -- actors --------------------------------------------------------------------

    async def create_actor(self, campaign_id: str, name: str, kind: ActorKind, notes: str = "") -> Actor:
        return await self._write(sql.actors.create, campaign_id, name, kind, notes)

    async def get_actor(self, campaign_id: str, actor_id: str) -> Actor:
        return await self._read(sql.actors.get, campaign_id, actor_id)

    async def list_actors(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Actor]:
        return await self._read(sql.actors.page, campaign_id, page)

    async def update_actor(self, campaign_id: str, actor_id: str, change: ActorChange) -> Actor:
        return await self._write(sql.actors.change, campaign_id, actor_id, change)

    async def delete_actor(self, campaign_id: str, actor_id: str) -> Actor:
        return await self._write(sql.actors.remove, campaign_id, actor_id)

    async def set_control(self, campaign_id: str, actor_id: str, controller: str) -> Control:
        return await self._write(sql.actors.set_control, campaign_id, actor_id, controller)

    async def get_control(self, campaign_id: str, actor_id: str) -> Control:
        return await self._read(sql.actors.get_control, campaign_id, actor_id)

    # -- sessions and events -------------------------------------------------------

    async def start_session(self, campaign_id: str, name: str = "") -> Session:
        return await self._write(sql.sessions.start, campaign_id, name)

    async def end_session(self, campaign_id: str, session_id: str | None = None) -> Session:
        return await self._write(sql.sessions.end, campaign_id, session_id)

    async def get_session(self, campaign_id: str, session_id: str) -> Session:
        return await self._read(sql.sessions.get, campaign_id, session_id)

    async def list_sessions(self, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Session]:
        return await self._read(sql.sessions.page, campaign_id, page)

    async def append_event(self, scene: Scene, type: str, data: dict[str, Any]) -> Event:
        return await self._write(sql.events.append, scene, type, data)

    async def list_events(
        self,
        campaign_id: str,
        page: PageRequest = FIRST_PAGE,
        *,
        session_id: str | None = None,
        type: str | None = None,
        newest_first: bool = False,
    ) -> Page[Event]:
        return await self._read(
            sql.events.page, campaign_id, page, session_id=session_id, type=type, newest_first=newest_first
        )

    async def verify_events(self, campaign_id: str) -> int | None:
        return await self._read(sql.events.first_break, campaign_id, bounds.TABLE_LARGEST_PAGE)

    async def write_roll(self, scene: Scene, type: str, data: dict[str, Any]) -> int:
        return (await self._write(sql.events.write_in_scene, scene, type, data)).seq

    # -- the database --------------------------------------------------------------

    async def check(self) -> None:
        await self._read(sql.opening.look)

    async def close(self) -> None:
        self._is_closed = True
        async with self._opening:
            database, self._database = self._database, None
        if database is not None:
            await database.close()

    async def _write(self, transaction: Transaction[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        try:
            database = await self._open()
            return await database.write(lambda connection: transaction(connection, *arguments, **options))
        except StoreConflict as error:
            raise FailedPrecondition("somebody else changed the same at the same time; look again") from error
        except (StoreFailed, SettingsError) as error:
            raise Unavailable(error.message) from error

    async def _read(self, transaction: Transaction[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        try:
            database = await self._open()
            return await database.read(lambda connection: transaction(connection, *arguments, **options))
        except (StoreFailed, SettingsError) as error:
            raise Unavailable(error.message) from error

    async def _open(self) -> Database:
        if self._database is not None:
            return self._database
        async with self._opening:
            if self._is_closed:
                raise StoreFailed("it is closed")
            if self._database is None:
                self._database = await sql.opening.open_tables(self._url or f"sqlite:///{usual_path()}")
            return self._database


def usual_path() -> Path:
    """The file of the data folder."""
    from hubbub.settings.folders import data_folder

    return data_folder() / "tabletop.db"
