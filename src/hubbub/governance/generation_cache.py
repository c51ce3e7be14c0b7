"""A bounded cache whose hits cost one dictionary lookup."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class GenerationCache(dict[K, V]):
    """Computes missing values, and keeps at most `2 * size` of them.

    Values that were not used while `size` others were added are dropped: an approximation of "least recently used"
    that needs no bookkeeping for hits and no links between entries.
    """

    __slots__ = ("_compute", "_is_kept", "_previous", "_size")

    def __init__(self, compute: Callable[[K], V], *, size: int, is_kept: Callable[[K], bool]) -> None:
        super().__init__()
        self._compute = compute
        self._size = size
        self._is_kept = is_kept
        self._previous: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        if key in self._previous:
            value = self._previous.pop(key)
        else:
            value = self._compute(key)
            if not self._is_kept(key):
                return value
        if len(self) >= self._size:
            self._previous = dict(self)
            self.clear()
        self[key] = value
        return value

    @property
    def count(self) -> int:
        """How many values it keeps, in both generations."""
        return len(self) + len(self._previous)
