"""Results that a modern server allows to keep, until it says that they have changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from hubbub import bounds
from hubbub.client.results import Received
from hubbub.client.watching import Change

_STALE = {
    "tools": ("tools/list",),
    "prompts": ("prompts/list",),
    "resources": ("resources/list", "resources/templates/list"),
}


class Cache:
    """The kept results of one server, for one caller."""

    def __init__(self, *, keeps_private: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self._keeps_private = keeps_private
        """Not where who asks may change from one request to the next."""
        self._clock = clock
        self._kept: dict[tuple[str, str | None], tuple[float, Received]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, method: str, key: str | None) -> Any:
        """A result that is still fresh, or None."""
        found = self._kept.get((method, key))
        if found is None:
            return None
        until, result = found
        if self._clock() < until:
            return result
        del self._kept[method, key]
        return None

    def put(self, method: str, key: str | None, result: Received) -> None:
        """Keep a result for as long as it says itself."""
        lifetime_ms = getattr(result, "ttl_ms", UNSET)
        if not isinstance(lifetime_ms, int) or lifetime_ms <= 0:
            return
        if not self._keeps_private and getattr(result, "cache_scope", UNSET) != "public":
            return
        if len(self._kept) >= bounds.CACHED_RESULTS:
            del self._kept[next(iter(self._kept))]
        until = self._clock() + min(lifetime_ms / 1000, bounds.CACHE_S)
        self._kept[method, key] = until, result

    def drop(self, *methods: str, key: str | None = None) -> None:
        """Forget the results of these methods, or one of them."""
        for kept in [kept for kept in self._kept if kept[0] in methods and (key is None or kept[1] == key)]:
            del self._kept[kept]

    def outdate(self, change: Change) -> None:
        """Forget what is no longer as it was."""
        if change.kind == "resource":
            self.drop("resources/read", key=change.uri)
        else:
            self.drop(*_STALE[change.kind])

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
