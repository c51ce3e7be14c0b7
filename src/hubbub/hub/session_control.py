"""Lists and ends the sessions of principals: those of clients with the hub, and those of the hub with its servers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from hubbub.errors import StoreFailed
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.security.api_keys import PRINCIPAL_PREFIX
from hubbub.server.client_sessions import ClientSessionInfo

if TYPE_CHECKING:
    from hubbub.hub.gateway import Gateway
    from hubbub.hub.upstream import SessionInfo
    from hubbub.oauth.front_door.store import GrantInfo

LOGOUT_DRAIN_S: Final = 10.0
"""How long calls in flight may continue after their caller was logged out."""


class Logout(msgspec.Struct, frozen=True, kw_only=True):
    """Whose sessions end; None stands for all."""

    tenant: str | None = None
    user: str | None = None
    server: str | None = None
    """End only the sessions with this server; None: also those of the clients with the hub."""

    def matches(self, principal: Principal) -> bool:
        """Whether the sessions of this principal end."""
        if principal is ANONYMOUS:
            return False
        if self.tenant is not None and principal.tenant != self.tenant:
            return False
        return self.user is None or self.user in (principal.user, principal.name, user_name(principal))

    @property
    def stored_users(self) -> tuple[str | None, ...]:
        """The names under which the grants of the user may be stored; with None, those of all users."""
        if self.user is None or self.tenant is not None or self.user.startswith(PRINCIPAL_PREFIX):
            return (self.user,)
        return self.user, PRINCIPAL_PREFIX + self.user


class EndedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions were ended."""

    server_sessions: int
    client_sessions: int
    server_logins: int = 0
    """Logins of these users at servers with `per_user`, which were deleted and revoked."""
    client_grants: int = 0
    """Grants of MCP clients, if this server is their authorization server."""


def user_name(principal: Principal) -> str:
    """The user of a principal; on a hub without tenants, the name of the key or the subject of the token."""
    return principal.user or principal.name.removeprefix(PRINCIPAL_PREFIX)


class SessionControl:
    """The sessions of one hub."""

    def __init__(self, hub: Gateway) -> None:
        self._hub = hub

    @property
    def has_tenants(self) -> bool:
        """Whether users belong to tenants, so that the same name may be that of several users."""
        return bool(self._hub.tenant_sessions.names())

    def server_sessions(self) -> list[SessionInfo]:
        """The sessions with all servers, except the default sessions, which carry no calls of principals."""
        return [info for upstream in self._hub.upstreams.values() for info in upstream.sessions()]

    def client_sessions(self) -> list[ClientSessionInfo]:
        """The sessions and open streams of authenticated clients with the hub."""
        return [info for clients in self._hub.client_sessions for info in clients.client_sessions()]

    async def client_grants(self, logout: Logout) -> list[GrantInfo]:
        """The grants of clients that this logout would end, if this server is their authorization server.

        Raises: StoreFailed.
        """
        grants = self._hub.client_grants
        if grants is None:
            return []
        return [info for user in logout.stored_users for info in await grants.list_grants(logout.tenant, user)]

    async def upstream_logins(self, logout: Logout) -> list[tuple[str, Principal]]:
        """The logins of users at servers with `per_user` that this logout would end: the server and the user."""
        logins = self._hub.upstream_logins
        return [] if logins is None else await logins.list_logins(logout)

    async def end_upstream_logins(self, logout: Logout) -> int:
        """End the logins of users at servers with `per_user`; return their number. Their sessions there end too."""
        logins = self._hub.upstream_logins
        return 0 if logins is None else await logins.log_out(logout)

    async def known_users(self, tenant: str | None) -> list[str]:
        """The users who have something that a logout would end; with `tenant/` if there are tenants."""
        shown = Logout(tenant=tenant)
        principals = [
            *(info.principal for info in self.server_sessions()),
            *(info.principal for info in self.client_sessions()),
            *(principal for _, principal in await self.upstream_logins(shown)),
        ]
        found = {(each.tenant, user_name(each)) for each in principals if shown.matches(each)}
        found |= {(each.tenant, each.user.removeprefix(PRINCIPAL_PREFIX)) for each in await self.client_grants(shown)}
        return sorted(f"{tenant}/{user}" if tenant else user for tenant, user in found)

    async def log_out(self, logout: Logout, drain_s: float = LOGOUT_DRAIN_S) -> EndedCounts:
        """End sessions at once for new calls; calls in flight have `drain_s` seconds, then they are cancelled.

        Raises: StoreFailed, if the grants of clients cannot be ended; the sessions have ended even so.
        """
        # First, so that no session can be opened again with one of their tokens.
        revoked = None if logout.server is not None else await self._revoke_grants(logout)
        upstreams = [
            upstream for id, upstream in self._hub.upstreams.items() if logout.server is None or id == logout.server
        ]
        endpoints = self._hub.client_sessions if logout.server is None else []
        clients = [endpoint.end_clients(logout.matches) for endpoint in endpoints]
        ending = [asyncio.ensure_future(upstream.end_sessions(logout.matches, drain_s)) for upstream in upstreams]
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(drain_s):
                    await asyncio.gather(*(each.wait() for each in clients))
        finally:
            for each in clients:
                each.cancel()
        ended = await asyncio.gather(*ending)
        server_logins = await self.end_upstream_logins(logout)
        if isinstance(revoked, StoreFailed):
            raise revoked
        return EndedCounts(
            server_sessions=sum(ended),
            client_sessions=sum(each.count for each in clients),
            server_logins=server_logins,
            client_grants=revoked or 0,
        )

    async def _revoke_grants(self, logout: Logout) -> int | StoreFailed:
        grants = self._hub.client_grants
        if grants is None:
            return 0
        try:
            return sum([await grants.revoke(logout.tenant, user) for user in logout.stored_users])
        except StoreFailed as error:
            return error
