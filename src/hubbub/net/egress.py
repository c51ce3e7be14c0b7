"""Which addresses we connect to.

A name is whatever its owner says it is at the moment of the question, so the decision is
taken on the address itself, when its socket is made: after every lookup, and for
literal addresses, of which no resolver is ever asked. What other addresses are wrapped
in (IPv4 in IPv6 in all its forms) is unwrapped first. Pure; `hubbub.net.door` asks.
"""

from __future__ import annotations

import functools
import ipaddress
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.protocol.authority import is_loopback

Kind: TypeAlias = Literal["public", "private", "loopback", "forbidden"]
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_NEVER: Final = tuple(
    ipaddress.ip_network(text)
    for text in (
        "169.254.0.0/16",  # link-local, where clouds keep their metadata
        "100.100.100.200/32",  # Alibaba's metadata
        "192.0.0.192/32",  # Oracle's
        "168.63.129.16/32",  # Azure's
        "0.0.0.0/8",
        "fe80::/10",
        "fec0::/10",
        "fd00:ec2::/32",  # Amazon's metadata
        "fd20:ce::254/128",  # Google's
    )
)
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOCAL_NAT64: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
_ORDER: Final[tuple[Kind, ...]] = ("public", "private", "loopback", "forbidden")
_PRIVATE_SUFFIXES: Final = (".local", ".internal", ".lan", ".home.arpa", ".intranet", ".corp", ".home", ".private")


@functools.lru_cache(maxsize=1024)
def kind_of(text: str) -> Kind:
    """What kind of address this is, by the worst of all that it stands for."""
    try:
        address: _Address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return "forbidden"
    return max((_kind(each) for each in _meanings(address)), key=_ORDER.index)


def _meanings(address: _Address) -> list[_Address]:
    """The address, or the ones that it leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    if address in _NAT64 or address in _LOCAL_NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)]
    if address in _COMPATIBLE and int(address) > 1:
        return [ipaddress.IPv4Address(int(address))]
    if (int(address) >> 32) & 0xFDFF_FFFF == 0x5EFE:  # ISATAP
        return [address, ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)]
    return [address]


def _kind(address: _Address) -> Kind:
    if any(address in network for network in _NEVER) or address.is_multicast or address.is_unspecified:
        return "forbidden"
    if address.is_loopback:
        return "loopback"
    if address.is_global:
        return "public"
    return "forbidden" if address.is_reserved else "private"


class Egress(msgspec.Struct, frozen=True):
    """The kinds of addresses that one door leads to."""

    kinds: frozenset[Kind]

    def allows(self, address: str) -> bool:
        """Whether a connection to this address may be made."""
        return kind_of(address) in self.kinds


PUBLIC: Final = Egress(frozenset(("public",)))
ANYWHERE: Final = Egress(frozenset(("public", "private", "loopback")))
"""For addresses that the operator named; what is forbidden stays so."""


def egress_for(host: str, allow_private_network: bool | None = None) -> Egress:
    """Where a URL's host may lead: into a private network only if the host says so itself, or its user does.

    `localhost` and loopback addresses lead to this machine, private addresses and names
    that cannot be public (`box`, `box.local`) into the network around it. Any other name
    leads to public addresses, whatever its owner makes of it later.
    """
    if allow_private_network is True:
        return ANYWHERE
    if allow_private_network is False:
        return PUBLIC
    bare = host.removeprefix("[").removesuffix("]").removesuffix(".").lower()
    if is_loopback(bare) or bare.endswith(".localhost"):
        return Egress(frozenset(("loopback",)))
    try:
        ipaddress.ip_address(bare)
    except ValueError:
        is_private_name = "." not in bare or bare.endswith(_PRIVATE_SUFFIXES)
        return ANYWHERE if is_private_name else PUBLIC
    kind = kind_of(bare)
    return PUBLIC if kind == "forbidden" else Egress(frozenset((kind,)))
