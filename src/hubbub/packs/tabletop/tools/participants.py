"""Tools for the participants of a campaign."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.model import Controller, PageRequest, Participant, ParticipantChange, Role
from hubbub.packs.tabletop.service import (
    ACTORS_CHANGED,
    PARTICIPANT_COUNT_CHANGED,
    PARTICIPANTS_CHANGED,
    CampaignId,
    ContextId,
    PageSize,
    PageToken,
    TabletopService,
)


class ParticipantPage(msgspec.Struct, frozen=True):
    """One page of participants, in the order of creation."""

    participants: tuple[Participant, ...]
    next_page_token: str | UnsetType = UNSET


def register(service: TabletopService) -> None:
    """Register the tools."""
    backend, resolve_campaign = service.backend, service.contexts.resolve_campaign_id

    @service.write_tool
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
            display_name: The name that the others see.
            role: Game master or player.
            controller: Whether the participant is a person or an AI; HUMAN by default.
        """
        campaign = resolve_campaign(context.scope, campaign_id, context_id)
        created = await backend.create_participant(campaign, display_name, role, controller or Controller.HUMAN)
        service.notify_changed(PARTICIPANT_COUNT_CHANGED, created.campaign_id)
        return created

    @service.read_tool
    async def participant_get(
        *,
        campaign_id: CampaignId = None,
        participant_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Participant:
        """Get a participant of a campaign."""
        return await backend.get_participant(resolve_campaign(context.scope, campaign_id, context_id), participant_id)

    @service.read_tool
    async def participant_list(
        *,
        campaign_id: CampaignId = None,
        page_size: PageSize = 0,
        page_token: PageToken = "",
        context_id: ContextId = None,
        context: Context,
    ) -> ParticipantPage:
        """List the participants of a campaign, in the order of creation."""
        campaign = resolve_campaign(context.scope, campaign_id, context_id)
        page = await backend.list_participants(campaign, PageRequest(page_size, page_token))
        return ParticipantPage(page.items, page.next_page_token or UNSET)

    @service.update_tool
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
        """Change a participant; omitted fields stay unchanged.

        Args:
            display_name: The new name.
            role: The new role.
            controller: Whether the participant is now a person or an AI.
        """
        change = ParticipantChange(display_name=display_name, role=role, controller=controller)
        campaign = resolve_campaign(context.scope, campaign_id, context_id)
        changed = await backend.update_participant(campaign, participant_id, change)
        service.notify_changed(PARTICIPANTS_CHANGED, changed.campaign_id)
        return changed

    @service.delete_tool
    async def participant_delete(
        *,
        campaign_id: CampaignId = None,
        participant_id: str,
        context_id: ContextId = None,
        context: Context,
    ) -> Participant:
        """Delete a participant; their actors are left without a controller. Returns their last state."""
        deleted = await backend.delete_participant(
            resolve_campaign(context.scope, campaign_id, context_id), participant_id
        )
        service.notify_changed((*PARTICIPANT_COUNT_CHANGED, *ACTORS_CHANGED), deleted.campaign_id)
        return deleted
