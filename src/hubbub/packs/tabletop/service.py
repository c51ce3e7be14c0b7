"""Shared by the tools and resources of one server: the backend, the contexts, URIs and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta

from hubbub import Server, ToolAnnotations, ToolErrors
from hubbub.packs.tabletop.backend import Backend
from hubbub.packs.tabletop.contexts import Contexts
from hubbub.packs.tabletop.failures import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])

# URIs of resources, and which of them a change affects.
CAMPAIGNS_URI: Final = "campaigns://list"
CONTEXT_URI: Final = "context://current"
CAMPAIGN_SCHEME: Final = "campaign://"
CAMPAIGN_URI: Final = "campaign://{campaign_id}"
PARTICIPANTS_URI: Final = "campaign://{campaign_id}/participants"
ACTORS_URI: Final = "campaign://{campaign_id}/actors"
SESSIONS_URI: Final = "campaign://{campaign_id}/sessions"

CAMPAIGN_CHANGED: Final = (CAMPAIGNS_URI, CAMPAIGN_URI)
PARTICIPANT_COUNT_CHANGED: Final = (CAMPAIGNS_URI, CAMPAIGN_URI, PARTICIPANTS_URI)
PARTICIPANTS_CHANGED: Final = (PARTICIPANTS_URI,)
ACTOR_COUNT_CHANGED: Final = (CAMPAIGNS_URI, CAMPAIGN_URI, ACTORS_URI)
ACTORS_CHANGED: Final = (ACTORS_URI,)
SESSIONS_CHANGED: Final = (CAMPAIGN_URI, SESSIONS_URI)

# Common arguments of tools, with the descriptions that clients see.
CampaignId = Annotated[str | None, Meta(description="The id of a campaign; defaults to the campaign of the context.")]
SessionId = Annotated[str | None, Meta(description="The id of a session; defaults to the session of the context.")]
ContextId = Annotated[str | None, Meta(description="The context_id that set_context returned, if it returned one.")]
PageSize = Annotated[int, Meta(description="The maximum number of items on a page, up to 500; 0 for the default.")]
PageToken = Annotated[str, Meta(description="The next_page_token of the previous page.")]


class TabletopService:
    """The tabletop pack installed on one server."""

    def __init__(self, server: Server, backend: Backend) -> None:
        self.server = server
        self.backend = backend
        """Connects to its store or its server when it is first used."""
        self.contexts = Contexts(server)

    def read_tool(self, function: F) -> F:
        """Register a read-only tool."""
        return self._register_tool(function, ToolAnnotations(read_only_hint=True, open_world_hint=False))

    def write_tool(self, function: F) -> F:
        """Register a tool that adds something."""
        return self._register_tool(
            function, ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
        )

    def update_tool(self, function: F) -> F:
        """Register an idempotent tool that changes existing data."""
        hints = ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        return self._register_tool(function, hints)

    def delete_tool(self, function: F) -> F:
        """Register a tool that deletes something."""
        return self._register_tool(
            function, ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
        )

    def _register_tool(self, function: F, annotations: ToolAnnotations) -> F:
        errors = ToolErrors(invalid_code=InvalidArgument.status_code)
        return self.server.tool(annotations=annotations, errors=errors)(function)

    def notify_changed(self, uris: tuple[str, ...], campaign_id: str) -> None:
        """Notify subscribers of these resources of a campaign."""
        for uri in uris:
            self.server.resource_updated(uri.replace("{campaign_id}", campaign_id))

    def notify_context_changed(self, scope: str | None) -> None:
        """Notify only the caller of this scope that its context changed."""
        if scope is not None:
            self.server.resource_updated(CONTEXT_URI, scope=scope)
