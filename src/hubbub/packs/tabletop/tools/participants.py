"""Tools for the participants of a campaign."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.model import Controller, PageRequest, Participant, ParticipantChange, Role
from hubbub.packs.tabletop.table import (
    ACTORS_CHANGED,
    PARTICIPANTS_CHANGED,
    PARTICIPANTS_COUNTED,
    CampaignId,
    ContextId,
    PageSize,
    PageToken,
    Table,
)


class ParticipantPage(msgspec.Struct, frozen=True):
    """Some participants, in the order in which they joined."""

    participants: tuple[Participant, ...]
    next_page_token: str | UnsetType = UNSET


def register(table: Table) -> None:
    """Register the tools."""
    backend, campaign_of = table.backend, table.contexts.campaign

    @table.writes
    async def participant_create(
        *,
        campaign_id: CampaignId = None,
        display_name: str,
        role: Role,
        controller: Controller | None = None,
        context_id: ContextId = None,
        context: Context,
    ) -> Participant:
        """Add a participant, game master or player, to a campaign.

        Args:
            display_name: What everybody calls them.
            role: What they do at the table.
            controller: Who is behind them; HUMAN if left out.
        """
        campaign = campaign_of(context.scope, campaign_id, context_id)
        made = await backend.create_participant(campaign, display_name, role, controller or Controller.HUMAN)
        table.changed(PARTICIPANTS_COUNTED, made.campaign_id)
        return made

    @table.reads
    async def participant_get(
        *,
        campaign_id: CampaignId = None,
        participant_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Participant:
        """Get a participant of a campaign."""
        return await backend.get_participant(campaign_of(context.scope, campaign_id, context_id), participant_id)

    @table.reads
    async def participant_list(
        *,
        campaign_id: CampaignId = None,
        page_size: PageSize = 0,
        page_token: PageToken = "",
        context_id: ContextId = None,
        context: Context,
    ) -> ParticipantPage:
        """List the participants of a campaign, in the order in which they joined."""
        campaign = campaign_of(context.scope, campaign_id, context_id)
        page = await backend.list_participants(campaign, PageRequest(page_size, page_token))
        return ParticipantPage(page.items, page.next_page_token or UNSET)

    @table.overwrites
    async def participant_update(
        *,
        campaign_id: CampaignId = None,
        participant_id: str,
        display_name: str | None = None,
        role: Role | None = None,
        controller: Controller | None = None,
        context_id: ContextId = None,
        context: Context,
    ) -> Participant:
        """Change a participant; what is left out stays as it is.

        Args:
            display_name: What everybody calls them from now on.
            role: What they do at the table from now on.
            controller: Who is behind them from now on.
        """
        change = ParticipantChange(display_name=display_name, role=role, controller=controller)
        campaign = campaign_of(context.scope, campaign_id, context_id)
        changed = await backend.update_participant(campaign, participant_id, change)
        table.changed(PARTICIPANTS_CHANGED, changed.campaign_id)
        return changed

    @table.destroys
    async def participant_delete(
        *,
        campaign_id: CampaignId = None,
        participant_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Participant:
        """Remove a participant from a campaign; whom they controlled, nobody controls any more. Tells who it was."""
        gone = await backend.delete_participant(campaign_of(context.scope, campaign_id, context_id), participant_id)
        table.changed((*PARTICIPANTS_COUNTED, *ACTORS_CHANGED), gone.campaign_id)
        return gone
