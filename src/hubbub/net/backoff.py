"""How long to wait before trying again: the one place that decides it."""

from __future__ import annotations

from collections.abc import Sequence

EXPONENTIAL = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
STREAM = (1.0, 2.0, 5.0, 10.0)
"""For streams whose server does not say how long to wait."""


class Backoff:
    """Waits that grow with each failure in a row; the last is repeated.

    Half of each wait may be taken off at random, so that many clients of one
    server that was restarted do not come back at the same moment.
    """

    def __init__(self, steps: Sequence[float] = EXPONENTIAL, *, jitter: float = 0.5) -> None:
        self._steps = tuple(steps)
        self._jitter = jitter
        self.failures = 0

    def next_s(self) -> float:
        """Count one more failure; how long to wait now."""
        step = self._steps[min(self.failures, len(self._steps) - 1)]
        self.failures += 1
        if not self._jitter:
            return step
        from random import random  # Brings hashlib along.

        return step * (1 - self._jitter * random())

    def reset(self) -> None:
        """It worked."""
        self.failures = 0
