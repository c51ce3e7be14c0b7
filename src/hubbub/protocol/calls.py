"""Calls and replies: what peers exchange once messages are decoded.

A `Call` is a request with everything a peer needs to serve it; a `Reply` is the
result, not yet shaped for any revision. Errors travel as exceptions of
`hubbub.errors`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hubbub.errors import InsufficientScope
from hubbub.protocol.revisions import Revision

if TYPE_CHECKING:
    from hubbub.ports import ReturnPath

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
DEFAULT_LOG_LEVEL = "info"
"""Lowest level of log messages for a legacy client that has not set one."""


class Implementation(msgspec.Struct, rename="camel", gc=False):
    """Name and version of a client or server."""

    name: str
    version: str = "0"
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    website_url: str | UnsetType = UNSET


class Principal(msgspec.Struct, frozen=True, gc=False):
    """The authenticated identity of a caller, with its scopes."""

    name: str
    """Unique: state of callers is kept under it. With tenants, it contains tenant, user and credential."""
    scopes: frozenset[str] = frozenset()
    tenant: str = ""
    """Empty if there are no tenants."""
    user: str = ""
    client: str = ""
    """The program that the credential was issued to, or the name of the key."""
    credential: str = ""
    """A keyed hash of the id and version of the credential, never of its secret."""
    step_up_scopes: frozenset[str] = frozenset()
    """Scopes that it does not have, but may ask its authorization server for: step-up."""


ANONYMOUS = Principal("anonymous")


@cache
def _share_owner() -> Callable[[Principal, str], str]:
    """Return `share_owner`, imported on first use: a server on stdio does not need it, and starts faster without it."""
    from hubbub.protocol.host_origin import share_owner

    return share_owner


class RawObject(Mapping[str, Any]):
    """A JSON object that is kept as text and parsed at each access: for values that are kept long and rarely read.

    As Python objects, small values take ten times the memory of their text.
    """

    __slots__ = ("_text",)

    def __init__(self, text: bytes) -> None:
        self._text = text

    def __getitem__(self, name: str) -> Any:
        return msgspec.json.decode(self._members()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._members())

    def __len__(self) -> int:
        return len(self._members())

    def _members(self) -> dict[str, Raw]:
        return msgspec.json.decode(self._text, type=dict[str, Raw])


class Caller(msgspec.Struct, kw_only=True, gc=False):
    """The client that sent a call: described by its session in the legacy era, by each request in the modern."""

    revision: Revision
    principal: Principal = ANONYMOUS
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict)
    info: Implementation | None = None
    log_level: str | None = None
    scope: str | None = None
    """Identifies where state of this caller is kept: a session, process or cookie; None: nowhere."""
    watching: set[str] = msgspec.field(default_factory=set)
    """Resources that a legacy session subscribed to."""
    address: str = ""
    """Its network address; empty for the only client of a process."""
    has_every_scope: bool = False
    """Whether it has every scope, like the user of a process on stdio."""

    @property
    def state_scope(self) -> str | None:
        """Identifies where tools keep state for this caller: its scope, together with its principal if it has one.

        So a stolen scope, such as a cookie, gives no access to the state of a principal.
        """
        if self.principal is ANONYMOUS:
            return self.scope
        return f"{self.scope or 'principal'}:{self.principal.name}"

    @property
    def is_anonymous(self) -> bool:
        """Whether the caller is not authenticated: it came over the network without a key or token."""
        return self.principal is ANONYMOUS and not self.has_every_scope

    @property
    def owner(self) -> str:
        """The owner whose share of common resources it uses; empty if callers cannot be distinguished."""
        if self.principal is ANONYMOUS and not self.address:
            return ""
        return _share_owner()(self.principal, self.address)

    def holds(self, scopes: frozenset[str]) -> bool:
        """Whether it has these scopes: the only check, for calls, reads and lists of other things than tools."""
        return not scopes or self.has_every_scope or scopes <= self.principal.scopes

    def sees_tool(self, scopes: frozenset[str]) -> bool:
        """Whether a tool that requires these scopes exists for it: it has them, or can ask for those it lacks."""
        if self.holds(scopes):
            return True
        step_up = self.principal.step_up_scopes
        return bool(step_up) and scopes <= self.principal.scopes | step_up

    def require(self, scopes: frozenset[str]) -> None:
        """Raises: InsufficientScope, unless it has these scopes. For tools that it sees."""
        if not self.holds(scopes):
            raise InsufficientScope(scopes)

    def can(self, capability: str, mode: str | None = None) -> bool:
        """Whether the client declared this capability, and this mode of it."""
        if mode is None:
            return capability in self.capabilities
        declared = self.capabilities.get(capability)
        return isinstance(declared, dict) and mode in declared

    @property
    def least_log_level(self) -> str | None:
        """The lowest level of log messages that it receives; None: it receives none."""
        if self.log_level is None and self.revision.era == "legacy":
            return DEFAULT_LOG_LEVEL
        return self.log_level if self.revision.is_mcp else None

    def wants_log(self, level: str) -> bool:
        """Whether it receives log messages of this level; an unknown level counts as the lowest."""
        least = self.least_log_level
        if least is None:
            return False
        rank = LOG_LEVELS.index(level) if level in LOG_LEVELS else 0
        return rank >= LOG_LEVELS.index(least)


class Meta(msgspec.Struct, frozen=True, gc=False):
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
    """One request, as handlers and middleware get it."""

    id: Raw
    method: str
    raw: Raw
    """The parameters as received, for forwarding."""
    params: Any
    """The parameters decoded for this method, or the error that decoding raised."""
    meta: Meta
    caller: Caller
    back: ReturnPath
    """The path back to the caller: progress, log messages, elicitation and sampling."""
    deadline: float | None = None
    """The time limit on the event loop's clock."""


class Notification(msgspec.Struct, gc=False):
    """One notification."""

    method: str
    params: Any = UNSET
    scope: str | None = None
    """The `Caller.state_scope` that it is for; None: all. Never sent."""
    principal: str | None = None
    """Name of the principal that it is for; None: all. Never sent."""


class Reply(msgspec.Struct, kw_only=True, rename="camel"):
    """A result. The fields here are set by `shape` for the revisions that have them."""

    result_type: str | UnsetType = UNSET
    ttl_ms: int | UnsetType = UNSET
    cache_scope: str | UnsetType = UNSET
    meta: Any = msgspec.field(default=UNSET, name="_meta")


class RawReply(Reply):
    """A result that is only forwarded: decoded one level deep at most."""

    body: Raw
    revision: Revision | None = None
    """The revision of the server that answered; None: the result already has the caller's form."""
    wraps: bool = False
    """Whether structured content is wrapped in an object for revisions that allow only objects, even if it is one."""
