"""What the tools and resources of one server share: the keeper, the contexts, and who hears of changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hubbub import Server, ToolAnnotations
from hubbub.packs.tabletop.addresses import CONTEXT
from hubbub.packs.tabletop.backend import Backend
from hubbub.packs.tabletop.contexts import Contexts
from hubbub.packs.tabletop.failures import InvalidArgument

F = TypeVar("F", bound=Callable[..., Any])


class Table:
    """The pack on one server."""

    def __init__(self, server: Server, backend: Backend) -> None:
        self.server = server
        self.backend = backend
        """Reaches its store or its server when it is first used."""
        self.contexts = Contexts(server)

    def reads(self, function: F) -> F:
        """Register a tool that changes nothing."""
        return self._tool(function, ToolAnnotations(read_only_hint=True, open_world_hint=False))

    def writes(self, function: F) -> F:
        """Register a tool that adds something."""
        return self._tool(
            function, ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
        )

    def overwrites(self, function: F) -> F:
        """Register a tool that changes what was there; doing it twice changes no more than doing it once."""
        hints = ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        )
        return self._tool(function, hints)

    def destroys(self, function: F) -> F:
        """Register a tool after which something is gone."""
        return self._tool(function, ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False))

    def _tool(self, function: F, annotations: ToolAnnotations) -> F:
        register: Callable[[F], F] = self.server.tool(annotations=annotations, invalid_code=InvalidArgument.word)
        return register(function)

    def changed(self, addresses: tuple[str, ...], campaign_id: str) -> None:
        """Tell whoever watches these addresses of a campaign."""
        for address in addresses:
            self.server.resource_updated(address.replace("{campaign_id}", campaign_id))

    def context_changed(self, scope: str | None) -> None:
        """Tell a caller, and nobody else, that its context is another."""
        if scope is not None:
            self.server.resource_updated(CONTEXT, scope=scope)
