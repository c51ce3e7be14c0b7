"""Tools for the sessions of a campaign and its events."""

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import Context
from hubbub.packs.tabletop.model import Event, PageRequest, Session
from hubbub.packs.tabletop.service import (
    SESSIONS_CHANGED,
    CampaignId,
    ContextId,
    PageSize,
    PageToken,
    SessionId,
    TabletopService,
)


class SessionPage(msgspec.Struct, frozen=True):
    """One page of sessions, oldest first."""

    sessions: tuple[Session, ...]
    next_page_token: str | UnsetType = UNSET


class EventPage(msgspec.Struct, frozen=True):
    """One page of events, in the requested order."""

    events: tuple[Event, ...]
    next_page_token: str | UnsetType = UNSET


class EventsVerified(msgspec.Struct, frozen=True):
    """Whether the events of a campaign are intact."""

    campaign_id: str
    is_whole: bool
    first_broken: int | UnsetType = UNSET
    """Number of the first event that was modified or is missing."""


def register(service: TabletopService) -> None:
    """Register the tools."""
    _register_sessions(service)
    _register_events(service)


def _register_sessions(service: TabletopService) -> None:
    backend, contexts = service.backend, service.contexts

    @service.write_tool
    async def session_start(
        *,
        campaign_id: CampaignId = None,
        name: str = "",
        context_id: ContextId = None,
        context: Context,
    ) -> Session:
        """Start a session of a campaign. At most one session of a campaign is ACTIVE.

        Args:
            name: The name of the session.
        """
        started = await backend.start_session(
            contexts.resolve_campaign_id(context.scope, campaign_id, context_id), name
        )
        service.notify_changed(SESSIONS_CHANGED, started.campaign_id)
        return started

    @service.write_tool
    async def session_end(
        *,
        campaign_id: CampaignId = None,
        session_id: SessionId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> Session:
        """End a session: by default that of the context, or else the active session of the campaign."""
        ended = await backend.end_session(*contexts.resolve_session(context.scope, campaign_id, session_id, context_id))
        service.notify_changed(SESSIONS_CHANGED, ended.campaign_id)
        if contexts.clear_session(context.scope, ended.id):
            service.notify_context_changed(context.scope)
        return ended

    @service.read_tool
    async def session_list(
        *,
        campaign_id: CampaignId = None,
        page_size: PageSize = 0,
        page_token: PageToken = "",
        context_id: ContextId = None,
        context: Context,
    ) -> SessionPage:
        """List the sessions of a campaign, oldest first."""
        campaign = contexts.resolve_campaign_id(context.scope, campaign_id, context_id)
        page = await backend.list_sessions(campaign, PageRequest(page_size, page_token))
        return SessionPage(page.items, page.next_page_token or UNSET)


def _register_events(service: TabletopService) -> None:
    backend, contexts = service.backend, service.contexts

    @service.read_tool
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
        """List the events of a campaign: every change, and every roll that was made in it.

        Args:
            session_id: Only events of this session; by default, of all sessions.
            type: Only events of this type, such as roll.action.
            newest_first: Start with the latest event.
        """
        page = await backend.list_events(
            contexts.resolve_campaign_id(context.scope, campaign_id, context_id),
            PageRequest(page_size, page_token),
            session_id=session_id,
            type=type,
            newest_first=newest_first,
        )
        return EventPage(page.items, page.next_page_token or UNSET)

    @service.read_tool
    async def events_verify(
        *,
        campaign_id: CampaignId = None,
        context_id: ContextId = None,
        context: Context,
    ) -> EventsVerified:
        """Check by their hashes whether events of a campaign were changed, removed or inserted afterwards."""
        campaign = contexts.resolve_campaign_id(context.scope, campaign_id, context_id)
        first_break = await backend.verify_events(campaign)
        return EventsVerified(campaign, first_break is None, UNSET if first_break is None else first_break)
