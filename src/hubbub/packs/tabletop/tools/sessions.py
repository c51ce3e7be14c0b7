"""Tools for the sessions of a campaign and its events."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.model import Event, PageRequest, Session
from hubbub.packs.tabletop.table import SESSIONS_CHANGED, CampaignId, ContextId, PageSize, PageToken, SessionId, Table


class SessionPage(msgspec.Struct, frozen=True):
    """Some sessions, the oldest first."""

    sessions: tuple[Session, ...]
    next_page_token: str | UnsetType = UNSET


class EventPage(msgspec.Struct, frozen=True):
    """Some events, in the order that was asked for."""

    events: tuple[Event, ...]
    next_page_token: str | UnsetType = UNSET


class EventsVerified(msgspec.Struct, frozen=True):
    """Whether a campaign's events are all as they were written."""

    campaign_id: str
    is_whole: bool
    first_broken: int | UnsetType = UNSET
    """Number of the first event that was modified or is missing."""


def register(table: Table) -> None:
    """Register the tools."""
    _register_sessions(table)
    _register_events(table)


def _register_sessions(table: Table) -> None:
    backend, contexts = table.backend, table.contexts

    @table.writes
    async def session_start(
        *,
        campaign_id: CampaignId = None,
        name: str = "",
        context_id: ContextId = None,
        context: Context,
    ) -> Session:
        """Start a session of a campaign. At most one session of a campaign is ACTIVE.

        Args:
            name: What the evening is called.
        """
        started = await backend.start_session(contexts.campaign(context.scope, campaign_id, context_id), name)
        table.changed(SESSIONS_CHANGED, started.campaign_id)
        return started

    @table.writes
    async def session_end(
        *,
        campaign_id: CampaignId = None,
        session_id: SessionId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> Session:
        """End a session: the one named, else that of the context, else the active one of the campaign."""
        ended = await backend.end_session(*contexts.session(context.scope, campaign_id, session_id, context_id))
        table.changed(SESSIONS_CHANGED, ended.campaign_id)
        if contexts.forget_session(context.scope, ended.id):
            table.context_changed(context.scope)
        return ended

    @table.reads
    async def session_list(
        *,
        campaign_id: CampaignId = None,
        page_size: PageSize = 0,
        page_token: PageToken = "",
        context_id: ContextId = None,
        context: Context,
    ) -> SessionPage:
        """List the sessions of a campaign, the oldest first."""
        campaign = contexts.campaign(context.scope, campaign_id, context_id)
        page = await backend.list_sessions(campaign, PageRequest(page_size, page_token))
        return SessionPage(page.items, page.next_page_token or UNSET)


def _register_events(table: Table) -> None:
    backend, contexts = table.backend, table.contexts

    @table.reads
    async def events_list(
        *,
        campaign_id: CampaignId = None,
        session_id: str | None = None,
        type: str | None = None,
        newest_first: bool = False,
        page_size: PageSize = 0,
        page_token: PageToken = "",
        context_id: ContextId = None,
        context: Context,
    ) -> EventPage:
        """List what happened in a campaign: every change, and every roll that was made in it.

        Args:
            session_id: Only what happened in this session; all sessions if left out.
            type: Only events of this type, such as roll.action.
            newest_first: Begin with the latest.
        """
        page = await backend.list_events(
            contexts.campaign(context.scope, campaign_id, context_id),
            PageRequest(page_size, page_token),
            session_id=session_id,
            type=type,
            newest_first=newest_first,
        )
        return EventPage(page.items, page.next_page_token or UNSET)

    @table.reads
    async def events_verify(
        *,
        campaign_id: CampaignId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> EventsVerified:
        """Check the hashes of a campaign's events: whether any was changed, left out or added afterwards."""
        campaign = contexts.campaign(context.scope, campaign_id, context_id)
        broken = await backend.verify_events(campaign)
        return EventsVerified(campaign, broken is None, UNSET if broken is None else broken)
