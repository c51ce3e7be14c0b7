"""Checks people at the identity provider again, when their clients refresh a token.

It needs a refresh token of the provider, which is stored sealed, one for each login, and is never used for anything
else. A login without one ends after `max_login_s` of `[oauth.provider]`, so that the person logs in again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from hubbub import bounds
from hubbub.errors import HubbubError, StoreFailed
from hubbub.oauth.errors import ServerUnavailable
from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.config import FrontDoorConfig
from hubbub.oauth.front_door.provider import LoginEnded, Provider, ProviderLogin
from hubbub.oauth.front_door.records import Grant, RefreshToken, User
from hubbub.ports import Sealer

if TYPE_CHECKING:
    from hubbub.store.sql import Connection, Database

_PURPOSE: Final = "oauth provider login"

logger = logging.getLogger("hubbub.oauth")


class ProviderUnavailable(ServerUnavailable):
    """The identity provider has not answered for too long, so nothing is issued."""


class _SealedLogin(msgspec.Struct, frozen=True, array_like=True):
    subject: str
    refresh_token: str


class _StoredLogin(msgspec.Struct, frozen=True):
    id: str
    grant_id: str
    """The one grant that began with this login."""
    sealed: str
    checked_at: int


class ProviderLogins:
    """The logins at the provider whose refresh tokens are known."""

    def __init__(
        self,
        config: FrontDoorConfig,
        provider: Provider,
        *,
        database: Callable[[], Database],
        sealer: Sealer,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._provider = provider
        self._database = database
        self._sealer = sealer
        self._clock = clock

    async def start(self, login: ProviderLogin) -> User:
        """Store the provider's refresh token, if it sent one; return the user of its login.

        Raises: StoreFailed.
        """
        user = login.user
        if not 0 < len(login.refresh_token) <= bounds.CREDENTIAL_BYTES:
            return user
        id, now = secrets.token_urlsafe(16), self._clock()
        sealed = self._seal(login)
        await self._database().write(lambda connection: _insert(connection, id, user, sealed, now))
        return msgspec.structs.replace(user, provider_login=id)

    async def check(self, text: str, client_id: str) -> list[str]:
        """Ask the provider about the person of a refresh token, if that is due; return the grants that ended by it.

        Raises: ProviderUnavailable, StoreFailed.
        """
        token = RefreshToken.parse(text)
        if token is None:
            return []
        grant = await self._database().read(lambda c: _find_current_grant(c, token, client_id, self._clock()))
        if grant is None or not grant.authorization.user.provider_login:
            return []
        id = grant.authorization.user.provider_login
        stored = await self._database().read(lambda connection: _read(connection, id))
        if stored is None or stored.grant_id != grant.grant_id:
            return await self._end(grant, "its login at the provider is unknown")
        now = self._clock()
        age_s = now - stored.checked_at
        if age_s < limits.PROVIDER_CHECK_S:
            return []
        if not await self._database().write(lambda c: _set_checked(c, id, stored.checked_at, int(now))):
            return []  # another request is checking it
        try:
            await self._refresh(grant, stored)
        except LoginEnded as error:
            return await self._end(grant, error.message)
        except (HubbubError, TimeoutError) as error:
            await self._database().write(lambda c: _set_checked(c, id, int(now), stored.checked_at))
            if isinstance(error, StoreFailed):
                raise
            reason = str(error) or "it did not answer in time"
            logger.warning(
                "oauth_provider_unavailable", extra={"grant_id": grant.grant_id, "age_s": int(age_s), "reason": reason}
            )
            if age_s < limits.PROVIDER_DOWN_S:
                return []
            raise ProviderUnavailable("The identity provider cannot be reached to check this login") from None
        return []

    async def _refresh(self, grant: Grant, stored: _StoredLogin) -> None:
        """Refresh a login at the provider, and remove the scopes that the person can no longer grant.

        Raises: LoginEnded, OAuthError, StoreFailed.
        """
        try:
            sealed_login = msgspec.convert(self._sealer.open(_PURPOSE, stored.sealed), type=_SealedLogin)
        except (ValueError, msgspec.ValidationError):
            # Sealed with a key that this installation no longer has.
            raise LoginEnded("The login cannot be opened") from None
        authorization = grant.authorization
        old = authorization.user
        async with asyncio.timeout(limits.PROVIDER_CHECK_TIMEOUT_S):
            login = await self._provider.refresh_login(sealed_login.refresh_token, sealed_login.subject, old)
        user = login.user
        if (user.name, user.tenant) != (old.name, old.tenant):
            raise LoginEnded("The person has another name or tenant now")
        permitted = self._config.permitted_scopes(user)
        # The consent was for these scopes, so a person who may grant more now is asked again.
        scopes = tuple(scope for scope in authorization.scopes if scope in permitted)
        user = msgspec.structs.replace(old, scopes=user.scopes)
        authorization = msgspec.structs.replace(authorization, user=user, scopes=scopes)
        sealed, checked = self._seal(login), msgspec.structs.replace(grant, authorization=authorization)
        await self._database().write(lambda connection: _update(connection, stored.id, sealed, checked))

    def _seal(self, login: ProviderLogin) -> str:
        return self._sealer.seal(_PURPOSE, [login.subject, login.refresh_token])

    async def _end(self, grant: Grant, reason: str) -> list[str]:
        from hubbub.oauth.front_door import store

        logger.info("oauth_login_ended_by_provider", extra={"grant_id": grant.grant_id, "reason": reason})
        now = self._clock()
        return await self._database().write(lambda connection: store.end_grants(connection, [grant.grant_id], now))


def _find_current_grant(connection: Connection, token: RefreshToken, client_id: str, now: float) -> Grant | None:
    """Return the grant of a refresh token of this client; None also if the token was used before."""
    from hubbub.oauth.front_door import store

    grant = store.find_grant(connection, token, now, must_be_unused=True)
    return grant if grant is not None and grant.authorization.client_id == client_id else None


def _insert(connection: Connection, id: str, user: User, sealed: str, now: float) -> None:
    from hubbub.oauth.front_door import store
    from hubbub.oauth.front_door.tables import provider_logins
    from hubbub.store.sql import add_row, and_

    columns = provider_logins.c
    belongs_to_user = and_(columns.tenant == user.tenant, columns.user_name == user.name)
    store.delete_oldest(
        connection, provider_logins, columns.id, belongs_to_user, columns.expires_at, limits.PROVIDER_LOGINS_PER_USER
    )
    row = {
        "id": id,
        "grant_id": "",
        "tenant": user.tenant,
        "user_name": user.name,
        "sealed": sealed,
        "checked_at": int(now),
        "expires_at": int(now + limits.LOGIN_S + limits.CODE_S),
    }
    add_row(connection, provider_logins, row)


def _read(connection: Connection, id: str) -> _StoredLogin | None:
    from hubbub.oauth.front_door.tables import provider_logins
    from hubbub.store.sql import select

    row = connection.execute(select(provider_logins).where(provider_logins.c.id == id)).first()
    return None if row is None else _StoredLogin(row.id, row.grant_id, row.sealed, row.checked_at)


def _set_checked(connection: Connection, id: str, before: int, checked_at: int) -> bool:
    """Set the time of the last check if it was `before`; return whether it was, so that only one request checks."""
    from hubbub.oauth.front_door.tables import provider_logins
    from hubbub.store.sql import update

    columns = provider_logins.c
    statement = update(provider_logins).where(columns.id == id, columns.checked_at == before)
    return connection.execute(statement.values(checked_at=checked_at).returning(columns.id)).first() is not None


def _update(connection: Connection, id: str, sealed: str, grant: Grant) -> None:
    from hubbub.oauth.front_door import store
    from hubbub.oauth.front_door.tables import provider_logins
    from hubbub.store.sql import update

    connection.execute(update(provider_logins).where(provider_logins.c.id == id).values(sealed=sealed))
    store.save_grant(connection, grant)
