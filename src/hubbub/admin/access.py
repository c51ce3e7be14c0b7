"""Who may administer what: the scope `hub:admin`, and the tenant of the caller."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar

from hubbub.errors import ToolError
from hubbub.governance.audit_events import AuditEvent, Fact
from hubbub.protocol.calls import Principal
from hubbub.protocol.results import ToolAnnotations
from hubbub.protocol.scopes import ADMIN_SCOPE
from hubbub.server.context import Context
from hubbub.server.server import Server

F = TypeVar("F", bound=Callable[..., Any])
_SCOPES: Final = (ADMIN_SCOPE,)


RecordEvent: TypeAlias = Callable[[AuditEvent], None]


class AdminTools:
    """Registers the functions of administration as tools of one server."""

    def __init__(self, server: Server, record_event: RecordEvent = lambda event: None) -> None:
        self._server = server
        self._record_event = record_event
        self.operator_tools: set[str] = set()
        """Names of the tools that only operators can use; for administrators of a tenant they do not exist."""

    def close_at_end(self, close: Callable[[], None]) -> None:
        """Call a function when the hub ends."""

        @asynccontextmanager
        async def closing(server: Server) -> AsyncIterator[None]:
            try:
                yield
            finally:
                close()

        self._server.add_lifespan(closing)

    def record(
        self, context: Context, event: str, facts: Mapping[str, Fact], *, server: str = "", tool: str = ""
    ) -> None:
        """Record what a call of administration changed: its own record has only a digest of its arguments."""
        principal = context.caller.principal
        self._record_event(
            AuditEvent(
                event=event,
                tenant=principal.tenant,
                user=principal.user or principal.name,
                client=principal.client,
                credential=principal.credential,
                server=server,
                tool=tool,
                facts=dict(facts),
            )
        )

    def read(self, name: str, *, for_operators: bool = False) -> Callable[[F], F]:
        """Register a function that changes nothing; `for_operators`: only they can use it."""
        annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return self._register(name, annotations, for_operators=for_operators)

    def change(
        self, name: str, *, is_destructive: bool = False, is_idempotent: bool = False, for_operators: bool = False
    ) -> Callable[[F], F]:
        """Register a function that changes something.

        `is_destructive`: something that was there is lost. `for_operators`: only they can use it.
        """
        annotations = ToolAnnotations(
            read_only_hint=False,
            destructive_hint=is_destructive,
            idempotent_hint=is_idempotent,
            open_world_hint=False,
        )
        return self._register(name, annotations, for_operators=for_operators)

    def _register(self, name: str, annotations: ToolAnnotations, *, for_operators: bool) -> Callable[[F], F]:
        if for_operators:
            self.operator_tools.add(name)
        return self._server.tool(name=name, annotations=annotations, scopes=_SCOPES)


AdminArea: TypeAlias = Callable[[AdminTools], None]
"""Registers the tools of one area."""


@cache
def local_operator() -> Principal:
    """The user who runs the hub, at its Unix socket: an operator, who administers every tenant."""
    uid = os.getuid() if hasattr(os, "getuid") else 0
    return Principal(f"unix:{uid}", frozenset(_SCOPES), client="unix socket")


def is_local_operator(principal: Principal) -> bool:
    """Whether this is the user who runs the hub, at its Unix socket."""
    return principal is local_operator()  # no credential can claim to be it


def is_operator(principal: Principal) -> bool:
    """Whether a principal administers every tenant: it belongs to none."""
    return not principal.tenant


def require_operator(context: Context, why: str) -> None:
    """Check again what `AdminTools` hides: a mistake there must not let a tenant administer others.

    Raises: ToolError, if the caller administers one tenant only.
    """
    if not is_operator(context.caller.principal):
        raise ToolError(f"{why}, so only an operator of the hub can do this")


def choose_tenant(context: Context, tenant: str | None) -> str | None:
    """The tenant that a call is about: the one that an operator names (None: all), or else the caller's own.

    Raises:
        ToolError: the caller names another tenant than its own.
    """
    own = context.caller.principal.tenant
    if not own:
        return tenant
    if tenant is not None and tenant != own:
        raise ToolError(f"This key administers the tenant {own!r} only; leave out `tenant`, or use an operator's key")
    return own
