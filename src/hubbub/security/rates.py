"""Rates such as `100/minute`, and the times of accepted requests that they are checked against.

A sliding window log, so there are no bursts at window boundaries: with 100/minute, the 101st request within any
minute is refused, and refused requests do not count.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from typing import Final, NamedTuple

from hubbub import bounds

_RATE_PATTERN: Final = re.compile(r"\s*([0-9]{1,9})\s*(?:/|per)\s*([0-9]{1,9})?\s*([a-z]+)\s*", re.IGNORECASE)
_HOUR_S: Final = 3600
_UNITS_S: Final = {
    "second": 1,
    "minute": 60,
    "hour": _HOUR_S,
    "day": 24 * _HOUR_S,
    "month": 30 * 24 * _HOUR_S,
    "year": 360 * 24 * _HOUR_S,
}


class Rate(NamedTuple):
    """At most `amount` requests in `window_s` seconds."""

    amount: int
    window_s: int
    span: str
    """The window for messages, such as `minute`."""


def parse_rate(text: str) -> Rate | None:
    """Parse `100/minute` or `5 per 10 seconds`; None if it is not a rate, or larger than `bounds.QUOTA_REQUESTS`."""
    found = _RATE_PATTERN.fullmatch(text)
    if found is None:
        return None
    amount, multiple = int(found[1]), int(found[2] or 1)
    unit = found[3].lower().removesuffix("s")
    if unit not in _UNITS_S or not 0 < amount <= bounds.QUOTA_REQUESTS or not multiple:
        return None
    return Rate(amount, multiple * _UNITS_S[unit], unit if multiple == 1 else f"{multiple} {unit}s")


class RequestTimes:
    """The times of the last accepted requests of one caller: a ring of as many as its rate allows."""

    __slots__ = ("next", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.next = 0
        """Index of the oldest time, once the ring is full."""

    @property
    def newest(self) -> float:
        """When the last request was accepted; there must be one."""
        return self.times[self.next - 1]

    def admit(self, now: float, window_s: float, amount: int) -> float | None:
        """Record a request and return None; if there were too many in the window, return when the first of them was."""
        times = self.times
        if len(times) < amount:
            times.append(now)
            return None
        oldest = times[self.next]
        if oldest > now - window_s:
            return oldest
        times[self.next] = now
        self.next = (self.next + 1) % amount
        return None

    def oldest_after(self, start: float, amount: int) -> float | None:
        """If `amount` requests were accepted after `start`, return when the first of them was; else None."""
        if len(self.times) < amount:
            return None
        oldest = self.times[self.next]
        return oldest if oldest > start else None

    def add(self, now: float, amount: int) -> bool:
        """Record an accepted request; return whether the ring grew."""
        if len(self.times) < amount:
            self.times.append(now)
            return True
        self.times[self.next] = now
        self.next = (self.next + 1) % amount
        return False


class SteadyClock:
    """A clock that never goes back: if the clock it reads jumps back, it continues from where it was.

    Otherwise every time recorded before the jump would be in the future, and callers refused until the clock is
    there again.
    """

    __slots__ = ("_clock", "_last", "_offset")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._offset = 0.0
        self._last = clock()

    def __call__(self) -> float:
        now = self._clock() + self._offset
        if now < self._last:
            self._offset += self._last - now
            return self._last
        self._last = now
        return now
