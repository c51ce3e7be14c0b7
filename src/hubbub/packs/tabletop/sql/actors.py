"""Actors in the database, and who controls them."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Final

from hubbub.pack.store import Connection, delete, insert, select
from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import (
    FIRST_PAGE,
    GM_CONTROL,
    Actor,
    ActorChange,
    ActorKind,
    Control,
    Page,
    PageRequest,
)
from hubbub.packs.tabletop.sql import events
from hubbub.packs.tabletop.sql.members import Members
from hubbub.packs.tabletop.sql.records import find_campaign, find_row
from hubbub.packs.tabletop.sql.tables import actors, controls, participants

_MEMBERS: Final = Members(
    Actor,
    actors,
    "actor",
    id_prefix="actor",
    validators={
        "name": partial(checks.validate_name, what="actor name"),
        "kind": attrgetter("value"),
        "notes": lambda notes: checks.validate_long_text(notes.strip(), "notes"),
    },
)


def create(connection: Connection, campaign_id: str, name: str, kind: ActorKind, notes: str = "") -> Actor:
    """Add an actor."""
    return _MEMBERS.add(connection, campaign_id, name=name, kind=kind, notes=notes)


def get(connection: Connection, campaign_id: str, actor_id: str) -> Actor:
    """Return one actor."""
    return _MEMBERS.get(connection, campaign_id, actor_id)


def page(connection: Connection, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Actor]:
    """Return one page of actors, in order."""
    return _MEMBERS.page(connection, campaign_id, page)


def change(connection: Connection, campaign_id: str, actor_id: str, change: ActorChange) -> Actor:
    """Change the fields that are not None."""
    return _MEMBERS.change(connection, campaign_id, actor_id, change)


def remove(connection: Connection, campaign_id: str, actor_id: str) -> Actor:
    """Remove an actor; the database clears who controlled it."""
    return _MEMBERS.remove(connection, campaign_id, actor_id)


def set_control(connection: Connection, campaign_id: str, actor_id: str, controller: str) -> Control:
    """Set who controls an actor."""
    campaign_id = checks.validate_id(campaign_id, "campaign")
    campaign = find_campaign(connection, campaign_id, for_update=True)
    row = _MEMBERS.find(connection, campaign_id, actor_id)
    participant_id = _find_participant(connection, campaign_id, controller)
    # Delete and insert, because PostgreSQL and SQLite have different syntax for an upsert.
    connection.execute(delete(controls).where(controls.c.actor_id == row.id))
    connection.execute(
        insert(controls).values(
            actor_id=row.id,
            campaign_id=campaign_id,
            is_gm=int(participant_id is None),
            participant_id=participant_id,
        )
    )
    new_controller = participant_id or GM_CONTROL
    events.write(connection, campaign, "actor.control_set", {"actor_id": row.id, "controller": new_controller})
    return Control(campaign_id=campaign_id, actor_id=row.id, controller=new_controller)


def get_control(connection: Connection, campaign_id: str, actor_id: str) -> Control:
    """Return who controls an actor; `controller` is None if that was never set."""
    row = _MEMBERS.find(connection, campaign_id, actor_id)
    found = connection.execute(select(controls).where(controls.c.actor_id == row.id)).first()
    controller = None if found is None else found.participant_id or GM_CONTROL
    return Control(campaign_id=row.campaign_id, actor_id=row.id, controller=controller)


def _find_participant(connection: Connection, campaign_id: str, controller: str) -> str | None:
    """Return the participant's id; None for the GM."""
    controller = controller.strip()
    if not controller:
        raise InvalidArgument("controller is required: GM, or the id of a participant")
    if controller.upper() == GM_CONTROL:
        return None
    participant_id = checks.validate_id(controller, "participant")
    find_row(connection, participants, "participant", campaign_id, participant_id)
    return participant_id
