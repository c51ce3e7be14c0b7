"""Credentials in the SQL store, for the users of a hub: any process of the installation uses and refreshes them.

Each row is sealed with the key of the installation, for its own key, so that rows cannot be exchanged. A holder of a
lock that does not release it, because its process ended, loses it after a while.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from hubbub.errors import SettingsError
from hubbub.oauth import limits
from hubbub.oauth.client.credentials import CredentialKey, Credentials
from hubbub.oauth.errors import OAuthError
from hubbub.oauth.metadata import show_url
from hubbub.ports import Sealer
from hubbub.store.sql import (
    BigInteger,
    Column,
    Connection,
    Database,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Schema,
    Table,
    Text,
    and_,
    delete,
    func,
    open_database,
    read_url,
    select,
    text,
    update,
)

SCHEMA: Final = Schema(Path(__file__).parent, "0002", "oauth_credentials_version")
_MAX_TIME: Final = 2**53
_PURPOSE: Final = "oauth credentials"

metadata = MetaData()
credentials_table = Table(
    "oauth_credentials",
    metadata,
    Column("issuer", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("sealed", Text, nullable=False),
    Column("unusable_at", BigInteger, nullable=True),
    PrimaryKeyConstraint("resource", "principal", "issuer"),
    Index("oauth_credentials_unusable", "unusable_at"),
)
locks = Table(
    "oauth_credential_locks",
    metadata,
    Column("issuer", Text, nullable=False),
    Column("resource", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("resource", "principal", "issuer"),
    Index("oauth_credential_locks_expires", "expires_at"),
)
claims = Table(
    "oauth_claims",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Index("oauth_claims_expires", "expires_at"),
)
# Both engines know these statements.
_SAVE: Final = text(
    "INSERT INTO oauth_credentials (issuer, resource, principal, sealed, unusable_at) "
    "VALUES (:issuer, :resource, :principal, :sealed, :unusable_at) "
    "ON CONFLICT (resource, principal, issuer) "
    "DO UPDATE SET sealed = excluded.sealed, unusable_at = excluded.unusable_at"
)
_LOCK: Final = text(
    "INSERT INTO oauth_credential_locks (issuer, resource, principal, holder, expires_at) "
    "VALUES (:issuer, :resource, :principal, :holder, :expires_at) "
    "ON CONFLICT (resource, principal, issuer) "
    "DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at "
    "WHERE oauth_credential_locks.expires_at <= :now RETURNING holder"
)
_CLAIM: Final = text(
    "INSERT INTO oauth_claims (name, value, expires_at) VALUES (:name, :value, :expires_at) "
    "ON CONFLICT (name) DO NOTHING"
)

_REPLACE_CLAIM: Final = text(
    "INSERT INTO oauth_claims (name, value, expires_at) VALUES (:name, :value, :expires_at) "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at"
)


class SqlCredentialStore:
    """Stores credentials in a database, and claims on links to log in. Implements `CredentialStore`."""

    def __init__(
        self,
        url: str,
        sealer: Sealer,
        *,
        check_owner: Callable[[], Awaitable[None]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`check_owner` raises SettingsError if the database belongs to another server. It runs before each opening.

        Raises: SettingsError, if the URL is not one of a database.
        """
        self._url = read_url(url)
        self._sealer = sealer
        self._check_owner = check_owner
        self._clock = clock
        self._sweep_at = 0.0
        self._open: Database | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Open the database now, instead of at the first use.

        Raises: SettingsError, if it belongs to another server; StoreFailed.
        """
        await self._database()

    async def load(self, key: CredentialKey) -> Credentials | None:
        """Return the credentials of a key.

        Raises: StoreFailed, SettingsError.
        """
        query = select(credentials_table.c.sealed).where(_same(credentials_table, key))
        sealed = await (await self._database()).read(lambda connection: connection.execute(query).scalar())
        if sealed is None:
            return None
        try:
            return msgspec.json.decode(self._sealer.open(_purpose(key), sealed), type=Credentials)
        except (ValueError, msgspec.DecodeError):
            raise SettingsError(
                "The stored logins cannot be decrypted: this process has another sealing key than the one that wrote "
                "them; set sealing_key_file to the file with that key"
            ) from None

    async def save(self, key: CredentialKey, credentials: Credentials) -> None:
        """Replace the credentials of a key. Sometimes, also delete those that cannot be used any more.

        Raises: OAuthError, if there are too many for this resource; StoreFailed.
        """
        sealed = self._sealer.seal(_purpose(key), msgspec.json.encode(credentials))
        ends_at = None if credentials.refresh_token is not None else credentials.expires_at
        row = {
            **msgspec.to_builtins(key),
            "sealed": sealed,
            "unusable_at": None if ends_at is None else int(min(ends_at, _MAX_TIME)),
        }
        is_sweep_due = self._clock() >= self._sweep_at

        def save(connection: Connection) -> None:
            if is_sweep_due:
                self._sweep(connection)
            columns = credentials_table.c
            known = select(columns.issuer).where(_same(credentials_table, key))
            count = select(func.count()).select_from(credentials_table).where(columns.resource == key.resource)
            is_new = connection.execute(known).first() is None
            if is_new and connection.execute(count).scalar_one() >= limits.SQL_CREDENTIALS:
                raise OAuthError(
                    f"{limits.SQL_CREDENTIALS} logins are stored for {show_url(key.resource)}, which is the limit; "
                    "an operator can end some with `hubbub sessions logout`"
                )
            connection.execute(_SAVE, row)

        await (await self._database()).write(save)
        if is_sweep_due:
            self._sweep_at = self._clock() + limits.CREDENTIAL_SWEEP_S

    def _sweep(self, connection: Connection) -> None:
        now = int(self._clock())
        unusable_at = credentials_table.c.unusable_at
        connection.execute(delete(credentials_table).where(unusable_at <= now - int(limits.UNUSABLE_CREDENTIALS_S)))
        connection.execute(delete(locks).where(locks.c.expires_at <= now))

    async def mark_unusable(self, key: CredentialKey) -> None:
        """Note that credentials were refused: unless they are replaced, they are deleted after a while.

        Raises: StoreFailed.
        """
        columns = credentials_table.c
        statement = (
            update(credentials_table)
            .where(_same(credentials_table, key), columns.unusable_at.is_(None))
            .values(unusable_at=int(self._clock()))
        )
        await (await self._database()).write(lambda connection: connection.execute(statement))

    async def delete(self, key: CredentialKey) -> bool:
        """Delete the credentials of a key; return whether there were any.

        Raises: StoreFailed.
        """
        deleting = delete(credentials_table).where(_same(credentials_table, key))
        statement = deleting.returning(credentials_table.c.issuer)
        return (
            await (await self._database()).write(lambda connection: connection.execute(statement).first()) is not None
        )

    async def list(self, *, resource: str | None = None, principal: str | None = None) -> Sequence[CredentialKey]:
        """Return the keys of this resource and principal; None: of any.

        Raises: StoreFailed.
        """
        columns = credentials_table.c
        query = select(columns.issuer, columns.resource, columns.principal)
        if resource is not None:
            query = query.where(columns.resource == resource)
        if principal is not None:
            query = query.where(columns.principal == principal)

        def read(connection: Connection) -> Sequence[CredentialKey]:
            return sorted(CredentialKey(row.issuer, row.resource, row.principal) for row in connection.execute(query))

        return await (await self._database()).read(read)

    @asynccontextmanager
    async def lock(self, key: CredentialKey) -> AsyncIterator[None]:
        """Let one holder at a time, of all processes, refresh the credentials of a key.

        Raises: OAuthError, if another holder does not release it; StoreFailed.
        """
        holder = secrets.token_hex(16)
        try:
            async with asyncio.timeout(limits.CREDENTIAL_LOCK_S):
                while not await self._try_lock(key, holder):  # noqa: ASYNC110, another process releases it
                    await asyncio.sleep(limits.CREDENTIAL_LOCK_POLL_S)
        except TimeoutError:
            raise OAuthError("Another process has been refreshing the same token for too long; try again") from None
        try:
            yield
        finally:
            await asyncio.shield(self._unlock(key, holder))

    async def claim(self, name: str, value: str, expires_at: float) -> str:
        """Return the value of the first claim on a name, which is this one if there was none.

        Raises: StoreFailed.
        """
        expired = delete(claims).where(claims.c.expires_at <= int(self._clock()))
        query = select(claims.c.value).where(claims.c.name == name)
        row = {"name": name, "value": value, "expires_at": int(expires_at)}

        def claim(connection: Connection) -> str:
            connection.execute(expired)
            connection.execute(_CLAIM, row)
            return str(connection.execute(query).scalar_one())

        return await (await self._database()).write(claim)

    async def replace_claim(self, name: str, value: str, expires_at: float) -> None:
        """Store a claim in place of the one on this name, if any.

        Raises: StoreFailed.
        """
        row = {"name": name, "value": value, "expires_at": int(expires_at)}
        await (await self._database()).write(lambda connection: connection.execute(_REPLACE_CLAIM, row))

    async def find_claim(self, name: str) -> str | None:
        """Return the value of the first claim on a name; None: there was none, or it has expired.

        Raises: StoreFailed.
        """
        query = select(claims.c.value).where(claims.c.name == name, claims.c.expires_at > int(self._clock()))
        return await (await self._database()).read(lambda connection: connection.execute(query).scalar())

    async def close(self) -> None:
        """Close the database; the next use opens it again."""
        async with self._opening:
            database, self._open = self._open, None
        if database is not None:
            await database.close()

    async def _try_lock(self, key: CredentialKey, holder: str) -> bool:
        now = self._clock()
        row = {
            **msgspec.to_builtins(key),
            "holder": holder,
            "now": int(now),
            "expires_at": int(now + limits.CREDENTIAL_LOCK_S) + 1,
        }
        return (
            await (await self._database()).write(lambda connection: connection.execute(_LOCK, row).first()) is not None
        )

    async def _unlock(self, key: CredentialKey, holder: str) -> None:
        statement = delete(locks).where(_same(locks, key), locks.c.holder == holder)
        await (await self._database()).write(lambda connection: connection.execute(statement))

    async def _database(self) -> Database:
        async with self._opening:
            if self._open is None:
                if self._check_owner is not None:
                    await self._check_owner()
                self._open = await open_database(self._url, SCHEMA)
            return self._open


def _same(table: Table, key: CredentialKey) -> Any:
    return and_(table.c.resource == key.resource, table.c.principal == key.principal, table.c.issuer == key.issuer)


def _purpose(key: CredentialKey) -> str:
    return f"{_PURPOSE} {msgspec.json.encode(msgspec.structs.astuple(key)).decode()}"
