"""Rate limits: how many requests one caller may send to one endpoint in a while.

Exact and without bursts at the edges: of any minute, the request after the hundredth
is refused, and refused requests do not count. How that is counted is in
`hubbub.security.moving_window`, which loads only when a limit is set.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from hubbub.errors import SettingsError
from hubbub.protocol.authority import is_loopback
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.refusal import Refusal

if TYPE_CHECKING:
    from hubbub.security.moving_window import RateLimitItem

DEFAULTS: Final = ("mcp=100/minute", "health=1000/minute")
"""Applied off loopback when nothing is set. On loopback the only caller is oneself."""
_ALSO_MCP: Final = ("/sse", "/messages", "/mcp-ws")
"""Other ways to the same tools, which have the limit of `/mcp` unless they have their own."""
_LARGEST: Final = 100_000
_V6_PREFIX: Final = 64


class Quotas:
    """Counts requests by endpoint and caller. Endpoints without a limit are not counted."""

    def __init__(self, limits: Iterable[str] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limits: dict[str, tuple[str, RateLimitItem]] = {}
        for text in limits:
            self._add(text)
        if "mcp" in self._limits:
            for name in _ALSO_MCP:  # what counts as one endpoint has one count
                self._limits.setdefault(name, self._limits["mcp"])
        if self._limits:
            from hubbub.security.moving_window import moving_window

            self._window = moving_window(clock)

    def _add(self, text: str) -> None:
        from hubbub.security.moving_window import parse

        endpoint, _, amount = text.partition("=")
        name = endpoint.strip().strip("/")
        try:
            item = parse(amount)
        except ValueError:
            item = None
        if not name or name.split() != [name] or item is None or not 0 < item.amount <= _LARGEST:
            raise SettingsError(f"limits: {text!r} is not a limit; write mcp=100/minute (at most {_LARGEST})")
        if name in self._limits:
            raise SettingsError(f"limits: {name} has two limits; keep one")
        self._limits[name] = self._limits["/" + name] = ("/" + name, item)

    def check(self, endpoint: str, caller: str) -> Refusal | None:
        """Count a request to an endpoint (`mcp` or `/mcp`), or refuse it."""
        found = self._limits.get(endpoint)
        if found is None:
            return None
        path, item = found
        key = f"{path} {caller}"  # one text: the library's own separator may stand in either
        return None if self._window.hit(item, key) else self._refusal(path, item, key)

    def _refusal(self, path: str, item: RateLimitItem, key: str) -> Refusal:
        resets_at = self._window.get_window_stats(item, key).reset_time
        wait_s = min(max(1, math.ceil(resets_at - self._clock())), item.get_expiry())
        span = item.GRANULARITY.name if item.multiples == 1 else f"{item.multiples} {item.GRANULARITY.name}s"
        return Refusal(
            429,
            f"Too many requests: {item.amount} per {span} on {path}; try again in {wait_s} s",
            ((b"retry-after", b"%d" % wait_s),),
        )


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
