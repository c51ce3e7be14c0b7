"""Participants: who sits at the table."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.addresses import ACTORS_CHANGED, PARTICIPANTS_CHANGED, PARTICIPANTS_COUNTED
from hubbub.packs.tabletop.arguments import CampaignId, ContextId, PageSize, PageToken
from hubbub.packs.tabletop.model import Controller, PageRequest, Participant, ParticipantChange, Role
from hubbub.packs.tabletop.table import Table
from hubbub.packs.tabletop.words import read_word


class ParticipantPage(msgspec.Struct, frozen=True):
    """Some participants, in the order in which they joined."""

    participants: tuple[Participant, ...]
    next_page_token: str | UnsetType = UNSET


def register(table: Table) -> None:
    """Put the tools on the server."""
    backend, campaign_of = table.backend, table.contexts.campaign

    @table.writes
    async def participant_create(
        *,
        campaign_id: CampaignId = None,
        display_name: str,
        role: str,
        controller: str | None = None,
        context_id: ContextId = None,
        context: Context,
    ) -> Participant:
        """Add a participant, game master or player, to a campaign.

        Args:
            display_name: What everybody calls them.
            role: GM or PLAYER.
            controller: Who is behind them: HUMAN (if left out) or AI.
        """
        words = read_word(Role, role, "role"), _controller(controller) or Controller.HUMAN
        made = await backend.create_participant(
            campaign_of(context.scope, campaign_id, context_id), display_name, *words
        )
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
        role: str | None = None,
        controller: str | None = None,
        context_id: ContextId = None,
        context: Context,
    ) -> Participant:
        """Change a participant; what is left out stays as it is.

        Args:
            display_name: What everybody calls them from now on.
            role: GM or PLAYER.
            controller: HUMAN or AI.
        """
        change = ParticipantChange(
            display_name=display_name,
            role=None if role is None else read_word(Role, role, "role"),
            controller=_controller(controller),
        )
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


def _controller(text: str | None) -> Controller | None:
    return None if text is None else read_word(Controller, text, "controller")
