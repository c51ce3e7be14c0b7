"""The interface of one server behind a hub.

An upstream is a `Peer` that exists even while its server is unavailable: it keeps the last snapshot, and calls fail at
once with the reason. `remote.RemoteUpstream` reaches a server through a client, `local.LocalUpstream` runs one in this
process. The front chooses among them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.client.subscriptions import ChangeEvent
from hubbub.hub.snapshot import Snapshot
from hubbub.ports import Peer
from hubbub.protocol.calls import Call, Caller, Notification, Principal, Reply

if TYPE_CHECKING:
    from hubbub.hub.forwarding.tenant_sessions import TenantSessions

ReportEvent: TypeAlias = Callable[[str, Principal, Mapping[str, str | int | float | bool]], None]
"""Reports the kind, the principal (`ANONYMOUS`: the hub itself) and the facts of an event, for the audit journal."""
Phase: TypeAlias = Literal["idle", "connecting", "ready", "down", "closing"]


class UpstreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one upstream."""

    timeout_s: float = msgspec.field(default_factory=lambda: bounds.UPSTREAM_CALL_TIMEOUT_S)
    """Time limit of one call, including its wait for a slot but not the time in which its caller is asked for input."""
    list_s: float = msgspec.field(default_factory=lambda: bounds.UPSTREAM_LIST_TIMEOUT_S)
    """Time limit for connecting and reading all lists."""
    max_calls: int = msgspec.field(default_factory=lambda: bounds.UPSTREAM_CALLS)
    """Number of concurrent calls."""
    max_waiting: int = msgspec.field(default_factory=lambda: bounds.UPSTREAM_QUEUED_CALLS)
    """Number of calls that may wait for a slot."""
    sessions: Literal["shared", "own"] = "shared"
    """Whether a session may be reused for another client, or each client keeps its own."""
    max_sessions: int = msgspec.field(default_factory=lambda: bounds.UPSTREAM_SESSIONS)
    """Number of sessions besides the default session."""
    idle_s: float = msgspec.field(default_factory=lambda: bounds.UPSTREAM_SESSION_IDLE_S)
    """Time after which such a session is closed if it has no calls."""
    per_user: bool = False
    """Whether calls of each user are sent with the user's own login."""
    breaker_failures: int = msgspec.field(default_factory=lambda: bounds.BREAKER_FAILURES)
    """Consecutive failures that open the circuit breaker."""


class UpstreamState(msgspec.Struct, kw_only=True, rename="camel"):
    """State and counters of an upstream."""

    id: str
    phase: Phase
    transport: str = ""
    """`stdio`, `streamable_http`, `sse`, `websocket`, or `local`."""
    era: str = ""
    version: str = ""
    """The negotiated protocol version; empty before the first connection."""
    reason: str | None = None
    """Why it is down."""
    retry_in_s: float | None = None
    since: float = 0.0
    """When this phase began, in seconds since 1970."""
    in_flight: int = 0
    waiting: int = 0
    calls: int = 0
    failures: int = 0
    """Calls that got no answer; errors and failed tools are answers."""
    sessions: int = 0
    is_stale: bool = False
    """Whether the snapshot is older than what the server may have now."""


class SessionInfo(msgspec.Struct, kw_only=True):
    """A session with an upstream."""

    server: str
    principal: Principal
    """Whose calls it carries; `ANONYMOUS` for the hub itself and callers without an identity."""
    transport: str
    started_at: float
    """In seconds since 1970."""
    age_s: float
    idle_s: float
    """Seconds since its last call ended; 0 if it carries calls."""
    in_flight: int
    pid: int | None = None
    """The id of its process, if it is one."""
    is_ending: bool = False
    """Whether it gets no more calls, and ends after those in flight."""


