"""Shared by the tools and resources of one server: the backend, the contexts, addresses and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from msgspec import Meta

from hubbub import Server, ToolAnnotations, ToolErrors
from hubbub.packs.tabletop.backend import Backend
from hubbub.packs.tabletop.contexts import Contexts
from hubbub.packs.tabletop.failures import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])

# Addresses of resources, and which of them a change affects.
CAMPAIGNS: Final = "campaigns://list"
CONTEXT: Final = "context://current"
CAMPAIGN_SCHEME: Final = "campaign://"
CAMPAIGN: Final = "campaign://{campaign_id}"
PARTICIPANTS: Final = "campaign://{campaign_id}/participants"
ACTORS: Final = "campaign://{campaign_id}/actors"
SESSIONS: Final = "campaign://{campaign_id}/sessions"

CAMPAIGN_CHANGED: Final = (CAMPAIGNS, CAMPAIGN)
PARTICIPANTS_COUNTED: Final = (CAMPAIGNS, CAMPAIGN, PARTICIPANTS)
PARTICIPANTS_CHANGED: Final = (PARTICIPANTS,)
ACTORS_COUNTED: Final = (CAMPAIGNS, CAMPAIGN, ACTORS)
ACTORS_CHANGED: Final = (ACTORS,)
SESSIONS_CHANGED: Final = (CAMPAIGN, SESSIONS)

# Common arguments of tools, with the descriptions that clients see.
CampaignId = Annotated[str | None, Meta(description="Which campaign; that of the context if left out.")]
SessionId = Annotated[str | None, Meta(description="Which session; that of the context if left out.")]
ContextId = Annotated[
    str | None, Meta(description="The context_id that set_context gave, for clients that were given one.")
]
PageSize = Annotated[int, Meta(description="How many to give at most, up to 500; 0 for the usual number.")]
PageToken = Annotated[str, Meta(description="The next_page_token of the page before.")]


class Table:
    """The tabletop pack installed on one server."""

    def __init__(self, server: Server, backend: Backend) -> None:
        self.server = server
        self.backend = backend
        """Connects to its store or its server when it is first used."""
        self.contexts = Contexts(server)

    def reads(self, function: F) -> F:
        """Register a read-only tool."""
        return self._tool(function, ToolAnnotations(read_only_hint=True, open_world_hint=False))

    def writes(self, function: F) -> F:
        """Register a tool that adds something."""
        return self._tool(
            function, ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
        )

    def overwrites(self, function: F) -> F:
        """Register an idempotent tool that changes existing data."""
        hints = ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        return self._tool(function, hints)

    def destroys(self, function: F) -> F:
        """Register a tool that deletes something."""
        return self._tool(function, ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False))

    def _tool(self, function: F, annotations: ToolAnnotations) -> F:
        errors = ToolErrors(invalid_code=InvalidArgument.word)
        return self.server.tool(annotations=annotations, errors=errors)(function)

    def changed(self, addresses: tuple[str, ...], campaign_id: str) -> None:
        """Notify subscribers of these resources of a campaign."""
        for address in addresses:
            self.server.resource_updated(address.replace("{campaign_id}", campaign_id))

    def context_changed(self, scope: str | None) -> None:
        """Notify only the caller of this scope that its context changed."""
        if scope is not None:
            self.server.resource_updated(CONTEXT, scope=scope)
