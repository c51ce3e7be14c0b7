"""Codes, grants and consents in the SQL store. Each function is part of a transaction, which its caller runs.

Codes are used once: `DELETE … RETURNING`, so that of two requests with one code only one gets a row. A grant has one
row, in which each refresh replaces the hash of the token; a token of the grant with another hash was used before.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from hubbub.oauth.front_door import limits
from hubbub.oauth.front_door.records import Authorization, AuthorizationCode, Grant, RefreshToken, User
from hubbub.oauth.front_door.tables import (
    answered_consents,
    clients,
    codes,
    consents,
    ended_grants,
    grants,
    provider_logins,
    revocations,
)
from hubbub.store.sql import Connection, Row, add_row, and_, delete, func, insert, select, text, update

_encode: Final = msgspec.json.Encoder().encode
_ENDED_MARGIN_S: Final = 60.0
"""Longer than the leeway of clocks."""
_MICROSECONDS: Final = 1_000_000
_CONSENT_COLUMNS: Final = tuple(column.name for column in consents.columns)
# Both engines know it, and a double click must not be an error.
_SAVE_CONSENT: Final = (
    f"INSERT INTO oauth_consents ({', '.join(_CONSENT_COLUMNS)}) "
    f"VALUES ({', '.join(f':{name}' for name in _CONSENT_COLUMNS)}) "
    "ON CONFLICT (tenant, user_name, client_id, redirect_target, resource) DO UPDATE SET "
    "client_name = excluded.client_name, scopes = excluded.scopes, created_at = excluded.created_at, "
    "expires_at = excluded.expires_at"
)

_ANSWER_CONSENT: Final = (
    "INSERT INTO oauth_answered_consents (id, code_hash, expires_at) VALUES (:id, :code_hash, :expires_at) "
    "ON CONFLICT (id) DO NOTHING RETURNING id"
)


class GrantInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A grant for lists."""

    grant_id: str
    tenant: str
    user: str
    client_id: str
    client_name: str
    scopes: tuple[str, ...]
    resource: str
    key: str
    """The id and version of the API key that the person logged in with; empty if it was at a provider."""
    created_at: int
    used_at: int
    expires_at: int


# -- codes ---------------------------------------------------------------------


def save_code(connection: Connection, code_hash: str, code: AuthorizationCode, now: float) -> None:
    """Save a new code; of too many codes of one user, the oldest end."""
    user = code.authorization.user
    belongs_to_user = and_(codes.c.tenant == user.tenant, codes.c.user_name == user.name)
    delete_oldest(connection, codes, codes.c.code_hash, belongs_to_user, codes.c.expires_at, limits.CODES_PER_USER)
    row = {
        "code_hash": code_hash,
        "client_id": code.authorization.client_id,
        "tenant": user.tenant,
        "user_name": user.name,
        "content": _encode(code).decode(),
        "expires_at": int(now + limits.CODE_S),
    }
    add_row(connection, codes, row)


def take_code(
    connection: Connection, code_hash: str, client_id: str, now: float
) -> tuple[AuthorizationCode | None, list[str]]:
    """Return a code and delete it; if it was redeemed before, end the grant that it led to, and return that too."""
    statement = delete(codes).where(codes.c.code_hash == code_hash, codes.c.client_id == client_id)
    row = connection.execute(statement.returning(codes.c.content, codes.c.expires_at)).first()
    if row is None:
        grant_id = connection.execute(select(grants.c.grant_id).where(grants.c.code_hash == code_hash)).scalar()
        return None, [] if grant_id is None else end_grants(connection, [str(grant_id)], now)
    if row.expires_at <= now:
        return None, []
    code = msgspec.json.decode(row.content, type=AuthorizationCode)
    if is_revoked(connection, code.authorization.user, client_id):
        return None, []
    return msgspec.structs.replace(code, code_hash=code_hash), []


# -- grants --------------------------------------------------------------------


