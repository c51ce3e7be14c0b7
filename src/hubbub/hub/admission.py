"""Admission of calls to one upstream: a limit on concurrent calls, and a circuit breaker.

`CallLimiter` limits concurrency. Each call waits for a slot within its own deadline, and no owner gets more than its
share of the slots or of the queue. A call that waits for an answer of its caller does not need the upstream and yields
its slot.

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
from hubbub.protocol.calls import ANONYMOUS, Caller
from hubbub.shares import SharedSlots, Shares


class CallLimiter:
    """Limits the concurrent calls to one upstream."""

    def __init__(self, label: str, limit: int, max_waiting: int) -> None:
        self._label = label
        self._limit = limit
        self._shared_slots = SharedSlots(limit)
        self._queue = Shares(max_waiting)
        self._idle_event = asyncio.Event()
        self.yielded = 0
        """Number of calls that wait for an answer of their caller."""

    @property
    def running(self) -> int:
        """Number of calls that have a slot."""
        return self._shared_slots.taken

    @property
    def waiting(self) -> int:
        """Number of calls that wait for a slot."""
        return len(self._queue)

    def acquire_nowait(self, owner: str = "") -> bool:
        """Take a slot if one is free."""
        return self._shared_slots.take_nowait(owner)

    async def acquire(self, deadline: float, owner: str = "") -> None:
        """Wait for a slot, at most until `deadline` on the loop's clock.

        Raises:
            Overloaded: too many calls wait, or the deadline passed.
        """
        if self._shared_slots.take_nowait(owner):
            return
        if not self._queue.has_room(owner):
            raise Overloaded(self._label, self._limit)
        self._queue.take(owner)
        try:
            async with asyncio.timeout_at(deadline):
                await self._shared_slots.take(owner)
        except TimeoutError:
            raise Overloaded(self._label, self._limit) from None
        finally:
            self._queue.give_back(owner)
            self._check_idle()

    def release(self, owner: str = "") -> None:
        """Return the slot of a call that has ended."""
        self._shared_slots.give_back(owner)
        self._check_idle()

    def yield_slot(self, owner: str = "") -> None:
        """Give up the slot of a call that waits for its caller."""
        self.yielded += 1
        self._shared_slots.give_back(owner)

    def retake_slot(self, owner: str = "") -> None:
        """Take a slot again after `yield_slot`, even if that exceeds the limit for a while."""
        self.yielded -= 1
        self._shared_slots.take_over_limit(owner)
        self._check_idle()  # if the call has ended meanwhile

    async def wait_until_idle(self) -> None:
        """Wait until no call runs or waits."""
        while self.running or self.yielded or self.waiting:
            self._idle_event.clear()
            await self._idle_event.wait()

    def _check_idle(self) -> None:
        if not self._shared_slots.taken and not (self.yielded or self.waiting):
            self._idle_event.set()


class Breaker:
    """A circuit breaker. Error responses count as success: a server that sends them is available."""

    def __init__(
        self, limit: int, *, backoff: Backoff | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._backoff = Backoff() if backoff is None else backoff
        self._clock = clock
        self._failures = 0
        self._open_until: float | None = None
        self._is_trial_running = False
        self.reason = ""
        """Why it opened."""

    @property
    def is_closed(self) -> bool:
        """Whether every call is admitted."""
        return self._open_until is None

    @property
    def retry_in_s(self) -> float | None:
        """Seconds until a call may try again; None: now."""
        if self._open_until is None:
            return None
        left = self._open_until - self._clock()
        if left > 0:
            return left
        return bounds.BREAKER_RETRY_S if self._is_trial_running else None

    def admit(self) -> bool:
        """Whether a call may be sent; if the breaker is open, it is the trial call, whose outcome must be reported."""
        if self._open_until is None:
            return True
        if self.retry_in_s is not None:
            return False
        self._is_trial_running = True
        return True

    def record_success(self) -> None:
        """Record an answer; closes the breaker."""
        self._failures = 0
        if self._open_until is not None:
            self._open_until = None
            self._is_trial_running = False
            self._backoff.reset()

    def record_failure(self, reason: str) -> None:
        """Record a call without an answer; opens the breaker after too many, or after a failed trial call."""
        self._failures += 1
        was_trial_running, self._is_trial_running = self._is_trial_running, False
        if was_trial_running or (self._open_until is None and self._failures >= self._limit):
            self._open_until = self._clock() + self._backoff.next_s()
            self.reason = reason

    def record_abandoned(self) -> None:
        """Record that the trial call was cancelled by its caller: another call may be the trial."""
        self._is_trial_running = False

    def allow_trial(self) -> None:
        """Admit a trial call at once, because the upstream seems to be back."""
        if self._open_until is not None:
            self._open_until = self._clock()


class Breakers:
    """The breakers of one upstream: one for callers without an identity, and one for each principal."""

    def __init__(self, limit: int, backoff: Callable[[], Backoff] = Backoff) -> None:
        self._limit = limit
        self._backoff = backoff
        self.shared = Breaker(limit, backoff=backoff())
        self._by_principal: dict[str, Breaker] = {}
        self._names: dict[str, dict[str, None]] = {}
        """Names of principals with a breaker by tenant, or by themselves without one; the oldest first."""
        self.count_tenants: Callable[[], int] = lambda: 0
        """Returns how many tenants may call the upstream."""

    def get(self, caller: Caller) -> Breaker:
        """The breaker of a caller."""
        if caller.principal is ANONYMOUS:
            return self.shared
        name = caller.principal.name
        found = self._by_principal.get(name)
        if found is None:
            if len(self._by_principal) >= bounds.UPSTREAM_QUEUED_CALLS:
                self._forget_oldest()
            found = self._by_principal[name] = Breaker(self._limit, backoff=self._backoff())
            self._names.setdefault(caller.principal.tenant or name, {})[name] = None
        return found

    def find_open(self, caller: Caller) -> Breaker | None:
        """The breaker of a caller, if it admits no calls."""
        found = self._by_principal.get(caller.principal.name, self.shared)
        return None if found.is_closed else found

    def _forget_oldest(self) -> None:
        """Forget the oldest breaker of the tenant with the most."""
        tenant = max(self._names, key=lambda tenant: len(self._names[tenant]))
        names = self._names[tenant]
        oldest = next(iter(names))
        del self._by_principal[oldest], names[oldest]
        if not names:
            del self._names[tenant]

    @property
    def is_closed(self) -> bool:
        """Whether the upstream is known to answer callers.

        With several tenants, it is until calls of two of them fail: requests of one tenant may be the cause.
        """
        if not self.shared.is_closed:
            return False
        if not self._by_principal or any(breaker.is_closed for breaker in self._by_principal.values()):
            return True
        return len(self._names) < min(2, self.count_tenants())

    @property
    def reason(self) -> str:
        """The reason of the first open breaker."""
        return next((breaker.reason for breaker in self._all() if not breaker.is_closed), "")

    @property
    def retry_in_s(self) -> float | None:
        """Seconds until a call may try again; None: now."""
        waits = [] if self.is_closed else [breaker.retry_in_s for breaker in self._all() if not breaker.is_closed]
        return None if None in waits else min((wait for wait in waits if wait is not None), default=None)

    def allow_trial(self) -> None:
        """Let each breaker admit a trial call at once, because the upstream seems to be back."""
        for breaker in self._all():
            breaker.allow_trial()

    def _all(self) -> list[Breaker]:
        return [self.shared, *self._by_principal.values()]
