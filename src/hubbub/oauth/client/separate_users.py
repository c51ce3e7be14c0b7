"""Separates the users of one hub from those of other hubs that store credentials in the same file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final
from urllib.parse import quote

from msgspec.structs import replace

from hubbub.oauth.client.credentials import CredentialKey, Credentials, CredentialStore

_SEPARATOR: Final = "|"


class SeparateUserStore:
    """Stores the credentials of a hub's users under keys that also name the hub. Implements `CredentialStore`.

    Two hubs of one person may have different users of the same name. The hub's own credentials, which have no user,
    are those of `hubbub login` and are shared.
    """

    def __init__(self, store: CredentialStore, hub: str) -> None:
        self._store = store
        self._prefix = quote(hub, safe="") + _SEPARATOR

    async def load(self, key: CredentialKey) -> Credentials | None:
        """Return the credentials of a key."""
        return await self._store.load(self._stored(key))

    async def save(self, key: CredentialKey, credentials: Credentials) -> None:
        """Replace the credentials of a key."""
        await self._store.save(self._stored(key), credentials)

    async def delete(self, key: CredentialKey) -> bool:
        """Delete the credentials of a key; return whether there were any."""
        return await self._store.delete(self._stored(key))

    async def list(self, *, resource: str | None = None, principal: str | None = None) -> Sequence[CredentialKey]:
        """Return the keys of a resource and a principal of this hub; None stands for all."""
        stored = None if principal is None else self._stored(CredentialKey("", "", principal)).principal
        return [
            replace(key, principal=key.principal.removeprefix(self._prefix))
            for key in await self._store.list(resource=resource, principal=stored)
            if not key.principal or key.principal.startswith(self._prefix)
        ]

    def lock(self, key: CredentialKey) -> AbstractAsyncContextManager[None]:
        """Let one holder at a time refresh the credentials of a key."""
        return self._store.lock(self._stored(key))

    def _stored(self, key: CredentialKey) -> CredentialKey:
        return replace(key, principal=self._prefix + key.principal) if key.principal else key
