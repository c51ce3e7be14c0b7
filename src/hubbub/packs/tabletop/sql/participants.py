"""Participants in the database."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Final

from hubbub.pack.store import Connection
from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.model import FIRST_PAGE, Controller, Page, PageRequest, Participant, ParticipantChange, Role
from hubbub.packs.tabletop.sql.members import Members
from hubbub.packs.tabletop.sql.tables import participants

_MEMBERS: Final = Members(
    Participant,
    participants,
    "participant",
    id_prefix="part",
    validators={
        "display_name": partial(checks.validate_name, what="display name"),
        "role": attrgetter("value"),
        "controller": attrgetter("value"),
    },
)


def create(
    connection: Connection,
    campaign_id: str,
    display_name: str,
    role: Role,
    controller: Controller = Controller.HUMAN,
) -> Participant:
    """Add a participant."""
    return _MEMBERS.add(connection, campaign_id, display_name=display_name, role=role, controller=controller)


def get(connection: Connection, campaign_id: str, participant_id: str) -> Participant:
    """Return one participant."""
    return _MEMBERS.get(connection, campaign_id, participant_id)


def page(connection: Connection, campaign_id: str, page: PageRequest = FIRST_PAGE) -> Page[Participant]:
    """Return one page of participants, in order."""
    return _MEMBERS.page(connection, campaign_id, page)


def change(connection: Connection, campaign_id: str, participant_id: str, change: ParticipantChange) -> Participant:
    """Change the fields that are not None."""
    return _MEMBERS.change(connection, campaign_id, participant_id, change)


def remove(connection: Connection, campaign_id: str, participant_id: str) -> Participant:
    """Remove a participant; the database clears the control of their actors."""
    return _MEMBERS.remove(connection, campaign_id, participant_id)
