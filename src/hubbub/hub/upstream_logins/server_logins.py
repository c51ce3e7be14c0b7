"""The logins of users at one server: each user's own credentials, which only the sessions of that user send.

They are stored under the user, not under the key or token with which the user called the hub, so that a new key or
token needs no new login. The definitions of a server (tools, prompts, templates) are the same for all users: they are
read with the login of the hub itself if there is one, otherwise with that of any user. Its resources are listed for
each user separately: `user_resources`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable
from urllib.parse import quote, unquote

from msgspec.structs import replace

from hubbub.client.config import ServerConfig
from hubbub.errors import SettingsError
from hubbub.hub.upstream_logins import limits
from hubbub.hub.upstream_logins.authorizers import HUB_ITSELF, DefinitionsAuthorizer, UserAuthorizer
from hubbub.hub.upstream_logins.claims import ClaimStore
from hubbub.oauth.client.authorizer import OAuthAuthorizer
from hubbub.oauth.client.credentials import ClientRegistration, CredentialKey, Credentials, find_newest
from hubbub.oauth.client.login import PendingLogin
from hubbub.oauth.client.oauth_client import OAuthClient, resolve_secret
from hubbub.oauth.client.settings import OAuth
from hubbub.oauth.errors import OAuthError
from hubbub.protocol.calls import ANONYMOUS, Principal

logger = logging.getLogger("hubbub.hub")


class HubUser(NamedTuple):
    """A user of the hub, independent of the credential with which the user calls it."""

    tenant: str
    name: str
    """With a tenant, the user; without, the name of the principal."""

    @classmethod
    def from_principal(cls, principal: Principal) -> HubUser:
        """Return the user who calls as this principal."""
        return cls(principal.tenant, principal.user) if principal.tenant else cls("", principal.name)

    @classmethod
    def parse(cls, key: str) -> HubUser:
        """Return the user of a key."""
        tenant, _, name = key.partition("/")
        return cls(unquote(tenant), unquote(name))

    def is_user_of(self, principal: Principal) -> bool:
        """Whether this user calls as this principal."""
        return principal is not ANONYMOUS and HubUser.from_principal(principal) == self

    @property
    def key(self) -> str:
        """The `CredentialKey.principal` of this user; never that of the hub or of another user."""
        return f"{quote(self.tenant, safe='')}/{quote(self.name, safe='')}"

    @property
    def principal(self) -> Principal:
        """A principal of this user, for the journal and for the choice of who is logged out."""
        if not self.tenant:
            return Principal(self.name)
        return Principal(f"{self.tenant}/{self.name}", tenant=self.tenant, user=self.name)


@runtime_checkable
class ExpiringStore(Protocol):
    """A store that deletes credentials a while after a server refused them."""

    async def mark_unusable(self, key: CredentialKey) -> None:
        """Note that credentials were refused."""


@runtime_checkable
class OpenableStore(Protocol):
    """A store that checks at its opening whether this hub may use it."""

    async def open(self) -> None:
        """Open the store, if it is not open."""


class ServerLogins:
    """The logins at one server."""

    def __init__(self, config: ServerConfig, *, clock: Callable[[], float] = time.time) -> None:
        """Raises: SettingsError, if users cannot log in at this server."""
        settings = config.auth
        if not isinstance(settings, OAuth) or config.url is None or settings.grant != "authorization_code":
            raise SettingsError(
                f"server {config.id!r}: `per_user` needs a URL and `auth` with the grant authorization_code"
            )
        self.server = config.id
        self._config = config
        self._settings = settings
        self.clock = clock
        self._store = settings.credential_store
        self._clients: dict[str, OAuthClient] = {}
        self._authorizers: dict[str, UserAuthorizer] = {}
        self._checked_at: dict[str, float] = {}
        """When the credentials of a user were last seen in the store, so that few calls need to query it."""
        self._registrations: dict[tuple[str, str], ClientRegistration] = {}
        """Client ids that were registered by this process, by issuer and redirect URI: the hub needs one for all."""
        self._changed = asyncio.Event()
        self.definitions = DefinitionsAuthorizer(self)
        self.resource = self._client(HUB_ITSELF).resource

    # -- calls -----------------------------------------------------------------------------

    async def is_connected(self, user: HubUser) -> bool:
        """Whether a user has credentials that were not refused."""
        return self.was_checked(user.key) or await self.check(user.key)

    def was_checked(self, key: str) -> bool:
        """Whether the credentials of a user, or of the hub itself, were in the store `LOGIN_CHECK_S` ago or later."""
        checked_at = self._checked_at.get(key)
        return checked_at is not None and abs(self.clock() - checked_at) < limits.LOGIN_CHECK_S

    async def check(self, key: str) -> bool:
        """Return whether the store has credentials that were not refused; stop using those that it does not have.

        Another process may have deleted them, or replaced them after another login.
        """
        found, authorizer = await self.find_credentials(key), self._authorizers.get(key)
        if found is None:
            self._checked_at.pop(key, None)
            self.definitions.stop_using(key)
            if authorizer is not None:
                await authorizer.forget()
            return False
        if authorizer is not None:
            if authorizer.is_refused and not authorizer.is_new(found):
                return False
            authorizer.follow(found)
        self._mark_checked(key)
        return True

    def missing_scopes(self, user: HubUser) -> tuple[str, ...]:
        """The scopes that the server requires and the login of a user lacks."""
        authorizer = self._authorizers.get(user.key)
        return () if authorizer is None else authorizer.missing_scopes

    def authorizer(self, key: str) -> UserAuthorizer:
        """Return the authorizer of a user or of the hub itself; all sessions of the user share it."""
        found = self._authorizers.pop(key, None)
        if found is None:
            if len(self._authorizers) >= limits.USER_AUTHORIZERS:
                del self._authorizers[next(iter(self._authorizers))]
            found = UserAuthorizer(self, key)
        self._authorizers[key] = found  # moved to the end, so that the one unused for longest is first
        return found

    def authorizer_for(self, principal: Principal) -> UserAuthorizer:
        """Return the authorizer of the sessions of a principal."""
        return self.authorizer(HubUser.from_principal(principal).key)

    def new_authorizer(self, key: str) -> OAuthAuthorizer:
        """Return an authorizer that loads the credentials of a user, or of the hub itself."""
        authorizer = OAuthAuthorizer(self._client(key), checks_store=False)  # `check` does
        authorizer.acquire()
        return authorizer

    async def mark_refused(self, key: str) -> None:
        """Treat a user as logged out, because the server refused credentials that cannot be renewed."""
        self._checked_at.pop(key, None)
        found = await self.find_credentials(key)
        if found is not None and found.registration.is_forgotten:
            for place, known in [*self._registrations.items()]:
                if known.client_id == found.registration.client_id:
                    del self._registrations[place]
        if isinstance(self._store, ExpiringStore):
            for each in await self._store.list(resource=self.resource, principal=key):
                await self._store.mark_unusable(each)

    def _mark_checked(self, key: str) -> None:
        self._checked_at.pop(key, None)
        if len(self._checked_at) >= limits.USER_AUTHORIZERS:
            del self._checked_at[next(iter(self._checked_at))]
        self._checked_at[key] = self.clock()

    # -- logging in ------------------------------------------------------------------------

    async def begin(self, user: HubUser, redirect_uri: str, scopes: tuple[str, ...] = ()) -> tuple[str, PendingLogin]:
        """Return the URL at which the user logs in, and what `finish` needs; keep that secret.

        `scopes` are requested together with the configured ones and those of the present login.

        Raises: OAuthError.
        """
        client, authorizer = self._client(user.key), self.authorizer(user.key)
        challenge = authorizer.challenge or self.definitions.challenge
        discovered = await client.discover(challenge)
        before = await self.find_credentials(user.key)
        # If refreshing failed, the authorization server may have forgotten the client, and would only show an error.
        previous = None if authorizer.is_refused else await self._find_registration(discovered.issuer, redirect_uri)
        granted = before.scopes if before is not None and before.issuer == discovered.issuer else ()
        url, pending = await client.begin_login(
            redirect_uri,
            challenge,
            discovered=discovered,
            more_scopes=tuple(dict.fromkeys((*granted, *scopes))),
            previous=previous,
        )
        if pending.registration.source == "dynamic":
            if len(self._registrations) >= limits.REGISTRATIONS:
                del self._registrations[next(iter(self._registrations))]
            self._registrations[pending.issuer, redirect_uri] = pending.registration
        return url, pending

    async def finish(self, user: HubUser, pending: PendingLogin, redirect: str) -> Credentials:
        """Log the user in with the URL of the redirect, or its query.

        Raises: OAuthError.
        """
        client = self._client(user.key)
        credentials = await client.finish_login(pending, redirect)
        for key in await self._store.list(resource=self.resource, principal=user.key):
            if key.issuer != credentials.issuer:
                await self._store.delete(key)
        async with self._store.lock(client.key(credentials.issuer)):
            await self._store.save(client.key(credentials.issuer), credentials)
        await self.authorizer(user.key).use_new_login(pending.scopes)
        self.definitions.clear_refusal(user.key)
        self._mark_checked(user.key)
        self.report_change()
        return credentials

    async def wait_connected(self, user: HubUser, timeout_s: float, is_over: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until the user has logged in, at this process or another one; return whether that happened in time.

        Ends early if `is_over`.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            changed = self._changed
            if await self._has_new_login(user):
                return True
            left_s = deadline - asyncio.get_running_loop().time()
            if left_s <= 0 or await is_over():
                return False
            try:
                # Another process that finished the login cannot set the event.
                async with asyncio.timeout(min(left_s, limits.LOGIN_POLL_S)):
                    await changed.wait()
            except TimeoutError:
                pass

    def report_change(self) -> None:
        """Wake `wait_connected`, so that it checks again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def _has_new_login(self, user: HubUser) -> bool:
        authorizer = self.authorizer(user.key)
        if self.was_checked(user.key) and authorizer.challenge is None:
            return True
        found = await self.find_credentials(user.key)
        if found is None or not authorizer.is_new(found):
            return False
        await authorizer.use_new_login()
        self._mark_checked(user.key)
        return True

    # -- logging out -----------------------------------------------------------------------

    async def disconnect(self, user: HubUser) -> bool:
        """Delete the credentials of a user, and revoke them where they were issued; return whether there were any.

        The sessions of the user must have ended, so that none saves renewed credentials.
        """
        self._checked_at.pop(user.key, None)
        authorizer = self._authorizers.pop(user.key, None)
        if authorizer is not None:
            await authorizer.stop()
        self.definitions.stop_using(user.key)
        ended = []
        for key in await self._store.list(resource=self.resource, principal=user.key):
            # Otherwise a process that is refreshing the tokens would store them again.
            async with self._store.lock(key):
                credentials = await self._store.load(key)
                if await self._store.delete(key) and credentials is not None:
                    ended.append(credentials)
        for credentials in ended:
            try:
                await self._client(user.key).revoke(credentials)
            except OAuthError as error:
                logger.warning("credentials_not_revoked", extra={"server": self.server, "reason": error.message})
        self._clients.pop(user.key, None)
        return bool(ended)

    async def users(self) -> list[HubUser]:
        """The users who have credentials, whether or not the server still accepts them."""
        keys = await self._store.list(resource=self.resource)
        return [HubUser.parse(key) for key in dict.fromkeys(key.principal for key in keys) if key != HUB_ITSELF]

    async def principals(self) -> list[str]:
        """Whose credentials the store has: first the hub itself, then users."""
        return sorted({key.principal for key in await self._store.list(resource=self.resource)})

    async def close(self) -> None:
        """Cancel what is in progress."""
        for authorizer in self._authorizers.values():
            await authorizer.stop()
        self._authorizers.clear()

    @property
    def claims(self) -> ClaimStore | None:
        """The store of claims that all processes share; None if there is no database."""
        return self._store if isinstance(self._store, ClaimStore) else None

    async def open_store(self) -> None:
        """Open the store, if it is one that can be opened.

        Raises: SettingsError, StoreFailed.
        """
        if isinstance(self._store, OpenableStore):
            await self._store.open()

    async def close_store(self) -> None:
        """Close the store, if it is one that can be closed."""
        close = getattr(self._store, "close", None)
        if close is not None:
            await close()

    # -- parts -----------------------------------------------------------------------------

    def _client(self, key: str) -> OAuthClient:
        found = self._clients.get(key)
        if found is None:
            if len(self._clients) >= limits.USER_AUTHORIZERS:
                del self._clients[next(iter(self._clients))]
            found = self._clients[key] = OAuthClient(
                str(self._config.url),
                replace(self._settings, principal=key, redirect_handler=None),
                rules=self._config.egress,
                allow_private_network=self._config.allow_private_network,
                reveal=partial(resolve_secret, resolver=self._config.secrets, tenant=HubUser.parse(key).tenant or None),
                clock=self.clock,
            )
        return found

    async def find_credentials(self, key: str) -> Credentials | None:
        """Return the newest stored credentials of a user."""
        return await find_newest(self._store, self.resource, key)

    async def _find_registration(self, issuer: str, redirect_uri: str) -> ClientRegistration | None:
        """The client id that this hub was given by an authorization server, for any user."""
        known = self._registrations.get((issuer, redirect_uri))
        if known is not None:
            return known
        keys = [key for key in await self._store.list(resource=self.resource) if key.issuer == issuer]
        logins = [await self._store.load(key) for key in keys[: limits.SEARCHED_LOGINS]]
        found = [login for login in logins if login is not None and redirect_uri in login.registration.redirect_uris]
        forgotten = {login.registration.client_id for login in found if login.registration.is_forgotten}
        # The newest one: the authorization server may have forgotten the client of an older login since.
        found.sort(key=lambda login: login.obtained_at, reverse=True)
        known_clients = (login.registration for login in found if login.registration.client_id not in forgotten)
        return next(known_clients, None)
