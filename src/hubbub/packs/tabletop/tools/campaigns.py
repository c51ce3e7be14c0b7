"""Tools to create and find campaigns."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.model import Campaign, GmMode, PageRequest
from hubbub.packs.tabletop.table import CAMPAIGN_CHANGED, CampaignId, ContextId, PageSize, PageToken, Table


class CampaignCreated(msgspec.Struct, frozen=True):
    """A campaign without its times, as the contract shows it."""

    id: str
    name: str
    gm_mode: GmMode
    participant_count: int
    actor_count: int
    theme_prompt: str


class CampaignPage(msgspec.Struct, frozen=True):
    """Some campaigns, the oldest first."""

    campaigns: tuple[Campaign, ...]
    next_page_token: str | UnsetType = UNSET


def register(table: Table) -> None:
    """Register the tools."""
    backend = table.backend

    @table.writes
    async def campaign_create(*, name: str, gm_mode: GmMode, theme_prompt: str = "") -> CampaignCreated:
        """Create a campaign.

        Args:
            name: What it is called.
            gm_mode: Who is the game master.
            theme_prompt: What it is about, in a few sentences.
        """
        made = await backend.create_campaign(name, gm_mode, theme_prompt)
        table.changed(CAMPAIGN_CHANGED, made.id)
        return CampaignCreated(
            made.id, made.name, made.gm_mode, made.participant_count, made.actor_count, made.theme_prompt
        )

    @table.reads
    async def campaign_get(
        *,
        campaign_id: CampaignId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> Campaign:
        """Get a campaign."""
        return await backend.get_campaign(table.contexts.campaign(context.scope, campaign_id, context_id))

    @table.reads
    async def campaign_list(*, page_size: PageSize = 0, page_token: PageToken = "") -> CampaignPage:
        """List campaigns, the oldest first."""
        page = await backend.list_campaigns(PageRequest(page_size, page_token))
        return CampaignPage(page.items, page.next_page_token or UNSET)