def add_grant(
    connection: Connection, code: AuthorizationCode, jkt: str, now: float
) -> tuple[Grant, RefreshToken, list[str]]:
    """Start a grant; of too many grants of one user, the one used longest ago ends, and is returned too."""
    authorization = code.authorization
    user = authorization.user
    belongs_to_user = and_(grants.c.tenant == user.tenant, grants.c.user_name == user.name)
    ended = _end_oldest_grants(connection, belongs_to_user, now)
    ended += _end_oldest_clients(connection, belongs_to_user, authorization.client_id, now)
    token = RefreshToken.new()
    grant = Grant(grant_id=secrets.token_urlsafe(16), authorization=authorization, jkt=jkt)
    row = {
        "grant_id": grant.grant_id,
        "handle_hash": token.handle_hash,
        "secret_hash": token.secret_hash,
        "code_hash": code.code_hash,
        "client_id": authorization.client_id,
        "client_name": authorization.client_name,
        "tenant": user.tenant,
        "user_name": user.name,
        "key_reference": user.key,
        "content": _encode(grant).decode(),
        "created_at": int(now),
        "used_at": int(now),
        "expires_at": int(now + min(limits.GRANT_IDLE_S, authorization.max_age_s)),
    }
    add_row(connection, grants, row)
    # A login belongs to the first grant that it leads to.
    columns = provider_logins.c
    statement = update(provider_logins).where(columns.id == user.provider_login, columns.grant_id == "")
    connection.execute(statement.values(grant_id=grant.grant_id, expires_at=int(now + authorization.max_age_s)))
    _renew_client(connection, authorization.client_id, now)
    return grant, token, ended


def find_grant(
    connection: Connection, token: RefreshToken, now: float, *, must_be_unused: bool = False
) -> Grant | None:
    """Return the grant of a refresh token; None if there is none or it has expired."""
    query = select(grants.c.content, grants.c.expires_at).where(grants.c.handle_hash == token.handle_hash)
    if must_be_unused:
        query = query.where(grants.c.secret_hash == token.secret_hash)
    row = connection.execute(query).first()
    return None if row is None or row.expires_at <= now else msgspec.json.decode(row.content, type=Grant)


def find_grant_by_id(connection: Connection, grant_id: str, now: float) -> Grant | None:
    """Return a grant; None if it has ended."""
    row = connection.execute(select(grants.c.content, grants.c.expires_at).where(grants.c.grant_id == grant_id)).first()
    return None if row is None or row.expires_at <= now else msgspec.json.decode(row.content, type=Grant)


def save_grant(connection: Connection, grant: Grant) -> None:
    """Replace what a grant permits."""
    connection.execute(
        update(grants).where(grants.c.grant_id == grant.grant_id).values(content=_encode(grant).decode())
    )


def rotate_token(
    connection: Connection, grant: Grant, token: RefreshToken, key: bytes, now: float
) -> RefreshToken | None:
    """Replace a refresh token by the next one; None if it was used before, and then the grant has ended.

    During the grace period, the same next token is returned again: many clients refresh concurrently, or repeat a
    request whose response was lost.
    """
    next_token = token.derive_next(key)
    max_age_s = grant.authorization.max_age_s
    idle_end, latest_end = int(now + limits.GRANT_IDLE_S), grants.c.created_at + int(max_age_s)
    statement = (
        update(grants)
        .where(grants.c.grant_id == grant.grant_id, grants.c.secret_hash == token.secret_hash)
        .values(secret_hash=next_token.secret_hash, used_at=int(now))
        .returning(grants.c.created_at)
    )
    if connection.execute(statement).first() is None:
        query = select(grants.c.used_at).where(
            grants.c.grant_id == grant.grant_id, grants.c.secret_hash == next_token.secret_hash
        )
        replaced_at = connection.execute(query).scalar()
        if replaced_at is not None and now - replaced_at <= limits.REFRESH_GRACE_S:
            return next_token
        end_grants(connection, [grant.grant_id], now)
        return None
    connection.execute(
        update(grants).where(grants.c.grant_id == grant.grant_id, latest_end > idle_end).values(expires_at=idle_end)
    )
    connection.execute(
        update(grants).where(grants.c.grant_id == grant.grant_id, latest_end <= idle_end).values(expires_at=latest_end)
    )
    _renew_client(connection, grant.authorization.client_id, now)
    return next_token


def end_grants(connection: Connection, grant_ids: Iterable[str], now: float) -> list[str]:
    """End grants: their refresh tokens are gone, and their access tokens are refused; return those that ended."""
    ended = []
    for grant_id in grant_ids:
        row = connection.execute(
            delete(grants).where(grants.c.grant_id == grant_id).returning(grants.c.content)
        ).first()
        if row is None:
            continue
        ended.append(grant_id)
        connection.execute(delete(provider_logins).where(provider_logins.c.grant_id == grant_id))
        expires_at = int(now + limits.ACCESS_TOKEN_S + _ENDED_MARGIN_S)
        connection.execute(delete(ended_grants).where(ended_grants.c.grant_id == grant_id))
        connection.execute(insert(ended_grants).values(grant_id=grant_id, expires_at=expires_at))
    return ended


def list_grants(connection: Connection, tenant: str | None = None, user: str | None = None) -> list[GrantInfo]:
    """Return the grants of a tenant or a user; None stands for all."""
    query = _select_rows(select(grants), grants, tenant, user).order_by(grants.c.created_at, grants.c.grant_id)
    return [_grant_info(row) for row in connection.execute(query)]


