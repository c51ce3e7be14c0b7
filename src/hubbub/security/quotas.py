"""Rate limits: how many requests one caller may send to one endpoint in a while.

Exact and without bursts at the edges: of any minute, the request after the hundredth
is refused, and refused requests do not count. Limits are written, and storages made,
as in the `limits` library, which loads only when a limit is set; a shared storage of
its would do the same. Its own memory storage starts a thread every few milliseconds
and keeps every caller it ever saw, so the memory here is ours: a ring of times for
each caller, and a bounded number of callers.
"""

from __future__ import annotations

import ipaddress
import math
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hubbub import bounds
from hubbub.errors import RateLimited, SettingsError
from hubbub.observe import ROUTES, log_refusal
from hubbub.protocol.authority import is_loopback
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.refusal import Refusal
from hubbub.settings.nearest import nearest

if TYPE_CHECKING:
    from hubbub.ports import Count

DEFAULTS: Final = ("mcp=100/minute", "health=1000/minute")
"""Applied off loopback when nothing is set. On loopback the only caller is oneself."""
_ALSO_MCP: Final = ("/sse", "/messages", "/mcp-ws")
"""Other ways to the same tools, which have the limit of `/mcp` unless they have their own."""
_NAMES: Final = frozenset(route.strip("/") for route in ROUTES if route != "/" and "{" not in route)
_LARGEST: Final = 100_000
_V6_PREFIX: Final = 64


class Limit(NamedTuple):
    """So many requests to one endpoint in so many seconds."""

    path: str
    amount: int
    window_s: int
    span: str
    """The window in words."""


class Quotas:
    """Counts requests by endpoint and caller. Endpoints without a limit are not counted."""

    def __init__(self, limits: Iterable[str] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limits: dict[str, Limit] = {}
        for text in limits:
            self._add(text)
        if "mcp" in self._limits:
            for name in _ALSO_MCP:  # what counts as one endpoint has one count
                self._limits.setdefault(name, self._limits["mcp"])
        if self._limits:
            self._storage: Any = _bounded_memory(clock)

    def _add(self, text: str) -> None:
        from limits import parse

        endpoint, _, amount = text.partition("=")
        name = endpoint.strip().strip("/")
        try:
            item = parse(amount)
        except ValueError:
            item = None
        if not name or name.split() != [name] or item is None or not 0 < item.amount <= _LARGEST:
            raise SettingsError(f"limits: {text!r} is not a limit; write mcp=100/minute (at most {_LARGEST})")
        if name not in _NAMES:
            raise SettingsError(f"limits: there is no route {name!r}{nearest(name, _NAMES)}")
        if name in self._limits:
            raise SettingsError(f"limits: {name} has two limits; keep one")
        span = item.GRANULARITY.name if item.multiples == 1 else f"{item.multiples} {item.GRANULARITY.name}s"
        limit = Limit("/" + name, item.amount, item.get_expiry(), span)
        self._limits[name] = self._limits[limit.path] = limit

    def check(self, endpoint: str, caller: str) -> Refusal | None:
        """Count a request to an endpoint (`mcp` or `/mcp`), or refuse it."""
        limit = self._limits.get(endpoint)
        if limit is None:
            return None
        key = f"{limit.path} {caller}"
        is_accepted = self._storage.acquire_entry(key, limit.amount, limit.window_s)
        return None if is_accepted else self._refusal(limit, key)

    def _refusal(self, limit: Limit, key: str) -> Refusal:
        oldest, _ = self._storage.get_moving_window(key, limit.amount, limit.window_s)
        wait_s = min(max(1, math.ceil(oldest + limit.window_s - self._clock())), limit.window_s)
        return Refusal(
            429,
            f"Too many requests: {limit.amount} per {limit.span} on {limit.path}; try again in {wait_s} s",
            ((b"retry-after", b"%d" % wait_s),),
            wait_s,
        )

    def count_for(self, endpoint: str, principal: Principal, client: str) -> Count | None:
        """What counts each message of a connection or batch like a request of its own."""
        if endpoint not in self._limits:
            return None
        caller = caller_of(principal, client)

        def count() -> RateLimited | None:
            refusal = self.check(endpoint, caller)
            if refusal is None:
                return None
            log_refusal(endpoint, refusal.status, client, None if principal is ANONYMOUS else principal.name)
            return RateLimited(refusal.message, refusal.retry_after_s or 1)

        return count


def limits_for(bind_host: str, configured: Iterable[str] | None) -> tuple[str, ...]:
    """The limits that apply: those configured, else contract figures off loopback and none on it."""
    if configured is not None:
        return tuple(configured)
    return () if is_loopback(bind_host) else DEFAULTS


def caller_of(principal: Principal, client: str | None) -> str:
    """Who is counted: the caller we know, else the network address.

    An IPv6 network of 64 bits counts as one: its owner can send from any address of it.
    """
    if principal is not ANONYMOUS:
        return principal.name
    if client is None:
        return "unknown"
    if ":" not in client:
        return client
    try:
        address = ipaddress.IPv6Address(client)
    except ValueError:
        return client
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _V6_PREFIX), strict=False))


class _Ring:
    """The times of the last accepted requests of one caller; as many as the limit allows."""

    __slots__ = ("next", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.next = 0

    def accept(self, now: float, limit: int, window_s: float) -> bool:
        times = self.times
        if len(times) < limit:
            times.append(now)
            return True
        if times[self.next] > now - window_s:
            return False
        times[self.next] = now
        self.next = (self.next + 1) % limit
        return True

    def oldest(self) -> float:
        # Until it has gone round, `next` is 0 and the first time is the oldest.
        return self.times[self.next]


def _bounded_memory(clock: Callable[[], float]) -> Any:
    """A storage for the library's moving windows."""
    from limits.storage import MovingWindowSupport, Storage

    class BoundedMemory(Storage, MovingWindowSupport):
        """Knows the callers who came last; whoever is forgotten starts anew."""

        STORAGE_SCHEME = None

        def __init__(self) -> None:
            super().__init__()
            self._rings: OrderedDict[str, _Ring] = OrderedDict()
            self._times = 0

        def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
            ring = self._rings.get(key)
            if ring is None:
                ring = self._rings[key] = _Ring()
            else:
                self._rings.move_to_end(key)
            if len(ring.times) < limit:
                self._make_room()
            return ring.accept(clock(), limit, expiry)

        def _make_room(self) -> None:
            self._times += 1
            while len(self._rings) > bounds.QUOTA_CALLERS or (
                self._times > bounds.QUOTA_TIMES and len(self._rings) > 1
            ):
                self._times -= len(self._rings.popitem(last=False)[1].times)

        def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
            ring, since = self._rings.get(key), clock() - expiry
            if ring is None or not ring.times:
                return since + expiry, 0
            oldest = ring.oldest()
            if oldest > since:
                return oldest, len(ring.times)
            recent = [moment for moment in ring.times if moment > since]
            return min(recent, default=since + expiry), len(recent)

        def reset(self) -> int:
            count, self._times = len(self._rings), 0
            self._rings.clear()
            return count

        def clear(self, key: str) -> None:
            ring = self._rings.pop(key, None)
            self._times -= len(ring.times) if ring is not None else 0

        def check(self) -> bool:
            return True

        # The strategies that count in fixed windows are not offered.
        base_exceptions = ValueError

        def incr(self, key: str, expiry: int, amount: int = 1) -> int:
            raise NotImplementedError

        def get(self, key: str) -> int:
            raise NotImplementedError

        def get_expiry(self, key: str) -> float:
            raise NotImplementedError

    return BoundedMemory()
