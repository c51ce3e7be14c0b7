"""Quotas on calls: how many calls a tenant, user, server or tool may have in a period, and at once.

Counters belong to the tenant whose calls they count, and each tenant has its own bounds, so a tenant that floods the
hub takes no memory from another. A counter is forgotten only when its window has passed, because forgetting it earlier
would give its callers their quota back; a tenant that needs more counters than it may have is refused meanwhile.
"""

from __future__ import annotations

import fnmatch
import logging
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from hubbub import bounds
from hubbub.errors import QuotaExceeded, SettingsError, TooManyCalls
from hubbub.observe import rate_limit_logger
from hubbub.protocol.calls import Principal
from hubbub.security.rates import Rate, RequestTimes, SteadyClock, parse_rate
from hubbub.settings.governance import QUOTAS, QuotaSettings, TenantSettings

MAX_COUNTERS_PER_TENANT: Final = 100_000
"""Combinations of users, servers and tools that are counted at once for one tenant; about 600 bytes each."""
MAX_TIMES_PER_TENANT: Final = 4_000_000
"""Times of calls that are stored for one tenant; eight bytes each."""
MAX_CACHED_PLANS: Final = 4096
"""Combinations of tenant, user, server and tool whose counters are known without matching patterns."""
SWEPT_PER_NEW_COUNTER: Final = 4
"""Counters whose window has passed that are forgotten when a new one is added: more than are added."""
TOO_MANY_CALLS_RETRY_S: Final = 1.0
"""When a tenant with too many concurrent calls should try again; when one of them ends is not known."""

logger = logging.getLogger("hubbub.governance")
rate_limit_logger(logger.name)  # callers can cause any number of lines

_PARTS: Final = ("tenant", "user", "server", "tool")
_Call: TypeAlias = tuple[str, str, str, str]
"""Tenant, user, server and tool."""
_SHARED: Final = "*"
"""Owner of counters that several tenants have in common; not a possible name of a tenant."""


class _Owner:
    """What one tenant uses of its bounds."""

    __slots__ = ("counters", "logs", "times")

    def __init__(self) -> None:
        self.counters = 0
        self.times = 0
        self.logs: list[_Log] = []


class _Counter(RequestTimes):
    """The calls of one combination that one quota counts."""

    __slots__ = ("amount", "is_forgotten", "key", "log", "made", "order", "owner", "window_s")

    def __init__(self, log: _Log, key: _Call, now: float) -> None:
        super().__init__()
        self.log = log
        self.key = key
        self.made = now
        self.is_forgotten = False
        # Copied from the log, because every call reads them.
        self.amount, self.window_s = log.quota.rate.amount, log.quota.rate.window_s
        self.owner, self.order = log.owner, log.order

    @property
    def passes_at(self) -> float:
        """When the last of its calls leaves the window, so that it counts nothing."""
        return (self.newest if self.times else self.made) + self.window_s


class _Log:
    """The counters of one quota and one owner."""

    __slots__ = ("counters", "order", "owner", "quota")

    def __init__(self, owner: _Owner, quota: _Quota) -> None:
        self.owner = owner
        self.quota = quota
        self.counters: dict[_Call, _Counter] = {}
        self.order: OrderedDict[_Counter, None] = OrderedDict()
        """The same, by the time of their last accepted call: those whose window passes first come first."""
        owner.logs.append(self)

    def get(self, key: _Call, now: float) -> _Counter:
        """Return the counter of a combination, or a new one."""
        counter = self.counters.get(key)
        if counter is None:
            counter = self.counters[key] = _Counter(self, key, now)
            self.order[counter] = None
            self.owner.counters += 1
        return counter

    def forget_passed(self, now: float, at_most: int | None = None) -> None:
        """Forget counters whose window has passed, which therefore count nothing."""
        while self.order and at_most != 0:
            counter = next(iter(self.order))
            if counter.passes_at > now:
                return
            self.forget(counter)
            at_most = None if at_most is None else at_most - 1

    def forget(self, counter: _Counter) -> None:
        del self.counters[counter.key], self.order[counter]
        counter.is_forgotten = True
        self.owner.counters -= 1
        self.owner.times -= len(counter.times)


