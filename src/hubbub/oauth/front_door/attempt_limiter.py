"""Limits how often one network address, and all of them together, may try something, such as an API key."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from hubbub.oauth.front_door import limits
from hubbub.protocol.calls import ANONYMOUS
from hubbub.security.rate_limits import caller_key
from hubbub.security.rates import Rate, RequestTimes


class AttemptLimiter:
    """Counts the attempts that its owner adds."""

    def __init__(self, rate: Rate, clock: Callable[[], float], total: Rate | None = None) -> None:
        """`rate` is that of each address, `total` that of all addresses together."""
        self._rate = rate
        self._total = total
        self._clock = clock
        self._times: OrderedDict[str, RequestTimes] = OrderedDict()
        self._all_times = RequestTimes()

    def wait_s(self, address: str) -> int:
        """Return in how many seconds this address may try again; 0: now."""
        times = self._times.get(caller_key(ANONYMOUS, address))
        wait_s = 0 if times is None else self._wait_s(times, self._rate)
        return wait_s if self._total is None else max(wait_s, self._wait_s(self._all_times, self._total))

    def add(self, address: str) -> None:
        """Count an attempt."""
        key, now = caller_key(ANONYMOUS, address), self._clock()
        self._times.setdefault(key, RequestTimes()).add(now, self._rate.amount)
        self._times.move_to_end(key)
        if len(self._times) > limits.LIMITED_ADDRESSES:
            self._times.popitem(last=False)
        if self._total is not None:
            self._all_times.add(now, self._total.amount)

    def _wait_s(self, times: RequestTimes, rate: Rate) -> int:
        now = self._clock()
        oldest = times.oldest_after(now - rate.window_s, rate.amount)
        return 0 if oldest is None else max(1, int(oldest + rate.window_s - now))
