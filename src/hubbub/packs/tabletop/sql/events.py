"""The events of a campaign: written in the transaction of the change itself, chained by hashes."""

from __future__ import annotations

from typing import Any

import msgspec

from hubbub import InvalidParams
from hubbub.pack.store import GENESIS, Chain, Connection, Row, add_row, link, select, update
from hubbub.packs.tabletop import checks, limits
from hubbub.packs.tabletop.failures import FailedPrecondition, InvalidArgument
from hubbub.packs.tabletop.model import FIRST_PAGE, Event, Page, PageRequest, Scene, SessionStatus
from hubbub.packs.tabletop.sql.finding import as_time, cut, find, find_campaign, now
from hubbub.packs.tabletop.sql.tables import actors, campaigns, events, sessions


def write_first(connection: Connection, campaign: dict[str, Any], type: str, data: dict[str, Any]) -> None:
    """Create a campaign with its first event."""
    event = _chain(campaign["id"], 1, type, None, data, GENESIS)
    add_row(connection, campaigns, {**campaign, "event_count": 1, "event_hash": event.hash})
    _insert(connection, event)


def write_imported(
    connection: Connection, campaign: dict[str, Any], history: tuple[Event, ...], data: dict[str, Any]
) -> None:
    """Create a campaign with its imported events, which were verified, and an event that records the import."""
    previous_hash = history[-1].hash if history else GENESIS
    event = _chain(campaign["id"], len(history) + 1, "campaign.imported", None, data, previous_hash)
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
    event = _chain(campaign.id, campaign.event_count + 1, type, session_id, data, campaign.event_hash)
    connection.execute(
        update(campaigns)
        .where(campaigns.c.id == campaign.id)
        .values(event_count=event.seq, event_hash=event.hash, **changes)
    )
    _insert(connection, event)
    return event


def write_in_scene(connection: Connection, scene: Scene, type: str, data: dict[str, Any]) -> Event:
    """Append an event to a scene, if its session is active and its actor exists."""
    campaign_id = checks.identifier(scene.campaign_id, "campaign")
    campaign = find_campaign(connection, campaign_id, to_change=True)
    session_id = None
    if scene.session_id is not None:
        session_id = checks.identifier(scene.session_id, "session")
        session = find(connection, sessions, "session", campaign_id, session_id)
        if session.status != SessionStatus.ACTIVE:
            raise FailedPrecondition(f"session {session_id} is {session.status}; start another one")
    if scene.actor_id is not None:
        actor_id = checks.identifier(scene.actor_id, "actor")
        find(connection, actors, "actor", campaign_id, actor_id)
        data = {"actor_id": actor_id, **data}
    return write(connection, campaign, type, data, session_id)


def append(connection: Connection, scene: Scene, type: str, data: dict[str, Any]) -> Event:
    """Append an event that a caller wrote."""
    return write_in_scene(connection, scene, checks.event_type(type), checks.event_data(data))


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
    campaign_id = checks.identifier(campaign_id, "campaign")
    start, size = checks.page_start(page), checks.page_size(page)
    find_campaign(connection, campaign_id)
    query = select(events).where(events.c.campaign_id == campaign_id)
    if session_id is not None:
        session_id = checks.identifier(session_id, "session")
        find(connection, sessions, "session", campaign_id, session_id)
        query = query.where(events.c.session_id == session_id)
    if type is not None:
        query = query.where(events.c.type == checks.name(type, "event type"))
    if start is not None:
        query = query.where(events.c.seq < start if newest_first else events.c.seq > start)
    query = query.order_by(events.c.seq.desc() if newest_first else events.c.seq)
    return cut(connection, query, size, "seq", _read)


def first_break(connection: Connection, campaign_id: str) -> int | None:
    """Return the number of the first event that was changed, removed or inserted; None if all are intact."""
    campaign = find_campaign(connection, checks.identifier(campaign_id, "campaign"))
    chain, seq = Chain(), 0
    while True:
        query = select(events).where(events.c.campaign_id == campaign.id, events.c.seq > seq)
        rows = connection.execute(query.order_by(events.c.seq).limit(limits.TABLE_LARGEST_PAGE)).all()
        for row in rows:
            if row.seq != seq + 1 or not _holds(chain, row):
                return seq + 1
            seq = row.seq
        if not rows:
            break
    is_whole = seq == campaign.event_count and chain.head == campaign.event_hash
    return None if is_whole else min(seq, campaign.event_count) + 1


def _holds(chain: Chain, row: Row[Any]) -> bool:
    try:
        return chain.holds(_read(row).told())
    except (msgspec.DecodeError, InvalidParams, ValueError, OverflowError):
        return False


def _chain(
    campaign_id: str, seq: int, type: str, session_id: str | None, data: dict[str, Any], previous_hash: str
) -> Event:
    at = as_time(now())
    record = {
        "campaign_id": campaign_id,
        "seq": seq,
        "type": type,
        "session_id": session_id,
        "created_at": at.isoformat().replace("+00:00", "Z"),
        "data": data,
    }
    try:
        entry = link(record, previous_hash)
    except InvalidParams as error:
        raise InvalidArgument(f"event data must be JSON that everybody reads alike: {error.message}") from error
    return Event(**{**entry, "created_at": at})


def _insert(connection: Connection, event: Event) -> None:
    values = msgspec.structs.asdict(event)
    values["created_at"] = int(event.created_at.timestamp())
    values["data"] = msgspec.json.encode(event.data).decode()
    add_row(connection, events, values)


def _read(row: Row[Any]) -> Event:
    values = dict(row._mapping)
    values["created_at"] = as_time(row.created_at)
    values["data"] = msgspec.json.decode(row.data)
    return Event(**values)
