"""The events of a campaign: written in the transaction of the change itself, chained by hashes."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub import InvalidParams
from hubbub.pack.store import GENESIS, Chain, Connection, Row, add_row, link, select, update
from hubbub.packs.tabletop import checks, limits
from hubbub.packs.tabletop.failures import FailedPrecondition, InvalidArgument
from hubbub.packs.tabletop.model import FIRST_PAGE, Event, Page, PageRequest, Scene, SessionStatus
from hubbub.packs.tabletop.sql.records import fetch_page, find_campaign, find_row, now, to_datetime
from hubbub.packs.tabletop.sql.tables import actors, campaigns, events, sessions


def insert_campaign(connection: Connection, campaign: dict[str, Any], type: str, data: dict[str, Any]) -> None:
    """Create a campaign with its first event."""
    event = _make_event(campaign["id"], 1, type, None, data, GENESIS)
    add_row(connection, campaigns, {**campaign, "event_count": 1, "event_hash": event.hash})
    _insert(connection, event)


def insert_imported_campaign(
    connection: Connection, campaign: dict[str, Any], history: tuple[Event, ...], data: dict[str, Any]
) -> None:
    """Create a campaign with its imported events, which were verified, and an event that records the import."""
    previous_hash = history[-1].hash if history else GENESIS
    event = _make_event(campaign["id"], len(history) + 1, "campaign.imported", None, data, previous_hash)
    add_row(connection, campaigns, {**campaign, "event_count": event.seq, "event_hash": event.hash})
    for earlier in (*history, event):
        _insert(connection, earlier)


def write(
    connection: Connection,
    campaign: Row[Any],
    type: str,
    data: dict[str, Any],
    session_id: str | None = None,
    **changes: Any,
) -> Event:
    """Append an event, with other changes of the campaign's row, which must have been locked by `find_campaign`."""
    event = _make_event(campaign.id, campaign.event_count + 1, type, session_id, data, campaign.event_hash)
    connection.execute(
        update(campaigns)
        .where(campaigns.c.id == campaign.id)
        .values(event_count=event.seq, event_hash=event.hash, **changes)
    )
    _insert(connection, event)
    return event


def write_in_scene(connection: Connection, scene: Scene, type: str, data: dict[str, Any]) -> Event:
    """Append an event to a scene, if its session is active and its actor exists."""
    campaign_id = checks.validate_id(scene.campaign_id, "campaign")
    campaign = find_campaign(connection, campaign_id, for_update=True)
    session_id = None
    if scene.session_id is not None:
        session_id = checks.validate_id(scene.session_id, "session")
        session = find_row(connection, sessions, "session", campaign_id, session_id)
        if session.status != SessionStatus.ACTIVE:
            raise FailedPrecondition(f"session {session_id} is {session.status}, not ACTIVE; start another session")
    if scene.actor_id is not None:
        actor_id = checks.validate_id(scene.actor_id, "actor")
        find_row(connection, actors, "actor", campaign_id, actor_id)
        data = {"actor_id": actor_id, **data}
    return write(connection, campaign, type, data, session_id)


def append(connection: Connection, scene: Scene, type: str, data: dict[str, Any]) -> Event:
    """Append an event that a caller wrote."""
    return write_in_scene(connection, scene, checks.validate_event_type(type), checks.validate_event_data(data))


def page(
    connection: Connection,
    campaign_id: str,
    page: PageRequest = FIRST_PAGE,
    *,
    session_id: str | None = None,
    type: str | None = None,
    newest_first: bool = False,
) -> Page[Event]:
    """Return one page of events, oldest or newest first."""
    campaign_id = checks.validate_id(campaign_id, "campaign")
    start, size = checks.parse_page_token(page), checks.resolve_page_size(page)
    find_campaign(connection, campaign_id)
    query = select(events).where(events.c.campaign_id == campaign_id)
    if session_id is not None:
        session_id = checks.validate_id(session_id, "session")
        find_row(connection, sessions, "session", campaign_id, session_id)
        query = query.where(events.c.session_id == session_id)
    if type is not None:
        query = query.where(events.c.type == checks.validate_name(type, "event type"))
    if start is not None:
        query = query.where(events.c.seq < start if newest_first else events.c.seq > start)
    query = query.order_by(events.c.seq.desc() if newest_first else events.c.seq)
    return fetch_page(connection, query, size, "seq", _read_event)


def find_first_break(connection: Connection, campaign_id: str) -> int | None:
    """Return the number of the first event that was changed, removed or inserted; None if all are intact."""
    campaign = find_campaign(connection, checks.validate_id(campaign_id, "campaign"))
    chain, seq = Chain(), 0
    while True:
        query = select(events).where(events.c.campaign_id == campaign.id, events.c.seq > seq)
        rows = connection.execute(query.order_by(events.c.seq).limit(limits.MAX_PAGE_SIZE)).all()
        for row in rows:
            if row.seq != seq + 1 or not _is_intact(chain, row):
                return seq + 1
            seq = row.seq
        if not rows:
            break
    is_intact = seq == campaign.event_count and chain.head == campaign.event_hash
    return None if is_intact else min(seq, campaign.event_count) + 1


def _is_intact(chain: Chain, row: Row[Any]) -> bool:
    try:
        return chain.holds(_read_event(row).as_record())
    except (msgspec.DecodeError, InvalidParams, ValueError, OverflowError):
        return False


def _make_event(
    campaign_id: str, seq: int, type: str, session_id: str | None, data: dict[str, Any], previous_hash: str
) -> Event:
    time = to_datetime(now())
    record = {
        "campaign_id": campaign_id,
        "seq": seq,
        "type": type,
        "session_id": session_id,
        "created_at": time.isoformat().replace("+00:00", "Z"),
        "data": data,
    }
    try:
        entry = link(record, previous_hash)
    except InvalidParams as error:
        raise InvalidArgument(
            f"event data must be JSON that every parser reads in the same way: {error.message}"
        ) from error
    return Event(**{**entry, "created_at": time})


def _insert(connection: Connection, event: Event) -> None:
    values = msgspec.structs.asdict(event)
    values["created_at"] = int(event.created_at.timestamp())
    values["data"] = msgspec.json.encode(event.data).decode()
    add_row(connection, events, values)


def _read_event(row: Row[Any]) -> Event:
    values = dict(row._mapping)
    values["created_at"] = to_datetime(row.created_at)
    values["data"] = msgspec.json.decode(row.data)
    return Event(**values)