def ended_grant_ids(connection: Connection, now: float) -> list[str]:
    """Return the grants that ended and whose access tokens may not have expired."""
    query = (
        select(ended_grants.c.grant_id)
        .where(ended_grants.c.expires_at > now)
        .order_by(ended_grants.c.expires_at.desc())
    )
    return [row.grant_id for row in connection.execute(query.limit(limits.ENDED_GRANTS))]


def _grant_info(row: Row[Any]) -> GrantInfo:
    grant = msgspec.json.decode(row.content, type=Grant)
    return GrantInfo(
        grant_id=row.grant_id,
        tenant=row.tenant,
        user=row.user_name,
        client_id=row.client_id,
        client_name=row.client_name,
        scopes=grant.authorization.scopes,
        resource=grant.authorization.resource,
        key=grant.authorization.user.key,
        created_at=row.created_at,
        used_at=row.used_at,
        expires_at=row.expires_at,
    )


def _end_oldest_grants(connection: Connection, belongs_to_user: Any, now: float) -> list[str]:
    newest_first = select(grants.c.grant_id).where(belongs_to_user).order_by(grants.c.used_at.desc(), grants.c.grant_id)
    surplus = connection.execute(newest_first.offset(limits.GRANTS_PER_USER - 1).limit(limits.GRANTS_PER_USER))
    return end_grants(connection, [row.grant_id for row in surplus], now)


def _end_oldest_clients(connection: Connection, belongs_to_user: Any, client_id: str, now: float) -> list[str]:
    """End the grants of a user's least recently used clients, because clients with grants are not replaced."""
    columns = grants.c
    is_registered = select(clients.c.client_id).where(clients.c.client_id == columns.client_id).exists()
    if connection.execute(select(clients.c.client_id).where(clients.c.client_id == client_id)).first() is None:
        return []
    newest_first = (
        select(columns.client_id)
        .where(belongs_to_user, columns.client_id != client_id, is_registered)
        .group_by(columns.client_id)
        .order_by(func.max(columns.used_at).desc(), columns.client_id)
    )
    surplus = [row.client_id for row in connection.execute(newest_first.offset(limits.CLIENTS_PER_USER - 1))]
    found = connection.execute(select(columns.grant_id).where(belongs_to_user, columns.client_id.in_(surplus)))
    return end_grants(connection, [row.grant_id for row in found], now)


# -- consents ------------------------------------------------------------------


def has_consent(connection: Connection, authorization: Authorization, target: str, now: float) -> bool:
    """Whether this user has consented to all of this before: these scopes, for this client, resource and target."""
    query = select(consents.c.scopes).where(_same_consent(authorization, target), consents.c.expires_at > now)
    scopes = connection.execute(query).scalar()
    return scopes is not None and set(authorization.scopes) <= set(str(scopes).split())


def save_consent(connection: Connection, authorization: Authorization, target: str, now: float) -> None:
    """Remember a consent; of too many consents of one user, the oldest are forgotten."""
    user = authorization.user
    query = select(consents.c.scopes).where(_same_consent(authorization, target), consents.c.expires_at > now)
    earlier = str(connection.execute(query).scalar() or "").split()
    belongs_to_user = and_(consents.c.tenant == user.tenant, consents.c.user_name == user.name)
    count = connection.execute(select(func.count()).select_from(consents).where(belongs_to_user)).scalar() or 0
    if count >= limits.CONSENTS_PER_USER:
        oldest = connection.execute(select(func.min(consents.c.created_at)).where(belongs_to_user)).scalar()
        connection.execute(delete(consents).where(belongs_to_user, consents.c.created_at <= oldest))
    row = {
        "tenant": user.tenant,
        "user_name": user.name,
        "client_id": authorization.client_id,
        "client_name": authorization.client_name,
        "scopes": " ".join(sorted({*earlier, *authorization.scopes})),
        "redirect_target": target,
        "resource": authorization.resource,
        "created_at": int(now),
        "expires_at": int(now + limits.CONSENT_S),
    }
    connection.execute(text(_SAVE_CONSENT), row)


def answer_consent(connection: Connection, page_id: str, code_hash: str, now: float) -> bool:
    """Note the answer to a consent page; False if it was answered before. `code_hash`: empty if the person denied.

    A double click sends an answer twice, and the browser follows the second response only. So a second code replaces
    the first one, unless that was redeemed.
    """
    row = {"id": page_id, "code_hash": code_hash, "expires_at": int(now + limits.LOGIN_S + _ENDED_MARGIN_S)}
    if connection.execute(text(_ANSWER_CONSENT), row).first() is not None:
        return True
    columns = answered_consents.c
    earlier = connection.execute(select(columns.code_hash).where(columns.id == page_id)).scalar()
    unused = delete(codes).where(codes.c.code_hash == earlier, codes.c.expires_at > now)
    if not code_hash or connection.execute(unused.returning(codes.c.code_hash)).first() is None:
        return False
    connection.execute(update(answered_consents).where(columns.id == page_id).values(code_hash=code_hash))
    return True


