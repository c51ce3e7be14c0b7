"""Where the public keys that verify tokens come from: a file, or a JWKS address.

Keys from an address are fetched when first needed, again once an hour, and again
when a token names a key that is not there, but never more often than
`bounds.PUBLIC_KEY_FETCH_S`, whatever callers send. When fetching fails, the last good
keys go on for a day. What a key is, and how it verifies, is known to
`hubbub.security.jwt`, which gives the function that reads them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from hubbub import bounds
from hubbub.errors import HubbubError

logger = logging.getLogger("hubbub.security")

Fetch = Callable[[str], Awaitable[bytes]]
"""Fetches an address. Raises: HubbubError or OSError."""


class VerifyingKey(msgspec.Struct, frozen=True):
    """A public key with its name and all that may be verified with it."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any


Read = Callable[[bytes], Sequence[VerifyingKey]]
"""Reads keys. Raises: ValueError."""


class KeysUnavailable(HubbubError):
    """There are no keys to verify anything with, for now."""


class KeySource(Protocol):
    """Finds the one key that a token names."""

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """The key for a token with this header; None if there is none, or more than one.

        Raises: KeysUnavailable.
        """


def select(keys: Sequence[VerifyingKey], kid: str | None, algorithm: str) -> VerifyingKey | None:
    """The one key that fits; a choice between two is not made."""
    fitting = [key for key in keys if algorithm in key.algorithms]
    if kid is not None:
        is_bare = len(keys) == 1 and keys[0].kid is None  # a PEM file has no name to compare with
        fitting = [key for key in fitting if key.kid == kid or is_bare]
    return fitting[0] if len(fitting) == 1 else None


class FixedKeys:
    """Keys that were read at the start."""

    def __init__(self, keys: Sequence[VerifyingKey]) -> None:
        self._keys = tuple(keys)

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """The key that fits."""
        return select(self._keys, kid, algorithm)


class FetchedKeys:
    """Keys of a JWKS address."""

    def __init__(self, url: str, fetch: Fetch, read: Read, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._fetch = fetch
        self._read = read
        self._monotonic = monotonic
        self._keys: Sequence[VerifyingKey] = ()
        self._fetched_at = float("-inf")
        self._attempted_at = float("-inf")
        self._loading: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """The key that fits, fetched if need be."""
        if self._age > bounds.PUBLIC_KEY_FRESH_S and (self._loading is None or not self._keys):
            await self._load()  # one caller waits for fresher keys, the others go on with those we have
        found = select(self._usable, kid, algorithm)
        if found is None:
            await self._load()
            found = select(self._usable, kid, algorithm)
        if found is None and not self._usable:
            raise KeysUnavailable("The keys that verify tokens cannot be fetched")
        return found

    @property
    def _age(self) -> float:
        return self._monotonic() - self._fetched_at

    @property
    def _usable(self) -> Sequence[VerifyingKey]:
        return self._keys if self._age <= bounds.PUBLIC_KEY_STALE_S else ()

    async def _load(self) -> None:
        if self._loading is None:
            if self._monotonic() - self._attempted_at < bounds.PUBLIC_KEY_FETCH_S:
                return
            self._attempted_at = self._monotonic()
            self._loading = asyncio.create_task(self._replace(), name="jwks")
            self._loading.add_done_callback(self._loaded)
        # Shielded: a caller who leaves must not take away the keys that others wait for.
        await asyncio.shield(self._loading)

    def _loaded(self, task: asyncio.Task[None]) -> None:
        self._loading = None
        if not task.cancelled():
            task.exception()  # seen by whoever waits; if nobody does any more, not worth a warning

    async def _replace(self) -> None:
        try:
            async with asyncio.timeout(bounds.FETCH_S):
                body = await self._fetch(self._url)
            self._keys = self._read(body)
            self._fetched_at = self._monotonic()
        except (HubbubError, OSError, ValueError) as error:
            logger.warning("jwks_not_fetched", extra={"url": self._url, "reason": str(error)})
