"""Which hosts and web origins a server accepts, for the gate and CORS.

A malicious web page that makes a browser call a server on this machine is recognized by its
`Origin` and, if its own name resolves to this machine (DNS rebinding), by its `Host`. Both
headers are parsed strictly and compared with what is allowed. Malformed values are not
repaired: text that a browser would not send matches no rule.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.protocol.calls import ANONYMOUS, Principal

WILDCARD: Final = "*"
LOOPBACK_NAME: Final = "localhost"

_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_AUTHORITY: Final = re.compile(
    rf"(?:\[([0-9A-Fa-f:.]{{2,45}})\]|({_LABEL}(?:\.{_LABEL})*)\.?)(?::([0-9]{{1,5}}))?", re.ASCII
)
_ORIGIN: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,31})://([!-~]+)", re.ASCII)
_OPAQUE_HOST: Final = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HTTP_SCHEMES: Final = {"wss": "https", "ws": "http"}
_HOST_NAME_CHARACTERS: Final = 253


_IPV6_PREFIX_BITS: Final = 64


class Authority(msgspec.Struct, frozen=True):
    """A normalized host, with the port if one was given."""

    host: str
    port: int | None = None
    is_address: bool = False
    """Whether the host is an address rather than a name. DNS rebinding cannot forge an address."""


class Origin(msgspec.Struct, frozen=True):
    """A normalized web origin; http and https origins always have a port."""

    scheme: str
    host: str
    port: int | None = None


def http_url(url: str) -> str:
    """Return the URL of the HTTP requests to a server, whose own URL may be one of a WebSocket."""
    scheme, _, rest = url.partition("://")
    return f"{_HTTP_SCHEMES.get(scheme.lower(), scheme)}://{rest}"


def parse_authority(text: str) -> Authority | None:
    """Read the value of a `Host` header; None if it is not one."""
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return None
    bracketed, name, digits = found.groups()
    port = None if digits is None else int(digits)
    if port is not None and not 0 < port < 65536:
        return None
    if bracketed is not None:
        address = _parse_address(bracketed)
        return None if address is None or ":" not in bracketed else Authority(address, port, True)
    if name.rpartition(".")[2].isdigit():  # if the last label is digits, only an IPv4 address is valid
        address = _parse_address(name)
        return None if address is None else Authority(address, port, True)
    return Authority(name.lower(), port) if len(name) <= _HOST_NAME_CHARACTERS else None


def parse_origin(text: str) -> Origin | None:
    """Read the value of an `Origin` header; None if it is `null` or not an origin."""
    found = _ORIGIN.fullmatch(text)
    if found is None:
        return None
    scheme, rest = found[1].lower(), found[2]
    default = DEFAULT_PORTS.get(scheme)
    if default is None:  # a browser extension or an editor's webview; its host is an opaque id
        return Origin(scheme, rest) if _OPAQUE_HOST.fullmatch(rest) else None
    authority = parse_authority(rest)
    return None if authority is None else Origin(scheme, authority.host, authority.port or default)


def is_loopback(host: str) -> bool:
    """Whether this host, written bare, can only be this machine: the name localhost or a loopback address.

    Other names are not resolved, because their addresses can change after the check.
    """
    host = host.removeprefix("[").removesuffix("]").removesuffix(".").lower()
    if host == LOOPBACK_NAME:
        return True
    address = _parse_address(host)
    return address is not None and ipaddress.ip_address(address).is_loopback


def network_prefix(address: str) -> str:
    """The network that counts as one caller: an IPv4 address, or the /64 prefix of an IPv6 address."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address)
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed), _IPV6_PREFIX_BITS), strict=False))


def share_owner(principal: Principal, address: str) -> str:
    """Return whose share a caller uses: the authenticated principal's, or else its network's.

    Empty for anonymous callers on this machine, which cannot be distinguished.
    """
    if principal is not ANONYMOUS:
        return principal.name
    return _address_owner(address) if address else ""


@functools.lru_cache(maxsize=1024)
def _address_owner(address: str) -> str:
    return "" if is_loopback(address) else network_prefix(address)


def _parse_address(text: str) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return None
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
    return str(address)


class _AllowedCache:
    """Caches allowed values, so that each is parsed only once; refused values are not cached."""

    __slots__ = ("_allowed_values", "_check")

    def __init__(self, check: Callable[[str], bool]) -> None:
        self._check = check
        self._allowed_values: set[bytes] = set()

    def allow(self, raw: bytes | None) -> bool:
        if raw in self._allowed_values:
            return True
        if raw is None or not self._check(raw.decode("latin-1")):
            return False
        if len(self._allowed_values) >= bounds.CACHED_HOSTS:
            self._allowed_values.clear()
        self._allowed_values.add(raw)
        return True


class AllowedHosts:
    """The hosts that a server accepts.

    localhost and loopback addresses are always accepted, on any port. In addition, those
    configured: `example.com` (any port), `example.com:8443`, `*.example.com` (its subdomains),
    `*`. With `addresses`, for a server that listens on the network, any IP address is accepted
    too, because only names can be rebound.
    """

    def __init__(self, configured: Iterable[str] = (), *, addresses: bool = False) -> None:
        self._allows_any = False
        self._allows_addresses = addresses
        self._exact: set[tuple[str, int | None]] = set()
        self._suffixes: list[str] = []
        self._cache = _AllowedCache(self._check_text)
        self.allow = self._cache.allow
        """Whether a `Host` header is accepted; a missing one is not."""
        for text in configured:
            self._add_rule(text.strip())

    def _add_rule(self, text: str) -> None:
        if text == WILDCARD:
            self._allows_any = True
            return
        authority = parse_authority(text.removeprefix("*."))
        if authority is None:
            raise SettingsError(f"allowed_hosts: {text!r} is not a host; write example.com or example.com:8443")
        if text.startswith("*."):
            self._suffixes.append("." + authority.host)
        else:
            self._exact.add((authority.host, authority.port))

    def _check_text(self, text: str) -> bool:
        authority = parse_authority(text)
        if authority is None:
            return False
        host = authority.host
        return (
            self._allows_any
            or is_loopback(host)
            or (self._allows_addresses and authority.is_address)
            or (host, None) in self._exact
            or (host, authority.port) in self._exact
            or any(host.endswith(suffix) for suffix in self._suffixes)
        )


class AllowedOrigins:
    """The web origins whose pages may call.

    Origins on this machine, with any port, and those configured: `https://example.com`,
    `vscode-webview://id`, or `*` for all.
    """

    def __init__(self, configured: Iterable[str] = ()) -> None:
        self.allows_any = False
        self._exact: set[Origin] = set()
        self._cache = _AllowedCache(self._check_text)
        self.allow = self._cache.allow
        """Whether an `Origin` header is allowed. `null` never is, because any page can send it."""
        for text in map(str.strip, configured):
            if text == WILDCARD:
                self.allows_any = True
                continue
            origin = parse_origin(text.removesuffix("/"))
            if origin is None:
                raise SettingsError(f"allowed_origins: {text!r} is not an origin; write https://example.com")
            self._exact.add(origin)

    def _check_text(self, text: str) -> bool:
        origin = parse_origin(text)
        if origin is None:
            return False
        is_local_page = origin.scheme in DEFAULT_PORTS and is_loopback(origin.host)
        return self.allows_any or is_local_page or origin in self._exact
