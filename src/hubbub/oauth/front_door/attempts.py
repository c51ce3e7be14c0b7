"""Limits how often one network address may try something, such as an API key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from hubbub.oauth.front_door import limits
from hubbub.protocol.calls import ANONYMOUS
from hubbub.security.rate_limits import caller_key
from hubbub.security.rates import Rate, RequestTimes


class Attempts:
    """Counts the attempts of each address."""

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._times: OrderedDict[str, RequestTimes] = OrderedDict()

    def count(self, address: str) -> int:
        """Count an attempt, and return 0; after too many, return the seconds until the next one is allowed."""
        key, now = caller_key(ANONYMOUS, address), self._clock()
        times = self._times.setdefault(key, RequestTimes())
        self._times.move_to_end(key)
        if len(self._times) > limits.LIMITED_ADDRESSES:
            self._times.popitem(last=False)
        oldest = times.oldest_after(now - self._rate.window_s, self._rate.amount)
        if oldest is not None:
            return max(1, int(oldest + self._rate.window_s - now))
        times.add(now, self._rate.amount)
        return 0
