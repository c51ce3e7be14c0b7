"""The address and scheme of callers behind trusted proxies, from X-Forwarded-For and X-Forwarded-Proto."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from hubbub.protocol.http_headers import Headers

_ANY: Final = "*"
_CACHED_ADDRESSES: Final = 1024
_MAX_CACHED_CHARACTERS: Final = 64  # longer text is not cached
_UNIX: Final = "unix"
_SCHEMES: Final = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """The proxies whose headers are trusted: addresses, networks, `unix` for the Unix socket, or `*` for all."""

    def __init__(self, proxies: Iterable[str]) -> None:
        self._is_trusted = lru_cache(_CACHED_ADDRESSES)(self._check)
        self._names: set[str] = set()
        self._networks: list[_Network] = []
        for proxy in proxies:
            try:
                self._networks.append(ipaddress.ip_network(proxy, strict=False))
            except ValueError:
                self._names.add(proxy)

    def __bool__(self) -> bool:
        return bool(self._names or self._networks)

    def __contains__(self, address: str) -> bool:
        return self._check(address) if len(address) > _MAX_CACHED_CHARACTERS else self._is_trusted(address)

    def _check(self, address: str) -> bool:
        if _ANY in self._names:
            return True
        if not address:  # a caller on a Unix socket
            return _UNIX in self._names
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)

    def client_address(self, headers: Headers, address: str) -> str:
        """The address of the caller: the last one in X-Forwarded-For that is not a trusted proxy itself."""
        if address not in self:
            return address
        hops = [hop for item in (headers.get(b"x-forwarded-for") or "").split(",") if (hop := _strip_port(item))]
        return next((hop for hop in reversed(hops) if hop not in self), hops[0] if hops else address)

    def scheme(self, headers: Headers, address: str, default: str) -> str:
        """The scheme of the caller's request."""
        if address not in self:
            return default
        return _SCHEMES.get((headers.get(b"x-forwarded-proto") or "").strip(), default)


def _strip_port(hop: str) -> str:
    """Return an address without its port. Other text is not changed, so that it matches no trusted proxy."""
    hop = hop.strip()
    if hop.startswith("["):
        address, bracket, rest = hop[1:].partition("]")
        return address if bracket and (not rest or rest.startswith(":")) else hop
    address, _, port = hop.partition(":")
    return address if port.isdigit() else hop
