"""Which addresses may be reached: every disguise of the forbidden ones is seen through."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.net.egress import ANYWHERE, PUBLIC, egress_for, kind_of

METADATA = "169.254.169.254"


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("93.184.216.34", "public"),
        ("2606:4700::1111", "public"),
        ("127.0.0.1", "loopback"),
        ("127.8.8.8", "loopback"),
        ("::1", "loopback"),
        ("10.0.0.1", "private"),
        ("172.16.5.5", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fd12:3456::1", "private"),
        (METADATA, "forbidden"),
        ("169.254.0.1", "forbidden"),
        ("100.100.100.200", "forbidden"),
        ("fd00:ec2::254", "forbidden"),
        ("fe80::1", "forbidden"),
        ("fe80::1%eth0", "forbidden"),
        ("0.0.0.0", "forbidden"),
        ("::", "forbidden"),
        ("224.0.0.1", "forbidden"),
        ("ff02::1", "forbidden"),
        ("255.255.255.255", "forbidden"),
        ("nonsense", "forbidden"),
    ],
)
def test_kinds_of_addresses(address: str, kind: str) -> None:
    assert kind_of(address) == kind


def disguises(address: str) -> list[str]:
    number = int(ipaddress.IPv4Address(address))
    flipped = number ^ 0xFFFF_FFFF
    return [
        str(ipaddress.IPv6Address(0xFFFF << 32 | number)),
        str(ipaddress.IPv6Address(0x2002 << 112 | number << 80)),
        str(ipaddress.IPv6Address((0x64FF9B << 96) | number)),
        str(ipaddress.IPv6Address((0x64FF9B0001 << 80) | number)),
        str(ipaddress.IPv6Address(0x20010000 << 96 | 0x5DB8D822 << 64 | flipped)),
        str(ipaddress.IPv6Address(0x20010000 << 96 | number << 64 | 0x5DB8D822)),
        str(ipaddress.IPv6Address(0x2606 << 112 | 0x5EFE << 32 | number)),
    ]


@given(st.sampled_from(["169.254.0.0/16", "127.0.0.0/8", "10.0.0.0/8", "192.168.0.0/16"]), st.integers(1, 65000))
def test_no_disguise_makes_an_address_public(network: str, offset: int) -> None:
    address = str(ipaddress.IPv4Network(network)[offset])
    assert kind_of(address) != "public"
    for disguise in disguises(address):
        assert kind_of(disguise) == kind_of(address), disguise


@pytest.mark.parametrize(
    ("host", "allowed", "refused"),
    [
        ("localhost", ["127.0.0.1", "::1"], ["10.0.0.1", "93.184.216.34", METADATA]),
        ("127.0.0.1", ["127.0.0.1"], ["10.0.0.1", METADATA]),
        ("[::1]", ["::1"], ["10.0.0.1", METADATA]),
        ("10.0.0.7", ["10.0.0.7"], ["127.0.0.1", METADATA]),
        ("box", ["10.0.0.7", "127.0.0.1"], [METADATA]),
        ("box.local", ["192.168.0.2"], [METADATA, "fe80::1"]),
        ("example.com", ["93.184.216.34"], ["127.0.0.1", "10.0.0.1", "::1", METADATA]),
        ("example.com.", ["93.184.216.34"], ["127.0.0.1"]),
        (METADATA, [], [METADATA, "127.0.0.1"]),
    ],
)
def test_a_host_leads_where_it_says(host: str, allowed: list[str], refused: list[str]) -> None:
    egress = egress_for(host)
    assert all(egress.allows(address) for address in allowed)
    assert not any(egress.allows(address) for address in refused)


def test_the_user_may_open_or_close_private_networks() -> None:
    assert egress_for("example.com", True).allows("10.0.0.1")
    assert not egress_for("example.com", True).allows(METADATA)
    assert not egress_for("localhost", False).allows("127.0.0.1")
    assert not ANYWHERE.allows(METADATA)
    assert not PUBLIC.allows("127.0.0.1")
