"""`hub.sessions`: lists the sessions of users, and logs users out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from hubbub.admin.access import AdminTools, choose_tenant
from hubbub.errors import ToolError
from hubbub.hub.session_control import LOGOUT_DRAIN_S, Logout, SessionControl, user_name
from hubbub.hub.upstream import SessionInfo
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.security.api_keys import PRINCIPAL_PREFIX
from hubbub.server.client_sessions import ClientSessionInfo
from hubbub.server.context import Context

if TYPE_CHECKING:
    from hubbub.oauth.front_door.store import GrantInfo

LISTED_SESSIONS: Final = 1000
"""Sessions of each kind in one list; the totals count all."""
LISTED_USERS: Final = 20
"""Names in the result of a logout that ended nothing."""
MAX_DRAIN_S: Final = 60.0
"""The longest time that calls in flight may continue after a logout."""

Tenant = Annotated[str | None, msgspec.Meta(description="Only this tenant; operators only.")]
User = Annotated[str | None, msgspec.Meta(description="Only this user; without tenants, the name of a key.")]
ServerName = Annotated[str | None, msgspec.Meta(description="Only sessions with this server.")]


class ServerSession(msgspec.Struct, rename="camel", kw_only=True):
    """A session of the hub with one of its servers."""

    tenant: str
    user: str
    """Empty for callers without an identity."""
    client: str
    credential: str
    """A fingerprint, never the credential."""
    server: str
    transport: str
    started: str
    idle_s: float
    in_flight: int
    pid: int | None
    is_ending: bool


class ClientSession(msgspec.Struct, rename="camel", kw_only=True):
    """A session of a client with the hub, or a stream that it keeps open."""

    tenant: str
    user: str
    client: str
    credential: str
    kind: str
    path: str
    address: str
    program: str
    version: str
    started: str
    idle_s: float
    in_flight: int


class ClientGrant(msgspec.Struct, rename="camel", kw_only=True):
    """A grant of an MCP client at this server, for a user."""

    tenant: str
    user: str
    client: str
    """The name that the client gave itself."""
    client_id: str
    scopes: tuple[str, ...]
    resource: str
    started: str
    last_used: str
    """When the client last obtained a token."""
    expires: str


class ServerLogin(msgspec.Struct, rename="camel", kw_only=True):
    """A login of a user at a server with `per_user`."""

    tenant: str
    user: str
    server: str


class SessionList(msgspec.Struct, rename="camel", kw_only=True):
    """Sessions of users, the oldest first."""

    servers: list[ServerSession]
    servers_total: int
    clients: list[ClientSession]
    clients_total: int
    grants: list[ClientGrant]
    grants_total: int
    logins: list[ServerLogin]
    logins_total: int


class LogoutResult(msgspec.Struct, rename="camel", kw_only=True):
    """What a logout ended."""

    server_sessions: int
    client_sessions: int
    server_logins: int = 0
    """Logins of these users at servers with `per_user`."""
    client_grants: int = 0
    """Grants of MCP clients at this server; these clients need a new login."""
    known_users: list[str] | msgspec.UnsetType = msgspec.UNSET
    """If nothing ended: users who have sessions, logins or grants; with tenants, as `tenant/user`."""


def register(tools: AdminTools, control: SessionControl) -> None:
    """Register the tools of this area."""

    @tools.read("hub.sessions.list")
    async def list_sessions(
        tenant: Tenant = None, user: User = None, server: ServerName = None, *, context: Context
    ) -> SessionList:
        """List the sessions of users with servers, those of their clients, grants of clients, and upstream logins."""
        shown = Logout(tenant=choose_tenant(context, tenant), user=user, server=server)
        is_everyone = shown.tenant is None and user is None

        def is_shown(principal: Principal) -> bool:
            return shown.matches(principal) or (is_everyone and principal is ANONYMOUS)

        servers = [
            info
            for info in control.server_sessions()
            if is_shown(info.principal) and (server is None or info.server == server)
        ]
        clients = [info for info in control.client_sessions() if is_shown(info.principal)] if server is None else []
        grants = await control.client_grants(shown) if server is None else []
        logins = await control.upstream_logins(shown)
        servers.sort(key=lambda info: info.started_at)
        clients.sort(key=lambda info: info.started_at)
        return SessionList(
            servers=[_server_session(info) for info in servers[:LISTED_SESSIONS]],
            servers_total=len(servers),
            clients=[_client_session(info) for info in clients[:LISTED_SESSIONS]],
            clients_total=len(clients),
            grants=[_client_grant(info) for info in grants[:LISTED_SESSIONS]],
            grants_total=len(grants),
            logins=[_server_login(*login) for login in logins[:LISTED_SESSIONS]],
            logins_total=len(logins),
        )

    @tools.change("hub.sessions.logout", is_destructive=True, is_idempotent=True)
    async def logout(
        tenant: Tenant = None,
        user: User = None,
        server: ServerName = None,
        drain_s: Annotated[
            float, msgspec.Meta(ge=0, le=MAX_DRAIN_S, description="Seconds that calls in flight may continue.")
        ] = LOGOUT_DRAIN_S,
        *,
        context: Context,
    ) -> LogoutResult:
        """End the sessions of a user, of a tenant, or with a server; users can connect again with valid keys.

        New requests in these sessions fail at once, calls in flight are cancelled after `drain_s` seconds, programs
        that were started for the user end. With `server`, only the sessions with that server end. Logins of the users
        at servers where each user logs in are deleted and revoked.
        """
        if tenant is None and user is None and server is None:
            raise ToolError("Give `tenant`, `user` or `server`: without them, the sessions of everyone would end")
        chosen = Logout(tenant=choose_tenant(context, tenant), user=user, server=server)
        if user is not None and chosen.tenant is None and control.has_tenants:
            raise ToolError(f"Give `tenant` too: users of several tenants may have the name {user!r}")
        ended = await control.log_out(chosen, drain_s)
        counts: dict[str, int] = msgspec.structs.asdict(ended)
        facts: dict[str, str | int] = {"of_tenant": chosen.tenant or "", "of_user": user or "", **counts}
        tools.record(context, "session.logout", facts, server=server or "")
        known = msgspec.UNSET if any(counts.values()) else (await control.known_users(chosen.tenant))[:LISTED_USERS]
        return LogoutResult(**counts, known_users=known)


def _server_session(info: SessionInfo) -> ServerSession:
    principal = info.principal
    return ServerSession(
        tenant=principal.tenant,
        user="" if principal is ANONYMOUS else user_name(principal),
        client=principal.client,
        credential=principal.credential,
        server=info.server,
        transport=info.transport,
        started=_format_time(info.started_at),
        idle_s=round(info.idle_s, 1),
        in_flight=info.in_flight,
        pid=info.pid,
        is_ending=info.is_ending,
    )


def _client_session(info: ClientSessionInfo) -> ClientSession:
    principal = info.principal
    return ClientSession(
        tenant=principal.tenant,
        user=user_name(principal),
        client=principal.client,
        credential=principal.credential,
        kind=info.kind,
        path=info.path,
        address=info.address,
        program=info.client,
        version=info.version,
        started=_format_time(info.started_at),
        idle_s=round(info.idle_s, 1),
        in_flight=info.in_flight,
    )


def _client_grant(info: GrantInfo) -> ClientGrant:
    return ClientGrant(
        tenant=info.tenant,
        user=info.user.removeprefix(PRINCIPAL_PREFIX),
        client=info.client_name,
        client_id=info.client_id,
        scopes=info.scopes,
        resource=info.resource,
        started=_format_time(info.created_at),
        last_used=_format_time(info.used_at),
        expires=_format_time(info.expires_at),
    )


def _server_login(server: str, principal: Principal) -> ServerLogin:
    return ServerLogin(tenant=principal.tenant, user=user_name(principal), server=server)


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
