"""Who called when: a storage for moving windows, made as those of the `limits` library are.

The only module that imports the library, whose import is slow: `hubbub.security.quotas`
loads it when a limit is set. A shared storage of the library's would do the same. Its own
memory storage starts a thread every few milliseconds and keeps every caller it ever
saw; this one keeps a ring of times for each caller, and a bounded number of callers.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable

from limits import parse
from limits.storage import MovingWindowSupport, Storage

from hubbub import bounds

__all__ = ["BoundedMemory", "parse"]


class _Ring:
    """The times of the last accepted requests of one caller; as many as the limit allows."""

    __slots__ = ("next", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.next = 0

    def accept(self, now: float, limit: int, window_s: float) -> bool:
        times = self.times
        if len(times) < limit:
            times.append(now)
            return True
        if times[self.next] > now - window_s:
            return False
        times[self.next] = now
        self.next = (self.next + 1) % limit
        return True

    def oldest(self) -> float:
        # Until it has gone round, `next` is 0 and the first time is the oldest.
        return self.times[self.next]


class BoundedMemory(Storage, MovingWindowSupport):
    """Knows the callers who came last; whoever is forgotten starts anew."""

    STORAGE_SCHEME = None

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._rings: OrderedDict[str, _Ring] = OrderedDict()
        self._times = 0

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self.take(key, limit, expiry)

    def take(self, key: str, limit: int, expiry: int) -> bool:
        """The same without the library's way of catching errors, which memory has none of."""
        rings = self._rings
        ring = rings.get(key)
        if ring is None:
            ring = rings[key] = _Ring()
        else:
            rings.move_to_end(key)
        if len(ring.times) < limit:
            self._times += 1
            if self._times > bounds.QUOTA_TIMES or len(rings) > bounds.QUOTA_CALLERS:
                self._make_room()
        return ring.accept(self._clock(), limit, expiry)

    def _make_room(self) -> None:
        while len(self._rings) > bounds.QUOTA_CALLERS or (self._times > bounds.QUOTA_TIMES and len(self._rings) > 1):
            self._times -= len(self._rings.popitem(last=False)[1].times)

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        ring, since = self._rings.get(key), self._clock() - expiry
        if ring is None or not ring.times:
            return since + expiry, 0
        oldest = ring.oldest()
        if oldest > since:
            return oldest, len(ring.times)
        recent = [moment for moment in ring.times if moment > since]
        return min(recent, default=since + expiry), len(recent)

    def reset(self) -> int:
        count, self._times = len(self._rings), 0
        self._rings.clear()
        return count

    def clear(self, key: str) -> None:
        ring = self._rings.pop(key, None)
        self._times -= len(ring.times) if ring is not None else 0

    def check(self) -> bool:
        return True

    # The strategies that count in fixed windows are not offered.
    base_exceptions = ValueError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        raise NotImplementedError

    def get(self, key: str) -> int:
        raise NotImplementedError

    def get_expiry(self, key: str) -> float:
        raise NotImplementedError
