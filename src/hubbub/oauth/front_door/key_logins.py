"""Logins with API keys: who has a key, and whether the key that a login depends on is still valid."""

from __future__ import annotations

from typing import Final

import msgspec

from hubbub.oauth.front_door.records import User
from hubbub.protocol.calls import Principal
from hubbub.security.api_keys import ApiKeys


class LoginStatus(msgspec.Struct, frozen=True):
    """What a login that is still valid permits at the moment."""

    scopes: frozenset[str] | None
    """The scopes of the key; None if the login was not by a key."""
    ends_at: float


_NOT_BY_KEY: Final = LoginStatus(None, float("inf"))


class KeyLogins:
    """The API keys with which people log in.

    A login depends on one version of one key: neither a key that is created later under the same name nor the next
    version of a rotated key continues it.
    """

    def __init__(self, keys: ApiKeys | None, *, has_tenants: bool) -> None:
        """`keys`: None if people log in at a provider, so that no login with a key is valid."""
        self._keys = keys
        self._has_tenants = has_tenants

    @property
    def generation(self) -> int:
        """A number that grows with every change of the keys. Reads the file if it has changed."""
        return 0 if self._keys is None else self._keys.generation

    def find_user(self, key: str) -> User | None:
        """Return the person who has a key; None if it is unknown or expired."""
        found = None if self._keys is None else self._keys.find_key(key.encode("utf-8", "replace"))
        if found is None:
            return None
        principal = found.principal
        return User(
            name=self._user_name(principal), tenant=principal.tenant, scopes=principal.scopes, key=found.reference
        )

    def check(self, key: str, tenant: str, user: str) -> LoginStatus | None:
        """Return the status of a user's login with the key that has this reference; None: the login has ended.

        Works in any thread, after `generation` was read in the thread of the event loop.
        """
        if self._keys is None:
            return None if key else _NOT_BY_KEY
        found = self._keys.find_by_reference(key)
        if found is None or (found.principal.tenant, self._user_name(found.principal)) != (tenant, user):
            return None
        return LoginStatus(found.principal.scopes, found.ends_at)

    def check_user(self, user: User) -> LoginStatus | None:
        """Return the status of the login of a person in a record; None: it has ended."""
        return self.check(user.key, user.tenant, user.name)

    def _user_name(self, principal: Principal) -> str:
        return principal.user if self._has_tenants else principal.name
