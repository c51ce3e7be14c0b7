import ipaddress
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hubbub import SettingsError, bounds
from hubbub.protocol.host_origin import (
    AllowedHosts,
    AllowedOrigins,
    Authority,
    Origin,
    is_loopback,
    parse_authority,
    parse_origin,
)

# -- parsing -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", Authority("localhost")),
        ("LocalHost:3000", Authority("localhost", 3000)),
        ("localhost.", Authority("localhost")),
        ("localhost.:80", Authority("localhost", 80)),
        ("127.0.0.1:65535", Authority("127.0.0.1", 65535, True)),
        ("[::1]", Authority("::1", None, True)),
        ("[0:0:0:0:0:0:0:1]:8080", Authority("::1", 8080, True)),
        ("[::FFFF:127.0.0.1]", Authority("127.0.0.1", None, True)),
        ("xn--caf-dma.example", Authority("xn--caf-dma.example")),
        ("my_service", Authority("my_service")),
    ],
)
def test_a_host_is_normalised(text: str, expected: Authority) -> None:
    assert parse_authority(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        " localhost",
        "localhost ",
        "localhost\n",
        "localhost:",
        "localhost:0",
        "localhost:65536",
        "localhost:123456",
        "localhost:80:80",
        "localhost:８０",
        "user@localhost",
        "user:password@localhost:80",
        "evil.example@localhost",
        "localhost, evil.example",
        "localhost/",
        "localhost?x",
        "localhost#x",
        "localhost..",
        ".localhost",
        "a..b",
        "-a.example",
        "a-.example",
        "::1",
        "[::1",
        "::1]",
        "[]",
        "[127.0.0.1]",
        "[fe80::1%eth0]",
        "[v1.x]",
        "127.1",
        "127.0.0.01",
        "127.0.0.256",
        "2130706433",
        "loca%6chost",
        "café.example",
        "ⓛocalhost",
        "a" * 64,
        ".".join(["a" * 60] * 5),
        "http://localhost",
    ],
)
def test_an_invalid_host_is_not_parsed(text: str) -> None:
    assert parse_authority(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://localhost", Origin("http", "localhost", 80)),
        ("HTTPS://Example.com", Origin("https", "example.com", 443)),
        ("http://[::1]:5173", Origin("http", "::1", 5173)),
        ("vscode-webview://1AbC", Origin("vscode-webview", "1AbC")),
    ],
)
def test_an_origin_is_normalised(text: str, expected: Origin) -> None:
    assert parse_origin(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "*",
        "localhost",
        "//localhost",
        "http:localhost",
        "http://",
        "http://localhost/",
        "http://localhost/path",
        "http://localhost http://evil.example",
        "http://localhost, http://localhost",
        "http://user@localhost",
        "http://localhost:x",
        "http://localhost\\@evil.example",
        "file://",
        "app://a/b",
        "app://user@a",
    ],
)
def test_an_invalid_origin_is_not_parsed(text: str) -> None:
    assert parse_origin(text) is None


labels = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
hosts = st.lists(labels, min_size=1, max_size=4).map(".".join)
ports = st.none() | st.integers(1, 65535)


@given(hosts, ports, st.booleans())
def test_host_names_are_parsed_with_any_case_and_trailing_dot(host: str, port: int | None, dotted: bool) -> None:
    text = host.upper() + "." * dotted + ("" if port is None else f":{port}")
    assert parse_authority(text) == Authority(host, port)


@given(st.ip_addresses(), ports)
def test_ip_addresses_are_normalised(address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int | None) -> None:
    written = f"[{address.exploded}]" if address.version == 6 else str(address)
    found = parse_authority(written + ("" if port is None else f":{port}"))
    mapped = getattr(address, "ipv4_mapped", None)
    assert found == Authority(str(mapped or address), port, True)


@given(st.text())
@example("[::1%lo]")
def test_any_text_is_normalised_or_not_parsed(text: str) -> None:
    found = parse_authority(text)
    if found is not None:
        written = f"[{found.host}]" if ":" in found.host else found.host
        assert parse_authority(written + ("" if found.port is None else f":{found.port}")) == found


@given(st.binary(max_size=300))
def test_any_bytes_are_allowed_or_refused_without_an_exception(raw: bytes) -> None:
    AllowedHosts(["example.com"]).allow(raw)
    AllowedOrigins(["https://example.com"]).allow(raw)


# -- loopback ------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "localhost.", "127.0.0.1", "127.8.9.1", "::1", "[::1]"])
def test_loopback_hosts_are_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "127.0.0.1.example", "example.com", "127.1", "*"]
)
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


# -- rules ---------------------------------------------------------------------


