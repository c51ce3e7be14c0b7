"""Sources of the public keys that verify tokens: a file, or a JWKS address.

Keys from an address are fetched when first needed, again once an hour, and again
when a token names an unknown key, but never more often than every
`bounds.PUBLIC_KEY_FETCH_INTERVAL_S`, whatever callers send. If fetching fails, the last good
keys are used for a day. `hubbub.security.jose` provides the function that parses keys.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from hubbub import bounds
from hubbub.errors import HubbubError
from hubbub.security.api_keys import KeyFileWatch

logger = logging.getLogger("hubbub.security")

Fetch = Callable[[str], Awaitable[bytes]]
"""Fetches a URL. Raises: HubbubError or OSError."""


class VerifyingKey(msgspec.Struct, frozen=True):
    """A public key with its id and the algorithms that it may verify."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any


ParseKeys = Callable[[bytes], Sequence[VerifyingKey]]
"""Parses keys. Raises: ValueError."""


class KeysUnavailable(HubbubError):
    """No keys to verify tokens with are available at the moment."""


class KeySource(Protocol):
    """Finds the one key that a token names."""

    @property
    def generation(self) -> int:
        """Changes whenever the keys do: tokens verified with earlier keys must be verified again."""

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """Return the key for a token with this header; None if no key or more than one matches.

        Raises: KeysUnavailable.
        """

    async def find_replacement(self, algorithm: str) -> VerifyingKey | None:
        """Return the new key for a token that names none and that the key found does not verify; None: it is the same.

        Only a wrong signature shows that the key of such tokens was replaced.
        """


def select_key(keys: Sequence[VerifyingKey], kid: str | None, algorithm: str) -> VerifyingKey | None:
    """Return the key that matches; None if no key or more than one does."""
    candidates = [key for key in keys if algorithm in key.algorithms]
    if kid is not None:
        has_no_id = len(keys) == 1 and keys[0].kid is None  # a key from a PEM file has no id to compare with
        candidates = [key for key in candidates if key.kid == kid or has_no_id]
    return candidates[0] if len(candidates) == 1 else None


class FileKeys:
    """Keys of a file, which is read again when it changes.

    Raises: ValueError or OSError, if the file has no usable key at the start.
    """

    def __init__(self, path: Path, read: ParseKeys, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._read = read
        self._monotonic = monotonic
        self._keys: Sequence[VerifyingKey] = ()
        self._generation = 0
        self._watch = KeyFileWatch(path, self._load, lambda: self._set_keys(()), monotonic)

    @property
    def generation(self) -> int:
        """Changes whenever the file does, which is checked every `KEY_FILE_CHECK_INTERVAL_S`."""
        if self._monotonic() >= self._watch.check_at:
            self._watch.refresh()
        return self._generation

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        return select_key(self._keys, kid, algorithm)

    async def find_replacement(self, algorithm: str) -> VerifyingKey | None:
        return None  # the file is watched

    def _load(self) -> None:
        with self._path.open("rb") as file:
            self._set_keys(self._read(file.read(bounds.KEY_FILE_BYTES)))

    def _set_keys(self, keys: Sequence[VerifyingKey]) -> None:
        self._keys = keys
        self._generation += 1


class FetchedKeys:
    """Keys of a JWKS address."""

    def __init__(
        self, url: str, fetch: Fetch, read: ParseKeys, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._url = url
        self._fetch = fetch
        self._read = read
        self._monotonic = monotonic
        self._keys: Sequence[VerifyingKey] = ()
        self._body = b""
        self.generation = 0
        """Changes whenever the fetched keys do."""
        self._fetched_at = float("-inf")
        self._attempted_at = float("-inf")
        self._load_task: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """Find the key, fetching the keys first if necessary."""
        if self._age_s > bounds.PUBLIC_KEY_FRESH_S and (self._load_task is None or not self._keys):
            await self._load()  # one caller waits for fresh keys, the others use the current ones
        found = select_key(self._usable_keys, kid, algorithm)
        if found is None:
            await self._load()
            found = select_key(self._usable_keys, kid, algorithm)
        if found is None and not self._usable_keys:
            raise KeysUnavailable("The keys to verify tokens cannot be fetched")
        return found

    async def find_replacement(self, algorithm: str) -> VerifyingKey | None:
        """Fetch the keys again, as often as for an unknown key."""
        before = self.generation
        await self._load()
        return None if self.generation == before else select_key(self._usable_keys, None, algorithm)

    @property
    def _age_s(self) -> float:
        return self._monotonic() - self._fetched_at

    @property
    def _usable_keys(self) -> Sequence[VerifyingKey]:
        return self._keys if self._age_s <= bounds.PUBLIC_KEY_STALE_S else ()

    async def _load(self) -> None:
        if self._load_task is None:
            if self._monotonic() - self._attempted_at < bounds.PUBLIC_KEY_FETCH_INTERVAL_S:
                return
            self._attempted_at = self._monotonic()
            self._load_task = asyncio.create_task(self._fetch_keys(), name="jwks")
            self._load_task.add_done_callback(self._on_loaded)
        # Shielded: cancelling one caller must not cancel the fetch that others wait for.
        await asyncio.shield(self._load_task)

    def _on_loaded(self, task: asyncio.Task[None]) -> None:
        self._load_task = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved: asyncio would warn if no caller waits for it

    async def _fetch_keys(self) -> None:
        try:
            async with asyncio.timeout(bounds.PUBLIC_KEY_FETCH_TIMEOUT_S):
                body = await self._fetch(self._url)
            self._keys = self._read(body)
            if body != self._body:
                self._body = body
                self.generation += 1
            self._fetched_at = self._monotonic()
        except (HubbubError, OSError, ValueError) as error:
            logger.warning("jwks_not_fetched", extra={"url": self._url, "reason": str(error)})
