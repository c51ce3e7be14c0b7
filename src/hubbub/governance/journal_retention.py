"""Decides which segments of an audit journal are old enough to be deleted.

A clock that jumps ahead must not delete the journal, so nothing expires until the clock has agreed with the monotonic
one for an hour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hubbub.governance.audit_events import format_time

STEADY_CLOCK_S: Final = 3600.0
CLOCK_TOLERANCE_S: Final = 60.0
"""How much the two clocks may differ in that time; NTP corrects by less."""
INTERVAL_S: Final = 3600.0
"""How often the segments are checked."""
_DAY_NS: Final = 86400 * 1_000_000_000
_NS_PER_S: Final = 1_000_000_000


class Retention:
    """The age limit of segments."""

    def __init__(self, days: int | None, clock_ns: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._days = days
        self._clock_ns = clock_ns
        self._monotonic = monotonic
        self._steady_since = monotonic()
        self._offset_s = clock_ns() / _NS_PER_S - self._steady_since
        self._next_check = 0.0

    def find_limit(self) -> str | None:
        """Return the time before which segments expire; None if they need not be checked now."""
        if self._days is None:
            return None
        now_ns, elapsed = self._clock_ns(), self._monotonic()
        offset_s = now_ns / _NS_PER_S - elapsed
        if abs(offset_s - self._offset_s) > CLOCK_TOLERANCE_S:
            self._offset_s, self._steady_since = offset_s, elapsed
        if elapsed - self._steady_since < STEADY_CLOCK_S or elapsed < self._next_check:
            return None
        self._next_check = elapsed + INTERVAL_S
        return format_time(max(0, now_ns - self._days * _DAY_NS))