@pytest.mark.parametrize("host", [b"localhost", b"localhost:1", b"LOCALHOST:3000", b"127.0.0.1:3000", b"[::1]:3000"])
def test_loopback_hosts_are_always_allowed(host: bytes) -> None:
    rule = AllowedHosts()
    assert rule.allow(host)
    assert rule.allow(host)


@pytest.mark.parametrize(
    "host",
    [None, b"", b"evil.example", b"localhost.evil.example", b"127.0.0.1.evil.example", b"10.0.0.1", b"loc\xe4lhost"],
)
def test_other_hosts_are_refused_by_default(host: bytes | None) -> None:
    assert not AllowedHosts().allow(host)


def test_configured_hosts_are_allowed_with_their_port_if_they_have_one() -> None:
    rule = AllowedHosts(["example.com", "api.example.com:8443", "*.internal.example"])
    assert rule.allow(b"example.com")
    assert rule.allow(b"EXAMPLE.com.:99")
    assert rule.allow(b"api.example.com:8443")
    assert not rule.allow(b"api.example.com")
    assert not rule.allow(b"api.example.com:8444")
    assert rule.allow(b"a.b.internal.example")
    assert not rule.allow(b"internal.example")
    assert not rule.allow(b"evilinternal.example")


def test_an_ip_address_is_allowed_off_loopback_but_a_name_is_not() -> None:
    rule = AllowedHosts(addresses=True)
    assert rule.allow(b"192.168.1.20:3000")
    assert rule.allow(b"[2001:db8::1]:3000")
    assert not rule.allow(b"rebound.example:3000")


def test_a_star_allows_every_valid_host() -> None:
    assert AllowedHosts(["*"]).allow(b"anything.example:1")
    assert not AllowedHosts(["*"]).allow(b"not a host")
    assert not AllowedHosts(["*"]).allow(None)


@pytest.mark.parametrize("wrong", ["", "http://example.com", "a b", "exa*mple.com"])
def test_an_invalid_configured_host_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match="allowed_hosts"):
        AllowedHosts([wrong])


@pytest.mark.parametrize("origin", [b"http://localhost:5173", b"https://127.0.0.1", b"http://[::1]:1"])
def test_loopback_origins_are_allowed(origin: bytes) -> None:
    rule = AllowedOrigins()
    assert rule.allow(origin)
    assert rule.allow(origin)


@pytest.mark.parametrize(
    "origin",
    [
        b"",
        b"null",
        b"http://evil.example",
        b"http://localhost.evil.example",
        b"http://localhost@evil.example",
        b"app://localhost",
        b"http://192.168.1.1",
    ],
)
@pytest.mark.parametrize("configured", [[], ["https://example.com"]])
def test_other_origins_are_refused(origin: bytes, configured: list[str]) -> None:
    assert not AllowedOrigins(configured).allow(origin)


def test_a_configured_origin_is_allowed_only_with_its_port_and_scheme() -> None:
    rule = AllowedOrigins(["https://example.com/", "vscode-webview://abc"])
    assert rule.allow(b"https://example.com")
    assert rule.allow(b"https://EXAMPLE.com:443")
    assert not rule.allow(b"http://example.com")
    assert not rule.allow(b"https://example.com:444")
    assert rule.allow(b"vscode-webview://abc")
    assert not rule.allow(b"vscode-webview://abd")


def test_a_star_does_not_allow_the_null_origin() -> None:
    assert AllowedOrigins(["*"]).allow(b"https://anything.example")
    assert not AllowedOrigins(["*"]).allow(b"null")


@pytest.mark.parametrize("wrong", ["", "example.com", "https://example.com/path", "null"])
def test_an_invalid_configured_origin_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match="allowed_origins"):
        AllowedOrigins([wrong])


def test_the_cache_of_allowed_values_is_bounded() -> None:
    hosts, origins = AllowedHosts(), AllowedOrigins()
    own, pages, strangers = (
        [start + b":%d" % port for port in range(1, 3 * bounds.CACHED_HOSTS)]
        for start in (b"localhost", b"http://localhost", b"evil.example")
    )
    assert all(map(hosts.allow, own))
    assert all(map(origins.allow, pages))
    assert not any(map(hosts.allow, strangers))
    counts = [[sys.getrefcount(value) for value in values] for values in (strangers, own, pages)]
    alone = max(counts[0])  # of a value that only this test holds
    for held in counts[1:]:
        assert 0 < sum(count > alone for count in held) <= bounds.CACHED_HOSTS


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6))
def test_by_default_only_loopback_addresses_are_allowed(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    written = f"[{address}]" if address.version == 6 else str(address)
    mapped = getattr(address, "ipv4_mapped", None) or address
    assert AllowedHosts().allow(written.encode()) == ipaddress.ip_address(str(mapped)).is_loopback