class _Quota:
    """One quota: what it applies to, and its counters by owner."""

    def __init__(self, settings: QuotaSettings, rate: Rate) -> None:
        self.settings = settings
        self.rate = rate
        self.logs: dict[str, _Log] = {}
        self._patterns = [
            None if not patterns else re.compile("|".join(map(fnmatch.translate, patterns))).match
            for patterns in (settings.tenants, settings.users, settings.servers, settings.tools)
        ]
        # Users are users of a tenant: those of the same name in two tenants are never counted together.
        self._counted = {*settings.per, *(("tenant",) if "user" in settings.per else ())}

    def matches(self, call: _Call) -> bool:
        """Whether it applies to this call."""
        return all(match is None or match(part) for match, part in zip(self._patterns, call, strict=True))

    def key(self, call: _Call) -> _Call:
        """The combination that a call is counted under."""
        tenant, user, server, tool = (
            part if name in self._counted else "" for name, part in zip(_PARTS, call, strict=True)
        )
        return tenant, user, server, tool

    def owner_name(self, call: _Call) -> str:
        """The tenant whose counter this is."""
        return call[0] if "tenant" in self._counted else _SHARED

    def describe(self) -> str:
        """The limit for messages, such as `100 per minute for each user and tool`."""
        per = " and ".join(self.settings.per)
        return f"{self.rate.amount} per {self.rate.span}" + (f" for each {per}" if per else " over all callers")


class CallQuotas:
    """Counts calls by the quotas of the settings."""

    def __init__(self, settings: Sequence[QuotaSettings] = (), clock: Callable[[], float] = time.monotonic) -> None:
        self._now = SteadyClock(clock)
        self._quotas: list[_Quota] = []
        self._owners: dict[str, _Owner] = {}
        self._plans: dict[_Call, tuple[_Counter, ...]] = {}
        self._sweep_order: list[_Log] = []
        self.configure(settings)

    def configure(self, settings: Sequence[QuotaSettings]) -> None:
        """Replace the quotas. Those that stay the same keep their counters.

        Raises:
            SettingsError: a limit is not a rate; nothing was changed.
        """
        known = {quota.settings: quota for quota in self._quotas}
        quotas: list[_Quota] = []
        for index, each in enumerate(settings):
            rate = parse_rate(each.limit)
            if rate is None:
                raise SettingsError(
                    f"{QUOTAS}[{index}].limit: {each.limit!r} is not a rate; write it as 100/minute "
                    f"(at most {bounds.QUOTA_REQUESTS})"
                )
            quotas.append(known.pop(each) if each in known else _Quota(each, rate))
        for removed in known.values():
            for log in removed.logs.values():
                for counter in list(log.order):
                    log.forget(counter)
                log.owner.logs.remove(log)
        self._quotas = quotas
        self._plans.clear()
        self._sweep_order.clear()

    def check(self, principal: Principal, server: str, tool: str) -> QuotaExceeded | None:
        """Count a call in every quota that applies to it; or in none, and return the error, if one has no room."""
        call = (principal.tenant, principal.user or principal.name, server, tool)
        plan = self._plans.get(call)
        now = self._now()
        if plan is None:
            made = self._make_plan(call, now)
            if isinstance(made, QuotaExceeded):
                return made
            plan = made
        most_times = MAX_TIMES_PER_TENANT - len(plan)
        for counter in plan:
            times = counter.times
            if counter.is_forgotten:
                del self._plans[call]
                return self.check(principal, server, tool)
            if len(times) < counter.amount:
                if counter.owner.times > most_times:
                    wait_s = _make_room(counter.owner, len(plan), now)
                    # If there is room now, the counters of this plan may be among those that were forgotten.
                    return self.check(principal, server, tool) if wait_s is None else _refuse_full(call[0], wait_s)
            elif times[counter.next] > now - counter.window_s:
                return _refuse(plan, now)
        for counter in plan:
            counter.order.move_to_end(counter)
            if counter.add(now, counter.amount):
                counter.owner.times += 1
        return None

    @property
    def counters(self) -> int:
        """How many combinations are counted now."""
        return sum(owner.counters for owner in self._owners.values())

    def _make_plan(self, call: _Call, now: float) -> tuple[_Counter, ...] | QuotaExceeded:
        """Find the counters of a call, and remember them."""
        logs = [(quota, self._find_log(quota, call)) for quota in self._quotas if quota.matches(call)]
        self._sweep([log for _, log in logs], now)
        for _, log in logs:
            if log.owner.counters > MAX_COUNTERS_PER_TENANT - len(logs):
                wait_s = _make_room(log.owner, len(logs), now)
                if wait_s is not None:
                    return _refuse_full(call[0], wait_s)
        plan = tuple(log.get(quota.key(call), now) for quota, log in logs)
        if len(self._plans) >= MAX_CACHED_PLANS:
            self._plans.clear()
        self._plans[call] = plan
        return plan

    def _find_log(self, quota: _Quota, call: _Call) -> _Log:
        name = quota.owner_name(call)
        log = quota.logs.get(name)
        if log is None:
            log = quota.logs[name] = _Log(self._owners.setdefault(name, _Owner()), quota)
        return log

    def _sweep(self, logs: list[_Log], now: float) -> None:
        """Forget counters whose window has passed: of these logs, and of one other, whose tenant may be idle."""
        if not self._sweep_order:
            self._sweep_order = [log for owner in self._owners.values() for log in owner.logs]
        for log in (*logs, *self._sweep_order[-1:]):
            log.forget_passed(now, SWEPT_PER_NEW_COUNTER)
        del self._sweep_order[-1:]


