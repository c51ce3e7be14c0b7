"""`set_context`: choose the campaign, session and participant of later calls."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.contexts import Choice
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.service import TabletopService


class ContextSet(msgspec.Struct, frozen=True):
    """The context of later calls."""

    context: Choice
    context_id: str | UnsetType = UNSET
    """Set if the server cannot identify the caller: the caller sends it with later calls."""


def register(service: TabletopService) -> None:
    """Register the tool."""

    @service.update_tool
    async def set_context(
        *,
        campaign_id: str,
        session_id: str | None = None,
        participant_id: str | None = None,
        context: Context,
    ) -> ContextSet:
        """Choose the campaign, and optionally the session and the participant, for the calls that follow.

        Later calls that omit campaign_id or session_id use these. Fields that are omitted here are
        cleared. The context is stored in memory and applies only to you. If the result has a
        context_id, pass it with every later call that should use the context.

        Args:
            campaign_id: The campaign; it must exist.
            session_id: A session of that campaign.
            participant_id: The participant of that campaign for whom you act.
        """
        choice = await _check_choice(service, campaign_id, session_id, participant_id)
        context_id = service.contexts.save(context.scope, choice, owner=context.caller.owner)
        service.notify_context_changed(context.scope)
        return ContextSet(choice, UNSET if context_id is None else context_id)


async def _check_choice(
    service: TabletopService, campaign_id: str, session_id: str | None, participant_id: str | None
) -> Choice:
    """Return the choice, if all of it exists and belongs to the campaign. Stores nothing."""
    ids = {"campaign_id": campaign_id, "session_id": session_id, "participant_id": participant_id}
    for name, value in ids.items():
        if value is not None and not value.strip():
            advice = "pass the id of a campaign" if name == "campaign_id" else "omit it instead"
            raise InvalidArgument(f"{name} must not be empty; {advice}")
    campaign = await service.backend.get_campaign(campaign_id)
    session = None if session_id is None else await service.backend.get_session(campaign.id, session_id)
    participant = None if participant_id is None else await service.backend.get_participant(campaign.id, participant_id)
    return Choice(
        campaign_id=campaign.id,
        session_id=UNSET if session is None else session.id,
        participant_id=UNSET if participant is None else participant.id,
    )
