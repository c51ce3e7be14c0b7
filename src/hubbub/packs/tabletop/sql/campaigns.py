"""Campaigns in the database."""

from __future__ import annotations

from hubbub.pack.store import Connection
from hubbub.packs.tabletop import checks
from hubbub.packs.tabletop.model import FIRST_PAGE, Campaign, GmMode, Page, PageRequest
from hubbub.packs.tabletop.sql import events
from hubbub.packs.tabletop.sql.records import find_campaign, new_id, now, read_page, read_record
from hubbub.packs.tabletop.sql.tables import campaigns


def create(connection: Connection, name: str, gm_mode: GmMode, theme_prompt: str = "") -> Campaign:
    timestamp = now()
    values = {
        "id": new_id("camp"),
        "name": checks.validate_name(name, "campaign name"),
        "gm_mode": gm_mode.value,
        "theme_prompt": checks.validate_long_text(theme_prompt, "theme prompt"),
        "participant_count": 0,
        "actor_count": 0,
        "created_at": timestamp,
        "updated_at": timestamp,
    }
    event_data = {key: values[key] for key in ("name", "gm_mode", "theme_prompt")}
    events.insert_campaign(connection, values, "campaign.created", event_data)
    return read_record(Campaign, values)


def get(connection: Connection, campaign_id: str) -> Campaign:
    """Return one campaign."""
    return read_record(Campaign, find_campaign(connection, checks.validate_id(campaign_id, "campaign"))._mapping)


def page(connection: Connection, page: PageRequest = FIRST_PAGE) -> Page[Campaign]:
    """Return one page of campaigns, in order."""
    return read_page(connection, campaigns, page, Campaign)
