"""Campaigns and participants in the database."""

from __future__ import annotations

from typing import Any

from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.model import (
    Campaign,
    Controller,
    GmMode,
    Page,
    PageRequest,
    Participant,
    ParticipantChange,
    Role,
)
from hubbub.packs.tabletop.sql import events
from hubbub.packs.tabletop.sql.finding import as_time, find, find_campaign, new_id, now, page_of
from hubbub.packs.tabletop.sql.tables import campaigns, participants
from hubbub.store.sql import Connection, Row, add_row, delete, update


def create(connection: Connection, name: str, gm_mode: GmMode, theme_prompt: str) -> Campaign:
    """Make a campaign."""
    at = now()
    values = {
        "id": new_id("camp"),
        "name": checks.name(name, "campaign name"),
        "gm_mode": gm_mode.value,
        "theme_prompt": checks.prose(theme_prompt, "theme prompt"),
        "participant_count": 0,
        "actor_count": 0,
        "created_at": at,
        "updated_at": at,
    }
    told = {key: values[key] for key in ("name", "gm_mode", "theme_prompt")}
    events.write_first(connection, values, "campaign.created", told)
    return _campaign(values)


def get(connection: Connection, campaign_id: str) -> Campaign:
    """One campaign."""
    return _campaign(find_campaign(connection, checks.identifier(campaign_id, "campaign"))._mapping)


def page(connection: Connection, request: PageRequest) -> Page[Campaign]:
    """Campaigns in order."""
    return page_of(connection, campaigns, request, lambda row: _campaign(row._mapping))


def _campaign(values: Any) -> Campaign:
    return Campaign(
        id=values["id"],
        name=values["name"],
        gm_mode=GmMode(values["gm_mode"]),
        participant_count=values["participant_count"],
        actor_count=values["actor_count"],
        theme_prompt=values["theme_prompt"],
        created_at=as_time(values["created_at"]),
        updated_at=as_time(values["updated_at"]),
    )


# -- participants ------------------------------------------------------------------


def add_participant(
    connection: Connection, campaign_id: str, display_name: str, role: Role, controller: Controller
) -> Participant:
    """Somebody joins."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    told = {
        "display_name": checks.name(display_name, "display name"),
        "role": role.value,
        "controller": controller.value,
    }
    campaign = find_campaign(connection, campaign_id, to_change=True)
    at = now()
    values = {"id": new_id("part"), "campaign_id": campaign_id, **told, "created_at": at, "updated_at": at}
    add_row(connection, participants, values)
    data = {"participant_id": values["id"], **told}
    count = campaign.participant_count + 1
    events.write(connection, campaign, "participant.created", data, participant_count=count, updated_at=at)
    return _participant(values)


def get_participant(connection: Connection, campaign_id: str, participant_id: str) -> Participant:
    """One participant."""
    return _participant(_find_participant(connection, campaign_id, participant_id)._mapping)


def page_of_participants(connection: Connection, campaign_id: str, request: PageRequest) -> Page[Participant]:
    """Participants in order."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    find_campaign(connection, campaign_id)
    return page_of(
        connection,
        participants,
        request,
        lambda row: _participant(row._mapping),
        participants.c.campaign_id == campaign_id,
    )


def change_participant(
    connection: Connection, campaign_id: str, participant_id: str, change: ParticipantChange
) -> Participant:
    """Change what is given."""
    changes: dict[str, Any] = {}
    if change.display_name is not None:
        changes["display_name"] = checks.name(change.display_name, "display name")
    if change.role is not None:
        changes["role"] = change.role.value
    if change.controller is not None:
        changes["controller"] = change.controller.value
    if not changes:
        raise InvalidArgument("nothing to change: give display_name, role or controller")
    campaign_id = checks.identifier(campaign_id, "campaign")
    campaign = find_campaign(connection, campaign_id, to_change=True)
    row = _find_participant(connection, campaign_id, participant_id)
    updated = {**row._mapping, **changes, "updated_at": now()}
    connection.execute(
        update(participants).where(participants.c.id == row.id).values(**changes, updated_at=updated["updated_at"])
    )
    events.write(connection, campaign, "participant.updated", {"participant_id": row.id, **changes})
    return _participant(updated)


def remove_participant(connection: Connection, campaign_id: str, participant_id: str) -> Participant:
    """Somebody leaves; the database lets go of whom they controlled."""
    campaign_id = checks.identifier(campaign_id, "campaign")
    campaign = find_campaign(connection, campaign_id, to_change=True)
    row = _find_participant(connection, campaign_id, participant_id)
    connection.execute(delete(participants).where(participants.c.id == row.id))
    data = {"participant_id": row.id, "display_name": row.display_name}
    count = campaign.participant_count - 1
    events.write(connection, campaign, "participant.deleted", data, participant_count=count, updated_at=now())
    return _participant(row._mapping)


def _find_participant(connection: Connection, campaign_id: str, participant_id: str) -> Row[Any]:
    campaign_id = checks.identifier(campaign_id, "campaign")
    participant_id = checks.identifier(participant_id, "participant")
    return find(connection, participants, "participant", campaign_id, participant_id)


def _participant(values: Any) -> Participant:
    return Participant(
        id=values["id"],
        campaign_id=values["campaign_id"],
        display_name=values["display_name"],
        role=Role(values["role"]),
        controller=Controller(values["controller"]),
        created_at=as_time(values["created_at"]),
        updated_at=as_time(values["updated_at"]),
    )
