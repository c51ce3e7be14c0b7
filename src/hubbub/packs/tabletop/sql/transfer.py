"""Whole campaigns out of the database and into it, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from msgspec import UNSET

from hubbub import bounds
from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.failures import FailedPrecondition
from hubbub.packs.tabletop.model import GM_CONTROL, Campaign, Control, Page, PageRequest
from hubbub.packs.tabletop.sql import actors as actor_rows
from hubbub.packs.tabletop.sql import campaigns as campaign_rows
from hubbub.packs.tabletop.sql import events as event_rows
from hubbub.packs.tabletop.sql import sessions as session_rows
from hubbub.packs.tabletop.sql.tables import actors, campaigns, controls, participants, sessions
from hubbub.packs.tabletop.transfer import CampaignDocument, check_document
from hubbub.store.sql import Connection, insert, select

T = TypeVar("T")


def take_out(connection: Connection, campaign_id: str, with_events: bool) -> CampaignDocument:
    """Everything about a campaign."""
    campaign = campaign_rows.get(connection, campaign_id)

    def events(page: PageRequest) -> Page[Any]:
        return event_rows.page(connection, campaign.id, page, session_id=None, type=None, newest_first=False)

    return CampaignDocument(
        campaign=campaign,
        participants=_all(lambda page: campaign_rows.page_of_participants(connection, campaign.id, page)),
        actors=_all(lambda page: actor_rows.page(connection, campaign.id, page)),
        controls=_controls(connection, campaign.id),
        sessions=_all(lambda page: session_rows.page(connection, campaign.id, page)),
        events=_all(events) if with_events else (),
    )


def _all(fetch: Callable[[PageRequest], Page[T]]) -> tuple[T, ...]:
    found: list[T] = []
    token = ""
    while True:
        page = fetch(PageRequest(bounds.TABLE_LARGEST_PAGE, token))
        found += page.items
        token = page.next_page_token
        if not token:
            return tuple(found)


def _controls(connection: Connection, campaign_id: str) -> tuple[Control, ...]:
    query = select(controls).join(actors, actors.c.id == controls.c.actor_id)
    rows = connection.execute(query.where(controls.c.campaign_id == campaign_id).order_by(actors.c.position))
    return tuple(
        Control(
            campaign_id=campaign_id, actor_id=row.actor_id, controller=GM_CONTROL if row.is_gm else row.participant_id
        )
        for row in rows
    )


def put_in(connection: Connection, document: CampaignDocument) -> Campaign:
    """Make the campaign of a document, under its own ids."""
    check_document(document)
    campaign = document.campaign
    known = connection.execute(select(campaigns.c.id).where(campaigns.c.id == campaign.id)).first()
    if known is not None:
        raise FailedPrecondition(f"campaign {campaign.id} is here already")
    told = {
        "events": len(document.events),
        "participants": len(document.participants),
        "actors": len(document.actors),
        "sessions": len(document.sessions),
    }
    event_rows.write_imported(connection, _campaign_values(document), document.events, told)
    _insert_all(connection, document)
    return campaign_rows.get(connection, campaign.id)


def _campaign_values(document: CampaignDocument) -> dict[str, Any]:
    campaign = document.campaign
    return {
        "id": campaign.id,
        "name": checks.name(campaign.name, "campaign name"),
        "gm_mode": campaign.gm_mode.value,
        "theme_prompt": campaign.theme_prompt,
        "participant_count": len(document.participants),
        "actor_count": len(document.actors),
        "created_at": _seconds(campaign.created_at),
        "updated_at": _seconds(campaign.updated_at),
    }


def _insert_all(connection: Connection, document: CampaignDocument) -> None:
    # One by one: their positions must follow their order.
    for participant in document.participants:
        values = {
            "id": participant.id,
            "display_name": checks.name(participant.display_name, "display name"),
            "role": participant.role.value,
            "controller": participant.controller.value,
        }
        connection.execute(insert(participants).values(**values, **_kept(participant)))
    for actor in document.actors:
        values = {
            "id": actor.id,
            "name": checks.name(actor.name, "actor name"),
            "kind": actor.kind.value,
            "notes": actor.notes,
        }
        connection.execute(insert(actors).values(**values, **_kept(actor)))
    for control in document.controls:
        is_gm = control.controller == GM_CONTROL
        connection.execute(
            insert(controls).values(
                actor_id=control.actor_id,
                campaign_id=control.campaign_id,
                is_gm=int(is_gm),
                participant_id=None if is_gm else control.controller,
            )
        )
    for session in document.sessions:
        connection.execute(
            insert(sessions).values(
                id=session.id,
                campaign_id=session.campaign_id,
                name=checks.optional_name(session.name, "session name"),
                status=session.status.value,
                started_at=_seconds(session.started_at),
                updated_at=_seconds(session.updated_at),
                ended_at=None if session.ended_at is UNSET else _seconds(session.ended_at),
            )
        )


def _kept(record: Any) -> dict[str, Any]:
    """What participants and actors have in common."""
    return {
        "campaign_id": record.campaign_id,
        "created_at": _seconds(record.created_at),
        "updated_at": _seconds(record.updated_at),
    }


def _seconds(time: datetime) -> int:
    return int(time.timestamp())
