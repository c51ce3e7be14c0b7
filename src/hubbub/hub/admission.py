"""Admission of calls to one upstream: a limit on concurrent calls, and a circuit breaker.

`Slots` limits concurrency. Each call waits for a slot within its own deadline, and no owner gets more than its share of
the slots or of the queue. A call that waits for an answer of its caller does not need the upstream and lends its slot.

`Breaker` is a circuit breaker. While it is closed, every call is admitted. After several consecutive failures it opens
and refuses calls at once, for a time that grows with each failure. Then it admits one trial call, whose outcome decides
whether it closes. Each authenticated principal has its own sessions, and so its own breaker: its failures do not affect
others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hubbub import bounds
from hubbub.errors import Overloaded
from hubbub.net.backoff import Backoff
from hubbub.protocol.model import ANONYMOUS, Caller
from hubbub.shares import SharedSlots, Shares


class Slots:
    """Limits the concurrent calls to one upstream."""

    def __init__(self, what: str, limit: int, most_waiting: int) -> None:
        self._what = what
        self._limit = limit
        self._slots = SharedSlots(limit)
        self._line = Shares(most_waiting)
        self._is_free = asyncio.Event()
        self.lent = 0
        """Number of calls that wait for an answer of their caller."""

    @property
    def running(self) -> int:
        """Number of calls that have a slot."""
        return self._slots.taken

    @property
    def waiting(self) -> int:
        """Number of calls that wait for a slot."""
        return len(self._line)

    async def take(self, deadline: float, owner: str = "") -> None:
        """Wait for a slot, at most until `deadline` on the loop's clock.

        Raises:
            Overloaded: too many calls wait, or the deadline passed.
        """
        if self._slots.take_now(owner):
            return
        if not self._line.has_room(owner):
            raise Overloaded(self._what, self._limit)
        self._line.take(owner)
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.take(owner)
        except TimeoutError:
            raise Overloaded(self._what, self._limit) from None
        finally:
            self._line.give_back(owner)
            self._look_whether_idle()

    def give_back(self, owner: str = "") -> None:
        """Return the slot of a call that has ended."""
        self._slots.give_back(owner)
        self._look_whether_idle()

    def lend(self, owner: str = "") -> None:
        """Give up the slot of a call that waits for its caller."""
        self.lent += 1
        self._slots.give_back(owner)

    def take_again(self, owner: str = "") -> None:
        """Take a slot again after `lend`, even if that exceeds the limit for a while."""
        self.lent -= 1
        self._slots.take_over_limit(owner)
        self._look_whether_idle()  # if the call has ended meanwhile

    async def idle(self) -> None:
        """Wait until no call runs or waits."""
        while self.running or self.lent or self.waiting:
            self._is_free.clear()
            await self._is_free.wait()

    def _look_whether_idle(self) -> None:
        if not (self.running or self.lent or self.waiting):
            self._is_free.set()


class Breaker:
    """A circuit breaker. Error responses count as success: a server that sends them is available."""

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
        """Whether every call is admitted."""
        return self._until is None

    @property
    def retry_in_s(self) -> float | None:
        """Seconds until a call may try again; None: now."""
        if self._until is None:
            return None
        left = self._until - self._clock()
        if left > 0:
            return left
        return bounds.BREAKER_TRIAL_S if self._is_trying else None

    def admit(self) -> bool:
        """Whether a call may be sent; if the breaker is open, it is the trial call, whose outcome must be reported."""
        if self._until is None:
            return True
        if self.retry_in_s is not None:
            return False
        self._is_trying = True
        return True

    def succeeded(self) -> None:
        """Record an answer; closes the breaker."""
        self._failures = 0
        if self._until is not None:
            self._until = None
            self._is_trying = False
            self._backoff.reset()

    def failed(self, reason: str) -> None:
        """Record a call without an answer; opens the breaker after too many, or after a failed trial call."""
        self._failures += 1
        was_trying, self._is_trying = self._is_trying, False
        if was_trying or (self._until is None and self._failures >= self._limit):
            self._until = self._clock() + self._backoff.next_s()
            self.reason = reason

    def abandoned(self) -> None:
        """Record that the trial call was cancelled by its caller: another call may be the trial."""
        self._is_trying = False

    def let_try(self) -> None:
        """Admit a trial call at once, because the upstream seems to be back."""
        if self._until is not None:
            self._until = self._clock()


class Breakers:
    """The breakers of one upstream: one for callers without an identity, and one for each principal."""

    def __init__(self, limit: int, backoff: Callable[[], Backoff] = Backoff) -> None:
        self._limit = limit
        self._backoff = backoff
        self.shared = Breaker(limit, backoff=backoff())
        self._own: dict[str, Breaker] = {}

    def get(self, caller: Caller) -> Breaker:
        """The breaker of a caller."""
        if caller.principal is ANONYMOUS:
            return self.shared
        name = caller.principal.name
        found = self._own.get(name)
        if found is None:
            if len(self._own) >= bounds.UPSTREAM_WAITING:
                del self._own[next(iter(self._own))]
            found = self._own[name] = Breaker(self._limit, backoff=self._backoff())
        return found

    @property
    def is_closed(self) -> bool:
        """Whether the upstream is known to answer callers."""
        return self.shared.is_closed and (not self._own or any(breaker.is_closed for breaker in self._own.values()))

    @property
    def reason(self) -> str:
        """The reason of the first open breaker."""
        return next((breaker.reason for breaker in self._all() if not breaker.is_closed), "")

    @property
    def retry_in_s(self) -> float | None:
        """Seconds until a call may try again; None: now."""
        waits = [] if self.is_closed else [breaker.retry_in_s for breaker in self._all() if not breaker.is_closed]
        return None if None in waits else min((wait for wait in waits if wait is not None), default=None)

    def let_try(self) -> None:
        """Let each breaker admit a trial call at once, because the upstream seems to be back."""
        for breaker in self._all():
            breaker.let_try()

    def _all(self) -> list[Breaker]:
        return [self.shared, *self._own.values()]
