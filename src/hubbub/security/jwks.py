"""Sources of the public keys that verify tokens: a file, or a JWKS address.

Keys from an address are fetched when first needed, again once an hour, and again
when a token names an unknown key, but never more often than every
`bounds.PUBLIC_KEY_FETCH_S`, whatever callers send. If fetching fails, the last good
keys are used for a day. `hubbub.security.jwt` provides the function that parses keys.
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
from hubbub.security.keys import KeyFileWatch

logger = logging.getLogger("hubbub.security")

Fetch = Callable[[str], Awaitable[bytes]]
"""Fetches a URL. Raises: HubbubError or OSError."""


class VerifyingKey(msgspec.Struct, frozen=True):
    """A public key with its id and the algorithms that it may verify."""

    kid: str | None
    algorithms: frozenset[str]
    key: Any


Read = Callable[[bytes], Sequence[VerifyingKey]]
"""Parses keys. Raises: ValueError."""


class KeysUnavailable(HubbubError):
    """No keys to verify tokens with are available at the moment."""


class KeySource(Protocol):
    """Finds the one key that a token names."""

    @property
    def generation(self) -> int:
        """Changes whenever the keys do: tokens verified with earlier keys must be verified again."""

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """The key for a token with this header; None if there is none, or more than one.

        Raises: KeysUnavailable.
        """


def select(keys: Sequence[VerifyingKey], kid: str | None, algorithm: str) -> VerifyingKey | None:
    """Return the only key that fits; None if there are none or several."""
    fitting = [key for key in keys if algorithm in key.algorithms]
    if kid is not None:
        is_bare = len(keys) == 1 and keys[0].kid is None  # a key from a PEM file has no id to compare with
        fitting = [key for key in fitting if key.kid == kid or is_bare]
    return fitting[0] if len(fitting) == 1 else None


class FileKeys:
    """Keys of a file, which is read again when it changes.

    Raises: ValueError or OSError, if the file has no usable key at the start.
    """

    def __init__(self, path: Path, read: Read, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._read = read
        self._monotonic = monotonic
        self._keys: Sequence[VerifyingKey] = ()
        self._generation = 0
        self._watch = KeyFileWatch(path, self._load, lambda: self._use(()), monotonic)

    @property
    def generation(self) -> int:
        """Changes whenever the file does, which is checked every `KEY_FILE_CHECK_S`."""
        if self._monotonic() >= self._watch.check_at:
            self._watch.refresh()
        return self._generation

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        return select(self._keys, kid, algorithm)

    def _load(self) -> None:
        with self._path.open("rb") as file:
            self._use(self._read(file.read(bounds.KEY_FILE_BYTES)))

    def _use(self, keys: Sequence[VerifyingKey]) -> None:
        self._keys = keys
        self._generation += 1


class FetchedKeys:
    """Keys of a JWKS address."""

    def __init__(self, url: str, fetch: Fetch, read: Read, *, monotonic: Callable[[], float] = time.monotonic) -> None:
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
        self._loading: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> VerifyingKey | None:
        """Find the key, fetching the keys first if necessary."""
        if self._age > bounds.PUBLIC_KEY_FRESH_S and (self._loading is None or not self._keys):
            await self._load()  # one caller waits for fresh keys, the others use the current ones
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
        # Shielded: cancelling one caller must not cancel the fetch that others wait for.
        await asyncio.shield(self._loading)

    def _loaded(self, task: asyncio.Task[None]) -> None:
        self._loading = None
        if not task.cancelled():
            task.exception()  # raised to those that wait; without them not worth asyncio's warning

    async def _replace(self) -> None:
        try:
            async with asyncio.timeout(bounds.FETCH_S):
                body = await self._fetch(self._url)
            self._keys = self._read(body)
            if body != self._body:
                self._body = body
                self.generation += 1
            self._fetched_at = self._monotonic()
        except (HubbubError, OSError, ValueError) as error:
            logger.warning("jwks_not_fetched", extra={"url": self._url, "reason": str(error)})
