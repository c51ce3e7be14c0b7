"""Credentials: the tokens of one principal for one MCP server, and the interface of their stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import msgspec

from hubbub.oauth.metadata import is_same_issuer

RegistrationSource = Literal["configured", "metadata_document", "dynamic"]


class CredentialKey(msgspec.Struct, frozen=True, order=True):
    """The key under which credentials are stored; those of one issuer are never sent to another."""

    issuer: str
    resource: str
    """The URL of the MCP server: `canonical_url`."""
    principal: str = ""
    """Whose they are, in a hub; empty for the user of this process."""


class ClientRegistration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The registration of this client at one authorization server."""

    client_id: str
    client_secret: str | None = None
    auth_method: str | None = None
    """`token_endpoint_auth_method`; None: the first that the server supports and the registration has keys for."""
    source: RegistrationSource = "configured"
    redirect_uris: tuple[str, ...] = ()
    secret_expires_at: float = 0
    """Unix time; 0: never."""
    scopes: tuple[str, ...] = ()
    """The scopes that the client was registered for; empty: unknown."""
    is_forgotten: bool = False
    """Whether the authorization server does not know this client any more, so that it has to register again."""

    def __repr__(self) -> str:
        return f"ClientRegistration(client_id={self.client_id!r}, source={self.source!r})"


class Credentials(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens, and what is needed to refresh and to revoke them. Encode it with msgspec to store it."""

    issuer: str
    registration: ClientRegistration
    access_token: str
    token_type: str = "Bearer"
    refresh_token: str | None = None
    expires_at: float | None = None
    """Unix time; None: unknown."""
    scopes: tuple[str, ...] = ()
    """The scopes that were granted."""
    requested_scopes: tuple[str, ...] = ()
    is_ended: bool = False
    """Whether the authorization server has refused the refresh token, so that only a new login helps."""
    resource: str | None = None
    """The `resource` parameter that the tokens were requested with."""
    token_endpoint: str
    revocation_endpoint: str | None = None
    auth_methods: tuple[str, ...] = ()
    """`token_endpoint_auth_methods_supported` of the issuer."""
    dpop_key: str | None = None
    """The private key (PEM) that the tokens are bound to."""
    id_token: str | None = None
    obtained_at: float = 0

    def __repr__(self) -> str:
        return f"Credentials(issuer={self.issuer!r}, client_id={self.registration.client_id!r}, scopes={self.scopes!r})"


class CredentialStore(Protocol):
    """Stores credentials. Implementations encrypt what they write."""

    async def load(self, key: CredentialKey) -> Credentials | None:
        """Return the credentials of a key."""

    async def save(self, key: CredentialKey, credentials: Credentials) -> None:
        """Replace the credentials of a key."""

    async def delete(self, key: CredentialKey) -> bool:
        """Delete the credentials of a key; return whether there were any."""

    async def list(self, *, resource: str | None = None, principal: str | None = None) -> Sequence[CredentialKey]:
        """Return the keys of this resource and principal; None: of any."""

    def lock(self, key: CredentialKey) -> AbstractAsyncContextManager[None]:
        """Let one holder at a time refresh the credentials of a key, of all processes that share the store.

        A refresh token can be used once where the authorization server rotates them; a second use ends the login.
        """


def select_keys(keys: Iterable[CredentialKey], resource: str | None, principal: str | None) -> list[CredentialKey]:
    """Return the keys of a resource and principal, sorted; None matches all of them."""
    return [key for key in sorted(keys) if resource in (None, key.resource) and principal in (None, key.principal)]


async def find_newest(
    store: CredentialStore, resource: str, principal: str, issuer: str | None = None
) -> Credentials | None:
    """Return the newest credentials of a principal for a resource; `issuer`: only those of this one."""
    newest: Credentials | None = None
    for key in await store.list(resource=resource, principal=principal):
        found = await store.load(key)
        if found is None or not (issuer is None or is_same_issuer(issuer, found.issuer)):
            continue
        if newest is None or found.obtained_at > newest.obtained_at:
            newest = found
    return newest


class MemoryCredentialStore:
    """Stores credentials in memory, until the process ends."""

    def __init__(self) -> None:
        self._credentials: dict[CredentialKey, Credentials] = {}
        self._lock = asyncio.Lock()

    async def load(self, key: CredentialKey) -> Credentials | None:
        """Return the credentials of a key."""
        return self._credentials.get(key)

    async def save(self, key: CredentialKey, credentials: Credentials) -> None:
        """Replace the credentials of a key."""
        self._credentials[key] = credentials

    async def delete(self, key: CredentialKey) -> bool:
        """Delete the credentials of a key; return whether there were any."""
        return self._credentials.pop(key, None) is not None

    async def list(self, *, resource: str | None = None, principal: str | None = None) -> Sequence[CredentialKey]:
        """Return the keys of this resource and principal; None: of any."""
        return select_keys(self._credentials, resource, principal)

    def lock(self, key: CredentialKey) -> AbstractAsyncContextManager[None]:
        """Let one holder at a time refresh credentials; all keys share one lock."""
        return self._lock
