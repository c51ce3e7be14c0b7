"""Calls and replies: what travels between peers once bytes are understood.

A `Call` is a request with everything a peer needs to serve it; a `Reply` is the
result, not yet shaped for any revision. Errors travel as exceptions of
`hubbub.errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub.protocol.revisions import Revision

if TYPE_CHECKING:
    from hubbub.ports import Peer

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
DEFAULT_LOG_LEVEL = "info"
"""What a legacy client hears that did not say what it wants to hear."""


class Implementation(msgspec.Struct, rename="camel"):
    """Name and version of a client or server."""

    name: str
    version: str = "0"
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    website_url: str | UnsetType = UNSET


class Principal(msgspec.Struct, frozen=True):
    """Who calls, as far as the gate could tell."""

    name: str
    scopes: frozenset[str] = frozenset()


ANONYMOUS = Principal("anonymous")


class Caller(msgspec.Struct, kw_only=True):
    """What is known of the other end: of a session in the legacy era, of one request in the modern."""

    revision: Revision
    principal: Principal = ANONYMOUS
    capabilities: dict[str, Any] = msgspec.field(default_factory=dict)
    info: Implementation | None = None
    log_level: str | None = None
    scope: str | None = None
    """Names where this caller's state lives: a session, a process, a cookie; None when it has none."""
    watching: set[str] = msgspec.field(default_factory=set)
    """Resources that a legacy session subscribed to."""

    @property
    def state_scope(self) -> str | None:
        """Names where what tools keep for this caller lives: its own scope, or whoever it proved to be.

        A scope that somebody else got hold of, such as a cookie, opens nothing of its owner's.
        """
        if self.principal is ANONYMOUS:
            return self.scope
        return f"{self.scope or 'principal'}:{self.principal.name}"

    def can(self, capability: str, mode: str | None = None) -> bool:
        """Whether the client declared this capability, and this mode of it."""
        if mode is None:
            return capability in self.capabilities
        declared = self.capabilities.get(capability)
        return isinstance(declared, dict) and mode in declared

    @property
    def least_log_level(self) -> str | None:
        """From which level on it hears logs; None: it hears none."""
        if self.log_level is None and self.revision.era == "legacy":
            return DEFAULT_LOG_LEVEL
        return self.log_level if self.revision.is_mcp else None

    def hears(self, level: str) -> bool:
        """Whether it wants to hear a log of this level; a level that nobody knows is the least."""
        least = self.least_log_level
        if least is None:
            return False
        rank = LOG_LEVELS.index(level) if level in LOG_LEVELS else 0
        return rank >= LOG_LEVELS.index(least)


class Meta(msgspec.Struct, frozen=True):
    """The `_meta` of a request, as far as the protocol itself reads it."""

    version: str | UnsetType = msgspec.field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")
    capabilities: dict[str, Any] | UnsetType = msgspec.field(
        default=UNSET, name="io.modelcontextprotocol/clientCapabilities"
    )
    info: Implementation | UnsetType = msgspec.field(default=UNSET, name="io.modelcontextprotocol/clientInfo")
    log_level: str | UnsetType = msgspec.field(default=UNSET, name="io.modelcontextprotocol/logLevel")
    progress_token: Raw | UnsetType = msgspec.field(default=UNSET, name="progressToken")
    traceparent: str | UnsetType = UNSET
    tracestate: str | UnsetType = UNSET


NO_META = Meta()


class Call(msgspec.Struct, kw_only=True):
    """One request on its way to a handler."""

    id: Raw
    method: str
    raw: Raw
    """The parameters as they came, for whoever passes them on."""
    params: Any
    """The parameters decoded for this method, or the error that decoding raised."""
    meta: Meta
    caller: Caller
    back: Peer
    """The way back to the caller: progress, logs, questions."""
    deadline: float | None = None
    """On the loop's clock."""


class Note(msgspec.Struct, gc=False):
    """One notification on its way."""

    method: str
    params: Any = UNSET
    scope: str | None = None
    """Whom it concerns, by `Caller.state_scope`; None is everybody. Never sent."""


class Reply(msgspec.Struct, kw_only=True, rename="camel"):
    """A result. The fields here are set by `shape` for the revisions that have them."""

    result_type: str | UnsetType = UNSET
    ttl_ms: int | UnsetType = UNSET
    cache_scope: str | UnsetType = UNSET
    meta: Any = msgspec.field(default=UNSET, name="_meta")


class RawReply(Reply):
    """A result that only passes through: re-encoded one level deep at most, never parsed."""

    body: Raw
    revision: Revision | None = None
    """How whoever answered speaks; None: it is already as its caller expects it."""
    wraps: bool = False
    """Whether structured content goes into an object for those who only know objects, even if it is one."""
