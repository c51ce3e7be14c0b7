"""One server behind a hub, whatever it is and wherever it runs.

A `Peer` that is always there: while its server is not, it still has its last snapshot,
and calls fail at once with the reason. `remote.RemoteUpstream` reaches a server through
a client, `local.LocalUpstream` holds one in this process. The front picks among them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.client.watching import Change
from hubbub.hub.snapshot import Snapshot
from hubbub.ports import Peer
from hubbub.protocol.model import Call, Caller

Phase: TypeAlias = Literal["idle", "connecting", "ready", "down", "closing"]


class UpstreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How much one upstream may cost."""

    timeout_s: float = bounds.UPSTREAM_CALL_S
    """One call, its wait in line included, but not the time in which its caller is asked something."""
    list_s: float = bounds.UPSTREAM_LIST_S
    """Connecting and listing everything."""
    max_calls: int = bounds.UPSTREAM_CALLS
    """Calls that run at once."""
    max_waiting: int = bounds.UPSTREAM_WAITING
    """Calls that wait for one of those to end."""
    sessions: Literal["shared", "own"] = "shared"
    """Whether a session that one client has finished with serves another, or each client keeps one to itself."""
    max_sessions: int = bounds.UPSTREAM_SESSIONS
    """Sessions besides the first that are open at once."""
    idle_s: float = bounds.UPSTREAM_IDLE_S
    """How long such a session is kept without a call."""
    breaker_failures: int = bounds.BREAKER_FAILURES
    """Failures in a row after which calls are refused at once."""


class UpstreamState(msgspec.Struct, kw_only=True, rename="camel"):
    """How an upstream is doing."""

    id: str
    phase: Phase
    transport: str = ""
    """`stdio`, `streamable_http`, `sse`, `websocket`, or `local`."""
    era: str = ""
    version: str = ""
    """The protocol version spoken; empty before it was ever reached."""
    reason: str | None = None
    """Why it is down."""
    retry_in_s: float | None = None
    since: float = 0.0
    """When it came into this phase, in seconds since 1970."""
    in_flight: int = 0
    waiting: int = 0
    calls: int = 0
    failures: int = 0
    """Calls that got no answer; errors and failed tools are answers."""
    sessions: int = 0
    is_stale: bool = False
    """Whether the snapshot is older than what the server may have now."""


class Upstream(Peer, Protocol):
    """One server behind the hub.

    `request` takes calls whose `raw` and `params` carry the upstream's own names, of callers of any
    revision, and gives replies for `shape`. Questions are its own matter in every combination of eras: a
    modern caller gets `input_required` results from `request` and comes back with `requestState`, so
    who calls it must not put a round of its own around it. Errors: `UpstreamUnavailable` if there was no
    answer, `ResourceNotFound` where the server says so, `RemoteError` in the caller's dialect for the rest.
    """

    id: str
    on_change: Callable[[Upstream, Change], None] | None
    """Told after the snapshot has a changed list, and when a watched resource changed."""
    on_state: Callable[[Upstream], None] | None
    """Told when the phase or the staleness changed."""

    @property
    def snapshot(self) -> Snapshot:
        """The last good lists; empty before it was ever reached."""

    @property
    def state(self) -> UpstreamState:
        """How it is doing now."""

    async def start(self) -> None:
        """Get ready to be asked; connects to nothing yet."""

    async def refresh(self) -> None:
        """Connect if need be and list everything, within the deadline.

        Never raises: a failure leaves the last snapshot, marked stale, and `state.reason`.
        """

    def holds(self, call: Call) -> bool:
        """Whether a call comes back with the answer to a question that was asked here; then it is taken even while
        the upstream closes."""

    async def subscribe(self, uri: str) -> None:
        """Hear of changes of a resource through `on_change`, also after the server was restarted.

        Raises: errors of `hubbub.errors`.
        """

    async def unsubscribe(self, uri: str) -> None:
        """Hear of them no more."""

    def dedicate(self, caller: Caller) -> None:
        """There is only this one client, as on stdio."""

    def end_scope(self, scope: str) -> None:
        """A caller's session has ended: what was kept for it can go."""

    async def close(self, drain_s: float = bounds.UPSTREAM_DRAIN_S) -> None:
        """Take no more calls, let those in flight finish within this time, then part with the server."""
