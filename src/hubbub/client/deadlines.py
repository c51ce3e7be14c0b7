"""Until when answers are waited for: one timer for all that a conversation waits for.

A timer for each request would cost more than the request's own bytes; most are answered long
before. What is too late gets a `TimeoutError` in place of its answer.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any


class Deadline:
    """One answer's; it can be moved, as a clock that is stopped and started again."""

    __slots__ = ("_all", "_at", "answer")

    def __init__(self, deadlines: Deadlines, answer: asyncio.Future[Any], at: float) -> None:
        self._all = deadlines
        self._at = at
        self.answer = answer

    def when(self) -> float | None:
        """On the loop's clock; None: never."""
        return None if self._at == math.inf else self._at

    def reschedule(self, at: float | None) -> None:
        """From now on then; None: never."""
        self._at = math.inf if at is None else at
        self._all.watch(self._at)

    def expired(self) -> bool:
        """Whether it is too late."""
        return self.answer.done()


class Deadlines:
    """Those of one conversation."""

    def __init__(self) -> None:
        self._open: dict[Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = math.inf

    def add(self, answer: asyncio.Future[Any], at: float) -> Deadline:
        """Wait for an answer until then, at the latest."""
        deadline = Deadline(self, answer, at)
        self._open[deadline] = None
        if at < self._rings_at:
            self.watch(at)
        return deadline

    def remove(self, deadline: Deadline) -> None:
        """Nobody waits for it any more."""
        del self._open[deadline]

    def close(self) -> None:
        """Nobody waits for anything any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._rings_at = None, math.inf

    def watch(self, at: float) -> None:
        """Look again then, if not earlier."""
        if at >= self._rings_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings_at = at
        self._timer = asyncio.get_running_loop().call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer, self._rings_at = None, math.inf
        now = asyncio.get_running_loop().time()
        following = math.inf
        for deadline in self._open:
            at = deadline.when()
            if at is None or deadline.answer.done():
                continue
            if at <= now:
                deadline.answer.set_exception(TimeoutError())
            else:
                following = min(following, at)
        self.watch(following)
