"""`hub.connect`: logs the caller's user in at a server, shows where the user is logged in, and ends a login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from hubbub.errors import ToolError
from hubbub.hub.config import CONNECT
from hubbub.hub.upstream_logins.login_peer import UpstreamLoginRequired, request_login
from hubbub.hub.upstream_logins.server_logins import HubUser, ServerLogins
from hubbub.hub.upstream_logins.upstream_logins import UpstreamLogins
from hubbub.protocol.calls import ANONYMOUS
from hubbub.protocol.results import ToolAnnotations
from hubbub.server.context import Context
from hubbub.suggestions import format_suggestion

if TYPE_CHECKING:
    from hubbub.hub.front import Front

_ANNOTATIONS: Final = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True)


class ConnectedServer(msgspec.Struct, omit_defaults=True):
    """A server at which each user logs in."""

    server: str
    connected: bool
    """Whether this user is logged in there."""
    url: str | None = None
    """The page at which the user logs in; open it in a browser."""
    problem: str | None = None
    """Why the login with the given `url` failed."""
    ended: bool = False
    """Whether this call ended a login."""


class ConnectResult(msgspec.Struct):
    """Where the user is logged in."""

    servers: list[ConnectedServer]


def register_connect_tool(front: Front, logins: UpstreamLogins) -> None:
    """Register the tool on a front."""

    @front.tool(name=CONNECT, annotations=_ANNOTATIONS)
    async def connect(
        server: Annotated[
            str | None, msgspec.Meta(description="The name of the server; without it, all are listed.")
        ] = None,
        action: Annotated[
            Literal["connect", "list", "disconnect"],
            msgspec.Meta(description="disconnect deletes and revokes the login."),
        ] = "connect",
        url: Annotated[
            str | None,
            msgspec.Meta(description="With list: the page that connect returned; `problem` says why its login failed."),
        ] = None,
        *,
        context: Context,
    ) -> ConnectResult:
        """Log in at a server with your own account, list the servers that need it, or end such a login."""
        if context.caller.principal is ANONYMOUS:
            raise ToolError(
                "A login at a server needs a user, but this call is not authenticated; call this hub with an API key "
                "or an access token"
            )
        known, user = front.connectable_servers(context.caller), HubUser.from_principal(context.caller.principal)
        if server is not None and server not in known:
            raise ToolError(f"Users do not log in at a server {server!r}{format_suggestion(server, known)}")
        if server is None and action == "disconnect":
            raise ToolError("The action disconnect needs `server`, the name of the server to disconnect from")
        shown = known if server is None else [server]
        if server is not None and action == "disconnect":
            ended = await logins.disconnect(user, server)
            return ConnectResult([ConnectedServer(server, connected=False, ended=ended)])
        if server is not None and action == "connect" and await _needs_login(_logins(logins, server), user):
            try:
                await request_login(logins, context.call, server)
            except UpstreamLoginRequired as error:
                page = error.data.get("url")
                if page is None:
                    raise
                return ConnectResult([ConnectedServer(server, connected=False, url=page)])
        servers = [ConnectedServer(each, await _logins(logins, each).is_connected(user)) for each in shown]
        if url is not None and len(servers) == 1:
            servers[0].problem = await logins.find_failure(url, user)
        return ConnectResult(servers)


async def _needs_login(logins: ServerLogins, user: HubUser) -> bool:
    return bool(logins.missing_scopes(user)) or not await logins.is_connected(user)


def _logins(logins: UpstreamLogins, server: str) -> ServerLogins:
    found = logins.find(server)
    if found is None:
        raise ToolError(f"The server {server} does not ask users to log in any more")
    return found
