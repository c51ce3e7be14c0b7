"""`set_context`: choose the campaign, session and participant of later calls."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.contexts import Choice
from hubbub.packs.tabletop.failures import InvalidArgument
from hubbub.packs.tabletop.table import Table


class ContextSet(msgspec.Struct, frozen=True):
    """What later calls are about."""

    context: Choice
    context_id: str | UnsetType = UNSET
    """Set if the server cannot recognise the caller again: the caller sends it with later calls."""


def register(table: Table) -> None:
    """Register the tool."""

    @table.overwrites
    async def set_context(
        *,
        campaign_id: str,
        session_id: str | None = None,
        participant_id: str | None = None,
        context: Context,
    ) -> ContextSet:
        """Choose the campaign, and optionally the session and the participant, for the calls that follow.

        Calls that leave campaign_id or session_id out are about these. What is left out here is
        cleared. The context is kept in memory, for you alone. If the result has a context_id,
        give it with every later call that is to use the context.

        Args:
            campaign_id: The campaign; it must exist.
            session_id: A session of that campaign.
            participant_id: A participant of that campaign: whom you act for.
        """
        choice = await _checked(table, campaign_id, session_id, participant_id)
        context_id = table.contexts.keep(context.scope, choice, owner=context.caller.owner)
        table.context_changed(context.scope)
        return ContextSet(choice, UNSET if context_id is None else context_id)


async def _checked(table: Table, campaign_id: str, session_id: str | None, participant_id: str | None) -> Choice:
    """Return the choice, if all of it exists and belongs to the campaign. Stores nothing."""
    given = {"campaign_id": campaign_id, "session_id": session_id, "participant_id": participant_id}
    for name, value in given.items():
        if value is not None and not value.strip():
            advice = "it is the id of a campaign" if name == "campaign_id" else "leave it out instead"
            raise InvalidArgument(f"{name} must not be empty; {advice}")
    campaign = await table.backend.get_campaign(campaign_id)
    session = None if session_id is None else await table.backend.get_session(campaign.id, session_id)
    participant = None if participant_id is None else await table.backend.get_participant(campaign.id, participant_id)
    return Choice(
        campaign_id=campaign.id,
        session_id=UNSET if session is None else session.id,
        participant_id=UNSET if participant is None else participant.id,
    )
