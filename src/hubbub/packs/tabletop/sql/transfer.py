"""Export and import whole campaigns, each in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hubbub.pack.store import Connection, add_row, insert, select
from hubbub.packs.tabletop import checks, limits
from hubbub.packs.tabletop.campaign_document import CampaignDocument, check_document
from hubbub.packs.tabletop.failures import FailedPrecondition
from hubbub.packs.tabletop.model import GM_CONTROL, Campaign, Control, Page, PageRequest
from hubbub.packs.tabletop.sql import actors as actor_rows
from hubbub.packs.tabletop.sql import campaigns as campaign_rows
from hubbub.packs.tabletop.sql import events as event_rows
from hubbub.packs.tabletop.sql import participants as participant_rows
from hubbub.packs.tabletop.sql import sessions as session_rows
from hubbub.packs.tabletop.sql.records import write_record
from hubbub.packs.tabletop.sql.tables import actors, campaigns, controls, participants, sessions

T = TypeVar("T")


def export_campaign(connection: Connection, campaign_id: str, *, without_events: bool = False) -> CampaignDocument:
    """Return a whole campaign as a document."""
    campaign = campaign_rows.get(connection, campaign_id)

    return CampaignDocument(
        campaign=campaign,
        participants=_fetch_all(lambda page: participant_rows.page(connection, campaign.id, page)),
        actors=_fetch_all(lambda page: actor_rows.page(connection, campaign.id, page)),
        controls=_controls(connection, campaign.id),
        sessions=_fetch_all(lambda page: session_rows.page(connection, campaign.id, page)),
        events=() if without_events else _fetch_all(lambda page: event_rows.page(connection, campaign.id, page)),
    )


def _fetch_all(fetch: Callable[[PageRequest], Page[T]]) -> tuple[T, ...]:
    found: list[T] = []
    token = ""
    while True:
        page = fetch(PageRequest(limits.MAX_PAGE_SIZE, token))
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


def import_campaign(connection: Connection, document: CampaignDocument) -> Campaign:
    """Create the campaign of a document, under its own ids."""
    check_document(document)
    campaign = document.campaign
    existing = connection.execute(select(campaigns.c.id).where(campaigns.c.id == campaign.id)).first()
    if existing is not None:
        raise FailedPrecondition(f"campaign {campaign.id} already exists on this server")
    counts = {
        "events": len(document.events),
        "participants": len(document.participants),
        "actors": len(document.actors),
        "sessions": len(document.sessions),
    }
    event_rows.insert_imported_campaign(connection, _campaign_values(document), document.events, counts)
    _insert_all(connection, document)
    return campaign_rows.get(connection, campaign.id)


def _campaign_values(document: CampaignDocument) -> dict[str, Any]:
    return {
        **write_record(document.campaign),
        "name": checks.validate_name(document.campaign.name, "campaign name"),
        "participant_count": len(document.participants),
        "actor_count": len(document.actors),
    }


def _insert_all(connection: Connection, document: CampaignDocument) -> None:
    # One by one: their positions must follow their order.
    for participant in document.participants:
        name = checks.validate_name(participant.display_name, "display name")
        add_row(connection, participants, {**write_record(participant), "display_name": name})
    for actor in document.actors:
        name = checks.validate_name(actor.name, "actor name")
        add_row(connection, actors, {**write_record(actor), "name": name})
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
        name = checks.validate_optional_name(session.name, "session name")
        add_row(connection, sessions, {**write_record(session), "name": name})
