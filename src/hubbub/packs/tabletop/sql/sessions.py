"""Sessions in the database. That at most one of a campaign is active, an index of the database guards."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.failures import FailedPrecondition
from hubbub.packs.tabletop.model import Page, PageRequest, Session, SessionStatus
from hubbub.packs.tabletop.sql import events
from hubbub.packs.tabletop.sql.finding import as_time, find, find_campaign, new_id, now, page_of
from hubbub.packs.tabletop.sql.tables import sessions
from hubbub.store.sql import Connection, Row, add_row, select, update


def start(connection: Connection, campaign_id: str, name: str) -> Session:
    """Begin a session, if none is active."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    name = checks.optional_name(name, "session name")
    campaign = find_campaign(connection, campaign_id, to_change=True)
    active = find_active(connection, campaign_id)
    if active is not None:
        raise FailedPrecondition(f"active session exists: {active.id}; end it first")
    at, session_id = now(), new_id("sess")
    values = {
        "id": session_id,
        "campaign_id": campaign_id,
        "name": name,
        "status": SessionStatus.ACTIVE.value,
        "started_at": at,
        "updated_at": at,
    }
    add_row(connection, sessions, values)
    data = {"session_id": session_id, "name": name}
    events.write(connection, campaign, "session.started", data, session_id)
    return _session({**values, "ended_at": None})


def end(connection: Connection, campaign_id: str, session_id: str | None) -> Session:
    """End one session, or the active one."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    wanted = None if session_id is None else checks.identifier(session_id, "session")
    campaign = find_campaign(connection, campaign_id, to_change=True)
    if wanted is None:
        row = find_active(connection, campaign_id)
        if row is None:
            raise FailedPrecondition("no session is active in this campaign")
    else:
        row = find(connection, sessions, "session", campaign_id, wanted)
        if row.status == SessionStatus.ENDED:
            raise FailedPrecondition(f"session {row.id} has already ended")
    at = now()
    changes = {"status": SessionStatus.ENDED.value, "updated_at": at, "ended_at": at}
    connection.execute(update(sessions).where(sessions.c.id == row.id).values(**changes))
    events.write(connection, campaign, "session.ended", {"session_id": row.id}, row.id)
    return _session({**row._mapping, **changes})


def get(connection: Connection, campaign_id: str, session_id: str) -> Session:
    """One session."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    session_id = checks.identifier(session_id, "session")
    return _session(find(connection, sessions, "session", campaign_id, session_id)._mapping)


def page(connection: Connection, campaign_id: str, request: PageRequest) -> Page[Session]:
    """Sessions in order."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    find_campaign(connection, campaign_id)
    return page_of(
        connection, sessions, request, lambda row: _session(row._mapping), sessions.c.campaign_id == campaign_id
    )


def find_active(connection: Connection, campaign_id: str) -> Row[Any] | None:
    """The row of the active session, if there is one."""
    active = sessions.c.status == SessionStatus.ACTIVE.value
    return connection.execute(select(sessions).where(sessions.c.campaign_id == campaign_id, active)).first()


def _session(values: Any) -> Session:
    ended_at = values["ended_at"]
    return Session(
        id=values["id"],
        campaign_id=values["campaign_id"],
        name=values["name"],
        status=SessionStatus(values["status"]),
        started_at=as_time(values["started_at"]),
        updated_at=as_time(values["updated_at"]),
        ended_at=UNSET if ended_at is None else as_time(ended_at),
    )
