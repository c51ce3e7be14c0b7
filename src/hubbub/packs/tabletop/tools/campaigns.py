"""Tools to create and find campaigns."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.model import Campaign, GmMode, PageRequest
from hubbub.packs.tabletop.service import CAMPAIGN_CHANGED, CampaignId, ContextId, PageSize, PageToken, TabletopService


class CampaignCreated(msgspec.Struct, frozen=True):
    """A new campaign, without timestamps."""

    id: str
    name: str
    gm_mode: GmMode
    participant_count: int
    actor_count: int
    theme_prompt: str


class CampaignPage(msgspec.Struct, frozen=True):
    """One page of campaigns, oldest first."""

    campaigns: tuple[Campaign, ...]
    next_page_token: str | UnsetType = UNSET


def register(service: TabletopService) -> None:
    """Register the tools."""
    backend = service.backend

    @service.write_tool
    async def campaign_create(*, name: str, gm_mode: GmMode, theme_prompt: str = "") -> CampaignCreated:
        """Create a campaign.

        Args:
            name: The name of the campaign.
            gm_mode: Whether the game master is a person, an AI, or both.
            theme_prompt: The theme of the campaign, in a few sentences.
        """
        created = await backend.create_campaign(name, gm_mode, theme_prompt)
        service.notify_changed(CAMPAIGN_CHANGED, created.id)
        return CampaignCreated(
            created.id,
            created.name,
            created.gm_mode,
            created.participant_count,
            created.actor_count,
            created.theme_prompt,
        )

    @service.read_tool
    async def campaign_get(
        *,
        campaign_id: CampaignId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> Campaign:
        """Get a campaign."""
        return await backend.get_campaign(service.contexts.resolve_campaign_id(context.scope, campaign_id, context_id))

    @service.read_tool
    async def campaign_list(*, page_size: PageSize = 0, page_token: PageToken = "") -> CampaignPage:
        """List campaigns, oldest first."""
        page = await backend.list_campaigns(PageRequest(page_size, page_token))
        return CampaignPage(page.items, page.next_page_token or UNSET)
