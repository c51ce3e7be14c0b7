"""Actors in the database, and who controls them."""

from __future__ import annotations

from typing import Any

from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import GM_CONTROL, Actor, ActorChange, ActorKind, Control, Page, PageRequest
from hubbub.packs.tabletop.sql import events
from hubbub.packs.tabletop.sql.finding import as_time, find, find_campaign, new_id, now, page_of
from hubbub.packs.tabletop.sql.tables import actors, controls, participants
from hubbub.store.sql import Connection, Row, add_row, delete, insert, select, update


def create(connection: Connection, campaign_id: str, name: str, kind: ActorKind, notes: str) -> Actor:
    """A new character."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    told = {
        "name": checks.name(name, "actor name"),
        "kind": kind.value,
        "notes": checks.prose(notes.strip(), "notes"),
    }
    campaign = find_campaign(connection, campaign_id, to_change=True)
    at = now()
    values = {"id": new_id("actor"), "campaign_id": campaign_id, **told, "created_at": at, "updated_at": at}
    add_row(connection, actors, values)
    data = {"actor_id": values["id"], **told}
    count = campaign.actor_count + 1
    events.write(connection, campaign, "actor.created", data, actor_count=count, updated_at=at)
    return _actor(values)


def get(connection: Connection, campaign_id: str, actor_id: str) -> Actor:
    """One actor."""
    return _actor(_find(connection, campaign_id, actor_id)._mapping)


def page(connection: Connection, campaign_id: str, request: PageRequest) -> Page[Actor]:
    """Actors in order."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    find_campaign(connection, campaign_id)
    return page_of(connection, actors, request, lambda row: _actor(row._mapping), actors.c.campaign_id == campaign_id)


def change(connection: Connection, campaign_id: str, actor_id: str, wanted: ActorChange) -> Actor:
    """Change what is given."""
    changes: dict[str, Any] = {}
    if wanted.name is not None:
        changes["name"] = checks.name(wanted.name, "actor name")
    if wanted.kind is not None:
        changes["kind"] = wanted.kind.value
    if wanted.notes is not None:
        changes["notes"] = checks.prose(wanted.notes.strip(), "notes")
    if not changes:
        raise InvalidArgument("nothing to change: give name, kind or notes")
    campaign_id = checks.identifier(campaign_id, "campaign")
    campaign = find_campaign(connection, campaign_id, to_change=True)
    row = _find(connection, campaign_id, actor_id)
    updated = {**row._mapping, **changes, "updated_at": now()}
    connection.execute(update(actors).where(actors.c.id == row.id).values(**changes, updated_at=updated["updated_at"]))
    events.write(connection, campaign, "actor.updated", {"actor_id": row.id, **changes})
    return _actor(updated)


def remove(connection: Connection, campaign_id: str, actor_id: str) -> Actor:
    """Take one out of the campaign; the database forgets who controlled it."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    campaign = find_campaign(connection, campaign_id, to_change=True)
    row = _find(connection, campaign_id, actor_id)
    connection.execute(delete(actors).where(actors.c.id == row.id))
    data = {"actor_id": row.id, "name": row.name}
    count = campaign.actor_count - 1
    events.write(connection, campaign, "actor.deleted", data, actor_count=count, updated_at=now())
    return _actor(row._mapping)


def set_control(connection: Connection, campaign_id: str, actor_id: str, controller: str) -> Control:
    """Name who controls an actor."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    campaign = find_campaign(connection, campaign_id, to_change=True)
    row = _find(connection, campaign_id, actor_id)
    participant_id = _participant_of(connection, campaign_id, controller)
    # In order to overwrite without asking first what is there: PostgreSQL and SQLite spell that differently.
    connection.execute(delete(controls).where(controls.c.actor_id == row.id))
    connection.execute(
        insert(controls).values(
            actor_id=row.id,
            campaign_id=campaign_id,
            is_gm=int(participant_id is None),
            participant_id=participant_id,
        )
    )
    told = participant_id or GM_CONTROL
    events.write(connection, campaign, "actor.control_set", {"actor_id": row.id, "controller": told})
    return Control(campaign_id=campaign_id, actor_id=row.id, controller=told)


def get_control(connection: Connection, campaign_id: str, actor_id: str) -> Control:
    """Who controls an actor, if anybody was named."""
    row = _find(connection, campaign_id, actor_id)
    found = connection.execute(select(controls).where(controls.c.actor_id == row.id)).first()
    controller = None if found is None else found.participant_id or GM_CONTROL
    return Control(campaign_id=row.campaign_id, actor_id=row.id, controller=controller)


def _participant_of(connection: Connection, campaign_id: str, controller: str) -> str | None:
    """The participant's id; None for the GM."""
    controller = controller.strip()
    if not controller:
        raise InvalidArgument("controller is required: GM, or the id of a participant")
    if controller.upper() == GM_CONTROL:
        return None
    participant_id = checks.identifier(controller, "participant")
    find(connection, participants, "participant", campaign_id, participant_id)
    return participant_id


def _find(connection: Connection, campaign_id: str, actor_id: str) -> Row[Any]:
    campaign_id = checks.identifier(campaign_id, "campaign")
    return find(connection, actors, "actor", campaign_id, checks.identifier(actor_id, "actor"))


def _actor(values: Any) -> Actor:
    return Actor(
        id=values["id"],
        campaign_id=values["campaign_id"],
        name=values["name"],
        kind=ActorKind(values["kind"]),
        notes=values["notes"],
        created_at=as_time(values["created_at"]),
        updated_at=as_time(values["updated_at"]),
    )
