"""Rate limits: how many requests one caller may send to one endpoint in a period.

Counted in sliding windows (`hubbub.security.rates`). All state is in this process.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from hubbub import bounds
from hubbub.errors import RateLimited, SettingsError
from hubbub.observe import ROUTES, log_refusal
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.protocol.host_origin import is_loopback, network_prefix
from hubbub.protocol.refusal import Refusal
from hubbub.security.rates import RequestTimes, parse_rate
from hubbub.suggestions import format_suggestion

if TYPE_CHECKING:
    from hubbub.ports import MessageCounter

OTHER: Final = "other"
"""Stands for every path without its own limit, whether anything is served there or not."""
_OTHER_DEFAULT: Final = "other=1000/minute"
DEFAULT_LIMITS: Final = ("mcp=100/minute", "health=1000/minute", _OTHER_DEFAULT)
"""Applied off loopback if nothing is set. On loopback, callers are the user's own programs."""
_OTHER_MCP_PATHS: Final = ("/sse", "/messages", "/mcp-ws")
"""Other endpoints for the same tools, which have the limit of `/mcp` unless they have their own."""
_ROUTE_NAMES: Final = frozenset((OTHER, *(route.strip("/") for route in ROUTES if route != "/" and "{" not in route)))
_TOOL_ROUTES: Final = frozenset(("mcp", *(path.strip("/") for path in _OTHER_MCP_PATHS)))


class RateLimit(msgspec.Struct, frozen=True):
    """At most `amount` requests to one endpoint in `window_s` seconds."""

    path: str
    amount: int
    window_s: int
    span: str
    """The window for messages, such as `minute`."""


class RateLimits:
    """Counts requests by endpoint and caller. If any path has a limit, every path has one.

    Except the routes of the tools, which have no limit if the operator sets none for them.
    """

    def __init__(self, limits: Iterable[str] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limits: dict[str, RateLimit] = {}
        for text in limits:
            self._add_limit(text)
        if self._limits and OTHER not in self._limits:
            self._add_limit(_OTHER_DEFAULT)
        self._other_limit = self._limits.pop(OTHER, None)
        if "mcp" in self._limits:
            for name in _OTHER_MCP_PATHS:  # they share one count
                self._limits.setdefault(name, self._limits["mcp"])
        self._log = _RequestLog()

    def _add_limit(self, text: str) -> None:
        endpoint, _, rate = text.partition("=")
        name = endpoint.strip().strip("/")
        path = "other paths" if name == OTHER else f"/{name}"
        parsed = parse_rate(rate)
        if not name or name.split() != [name] or parsed is None:
            max_requests = bounds.QUOTA_REQUESTS
            raise SettingsError(
                f"limits: {text!r} is not a rate limit; write it as mcp=100/minute (at most {max_requests})"
            )
        if name not in _ROUTE_NAMES:
            raise SettingsError(f"limits: unknown route {name!r}{format_suggestion(name, _ROUTE_NAMES)}")
        if name in self._limits:
            raise SettingsError(f"limits: {name} has two limits; keep one")
        self._limits[name] = self._limits[path] = RateLimit(path, *parsed)

    def check(self, endpoint: str, caller: str) -> Refusal | None:
        """Count a request to an endpoint (`mcp` or `/mcp`), or refuse it."""
        limit = self._limits.get(endpoint)
        if limit is None:
            if self._other_limit is None or endpoint.strip("/") in _TOOL_ROUTES:
                return None
            limit = self._other_limit
        clock = self._clock
        now = clock()
        oldest = self._log.add(limit, caller, now)
        return None if oldest is None else self._refusal(limit, oldest + limit.window_s - now)

    def _refusal(self, limit: RateLimit, wait_s: float) -> Refusal:
        wait_s = min(max(1, math.ceil(wait_s)), limit.window_s)
        return Refusal(
            429,
            f"Too many requests: {limit.amount} per {limit.span} on {limit.path}; try again in {wait_s} s",
            ((b"retry-after", b"%d" % wait_s),),
            wait_s,
        )

    def count_for(self, endpoint: str, principal: Principal, client: str) -> MessageCounter | None:
        """Return a function that counts each message of a connection or batch like a request; None without a limit."""
        if endpoint not in self._limits:
            return None
        caller = caller_key(principal, client)

        def count() -> RateLimited | None:
            refusal = self.check(endpoint, caller)
            if refusal is None:
                return None
            log_refusal(endpoint, refusal.status, client, None if principal is ANONYMOUS else principal.name)
            return RateLimited(refusal.message, refusal.retry_after_s or 1)

        return count


class _RequestLog:
    """The times of each caller's last accepted requests.

    For each caller a ring of times, as many as its limit allows, and a bounded number of callers:
    the one that called longest ago is dropped, and its count starts again.
    """

    def __init__(self) -> None:
        self._rings: OrderedDict[tuple[str, str], RequestTimes] = OrderedDict()
        self._total_times = 0
        self._last_limit: RateLimit | None = None
        self._last_caller = ""
        self._last_ring = RequestTimes()
        """Of the caller that called last, which is the newest already."""

    def add(self, limit: RateLimit, caller: str, now: float) -> float | None:
        """Accept a request; or return the time of the oldest one in the window, if there are too many."""
        if caller != self._last_caller or limit is not self._last_limit:
            self._last_limit, self._last_caller = limit, caller
            self._last_ring = self._find_ring((limit.path, caller))
        ring, amount = self._last_ring, limit.amount
        grows = len(ring.times) < amount
        oldest = ring.admit(now, limit.window_s, amount)
        if grows:
            self._total_times += 1
            if self._total_times > bounds.QUOTA_TIMES or len(self._rings) > bounds.QUOTA_CALLERS:
                self._evict_oldest()
        return oldest

    def _find_ring(self, key: tuple[str, str]) -> RequestTimes:
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = RequestTimes()
        else:
            self._rings.move_to_end(key)
        return ring

    def _evict_oldest(self) -> None:
        while len(self._rings) > bounds.QUOTA_CALLERS or (
            self._total_times > bounds.QUOTA_TIMES and len(self._rings) > 1
        ):
            self._total_times -= len(self._rings.popitem(last=False)[1].times)


def effective_limits(bind_host: str, configured: Iterable[str] | None) -> tuple[str, ...]:
    """Return the limits that apply: those configured, else `DEFAULT_LIMITS` off loopback and none on loopback."""
    if configured is not None:
        return tuple(configured)
    return () if is_loopback(bind_host) else DEFAULT_LIMITS


def caller_key(principal: Principal, client: str | None) -> str:
    """Return the name under which a caller is counted: its principal, else its network address.

    An IPv6 /64 network counts as one, because its owner can send from any of its addresses.
    """
    if principal is not ANONYMOUS:
        return principal.name
    if client is None:
        return "unknown"
    return network_prefix(client) if ":" in client else client
