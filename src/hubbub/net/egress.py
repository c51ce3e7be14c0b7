"""Which addresses a client may connect to, to prevent server-side request forgery.

The owner of a name can change its address between two lookups, so the address itself is
checked when its socket is made: after every lookup, and for literal addresses, which are
never looked up. Addresses embedded in others (IPv4 in IPv6 in all its forms) are unwrapped
first. No I/O; `hubbub.net.client` calls it.

The kinds follow the IANA registries of special-purpose addresses (IPv4, IPv6; July 2025),
not `ipaddress`, whose answers differ between versions of Python.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from typing import Final, Literal, TypeAlias

import msgspec

AddressKind: TypeAlias = Literal["public", "private", "loopback", "forbidden"]
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


def _networks(*texts: str) -> tuple[_Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


_LOOPBACK: Final = _networks("127.0.0.0/8", "::1/128")
_PUBLIC_EXCEPTIONS: Final = _networks(
    "192.0.0.9/32", "192.0.0.10/32",  # anycast of PCP and TURN
    "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:3::/32", "2001:4:112::/48", "2001:20::/28", "2001:30::/28",
)  # fmt: skip
"""Parts of the networks below that are reachable from everywhere."""
_PRIVATE: Final = _networks(
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7",
    "100.64.0.0/10",  # behind a carrier's NAT
    "192.0.0.0/24", "2001::/23",  # protocol assignments
    "198.18.0.0/15",  # benchmarks; some VPN programs resolve every name to this
    "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20",  # documentation
)  # fmt: skip
_FORBIDDEN: Final = _networks(
    "169.254.0.0/16", "fe80::/10", "fec0::/10",  # link-local, where cloud providers serve metadata
    "100.100.100.200/32",  # Alibaba's metadata
    "192.0.0.192/32",  # Oracle's
    "168.63.129.16/32",  # Azure's
    "fd00:ec2::/32",  # Amazon's
    "fd20:ce::254/128",  # Google's
    "0.0.0.0/8", "::/128",  # this host, or unspecified
    "192.88.99.0/24",  # relays of 6to4, withdrawn
    "224.0.0.0/4", "ff00::/8",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
)  # fmt: skip
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
"""Other IPv6 addresses that are not listed above are discarded (100::/64), for routers (5f00::/16), or unassigned."""

_IPV4_EMBEDDING: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in (
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated (SIIT)
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # NAT64 of the local network
        "::/96",  # IPv4-compatible
    )
)
"""IPv6 networks whose addresses embed an IPv4 address in the last 32 bits."""
_KINDS_BY_RESTRICTION: Final[tuple[AddressKind, ...]] = ("public", "private", "loopback", "forbidden")
_PRIVATE_SUFFIXES: Final = (".local", ".internal", ".lan", ".home.arpa", ".intranet", ".corp", ".home", ".private")
_NAME_PATTERN: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
_NUMERIC_HOST: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?", re.DOTALL)
_MAX_NAME_CHARACTERS: Final = 254


@functools.lru_cache(maxsize=1024)
def normalize_host(host: str) -> str:
    """Normalize a URL's host to what is looked up or connected to: a canonical address, or a lower-case ASCII name.

    Parses what resolvers accept: every dot and every digit of IDNA, and IPv4 addresses as `inet_aton` parses them
    (`0x7f000001`, `0177.1`). So the checked address is the one that is connected to.

    Raises:
        ValueError: it is not a valid host name.
    """
    bare = host.removeprefix("[").removesuffix("]")
    if ":" in bare:
        return str(ipaddress.IPv6Address(bare))
    name = (bare if bare.isascii() else bare.encode("idna").decode("ascii")).lower()
    if _NUMERIC_HOST.fullmatch(name):
        return str(_parse_ipv4(name.removesuffix(".")))
    if len(name) > _MAX_NAME_CHARACTERS or not _NAME_PATTERN.fullmatch(name):
        raise ValueError("not a valid host name")
    return name


def _parse_ipv4(text: str) -> ipaddress.IPv4Address:
    """Parse as `inet_aton` does: up to four numbers, decimal, octal or hexadecimal; the last fills the rest."""
    numbers = [_parse_number(part) for part in text.split(".")]
    *leading, last = numbers
    if len(numbers) > 4 or any(number > 255 for number in leading) or last >= 256 ** (4 - len(leading)):
        raise ValueError("not an IPv4 address")
    value = last + sum(number << (24 - 8 * index) for index, number in enumerate(leading))
    return ipaddress.IPv4Address(value)


def _parse_number(text: str) -> int:
    if not text or len(text) > 64:
        raise ValueError("not an IPv4 address")
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    if not text.isdecimal():
        raise ValueError("not an IPv4 address")
    return int(text, 8) if text.startswith("0") else int(text)


@functools.lru_cache(maxsize=1024)
def address_kind(text: str) -> AddressKind:
    """Return the kind of an address: the most restricted kind of all addresses that it may stand for."""
    try:
        address: _Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "forbidden"
    return max((_classify(each) for each in _possible_addresses(address)), key=_KINDS_BY_RESTRICTION.index)


def _possible_addresses(address: _Address) -> list[_Address]:
    """The address, or those that it embeds."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    number = int(address)
    last = ipaddress.IPv4Address(number & 0xFFFF_FFFF)
    if number > 1 and any(address in network for network in _IPV4_EMBEDDING):
        # With a NAT64 prefix of 64 bits, the IPv4 address is further left, followed by zeros only (RFC 6052).
        shifted = ipaddress.IPv4Address(number >> 24 & 0xFFFF_FFFF)
        return [last, shifted] if number >> 80 == 0x64FF9B0001 and not number & 0xFF_FFFF else [last]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if (number >> 32) & 0xFDFF_FFFF == 0x5EFE:  # ISATAP
        return [address, last]
    return [address]


