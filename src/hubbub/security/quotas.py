"""Rate limits: how many requests one caller may send to one endpoint in a while.

Exact and without bursts at the edges: of any minute, the request after the hundredth
is refused, and refused requests do not count. Limits are written as in the `limits`
library, which loads only when a limit is set, with `hubbub.security.quota_memory`.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

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
            from hubbub.security.quota_memory import BoundedMemory

            self._storage = BoundedMemory(clock)

    def _add(self, text: str) -> None:
        from hubbub.security.quota_memory import parse

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
        is_accepted = self._storage.take(key, limit.amount, limit.window_s)
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