def _same_consent(authorization: Authorization, target: str) -> Any:
    return and_(
        consents.c.tenant == authorization.user.tenant,
        consents.c.user_name == authorization.user.name,
        consents.c.client_id == authorization.client_id,
        consents.c.redirect_target == target,
        consents.c.resource == authorization.resource,
    )


# -- revocation ----------------------------------------------------------------


def revoke(
    connection: Connection, tenant: str | None, user: str | None, client_id: str | None, now: float
) -> list[str]:
    """End the grants of a tenant, a user or a client, and return them; None stands for all.

    Their consents and codes are deleted, and logins from before cannot be continued.
    """
    for table in (consents, codes):
        connection.execute(_select_rows(delete(table), table, tenant, user, client_id))
    if client_id is None:
        # The client of a login without a grant is only in the sealed state, which `is_revoked` refuses.
        pending = delete(provider_logins).where(provider_logins.c.grant_id == "")
        connection.execute(_select_rows(pending, provider_logins, tenant, user))
    row = {
        "id": secrets.token_urlsafe(16),
        "tenant": tenant,
        "user_name": user,
        "client_id": client_id,
        "revoked_at_us": int(now * _MICROSECONDS),
        "expires_at": int(now + limits.LOGIN_S + limits.CODE_S + _ENDED_MARGIN_S),
    }
    add_row(connection, revocations, row)
    found = connection.execute(_select_rows(select(grants.c.grant_id), grants, tenant, user, client_id))
    return end_grants(connection, [row.grant_id for row in found], now)


def is_revoked(connection: Connection, user: User, client_id: str = "") -> bool:
    """Whether the access of a person, or of a client of the person, was revoked after the person logged in."""
    columns = revocations.c
    values = ((columns.tenant, user.tenant), (columns.user_name, user.name), (columns.client_id, client_id))
    query = select(columns.id).where(
        *(func.coalesce(column, value) == value for column, value in values),
        columns.revoked_at_us >= int(user.logged_in_at * _MICROSECONDS),
    )
    return connection.execute(query.limit(1)).first() is not None


def _select_rows(statement: Any, table: Any, tenant: str | None, user: str | None, client_id: str | None = None) -> Any:
    """Add the conditions of a tenant, a user and a client to a statement; None stands for all."""
    columns = (("tenant", tenant), ("user_name", user), ("client_id", client_id))
    return statement.where(*(table.c[name] == value for name, value in columns if value is not None))


# -- bounds --------------------------------------------------------------------


def sweep(connection: Connection, check_login: Callable[[str, str, str], object], now: float) -> list[str]:
    """Delete what has expired, and end the grants of keys that have ended; return these.

    `check_login` gets the key, tenant and user of a grant, and returns None if the key has ended.
    """
    for table in (codes, grants, ended_grants, revocations, consents, answered_consents, clients, provider_logins):
        connection.execute(delete(table).where(table.c.expires_at <= now))
    columns = (grants.c.key_reference, grants.c.tenant, grants.c.user_name)
    # Another process may have read a new key from the file before this one.
    is_older = grants.c.created_at <= now - limits.KEY_FILE_MARGIN_S
    ended = []
    for key, tenant, user in connection.execute(select(*columns).where(is_older).distinct()).all():
        if check_login(key, tenant, user) is None:
            same = (grants.c.key_reference == key, grants.c.tenant == tenant, grants.c.user_name == user)
            ended += [row.grant_id for row in connection.execute(select(grants.c.grant_id).where(is_older, *same))]
    return end_grants(connection, ended, now)


def _renew_client(connection: Connection, client_id: str, now: float) -> None:
    statement = update(clients).where(clients.c.client_id == client_id)
    connection.execute(statement.values(used_at=int(now), expires_at=int(now + limits.IDLE_CLIENT_S)))


def delete_oldest(connection: Connection, table: Any, key: Any, belongs_to_user: Any, order: Any, limit: int) -> None:
    """Delete the oldest rows of a user, so that with one more there are at most `limit`."""
    surplus = select(key).where(belongs_to_user).order_by(order.desc(), key).offset(limit - 1).limit(limit)
    found = [row[0] for row in connection.execute(surplus)]
    if found:
        connection.execute(delete(table).where(key.in_(found)))