class Upstream(Peer, Protocol):
    """One server behind the hub.

    `request` takes calls whose `raw` and `params` contain the upstream's own names, from callers of any revision, and
    returns replies for `shape`. It handles requests to the caller in every combination of eras: a modern caller gets
    `input_required` results from `request` and returns with `requestState`, so a wrapper must not handle rounds itself.
    Errors: `UpstreamUnavailable` if there was no answer, `ResourceNotFound` if the server reports that, and
    `RemoteError` in the caller's dialect for the rest.
    """

    id: str
    on_change: Callable[[Upstream, ChangeEvent], None] | None
    """Called after a list in the snapshot changed, and when a watched resource changed."""
    on_state: Callable[[Upstream], None] | None
    """Called when the phase or the staleness changed."""
    on_event: ReportEvent | None
    """Called with what the audit journal records."""

    @property
    def snapshot(self) -> Snapshot:
        """The last lists that were read successfully; empty before the first connection."""

    @property
    def state(self) -> UpstreamState:
        """Current state and counters."""

    def state_for(self, caller: Caller) -> UpstreamState:
        """The state as it is for a caller: it may be down only for this one, whose calls have failed."""

    async def start(self) -> None:
        """Prepare for calls; connects to no remote server yet."""

    async def refresh(self) -> None:
        """Connect if needed and read all lists, within the deadline.

        Never raises: a failure leaves the last snapshot, marked stale, and `state.reason`.
        """

    def holds(self, call: Call) -> bool:
        """Whether a call resumes a suspended call; such a call is accepted even while the upstream closes."""

    async def subscribe(self, uri: str, principal: str | None = None) -> None:
        """Report changes of a resource through `on_change`, also after the server was restarted.

        With a principal, also report changes that the server sends only on that principal's sessions.

        Raises: errors of `hubbub.errors`.
        """

    async def unsubscribe(self, uri: str) -> None:
        """Stop reporting changes of a resource."""

    def expect_capable(self, uniform_version: str | None = None) -> bool:
        """List tools for capable clients too, because such a caller has come; return whether lists must be read again.

        `uniform_version` is the version of the server that is known to have no such tools.
        """

    def set_sole_caller(self, caller: Caller) -> None:
        """Treat this caller as the only client, as on stdio."""

    def end_scope(self, scope: str) -> None:
        """Drop what was kept for a caller's session, because it has ended."""

    def end_revoked(self, is_revoked: Callable[[str], bool]) -> None:
        """End the suspended calls and the sessions of callers whose credential was revoked."""

    def use_tenants(self, tenants: TenantSessions) -> None:
        """Count the sessions of tenants in this table, which all upstreams of the hub share."""

    def sessions(self) -> list[SessionInfo]:
        """Describe the sessions with the server, except the default session."""

    async def end_sessions(self, matches: Callable[[Principal], bool], drain_s: float) -> int:
        """End the sessions and suspended calls of these principals; return the number of sessions.

        Calls in flight have `drain_s` seconds to finish.
        """

    async def retire_sessions(self, drain_s: float) -> int:
        """Use the present sessions of principals for no new calls; those in flight have `drain_s` seconds."""

    async def close(self, drain_s: float | None = None) -> None:
        """Take no more calls, let calls in flight finish within this time, then disconnect."""


class DrainingPeer:
    """Replaces the peer of an upstream: new calls go to the new one, calls that wait for input stay with the old.

    A modern caller that was asked for input comes back with a new request, which may arrive after the server was
    replaced. `Gateway.apply` puts this in place until the old upstream is closed.
    """

    def __init__(self, replacement: Peer, old: Peer, draining: Upstream) -> None:
        self.replacement = replacement
        self._old = old
        self.draining = draining
        """The upstream inside the old peer."""

    async def request(self, call: Call) -> Reply:
        """Forward a call to the peer that it belongs to."""
        return await (self._old if self.draining.holds(call) else self.replacement).request(call)

    async def notify(self, note: Notification) -> None:
        """Forward a notification to the new peer."""
        await self.replacement.notify(note)
