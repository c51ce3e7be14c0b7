"""Growing delays between retries, with jitter."""

from __future__ import annotations

from collections.abc import Sequence

from hubbub import bounds


class Backoff:
    """Delays that grow with each consecutive failure; the last one is repeated. By default `RETRY_PAUSES_S`.

    Jitter subtracts up to half of each delay, so that many clients of a
    restarted server do not reconnect at the same moment.
    """

    def __init__(self, steps: Sequence[float] | None = None, *, jitter: float = 0.5) -> None:
        self._steps = tuple(bounds.RETRY_PAUSES_S if steps is None else steps)
        self._jitter = jitter
        self.failures = 0

    def next_s(self) -> float:
        """Count one more failure and return the delay in seconds."""
        step = self._steps[min(self.failures, len(self._steps) - 1)]
        self.failures += 1
        if not self._jitter:
            return step
        from random import random  # Imports hashlib too, which is slow to load.

        return step * (1 - self._jitter * random())

    def reset(self) -> None:
        """Start again with the first delay, after a success."""
        self.failures = 0
