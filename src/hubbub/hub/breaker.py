"""Whether an upstream that does not answer is asked at all.

Closed: everyone may ask. After some failures in a row it opens and refuses at once, for a
while that grows each time. Then one call may try; its outcome decides for the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hubbub.net.backoff import Backoff

_TRIAL_S: Final = 1.0
"""When to come back while the one that may try has not finished."""


class Breaker:
    """One upstream's. Not told of answers that are errors: who answers is there."""

    def __init__(
        self, limit: int, *, backoff: Backoff | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._backoff = Backoff() if backoff is None else backoff
        self._clock = clock
        self._failures = 0
        self._until: float | None = None
        self._is_trying = False
        self.reason = ""
        """Why it opened."""

    @property
    def is_closed(self) -> bool:
        """Whether everyone may ask."""
        return self._until is None

    @property
    def retry_in_s(self) -> float | None:
        """When it is worth coming back; None: now."""
        if self._until is None:
            return None
        left = self._until - self._clock()
        if left > 0:
            return left
        return _TRIAL_S if self._is_trying else None

    def admit(self) -> bool:
        """Whether a call may go; if not closed, it is the one that tries, and must tell how it went."""
        if self._until is None:
            return True
        if self.retry_in_s is not None:
            return False
        self._is_trying = True
        return True

    def succeeded(self) -> None:
        """The upstream answered."""
        self._failures = 0
        if self._until is not None:
            self._until = None
            self._is_trying = False
            self._backoff.reset()

    def failed(self, reason: str) -> None:
        """It did not."""
        self._failures += 1
        was_trying, self._is_trying = self._is_trying, False
        if was_trying or (self._until is None and self._failures >= self._limit):
            self._until = self._clock() + self._backoff.next_s()
            self.reason = reason

    def abandoned(self) -> None:
        """The call that tried was given up by its caller: another may try."""
        self._is_trying = False

    def let_try(self) -> None:
        """There is a sign that it is back: one call may try at once."""
        if self._until is not None:
            self._until = self._clock()
