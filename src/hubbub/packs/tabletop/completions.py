"""Suggestions for the ids of campaigns, while somebody fills in an address or a prompt."""

from __future__ import annotations

from hubbub import bounds
from hubbub.packs.tabletop import addresses
from hubbub.packs.tabletop.backend import every
from hubbub.packs.tabletop.prompts import WITH_CAMPAIGN
from hubbub.packs.tabletop.table import Table


def register(table: Table) -> None:
    """Let the server complete every `campaign_id`."""

    async def campaign_ids(value: str) -> list[str]:
        """Campaigns whose id begins with what was typed, or whose name has it."""
        typed, found = value.strip().casefold(), list[str]()
        async for campaign in every(table.backend.list_campaigns, bounds.TABLE_LARGEST_PAGE):
            if campaign.id.casefold().startswith(typed) or typed in campaign.name.casefold():
                found.append(campaign.id)
                if len(found) > bounds.COMPLETION_VALUES:
                    break
        return found

    templates = (addresses.CAMPAIGN, addresses.PARTICIPANTS, addresses.ACTORS, addresses.SESSIONS)
    for reference in (*templates, *WITH_CAMPAIGN):
        table.server.completion(reference, "campaign_id")(campaign_ids)
