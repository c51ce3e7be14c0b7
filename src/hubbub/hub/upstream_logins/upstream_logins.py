"""Starts, finishes and ends the logins of a hub's users at its servers.

A login begins with a link to this hub, which names the user and the server. It is not a credential: the page
behind it requires the user's own, or names the user, and only the first browser that submitted that page can use it,
once. With a database, all processes of the installation share these uses.
The redirect needs a state, which is sealed in a cookie of that browser, so that any process of the installation can
finish the login.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import product
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from hubbub.errors import HubbubError, SettingsError, StoreFailed
from hubbub.governance.decision import Target
from hubbub.hub.config import CONNECT
from hubbub.hub.session_control import LOGOUT_DRAIN_S, Logout, user_name
from hubbub.hub.upstream_logins import limits
from hubbub.hub.upstream_logins.claims import MemoryClaims
from hubbub.hub.upstream_logins.server_logins import HubUser, ServerLogins
from hubbub.oauth.client.login import PendingLogin
from hubbub.oauth.errors import AuthorizationFailed, OAuthError
from hubbub.protocol.calls import Caller, Notification, Principal
from hubbub.server.public_routes import Identification

if TYPE_CHECKING:
    from hubbub.hub.catalog_view import CatalogView
    from hubbub.hub.gateway import Gateway
    from hubbub.hub.visible_items import Shows
    from hubbub.server.public_routes import PersonLogin

CONNECT_PATH: Final = "/oauth/connect/"
CALLBACK_PATH: Final = "/oauth/upstream/callback/"
"""The name of the server follows, so that no redirect is accepted for another server (RFC 9700, 4.4.2.2)."""
ELICITATION_COMPLETE: Final = "notifications/elicitation/complete"
_LINK: Final = "login link"
_BROWSER: Final = "browser"
_DONE: Final = "done"
_FAILED: Final = "failed"
_NOT_STORED: Final = (
    "This hub could not complete the login. Start it again; if that does not help, tell the operator of this hub, "
    "whose log says why"
)
_LOGGED_OUT: Final = "You were logged out after this login began. Start it again to get a new link"

logger = logging.getLogger("hubbub.hub")


class LoginLink(msgspec.Struct, frozen=True, array_like=True):
    """The content of a link to log in."""

    id: str
    """Also the id of the elicitation."""
    user: HubUser
    server: str
    notify_principal: str = ""
    """The name of the principal whose clients get the notification that the login is complete; empty: none."""
    scopes: tuple[str, ...] = ()
    """The scopes that the server requires and the present login lacks."""
    identification: Identification = "none"
    """How the page identifies the person who opens it: with the kind of credential that the user called with."""
    made_at: float = 0.0
    """When it was made. A later logout of the user ends it."""


class LinkRefused(HubbubError):
    """A link cannot be used; the message says why."""


class UpstreamLogins:
    """The logins at all servers of one hub."""

    def __init__(self, hub: Gateway) -> None:
        self._hub = hub
        self._claims = MemoryClaims(time.time)
        self._watch: asyncio.Task[None] | None = None

    # -- servers ---------------------------------------------------------------------------

    def _list_server_logins(self) -> list[ServerLogins]:
        return [logins for id in self._hub.upstreams if (logins := self.find(id)) is not None]

    def visible(self, shown: CatalogView, shows: Shows) -> list[str]:
        """The servers that a view shows to some callers."""
        # Nothing of a server is listed until the first user has logged in.
        return [
            id
            for id in (logins.server for logins in self._list_server_logins())
            if shown.has_server(id) and (id in shown.offering_servers or shows(Target("tool", id, CONNECT)))
        ]

    def find(self, server: str) -> ServerLogins | None:
        """Return the logins at a server; None if it has none."""
        upstream = self._hub.upstreams.get(server)
        return None if upstream is None else getattr(upstream, "logins", None)

    @property
    def person_login(self) -> PersonLogin | None:
        """Logs people in at the hub; None if it is not an authorization server."""
        return self._hub.main_front.person_login

    @property
    def identify_key(self) -> Callable[[bytes], Principal | None] | None:
        """Identifies a person by an API key of the hub; None if it has none."""
        return self._hub.main_front.identify_key

    def address(self, server: str) -> str:
        """The URL of a server."""
        logins = self.find(server)
        return "" if logins is None else logins.resource

    # -- links -----------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        """The URL of this hub, for the browsers of its users.

        Raises: SettingsError, if it is not known.
        """
        front = self._hub.main_front
        url = (front.oauth.public_url if front.oauth is not None else "") or front.base_url
        if not url:
            raise SettingsError("The URL of this hub is not known; its operator can set public_url in [oauth]")
        return url.rstrip("/")

    def make_link(self, caller: Caller, server: str) -> tuple[LoginLink, str]:
        """Return a new link for the user who calls, and its URL.

        Raises: SettingsError, if the URL of the hub is not known, or the hub cannot identify the user in a browser.
        """
        principal, revision = caller.principal, caller.revision
        has_notification = revision.elicitation == "url" and not revision.rounds
        notify_principal = principal.name if has_notification else ""
        user, logins = HubUser.from_principal(principal), self.find(server)
        scopes = () if logins is None else logins.missing_scopes(user)
        identification = self._hub.main_front.identification(principal)
        self._check_identification(identification)
        link = LoginLink(secrets.token_hex(12), user, server, notify_principal, scopes, identification, time.time())
        return link, self.link_url(link)

    def _check_identification(self, identification: Identification) -> None:
        oauth = self._hub.main_front.oauth
        if identification == "none" and (oauth is None or not oauth.allow_unidentified_logins):
            raise SettingsError(
                "This hub cannot check who opens a link to log in, because another authorization server issued the "
                "token of this call. Call the hub with a login at the hub itself or an API key, or ask its operator to "
                "set allow_unidentified_logins in [oauth]"
            )

    def link_url(self, link: LoginLink) -> str:
        """Return the URL of a link; it can be used for `LOGIN_S` from now on."""
        record = msgspec.to_builtins(link)
        return self.base_url + CONNECT_PATH + self._hub.sealer.seal(_LINK, record, lifetime_s=limits.LOGIN_S)

    async def open_link(self, sealed: str) -> LoginLink:
        """Return the content of the link with this path.

        Raises: LinkRefused.
        """
        try:
            link = msgspec.convert(self._hub.sealer.open(_LINK, sealed), LoginLink)
        except (ValueError, msgspec.ValidationError):
            raise LinkRefused(
                "This link has expired or is incomplete. Start the login again to get a new one"
            ) from None
        if await self._is_claimed(link, _DONE):
            raise LinkRefused("This link was used already. If you still have to log in, start again to get a new one")
        if await self.is_logged_out(link):
            raise LinkRefused(_LOGGED_OUT)
        return link

    async def find_failure(self, url: str, user: HubUser) -> str | None:
        """Return why the login with a link of this user failed; None: it did not fail, or this is not a link."""
        try:
            sealed = url.partition(CONNECT_PATH)[2]
            link = msgspec.convert(self._hub.sealer.open(_LINK, sealed), LoginLink)
        except (ValueError, msgspec.ValidationError):
            return None
        return await self._find_claim(link, _FAILED) if link.user == user and self.find(link.server) else None

    async def is_for_present_login(self, link: LoginLink) -> bool:
        """Whether the login with a link is not complete yet, and requests all scopes that its user lacks."""
        logins = self.find(link.server)
        missing = () if logins is None else logins.missing_scopes(link.user)
        return set(missing) <= set(link.scopes) and not await self._is_claimed(link, _DONE)

    async def bind(self, link: LoginLink, browser: str) -> None:
        """Let only this browser use a link.

        Raises: LinkRefused, if another one does.
        """
        if await self._claim(link, _BROWSER, browser) != browser:
            raise LinkRefused("This link was opened in another browser already. Start the login again to get a new one")

    # -- logging in ------------------------------------------------------------------------

    async def begin(self, link: LoginLink) -> tuple[str, PendingLogin]:
        """Return the URL at which the user of a link logs in, and what `finish` needs.

        Raises: OAuthError, LinkRefused.
        """
        redirect_uri = self.base_url + CALLBACK_PATH + quote(link.server, safe="")
        return await self._logins(link).begin(link.user, redirect_uri, link.scopes)

    async def finish(self, link: LoginLink, pending: PendingLogin, redirect: str) -> None:
        """Log the user of a link in; calls that wait for it continue.

        Raises: OAuthError, LinkRefused; SettingsError, StoreFailed, if the credentials cannot be stored.
        """
        logins, attempt = self._logins(link), secrets.token_hex(12)
        if await self._claim(link, _DONE, attempt) != attempt:
            raise LinkRefused(
                "This login has ended already. If you still have to log in, start again to get a new link"
            )
        try:
            credentials = await logins.finish(link.user, pending, redirect)
            if await self.is_logged_out(link):
                await self.disconnect(link.user, link.server, 0)
                raise LinkRefused(_LOGGED_OUT)
        except HubbubError as error:
            await self._report_failure(link, error)
            raise
        self._report("credential.connect", link.server, link.user.principal, {"issuer": credentials.issuer})
        logger.info("user_connected", extra={"server": link.server, "tenant": link.user.tenant})
        if link.notify_principal:
            note = Notification(ELICITATION_COMPLETE, {"elicitationId": link.id}, principal=link.notify_principal)
            for front in self._hub.fronts.values():
                front.broadcaster.publish(note)
        await self._read_lists(link.server)

    async def _report_failure(self, link: LoginLink, error: HubbubError) -> None:
        """End the calls that wait for this login. Other errors than those of OAuth name files or databases."""
        logger.warning("user_not_connected", extra={"server": link.server, "reason": error.message})
        try:
            await self._claim(link, _FAILED, error.message if isinstance(error, OAuthError) else _NOT_STORED)
        except HubbubError as failure:  # the same database as that of the credentials
            logger.warning("login_failure_not_stored", extra={"server": link.server, "reason": failure.message})
        logins = self.find(link.server)
        if logins is not None:
            logins.report_change()

    async def wait(self, link: LoginLink, timeout_s: float) -> bool:
        """Wait until the user of a link has logged in; return whether that happened in time.

        Raises: AuthorizationFailed.
        """
        logins = self._logins(link)
        connected = await logins.wait_connected(link.user, timeout_s, lambda: self._is_claimed(link, _FAILED))
        if not connected and (failure := await self._find_claim(link, _FAILED)):
            raise AuthorizationFailed(failure)
        if connected:
            await self._read_lists(link.server)
        return connected

    async def _read_lists(self, server: str) -> None:
        """Connect to a server at once if that failed before, because no user had logged in."""
        upstream = self._hub.upstreams.get(server)
        if upstream is not None and upstream.state.phase != "ready":
            await upstream.refresh()

    # -- removed tenants -------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look for logins of removed tenants while the block runs.

        Raises: SettingsError, if a store belongs to another hub.
        """
        for logins in self._list_server_logins():
            try:
                await logins.open_store()
            except StoreFailed as error:  # the next use opens it
                logger.warning("upstream_logins_not_checked", extra={"reason": error.message})
        self.start_watch()
        yield  # `close` stops it, also if a reload started it

    def start_watch(self) -> None:
        """Look for logins of removed tenants until `close`."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_tenants(), name="upstream logins")

    async def _watch_tenants(self) -> None:
        while True:
            try:
                await self.retire_removed_tenants()
            except HubbubError as error:
                logger.warning("upstream_logins_not_checked", extra={"reason": error.message})
            await asyncio.sleep(limits.TENANT_CHECK_S)

    async def retire_removed_tenants(self) -> None:
        """Stop reading lists with logins of tenants that are not in the settings, and let the store delete these.

        They are not deleted at once, because another process may have read the settings earlier than this one.

        Raises: StoreFailed.
        """
        tenants = self._hub.main_front.tenants
        if tenants is None:
            return
        for logins in self._list_server_logins():
            for user in await logins.users():
                if user.tenant and user.tenant not in tenants:
                    logins.definitions.exclude(user.key)
                    await logins.mark_refused(user.key)

    # -- logging out -----------------------------------------------------------------------

    async def disconnect(self, user: HubUser, server: str, drain_s: float = LOGOUT_DRAIN_S) -> bool:
        """End the sessions of a user with a server, and delete and revoke the login; return whether there was one."""
        logins, upstream = self.find(server), self._hub.upstreams.get(server)
        if logins is None or upstream is None:
            return False
        await upstream.end_sessions(user.is_user_of, drain_s)
        is_in_lists = logins.definitions.chosen_key == user.key
        ended = await logins.disconnect(user)
        if is_in_lists:
            await upstream.reconnect()  # type: ignore[attr-defined]
        if ended:
            self._report("credential.disconnect", server, user.principal, {})
        return ended

    async def list_logins(self, logout: Logout) -> list[tuple[str, Principal]]:
        """Return the logins that this logout would end: the server and the user."""
        return [
            (logins.server, user.principal)
            for logins in self._list_server_logins()
            if logout.server in (None, logins.server)
            for user in await logins.users()
            if logout.matches(user.principal)
        ]

    async def log_out(self, logout: Logout) -> int:
        """End the logins of users who are logged out of the hub; return their number. Their sessions have ended."""
        count = 0
        for logins in self._list_server_logins():
            if logout.server not in (None, logins.server):
                continue
            # First, so that a login that is completed meanwhile is either found below or refused.
            name = _logout_claim_name(logins.server, logout.tenant, logout.user)
            claims, now = logins.claims or self._claims, time.time()
            await claims.replace_claim(name, repr(now), now + 2 * limits.LOGIN_S)
            users = [user for user in await logins.users() if logout.matches(user.principal)]
            count += sum(await asyncio.gather(*(self.disconnect(user, logins.server, 0) for user in users)))
        return count

    async def is_logged_out(self, link: LoginLink) -> bool:
        """Whether the user of a link was logged out after it was made."""
        claims, user = self._logins(link).claims or self._claims, link.user.principal
        for tenant, name in product((None, user.tenant), {None, user.user, user.name, user_name(user)}):
            ended_at = await claims.find_claim(_logout_claim_name(link.server, tenant, name))
            if ended_at is not None and float(ended_at) >= link.made_at:
                return True
        return False

    async def close(self) -> None:
        """Stop looking for logins of removed tenants, and close the stores; their next use opens them again."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.wait([watch])
        for logins in self._list_server_logins():
            await logins.close_store()

    # -- parts -----------------------------------------------------------------------------

    def _logins(self, link: LoginLink) -> ServerLogins:
        found = self.find(link.server)
        if found is None:
            raise LinkRefused(f"The server {link.server} does not need a login any more")
        return found

    async def _claim(self, link: LoginLink, kind: str, value: str) -> str:
        """Return the first claim of this kind on a link."""
        claims = self._logins(link).claims or self._claims
        # Longer than both halves of a login: the link, and the redirect of a login that began at its end.
        return await claims.claim(f"{kind} {link.id}", value, time.time() + 2 * limits.LOGIN_S)

    async def _find_claim(self, link: LoginLink, kind: str) -> str | None:
        claims = self._logins(link).claims or self._claims
        return await claims.find_claim(f"{kind} {link.id}")

    async def _is_claimed(self, link: LoginLink, kind: str) -> bool:
        return await self._find_claim(link, kind) is not None

    def _report(self, event: str, server: str, principal: Principal, facts: Mapping[str, str]) -> None:
        upstream = self._hub.upstreams.get(server)
        if upstream is not None and upstream.on_event is not None:
            upstream.on_event(event, principal, facts)


def _logout_claim_name(server: str, tenant: str | None, user: str | None) -> str:
    """Return the name of the claim with the time of the last logout; None: all tenants, or all users."""
    return f"logout {msgspec.json.encode((server, tenant, user)).decode()}"
