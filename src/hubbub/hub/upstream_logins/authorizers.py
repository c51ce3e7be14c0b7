"""Add the tokens of a user to the requests of that user's sessions, and those of one login to the hub's own session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from hubbub.oauth.client.challenges import Challenge, select_challenge
from hubbub.oauth.client.credentials import Credentials
from hubbub.oauth.errors import LoginRequired, UserLoginRequired
from hubbub.ports import Authorizer, RefusedRequest

if TYPE_CHECKING:
    from hubbub.hub.upstream_logins.server_logins import ServerLogins

HUB_ITSELF: Final = ""
"""The principal of the hub's own credentials."""
_NO_HEADERS: Final[Mapping[str, str]] = {}
_INSUFFICIENT_SCOPE: Final = "insufficient_scope"


class UserAuthorizer:
    """Authorizes the requests of one user. Implements `hubbub.ports.Authorizer`."""

    def __init__(self, logins: ServerLogins, key: str) -> None:
        self._logins = logins
        self._key = key
        self._authorizer = logins.new_authorizer(key)
        self.challenge: Challenge | None = None
        """The challenge of the server when it refused the credentials; None: it did not, or there are new ones."""
        self._found_header = ""
        """The `Authorization` header of the credentials that the last check found."""
        self._refused_header = ""
        """The `Authorization` header that the server refused."""
        self._requested_scopes: frozenset[str] = frozenset()
        """The scopes that were requested in the last login."""

    @property
    def is_refused(self) -> bool:
        """Whether the server refuses the credentials for every request, not only for one that needs more scopes."""
        return self.challenge is not None and not self.missing_scopes

    @property
    def missing_scopes(self) -> tuple[str, ...]:
        """The scopes that the server requires and the login lacks."""
        if self.challenge is None or self.challenge.error != _INSUFFICIENT_SCOPE:
            return ()
        return self.challenge.scopes

    def is_new(self, found: Credentials) -> bool:
        """Whether these differ from the credentials that the server refused."""
        return self.challenge is None or _format_header(found) != self._refused_header

    def current_headers(self) -> Mapping[str, str] | None:
        """Return headers that are valid for every request now; None: use `headers`."""
        return self._authorizer.current_headers() if self._logins.was_checked(self._key) else None

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers of one request; without a token if the user is not logged in any more.

        Raises: OAuthError.
        """
        if not self._logins.was_checked(self._key):
            await self._logins.check(self._key)
        return await self._authorizer.headers(method, url)

    async def handle_refusal(self, refused: RefusedRequest) -> bool:
        """Obtain what the challenge requires, and return whether the request can be sent again.

        Raises: UserLoginRequired, OAuthError.
        """
        try:
            return await self._authorizer.handle_refusal(refused)
        except LoginRequired:
            pass
        challenge, sent = select_challenge(refused.challenge), refused.sent_headers.get("Authorization", "")
        if challenge.error == _INSUFFICIENT_SCOPE:
            found = await self._logins.find_credentials(self._key)
            if found is not None and _format_header(found) != sent:
                await self.use_new_login()  # the user has logged in at another process
                return True
            if self._requested_scopes.issuperset(challenge.scopes):
                return False  # another login would not help: the user does not get these scopes
        self.challenge, self._refused_header = challenge, sent
        if self.is_refused:
            await self._logins.mark_refused(self._key)
        raise UserLoginRequired(self._logins.server)

    def remember_nonce(self, nonce: str) -> None:
        """Use this nonce in the next proof."""
        self._authorizer.remember_nonce(nonce)

    def acquire(self) -> None:
        """Do nothing: a refresh continues when the session that needed it ends."""

    async def release(self) -> None:
        """Do nothing, as `acquire`."""

    async def use_new_login(self, requested_scopes: tuple[str, ...] = ()) -> None:
        """Load the credentials again, because the user has logged in again."""
        self._requested_scopes = frozenset((*requested_scopes, *self.missing_scopes))
        self.challenge = None
        await self._replace()

    async def forget(self) -> None:
        """Stop using the credentials, because the store has none."""
        if self._authorizer.current_headers() != _NO_HEADERS:
            await self._replace()

    async def _replace(self) -> None:
        """Load credentials from the store with the next request."""
        self._found_header = ""
        old, self._authorizer = self._authorizer, self._logins.new_authorizer(self._key)
        await old.release()

    def follow(self, found: Credentials) -> None:
        """Use the credentials in the store, if another process has replaced those in use."""
        header, known = _format_header(found), self._found_header
        if self.is_refused:
            self.challenge = None
        if known not in ("", header) and header != (self._authorizer.current_headers() or {}).get("Authorization"):
            # The old one is not released: its refresh in progress must complete, because a refresh token works once.
            self._authorizer = self._logins.new_authorizer(self._key)
        self._found_header = header

    async def stop(self) -> None:
        """Cancel a refresh that is in progress."""
        await self._authorizer.release()


class DefinitionsAuthorizer:
    """Authorizes the hub's own session, which reads lists: as the hub itself if it has a login, or else as a user.

    No call of a user is sent with it. Implements `hubbub.ports.Authorizer`.
    """

    def __init__(self, logins: ServerLogins) -> None:
        self._logins = logins
        self._chosen: Authorizer | None = None
        self.chosen_key: str | None = None
        """Whose credentials it uses now."""
        self._refused: set[str] = set()
        self.challenge = Challenge()
        """The last challenge of the server."""

    def current_headers(self) -> Mapping[str, str] | None:
        """Return headers that are valid for every request now; None: `headers` has to choose or renew them."""
        return None if self._chosen is None else self._chosen.current_headers()

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers of one request; empty if no user has logged in yet.

        Raises: OAuthError.
        """
        if self._chosen is not None and not self._logins.was_checked(self.chosen_key or HUB_ITSELF):
            await self._logins.check(self.chosen_key or HUB_ITSELF)
        if self._chosen is None:
            await self._choose()
        return _NO_HEADERS if self._chosen is None else await self._chosen.headers(method, url)

    async def handle_refusal(self, refused: RefusedRequest) -> bool:
        """Renew the credentials in use, or use those of another user; return whether the request can be sent again.

        Raises: UserLoginRequired, if there are no others.
        """
        self.challenge = select_challenge(refused.challenge)
        if self._chosen is not None and refused.sent_headers:
            try:
                return await self._chosen.handle_refusal(refused)
            except LoginRequired:
                self._refused.add(self.chosen_key or HUB_ITSELF)
                self._chosen = self.chosen_key = None
        await self._choose()
        if self._chosen is None:
            raise UserLoginRequired(self._logins.server)
        return True

    def remember_nonce(self, nonce: str) -> None:
        """Use this nonce in the next proof."""
        if self._chosen is not None:
            self._chosen.remember_nonce(nonce)

    def acquire(self) -> None:
        """Do nothing: the authorizers that it uses belong to `ServerLogins`."""

    async def release(self) -> None:
        """Do nothing, as `acquire`."""

    def exclude(self, key: str) -> None:
        """Do not use the credentials of a user until the next login."""
        self.stop_using(key)
        self._refused.add(key)

    def clear_refusal(self, key: str) -> None:
        """Allow the credentials of a user again, after a new login."""
        self._refused.discard(key)

    def stop_using(self, key: str) -> None:
        """Use the credentials of another user from now on."""
        self._refused.discard(key)
        if self.chosen_key == key:
            self._chosen = self.chosen_key = None

    async def _choose(self) -> None:
        for key in await self._logins.principals():
            if key not in self._refused:
                self._chosen, self.chosen_key = self._logins.authorizer(key), key
                return


def _format_header(credentials: Credentials) -> str:
    return f"{credentials.token_type} {credentials.access_token}"
