"""The keys that sign access tokens: in the SQL store, sealed, so that all processes sign with the same ones.

A key signs for `SIGNING_KEY_S`; its tokens are accepted until the last of them has expired. A process that gets a
token with an unknown key reads the store again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from hubbub.oauth.front_door import limits
from hubbub.ports import Sealer
from hubbub.security.jose import JwtSigningKey, read_jwk
from hubbub.security.jwks import VerifyingKey, select_key

if TYPE_CHECKING:
    from hubbub.store.sql import Connection, Database

SEALED_KEY: Final = "oauth signing key"
"""The purpose for which the keys are sealed."""
FOREIGN_KEY_PROBLEM: Final = (
    "another process that uses the database of [oauth], or an earlier one, has another sealing key, so logins fail; "
    "give all processes the same sealing_key_file"
)
_READ_INTERVAL_S: Final = 5.0
"""The shortest time between two reads because of unknown keys."""

logger = logging.getLogger("hubbub.oauth")


class SigningKeys:
    """The signing keys, after `load`; a `KeySource` for the tokens that they signed."""

    def __init__(self, database: Callable[[], Database], sealer: Sealer, clock: Callable[[], float]) -> None:
        self._database = database
        self._sealer = sealer
        self._clock = clock
        self._keys: dict[str, tuple[float, JwtSigningKey]] = {}
        self._verifying: list[VerifyingKey] = []
        self._read_at = float("-inf")
        self._load_lock = asyncio.Lock()
        self._foreign: set[str] = set()
        """Keys that another sealing key sealed, which were logged."""
        self.generation = 0
        """Changes whenever the keys do."""

    async def load(self) -> None:
        """Read the keys; make a new one if there is none that may sign.

        Raises: StoreFailed.
        """
        self._set(await self._database().write(self._renew))

    async def current(self) -> tuple[str, JwtSigningKey]:
        """Return the key that signs now, and its id.

        Raises: StoreFailed.
        """
        if self._newest() is None:
            await self.load()
        newest = self._newest()
        assert newest is not None
        return newest

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """Return the key that a token names; other processes may have made it since the last read."""
        found = select_key(self._verifying, kid, algorithm)
        if found is None:
            async with self._load_lock:  # anyone can send many such tokens at once
                if self._clock() - self._read_at >= _READ_INTERVAL_S:
                    await self.load()
            found = select_key(self._verifying, kid, algorithm)
        return found

    def jwks(self) -> dict[str, Any]:
        """Return the public keys."""
        keys = [
            {**key.public_jwk(), "kid": kid, "use": "sig", "alg": key.algorithm} for kid, (_, key) in self._keys.items()
        ]
        return {"keys": keys}

    def _newest(self) -> tuple[str, JwtSigningKey] | None:
        signing = [
            (created_at, kid, key)
            for kid, (created_at, key) in self._keys.items()
            if created_at + limits.SIGNING_KEY_S > self._clock()
        ]
        if not signing:
            return None
        _, kid, key = max(signing, key=lambda entry: entry[:2])
        return kid, key

    def _renew(self, connection: Connection) -> dict[str, tuple[float, JwtSigningKey]]:
        from hubbub.oauth.front_door.tables import signing_keys
        from hubbub.store.sql import delete, insert, select

        now = self._clock()
        end = int(now - limits.SIGNING_KEY_S - limits.ACCESS_TOKEN_S)
        connection.execute(delete(signing_keys).where(signing_keys.c.created_at <= end))
        query = select(signing_keys).order_by(signing_keys.c.created_at.desc()).limit(limits.SIGNING_KEYS)
        keys = {}
        for row in connection.execute(query):
            try:
                pem = self._sealer.open(SEALED_KEY, row.sealed)
            except ValueError:
                if row.kid not in self._foreign:
                    self._foreign.add(row.kid)
                    logger.warning("oauth_sealing_key_differs", extra={"kid": row.kid, "reason": FOREIGN_KEY_PROBLEM})
                continue
            keys[row.kid] = (float(row.created_at), JwtSigningKey.read(pem))
        if not any(created_at + limits.SIGNING_KEY_S > now for created_at, _ in keys.values()):
            key = JwtSigningKey.generate()
            keys[key.thumbprint] = (float(int(now)), key)
            sealed = self._sealer.seal(SEALED_KEY, key.to_pem())
            connection.execute(insert(signing_keys).values(kid=key.thumbprint, sealed=sealed, created_at=int(now)))
        return keys

    def _set(self, keys: dict[str, tuple[float, JwtSigningKey]]) -> None:
        if keys.keys() != self._keys.keys():
            self.generation += 1
        self._keys = keys
        self._verifying = []
        for kid, (_, key) in keys.items():
            verifying = read_jwk({**key.public_jwk(), "kid": kid})
            if verifying is not None:
                self._verifying.append(verifying)
        self._read_at = self._clock()
