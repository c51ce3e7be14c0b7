"""Adds tokens to requests, refreshes them, and obtains new ones when a server refuses a request.

Requests that wait for the same token share one refresh or login. It goes on when they stop waiting, because a
rotated refresh token whose response is lost cannot be used again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, cast
from weakref import WeakValueDictionary

import msgspec

from hubbub.errors import ConnectionClosed, HubbubError
from hubbub.net.egress_rules import EgressRules
from hubbub.net.timeouts import paused_timeouts
from hubbub.oauth import limits
from hubbub.oauth.client.challenges import Challenge, select_challenge
from hubbub.oauth.client.credentials import ClientRegistration, Credentials, find_newest
from hubbub.oauth.client.discovery import DiscoveryResult
from hubbub.oauth.client.dpop import DpopKey
from hubbub.oauth.client.machine_grants import Reveal
from hubbub.oauth.client.oauth_client import OAuthClient
from hubbub.oauth.client.redirects import FunctionRedirectHandler, RedirectHandler
from hubbub.oauth.client.settings import DEFAULT_REDIRECT_URI, OAuth
from hubbub.oauth.errors import AuthorizationFailed, LoginRequired, OAuthError, TokenRequestRefused
from hubbub.oauth.metadata import show_url
from hubbub.ports import RefusedRequest
from hubbub.protocol.host_origin import http_url

_UNAUTHORIZED: Final = 401
_UNKNOWN_CLIENT: Final = frozenset(("invalid_client", "unauthorized_client"))
_NO_HEADERS: Final[Mapping[str, str]] = {}


class OAuthAuthorizer:
    """Authorizes the requests to one server, as one principal. Implements `hubbub.ports.Authorizer`."""

    def __init__(self, client: OAuthClient, *, checks_store: bool = True) -> None:
        """`checks_store`: whether it looks for a logout in the store at intervals; False if its owner does so."""
        self._client = client
        self._checks_store = checks_store
        self._settings = client.settings
        self._store = client.settings.credential_store
        self._credentials: Credentials | None = None
        self._headers: Mapping[str, str] = _NO_HEADERS
        self._dpop: DpopKey | None = None
        self._is_loaded = False
        self._is_stored = False
        """Whether the credentials in use are those of the store, so that they end if they are deleted there."""
        self._checked_at = 0.0
        """When the store was last asked for them."""
        self._is_fresh = False
        """Whether the token was just issued by a login or grant, not by a refresh."""
        self._requested_scopes: tuple[str, ...] = ()
        self._step_ups: deque[float] = deque(maxlen=limits.STEP_UPS)
        """When more scopes were requested."""
        self._renewal: asyncio.Task[object] | None = None
        self._renewal_kind = ""
        self._users = 0

    def acquire(self) -> None:
        """Count one more client; each calls `release` at its end."""
        self._users += 1

    async def release(self) -> None:
        """Count one client less; with none left, a login in progress is cancelled."""
        self._users -= 1
        if self._users <= 0 and self._renewal is not None and not self._renewal.done():
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    # -- requests ------------------------------------------------------------------------

    def current_headers(self) -> Mapping[str, str] | None:
        """Return the header with the token; None if it must be loaded or refreshed, or needs proofs."""
        if not self._is_loaded or self._dpop is not None or self._is_expiring() or self._must_check():
            return None
        return self._headers

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers of one request; empty if there is no token yet.

        Raises: OAuthError.
        """
        if not self._is_loaded:
            await self._share("load", self._load)
        if self._must_check():
            await self._share("check", self._check)
        if self._is_expiring():
            sent = self._headers
            await self._share("renew", lambda: self._renew(sent))
        if self._dpop is None or self._credentials is None:
            return self._headers
        proof = self._dpop.make_proof(method, url, self._credentials.access_token)
        return {**self._headers, "DPoP": proof}

    async def handle_refusal(self, refused: RefusedRequest) -> bool:
        """Obtain what the challenge requires, and return whether the request can be sent again.

        Raises: OAuthError.
        """
        challenge = select_challenge(refused.challenge)
        if refused.dpop_nonce and self._dpop is not None:
            self._dpop.nonce = refused.dpop_nonce
            if challenge.error == "use_dpop_nonce":
                return True
        sent = refused.sent_headers
        if sent.get("Authorization") != self._headers.get("Authorization"):
            return True  # another request has obtained a new token in the meantime
        if refused.status == _UNAUTHORIZED:
            if self._is_fresh and refused.attempt > 0 and sent:
                return False  # the server refuses what its authorization server has just issued
            with self._paused_timeouts():
                await self._share("obtain", lambda: self._obtain(challenge, sent))
            return sent.get("Authorization") != self._headers.get("Authorization")
        return refused.forbidden_before < limits.STEP_UPS_OF_REQUEST and await self._step_up(challenge, sent)

    def remember_nonce(self, nonce: str) -> None:
        """Use this nonce in the next proof."""
        if self._dpop is not None:
            self._dpop.nonce = nonce

    async def log_in(self, challenge: str = "") -> Credentials:
        """Obtain new tokens now, whether or not there are some; `challenge`: a `WWW-Authenticate` of the server.

        Raises: OAuthError.
        """
        if not self._is_loaded:
            await self._share("load", self._load)
        await self._share("log-in", lambda: self._log_in(select_challenge(challenge), self._headers, more_scopes=()))
        return cast("Credentials", self._credentials)

    # -- obtaining tokens ------------------------------------------------------------------

    async def _step_up(self, challenge: Challenge, sent: Mapping[str, str]) -> bool:
        """Request the missing scopes together with those that were requested before."""
        scopes = tuple(dict.fromkeys((*self._granted_scopes(), *challenge.scopes)))
        is_known = set(scopes) <= set(self._requested_scopes)
        if challenge.error != "insufficient_scope" or not challenge.scopes or is_known or len(scopes) > limits.SCOPES:
            return False
        now = self._client.clock()
        if len(self._step_ups) == limits.STEP_UPS and abs(now - self._step_ups[0]) < limits.STEP_UP_WINDOW_S:
            return False  # a server could require another login for each request
        self._step_ups.append(now)
        with self._paused_timeouts():
            await self._share("step-up", lambda: self._log_in(challenge, sent, more_scopes=scopes))
        return True

    def _paused_timeouts(self) -> AbstractContextManager[None]:
        """Pause the timeouts of a request if a person may have to log in first."""
        is_interactive = self._settings.grant == "authorization_code" and self._settings.redirect_handler is not None
        return paused_timeouts() if is_interactive else nullcontext()

    async def _share(self, kind: str, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Wait for the running task of this kind, or start one; if it fails, everything that waits gets its error."""
        while self._renewal is not None and not self._renewal.done() and self._renewal_kind != kind:
            await asyncio.wait([self._renewal])
        if self._renewal is None or self._renewal.done():
            self._renewal, self._renewal_kind = asyncio.create_task(work()), kind
            self._renewal.add_done_callback(_retrieve_error)
        renewal = self._renewal
        await asyncio.wait([renewal])
        if renewal.cancelled():
            raise ConnectionClosed("The client was closed during a login; keep it open until the login ends")
        renewal.result()

    async def _load(self) -> bool:
        """Load the newest credentials; return whether they are newer than those in use."""
        settings = self._settings
        found = await find_newest(self._store, self._client.resource, settings.principal, settings.issuer)
        self._is_loaded, self._checked_at = True, self._client.clock()
        if found is not None and (self._credentials is None or found.obtained_at > self._credentials.obtained_at):
            self._use(found, is_fresh=False)
            self._is_stored = True
            return True
        return False

    def _must_check(self) -> bool:
        if not self._checks_store or not self._is_stored:
            return False
        return abs(self._client.clock() - self._checked_at) >= limits.CREDENTIAL_CHECK_S

    async def _check(self) -> None:
        """Stop using credentials that were deleted from the store, by a logout in this or another process."""
        credentials, self._checked_at = self._credentials, self._client.clock()
        if credentials is None or not self._is_stored:
            return
        try:
            stored = await self._store.load(self._client.key(credentials.issuer))
        except HubbubError:
            return  # while the store fails, the login remains
        if stored is None and self._credentials is credentials:
            self._forget()

    async def _renew(self, sent: Mapping[str, str]) -> None:
        """Renew a token that expires soon. If that needs a person, the token is used until the server refuses it."""
        credentials = self._credentials
        if self._headers is not sent or credentials is None:
            return
        try:
            if not await self._refresh(credentials) and self._settings.grant != "authorization_code":
                await self._log_in(Challenge(), sent, more_scopes=self._granted_scopes())
        except OAuthError:
            if credentials.expires_at is None or credentials.expires_at <= self._client.clock():
                raise

    async def _obtain(self, challenge: Challenge, sent: Mapping[str, str]) -> None:
        """Obtain a token after a refusal: from the store, by a refresh, or by a login."""
        if sent.get("Authorization") != self._headers.get("Authorization"):
            return
        if self._credentials is None and await self._load():
            return
        discovered = await self._discover(challenge)
        known = self._credentials
        if known is not None and known.issuer == discovered.issuer and await self._refresh(known):
            return
        if discovered.is_guessed and self._settings.grant == "authorization_code" and self._redirect_handler() is None:
            return  # it may not use OAuth at all: its own answer says more than `LoginRequired`
        await self._log_in(challenge, sent, more_scopes=(), discovered=discovered)

    async def _refresh(self, credentials: Credentials) -> bool:
        """Refresh the tokens; False if that is not possible (any more)."""
        # Without a person, new tokens cost nothing, and no grant but the configured one is ever used.
        is_refreshable = credentials.refresh_token is not None and not credentials.is_ended
        if not is_refreshable or self._settings.grant != "authorization_code":
            return await self._load()
        async with self._store.lock(self._client.key(credentials.issuer)):
            if await self._load():  # another process has refreshed them
                return True
            await self._check()
            if self._credentials is not credentials:
                return False  # they were deleted: to store renewed ones would undo the logout
            try:
                renewed = await self._client.refresh(credentials)
            except TokenRequestRefused as error:
                if await self._load():
                    return True
                if (ended := _mark_ended(credentials, error.code)) is not None:
                    self._credentials = ended
                    await self._store.save(self._client.key(credentials.issuer), ended)
                return False
            await self._save(renewed, is_fresh=False)
            return True

    async def _log_in(
        self,
        challenge: Challenge,
        sent: Mapping[str, str],
        *,
        more_scopes: tuple[str, ...],
        discovered: DiscoveryResult | None = None,
    ) -> None:
        if sent.get("Authorization") != self._headers.get("Authorization"):
            return
        found = discovered or await self._discover(challenge)
        # Scopes of one authorization server mean nothing to another.
        if self._credentials is None or self._credentials.issuer != found.issuer:
            more_scopes = ()
        if self._settings.grant != "authorization_code":
            credentials = await self._client.request_tokens(challenge, discovered=found, more_scopes=more_scopes)
        else:
            credentials = await self._log_in_person(challenge, found, more_scopes)
        configured = self._settings.scope
        requested = challenge.scopes if configured is None else configured.split()
        self._requested_scopes = tuple(dict.fromkeys((*more_scopes, *requested, *credentials.scopes)))
        await self._save(credentials, is_fresh=True)

    async def _log_in_person(
        self, challenge: Challenge, discovered: DiscoveryResult, more_scopes: tuple[str, ...]
    ) -> Credentials:
        handler = self._redirect_handler()
        if handler is None:
            raise LoginRequired.for_server(show_url(self._client.server_url), self._settings.login_command)
        try:
            async with asyncio.timeout(limits.LOGIN_S), handler.open() as receiver:
                url, pending = await self._client.begin_login(
                    receiver.redirect_uri,
                    challenge,
                    discovered=discovered,
                    more_scopes=more_scopes,
                    previous=await self._registration_at(discovered.issuer),
                )
                redirect = await receiver.authorize(url)
        except TimeoutError:
            raise AuthorizationFailed(
                f"The login was not completed within {limits.LOGIN_S / 60:g} minutes; start it again"
            ) from None
        return await self._client.finish_login(pending, redirect)

    async def _discover(self, challenge: Challenge) -> DiscoveryResult:
        """Find the authorization server. Credentials that were configured by hand are for one only."""
        is_bound = self._settings.client_id is not None or self._settings.grant != "authorization_code"
        known = self._credentials.issuer if is_bound and self._credentials is not None else None
        return await self._client.discover(challenge, issuer=known)

    def _redirect_handler(self) -> RedirectHandler | None:
        redirect = self._settings.redirect_handler
        if redirect is None or hasattr(redirect, "open"):
            return redirect
        return FunctionRedirectHandler(self._settings.redirect_uri or DEFAULT_REDIRECT_URI, redirect)

    async def _registration_at(self, issuer: str) -> ClientRegistration | None:
        known = self._credentials if self._credentials and self._credentials.issuer == issuer else None
        known = known or await self._store.load(self._client.key(issuer))
        return None if known is None else known.registration

    # -- the token in use --------------------------------------------------------------------

    async def _save(self, credentials: Credentials, *, is_fresh: bool) -> None:
        self._use(credentials, is_fresh=is_fresh)
        self._is_stored = False
        await self._store.save(self._client.key(credentials.issuer), credentials)
        self._is_stored, self._checked_at = True, self._client.clock()

    def _forget(self) -> None:
        self._credentials = self._dpop = None
        self._is_stored = False
        self._headers = _NO_HEADERS

    def _use(self, credentials: Credentials, *, is_fresh: bool) -> None:
        self._dpop = self._client.dpop_key(credentials) if credentials.token_type == "DPoP" else None
        self._credentials, self._is_fresh = credentials, is_fresh
        self._headers = {"Authorization": f"{credentials.token_type} {credentials.access_token}"}

    def _granted_scopes(self) -> tuple[str, ...]:
        granted = () if self._credentials is None else self._credentials.scopes
        return tuple(dict.fromkeys((*granted, *self._requested_scopes)))

    def _is_expiring(self) -> bool:
        credentials = self._credentials
        if credentials is None or credentials.expires_at is None:
            return False
        margin = min(limits.EXPIRY_MARGIN_S, (credentials.expires_at - credentials.obtained_at) / 4)
        return credentials.expires_at - margin <= self._client.clock()


_authorizers: WeakValueDictionary[tuple[int, str, str | None], OAuthAuthorizer] = WeakValueDictionary()
"""By settings, URL and tenant."""


def share_authorizer(
    server_url: str,
    settings: OAuth,
    *,
    rules: EgressRules | None,
    allow_private_network: bool | None,
    reveal: Reveal,
    tenant: str | None,
) -> OAuthAuthorizer:
    """Return the authorizer of these settings for a server.

    All connections share it, so that they refresh its tokens once.
    """
    url = http_url(server_url)
    # The authorizer keeps the settings alive, so their id stays theirs.
    key = (id(settings), url, tenant)
    found = _authorizers.get(key)
    if found is None:
        client = OAuthClient(url, settings, rules=rules, allow_private_network=allow_private_network, reveal=reveal)
        found = _authorizers[key] = OAuthAuthorizer(client)
    return found


def _mark_ended(credentials: Credentials, code: str) -> Credentials | None:
    """Mark credentials as ended after a refresh was refused with an error code; None: they may be refreshed later."""
    registration = credentials.registration
    # Some servers lose dynamic registrations at a restart. Only a person can correct a client registered by hand.
    if registration.source == "dynamic" and code in _UNKNOWN_CLIENT:
        registration = msgspec.structs.replace(registration, is_forgotten=True)
    elif code != "invalid_grant":
        return None
    return msgspec.structs.replace(credentials, registration=registration, is_ended=True)


def _retrieve_error(task: asyncio.Task[object]) -> None:
    """Mark the error as retrieved, because the tasks that waited may have been cancelled."""
    if not task.cancelled():
        task.exception()
