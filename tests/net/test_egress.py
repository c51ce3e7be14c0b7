"""Which addresses are allowed, in every notation and embedding."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.net.egress import PUBLIC, normalize_host
from hubbub.net.pool import parse_url
from hubbub.pack.http import ANY_ADDRESS, address_kind, egress_policy

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
        ("192.0.0.9", "public"),
        ("2001:20::1", "public"),
        ("2001:4860:4860::8888", "public"),
    ],
)
def test_kinds_of_addresses(address: str, kind: str) -> None:
    assert address_kind(address) == kind


# The special-purpose registries of IANA: everything that is not marked as globally reachable.
SPECIAL = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/29",
    "192.0.0.8/32", "192.0.0.170/31", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
    "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
    "::1/128", "::/128", "64:ff9b:1::/56", "100::/64", "100:0:0:1::/64", "2001:2::/48", "2001:10::/28",
    "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    "4000::/3", "e000::/4",
]  # fmt: skip


@given(st.sampled_from(SPECIAL).map(ipaddress.ip_network), st.integers(min_value=0))
def test_no_special_purpose_address_is_public(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network, offset: int
) -> None:
    if network == ipaddress.ip_network("64:ff9b:1::/56"):
        offset %= 2**32 - 2**24  # any embedded IPv4 address
        assert address_kind(str(network[offset])) == address_kind(str(ipaddress.IPv4Address(offset)))
    else:
        assert address_kind(str(network[offset % network.num_addresses])) != "public"


def embedded_forms(address: str) -> list[str]:
    number = int(ipaddress.IPv4Address(address))
    flipped = number ^ 0xFFFF_FFFF
    return [
        str(ipaddress.IPv6Address(0xFFFF << 32 | number)),
        str(ipaddress.IPv6Address(0xFFFF << 48 | number)),
        str(ipaddress.IPv6Address(0x2002 << 112 | number << 80)),
        str(ipaddress.IPv6Address((0x64FF9B << 96) | number)),
        str(ipaddress.IPv6Address((0x64FF9B0001 << 80) | number)),
        str(ipaddress.IPv6Address(0x20010000 << 96 | 0x5DB8D822 << 64 | flipped)),
        str(ipaddress.IPv6Address(0x20010000 << 96 | number << 64 | 0x5DB8D822)),
        str(ipaddress.IPv6Address(0x2606 << 112 | 0x5EFE << 32 | number)),
    ]


@given(st.sampled_from(["169.254.0.0/16", "127.0.0.0/8", "10.0.0.0/8", "192.168.0.0/16"]), st.integers(1, 65000))
def test_no_embedded_form_makes_an_address_public(network: str, offset: int) -> None:
    address = str(ipaddress.IPv4Network(network)[offset])
    assert address_kind(address) != "public"
    for disguise in embedded_forms(address):
        assert address_kind(disguise) == address_kind(address), disguise
    # Behind a NAT64 prefix of 64 bits; read with 96 bits it may be a more restricted kind, but never public.
    assert (
        address_kind(str(ipaddress.IPv6Address(0x64FF9B0001 << 80 | int(ipaddress.IPv4Address(address)) << 24)))
        != "public"
    )


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
        ("evil\u3002example", ["93.184.216.34"], ["127.0.0.1", "10.0.0.1", METADATA]),
        ("evil\uff0eexample", ["93.184.216.34"], ["127.0.0.1", "10.0.0.1"]),
        ("evil\uff61example", ["93.184.216.34"], ["127.0.0.1", "10.0.0.1"]),
        ("evil%2eexample", [], ["127.0.0.1", "10.0.0.1"]),
        ("b\u00fcro", ["10.0.0.7"], [METADATA]),
        ("0x7f000001", ["127.0.0.1"], ["10.0.0.1", "93.184.216.34"]),
        ("0x0a000001", ["10.0.0.1"], ["127.0.0.1", METADATA]),
        ("2852039166", [], [METADATA, "127.0.0.1", "10.0.0.1"]),
        ("\uff11\uff12\uff17.1", ["127.0.0.1"], ["10.0.0.1"]),
        ("127.0.0.1.", ["127.0.0.1"], ["10.0.0.1"]),
        ("1.2.3.999", [], ["127.0.0.1", "10.0.0.1"]),
        ("::ffff:0:127.0.0.1", ["127.0.0.1"], ["10.0.0.1", "93.184.216.34"]),
    ],
)
def test_a_host_is_classified_by_its_address(host: str, allowed: list[str], refused: list[str]) -> None:
    egress = egress_policy(host)
    assert all(egress.allows(address) for address in allowed)
    assert not any(egress.allows(address) for address in refused)


def test_private_networks_can_be_allowed_or_forbidden() -> None:
    assert egress_policy("example.com", True).allows("10.0.0.1")
    assert not egress_policy("example.com", True).allows(METADATA)
    assert not egress_policy("localhost", False).allows("127.0.0.1")
    assert not ANY_ADDRESS.allows(METADATA)
    assert not PUBLIC.allows("127.0.0.1")


# -- hosts -------------------------------------------------------------------------------

DOTS = ".\u3002\uff0e\uff61"
LABEL = st.text("abcxyz019-_\u00fc\u00df\uff10\uff21", min_size=1, max_size=8)


@st.composite
def spellings(draw: st.DrawFn) -> tuple[str, str]:
    """An IPv4 address, and one of the notations that resolvers accept."""
    number = draw(st.integers(0, 2**32 - 1))
    octets = list(number.to_bytes(4))
    parts = draw(st.integers(1, 4))
    values = [*octets[: parts - 1], int.from_bytes(octets[parts - 1 :])]
    forms = [draw(st.sampled_from(["{:d}", "0x{:x}", "0X{:X}", "0{:o}", "0x000{:x}", "0000{:o}"])) for _ in values]
    text = draw(st.sampled_from(DOTS)).join(form.format(value) for form, value in zip(forms, values, strict=True))
    return str(ipaddress.IPv4Address(number)), text


@given(spellings())
def test_every_spelling_of_an_address_is_checked_and_connected_to_as_that_address(pair: tuple[str, str]) -> None:
    address, spelling = pair
    assert normalize_host(spelling) == address
    assert parse_url(f"http://{spelling}:80/").origin.host == address
    assert egress_policy(spelling) == egress_policy(address)


@given(st.lists(LABEL, min_size=2, max_size=4), st.lists(st.sampled_from(DOTS), min_size=3, max_size=3))
def test_every_dot_separates_labels(labels: list[str], dots: list[str]) -> None:
    odd = "".join(label + dot for label, dot in zip(labels, dots, strict=False)) + "".join(labels[len(dots) :])
    plain = odd.translate({ord(dot): "." for dot in DOTS})
    assert egress_policy(odd) == egress_policy(plain)


@given(st.text(max_size=30))
def test_only_local_host_names_may_resolve_to_loopback(host: str) -> None:
    if not egress_policy(host).allows("127.0.0.1"):
        return
    looked_up = normalize_host(host).removesuffix(".")
    assert looked_up.isascii()
    assert (
        "." not in looked_up
        or looked_up.startswith("127.")
        or looked_up.endswith((".localhost", ".local", ".internal", ".lan", ".home.arpa", ".intranet", ".corp"))
        or looked_up.endswith((".home", ".private"))
    )


@pytest.mark.parametrize(
    "host", ["", ".", "a..b", "-a", "a b", "a/b", "a@b", "a%2eb", "::1::", "1.2.3.4.5", "0xg.1", "1..2", "x" * 300]
)
def test_an_invalid_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the parsers say
        normalize_host(host)
    assert egress_policy(host) == PUBLIC
