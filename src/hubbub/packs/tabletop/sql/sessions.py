"""Sessions in the database. A unique index ensures that a campaign has at most one active session."""

from __future__ import annotations

from typing import Any

from hubbub.pack.store import Connection, Row, add_row, select, update
from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.failures import FailedPrecondition
from hubbub.packs.tabletop.model import FIRST_PAGE, Page, PageRequest, Session, SessionStatus
from hubbub.packs.tabletop.sql import events
from hubbub.packs.tabletop.sql.records import find_campaign, find_row, new_id, now, now_at_least, read_page, read_record
from hubbub.packs.tabletop.sql.tables import sessions


def start(connection: Connection, campaign_id: str, name: str = "") -> Session:
    """Start a session, if none is active."""
    campaign_id = checks.validate_id(campaign_id, "campaign")
    name = checks.validate_optional_name(name, "session name")
    campaign = find_campaign(connection, campaign_id, for_update=True)
    active = find_active(connection, campaign_id)
    if active is not None:
        raise FailedPrecondition(f"active session exists: {active.id}; end it first")
    timestamp, session_id = now(), new_id("sess")
    values = {
        "id": session_id,
        "campaign_id": campaign_id,
        "name": name,
        "status": SessionStatus.ACTIVE.value,
        "started_at": timestamp,
        "updated_at": timestamp,
    }
    add_row(connection, sessions, values)
    data = {"session_id": session_id, "name": name}
    events.write(connection, campaign, "session.started", data, session_id)
    return read_record(Session, {**values, "ended_at": None})


def end(connection: Connection, campaign_id: str, session_id: str | None = None) -> Session:
    """End one session, or the active one."""
    campaign_id = checks.validate_id(campaign_id, "campaign")
    requested_id = None if session_id is None else checks.validate_id(session_id, "session")
    campaign = find_campaign(connection, campaign_id, for_update=True)
    if requested_id is None:
        row = find_active(connection, campaign_id)
        if row is None:
            raise FailedPrecondition("this campaign has no active session; session_start starts one")
    else:
        row = find_row(connection, sessions, "session", campaign_id, requested_id)
        if row.status == SessionStatus.ENDED:
            raise FailedPrecondition(f"session {row.id} has already ended")
    timestamp = now_at_least(row.updated_at)
    changes = {"status": SessionStatus.ENDED.value, "updated_at": timestamp, "ended_at": timestamp}
    connection.execute(update(sessions).where(sessions.c.id == row.id).values(**changes))
    events.write(connection, campaign, "session.ended", {"session_id": row.id}, row.id)
    return read_record(Session, {**row._mapping, **changes})


def get(connection: Connection, campaign_id: str, session_id: str) -> Session:
    """Return one session."""
    campaign_id = checks.validate_id(campaign_id, "campaign")
    session_id = checks.validate_id(session_id, "session")
    return read_record(Session, find_row(connection, sessions, "session", campaign_id, session_id)._mapping)


def page(connection: Connection, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Session]:
    """Return one page of sessions, in order."""
    campaign_id = checks.validate_id(campaign_id, "campaign")
    find_campaign(connection, campaign_id)
    return read_page(connection, sessions, page, Session, sessions.c.campaign_id == campaign_id)


def find_active(connection: Connection, campaign_id: str) -> Row[Any] | None:
    """Return the row of the active session, if there is one."""
    active = sessions.c.status == SessionStatus.ACTIVE.value
    return connection.execute(select(sessions).where(sessions.c.campaign_id == campaign_id, active)).first()