def _classify(address: _Address) -> AddressKind:
    if _is_in(address, _FORBIDDEN):
        return "forbidden"
    if _is_in(address, _LOOPBACK):
        return "loopback"
    if _is_in(address, _PRIVATE) and not _is_in(address, _PUBLIC_EXCEPTIONS):
        return "private"
    return "public" if address.version == 4 or address in _GLOBAL_UNICAST else "forbidden"


def _is_in(address: _Address, networks: tuple[_Network, ...]) -> bool:
    return any(address in network for network in networks)


class EgressPolicy(msgspec.Struct, frozen=True):
    """The kinds of addresses that a client may connect to."""

    kinds: frozenset[AddressKind]

    def allows(self, address: str) -> bool:
        """Whether a client may connect to this address."""
        return address_kind(address) in self.kinds


PUBLIC: Final = EgressPolicy(frozenset(("public",)))
ANY_ADDRESS: Final = EgressPolicy(frozenset(("public", "private", "loopback")))
"""For hosts that the operator named; forbidden addresses stay forbidden."""


def egress_policy(host: str, allow_private_network: bool | None = None) -> EgressPolicy:
    """Return the policy for a URL's host: private addresses only if the host is private, or the user allows them.

    `localhost` allows loopback addresses, an IP address those of its kind, and a name that cannot
    be public (`box`, `box.local`) any address. Any other name allows only public addresses,
    whatever it resolves to later.
    """
    if allow_private_network is True:
        return ANY_ADDRESS
    if allow_private_network is False:
        return PUBLIC
    try:
        bare = normalize_host(host).removesuffix(".")
    except ValueError:
        return PUBLIC  # no connection will be made
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        if bare == "localhost" or bare.endswith(".localhost"):
            return EgressPolicy(frozenset(("loopback",)))
        return ANY_ADDRESS if "." not in bare or bare.endswith(_PRIVATE_SUFFIXES) else PUBLIC
    kind = address_kind(bare)
    return PUBLIC if kind == "forbidden" else EgressPolicy(frozenset((kind,)))