def _refuse(plan: tuple[_Counter, ...], now: float) -> QuotaExceeded:
    """Make the error of the quota that has room last, so that a repeated call is not refused by another."""
    waits = {
        counter: oldest + counter.window_s - now
        for counter in plan
        if (oldest := counter.oldest_after(now - counter.window_s, counter.amount)) is not None
    }
    last = max(waits, key=waits.__getitem__)
    return _make_error(f"Too many calls: the limit is {last.log.quota.describe()}", waits[last])


def _refuse_full(tenant: str, wait_s: float) -> QuotaExceeded:
    logger.warning("quota_counters_full", extra={"tenant": tenant})
    return _make_error("Too many different users, servers and tools of this tenant are being counted", wait_s)


def _make_room(owner: _Owner, needed: int, now: float) -> float | None:
    """Forget all counters of an owner whose window has passed; if that is not enough, return when the next passes."""
    for log in owner.logs:
        log.forget_passed(now)
    if owner.counters <= MAX_COUNTERS_PER_TENANT - needed and owner.times <= MAX_TIMES_PER_TENANT - needed:
        return None
    return min((next(iter(log.order)).passes_at - now for log in owner.logs if log.order), default=1.0)


def _make_error(problem: str, wait_s: float) -> QuotaExceeded:
    seconds = max(1, math.ceil(wait_s))
    return QuotaExceeded(f"{problem}. The call was not made; wait {seconds} s, then repeat it", seconds)


class TenantCalls:
    """The concurrent calls of each tenant, up to its `max_calls`."""

    def __init__(self, tenants: Iterable[TenantSettings] = ()) -> None:
        self._limits: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self.configure(tenants)

    def configure(self, tenants: Iterable[TenantSettings]) -> None:
        """Replace the limits; calls that are running count on."""
        self._limits = {tenant.name: tenant.max_calls for tenant in tenants}

    def running(self, tenant: str) -> int:
        """How many calls of this tenant are running."""
        return self._running.get(tenant, 0)

    def acquire(self, tenant: str) -> TooManyCalls | None:
        """Count a call that starts, which must be released; or return the error. Unknown tenants have no limit."""
        running = self._running.get(tenant, 0)
        if running >= self._limits.get(tenant, math.inf):
            return self.check(tenant)
        self._running[tenant] = running + 1
        return None

    def check(self, tenant: str) -> TooManyCalls | None:
        """Return the error that `acquire` would return now."""
        limit = self._limits.get(tenant)
        if limit is None or self._running.get(tenant, 0) < limit:
            return None
        return TooManyCalls(
            f"Too many calls: tenant {tenant!r} has reached its limit of {limit} concurrent calls. "
            "The call was not made; repeat it when others have finished",
            TOO_MANY_CALLS_RETRY_S,
        )

    def release(self, tenant: str) -> None:
        """Count a call that ended."""
        running = self._running[tenant] - 1
        if running:
            self._running[tenant] = running
        else:
            del self._running[tenant]
