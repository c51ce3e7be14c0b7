"""The sessions and open connections of clients, as administration lists and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from hubbub.protocol.calls import Principal

if TYPE_CHECKING:
    from hubbub.oauth.front_door.store import GrantInfo

Matches: TypeAlias = Callable[[Principal], bool]


class ClientSessionInfo(msgspec.Struct, kw_only=True):
    """A session of a client, or a connection that stays open."""

    principal: Principal
    kind: Literal["session", "stream"]
    """A legacy session over HTTP, or an open stream or WebSocket."""
    path: str
    address: str = ""
    client: str = ""
    """The name and version that the client reports."""
    version: str = ""
    """The protocol version of a session."""
    started_at: float = 0.0
    """In seconds since 1970."""
    idle_s: float = 0.0
    in_flight: int = 0


class EndedSessions:
    """Sessions and streams that have ended, and the calls in flight that may finish."""

    def __init__(self) -> None:
        self.count = 0
        """Number of sessions and streams."""
        self._waits: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._cancels: list[Callable[[], None]] = []

    def add(
        self, wait: Callable[[], Coroutine[Any, Any, None]], cancel: Callable[[], None], *, is_session: bool = True
    ) -> None:
        """Add the calls of a session, or a single call: `wait` waits for their end, `cancel` cancels them."""
        self.count += is_session
        self._waits.append(wait)
        self._cancels.append(cancel)

    async def wait(self) -> None:
        """Wait until the calls have ended."""
        await asyncio.gather(*(wait() for wait in self._waits))

    def cancel(self) -> None:
        """Cancel the calls that are left, and release what they hold."""
        for cancel in self._cancels:
            cancel()


class ClientSessions(Protocol):
    """The clients of one HTTP endpoint."""

    def client_sessions(self) -> list[ClientSessionInfo]:
        """List the sessions and open streams of authenticated callers."""

    def end_clients(self, matches: Matches) -> EndedSessions:
        """End the sessions and streams of these principals at once, except their calls in flight."""


class ClientGrants(Protocol):
    """The grants of MCP clients at a server that is their authorization server."""

    on_event: Callable[[str, Principal, Mapping[str, str]], None]
    """Gets what the audit journal records: a grant was created or ended."""

    async def list_grants(self, tenant: str | None = None, user: str | None = None) -> list[GrantInfo]:
        """Return the grants of a tenant or a user; None stands for all.

        Raises: StoreFailed.
        """

    async def revoke(self, tenant: str | None = None, user: str | None = None) -> int:
        """End the grants of a tenant or a user, None stands for all; return how many.

        Raises: StoreFailed.
        """


@runtime_checkable
class ManagesClients(Protocol):
    """A server that ends sessions of its clients."""

    def add_client_sessions(self, sessions: ClientSessions) -> None:
        """Take the sessions of an endpoint that serves it."""

    def add_problem(self, problem: str) -> None:
        """Show the operator a problem of the process until it ends; from any thread."""

    def add_client_grants(self, grants: ClientGrants) -> None:
        """Take the grants of clients at an endpoint that serves it."""
