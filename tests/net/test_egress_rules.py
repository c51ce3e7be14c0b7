"""The operator's allow-list, connections without TLS, and the egress proxy."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.harness import assert_no_leaks
from tests.net.raw_server import OK, make_certificate, run_raw_server
from tests.stream_server import stream_server

from hubbub import ConnectionFailed, EgressRefused, ServerConfig, SettingsError, TransportError
from hubbub.net.egress_rules import EgressRules, HostPattern
from hubbub.net.fetch import fetch
from hubbub.net.pool import parse_url
from hubbub.pack.http import ANY_ADDRESS, HttpClient, egress_policy

# -- the allow-list ----------------------------------------------------------------------


def is_allowed(url: str, *allow: str, requires_tls: bool = False) -> bool:
    origin = parse_url(url).origin
    rules = EgressRules.parse(allow, requires_tls=requires_tls)
    return not rules.find_problem(origin.host, origin.port, is_tls=origin.is_tls)


@pytest.mark.parametrize(
    ("entry", "allowed", "refused"),
    [
        (
            "api.example.com",
            ["https://api.example.com/x", "http://api.example.com", "https://API.Example.com.:443", "wss://api.example.com"],
            ["https://api.example.com:8443", "http://api.example.com:443", "https://example.com",
             "https://x.api.example.com", "https://api.example.com.evil.test", "https://evilapi.example.com"],
        ),
        ("api.example.com:8443", ["https://api.example.com:8443", "ws://api.example.com:8443"],
         ["https://api.example.com", "https://api.example.com:8444"]),
        ("*.example.com", ["https://a.example.com", "https://a.b.example.com"],
         ["https://example.com", "https://badexample.com", "https://example.com.evil.test", "https://a.example.com:1"]),
        ("*.example.com:81", ["https://a.example.com:81"], ["https://a.example.com"]),
        ("10.0.0.5:8080", ["http://10.0.0.5:8080", "http://0x0a000005:8080", "http://167772165:8080"],
         ["http://10.0.0.5", "http://10.0.0.50:8080", "http://10.0.0.5.evil.test:8080"]),
        ("[fd00::5]:80", ["http://[fd00::5]", "http://[fd00:0::5]:80"], ["http://[fd00::6]", "https://[fd00::5]"]),
        ("fd00::5", ["https://[fd00::5]"], ["https://[fd00::5]:81"]),
        ("b\u00fccher.example", ["https://xn--bcher-kva.example", "https://b\u00fccher.example"], ["https://bucher.example"]),
    ],
)  # fmt: skip
def test_an_entry_allows_one_host_or_the_names_below_a_domain(
    entry: str, allowed: list[str], refused: list[str]
) -> None:
    assert [url for url in allowed if not is_allowed(url, entry)] == []
    assert [url for url in refused if is_allowed(url, entry)] == []


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.com", "*.10.0.0.1", "https://example.com", "example.com/x", "user@example.com", "a.*.example.com",
     "example.com:0", "example.com:65536", "example.com:http", "example.com:", "[::1", "a b"],
)  # fmt: skip
def test_another_entry_is_refused(entry: str) -> None:
    with pytest.raises(SettingsError, match=r"`allow` of \[egress\].* write HOST, HOST:PORT or \*\.DOMAIN"):
        HostPattern.parse(entry)


LABELS = st.lists(
    st.text("abcxyz019", min_size=1, max_size=5).filter(lambda t: not t.isdigit()), min_size=2, max_size=4
)


@given(LABELS, LABELS)
def test_a_name_is_allowed_only_if_it_is_the_entry_or_below_it(entry: list[str], host: list[str]) -> None:
    url, name = f"https://{'.'.join(host)}/", ".".join(entry)
    assert is_allowed(url, name) == (host == entry)
    assert is_allowed(url, f"*.{name}") == (len(host) > len(entry) and host[-len(entry) :] == entry)


@given(st.text(max_size=20))
def test_any_text_is_an_entry_or_an_error(text: str) -> None:
    try:
        pattern = HostPattern.parse(text)
    except SettingsError:
        return
    assert pattern.host
    assert pattern.port is None or 0 < pattern.port < 65536


def test_without_an_allow_list_every_host_is_allowed_and_with_an_empty_one_none() -> None:
    assert not EgressRules.parse().find_problem("example.com", 443, is_tls=True)
    assert not is_allowed("https://example.com")


@pytest.mark.requirement("S1")
@pytest.mark.parametrize(
    ("url", "allow", "allowed"),
    [
        ("https://example.com", None, True),
        ("wss://example.com", None, True),
        ("http://example.com", None, False),
        ("ws://example.com", None, False),
        ("http://10.0.0.5:8080", None, False),
        ("http://localhost:3000", None, True),
        ("http://127.0.0.1:3000", None, True),
        ("http://[::1]:3000", None, True),
        ("http://127.0.0.1:3000", ["example.com"], False),
        ("http://10.0.0.5:8080", ["10.0.0.5:8080"], True),
        ("http://example.com", ["example.com"], False),
        ("http://example.com", ["example.com:80"], True),
        ("http://a.example.com", ["*.example.com"], False),
    ],
)
def test_connections_without_tls_need_a_host_with_its_port_or_this_machine(
    url: str, allow: list[str] | None, allowed: bool
) -> None:
    rules = EgressRules.parse(allow, requires_tls=True)
    transport = "websocket" if url.startswith("ws") else "http"
    if allowed:
        ServerConfig(id="x", transport=transport, url=url, egress=rules)
        return
    with pytest.raises(SettingsError, match=r"The egress rules do not allow .*\[egress\]"):
        ServerConfig(id="x", transport=transport, url=url, egress=rules)


@asynccontextmanager
async def client_with(rules: EgressRules, **options: Any) -> AsyncIterator[HttpClient]:
    client = HttpClient(options.pop("policy", ANY_ADDRESS), rules=rules, **options)
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.requirement("S1")
async def test_a_host_that_is_not_allowed_is_neither_looked_up_nor_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def getaddrinfo(*_: Any, **__: Any) -> Any:
        raise AssertionError("looked up")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    rules = EgressRules.parse(["api.example.com"])
    async with assert_no_leaks(), run_raw_server(OK) as server, client_with(rules) as client:
        with pytest.raises(EgressRefused, match=r"do not allow localhost:80; the operator can add it to `allow`"):
            await client.send("GET", "http://localhost/", headers={})
        with pytest.raises(EgressRefused, match="do not allow 127"):
            await client.send("GET", server.url, headers={})
        with pytest.raises(EgressRefused, match="do not allow localhost:443"):
            await client.open_websocket("wss://localhost/", headers={}, protocols=(), limit=10)
        assert server.connections == 0


async def test_an_allowed_host_is_reached_and_its_address_is_still_checked() -> None:
    async with run_raw_server(OK, OK) as server:
        rules = EgressRules.parse([f"127.0.0.1:{parse_url(server.url).origin.port}"])
        async with client_with(rules) as client:
            response = await client.send("GET", server.url, headers={})
            assert await response.read(10) == b"ok"
        async with client_with(rules, policy=egress_policy("example.com")) as client:
            with pytest.raises(EgressRefused, match="blocks"):
                await client.send("GET", server.url, headers={})


@pytest.mark.requirement("S5")
async def test_keys_are_fetched_only_from_allowed_hosts() -> None:
    async with run_raw_server(OK) as server:
        with pytest.raises(Exception, match="egress rules do not allow"):
            await fetch(server.url, EgressRules.parse(["keys.example.com"]))
        assert server.connections == 0


# -- the proxy ---------------------------------------------------------------------------


class ConnectProxy:
    """A real CONNECT proxy; `hosts` maps names to ports of this machine."""

    def __init__(self, hosts: dict[str, int]) -> None:
        self.hosts = hosts
        self.heads: list[str] = []
        self.answer = b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        target = head.split()[1]
        if target not in self.hosts:
            writer.write(b"HTTP/1.1 403 internal.host is 10.1.2.3\r\n\r\n")
            return
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.hosts[target])
        writer.write(self.answer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, other_writer))
                group.create_task(_copy(other_reader, writer))
        finally:
            other_writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def run_proxy() -> AsyncIterator[ConnectProxy]:
    proxy = ConnectProxy({})
    async with stream_server(proxy.serve) as port:
        proxy.url = f"http://127.0.0.1:{port}"
        yield proxy


async def read_via(proxy: ConnectProxy, url: str, **options: Any) -> bytes:
    rules = EgressRules.parse(options.pop("allow", None), proxy=proxy.url)
    async with client_with(rules, **options) as client:
        response = await client.send("POST", url, headers={"X-Key": "canary-4711"}, body=b"{}")
        return await response.read(100)


async def test_plain_http_goes_through_a_tunnel_of_the_proxy_which_looks_the_name_up() -> None:
    async with assert_no_leaks(), run_raw_server(OK, OK) as server, run_proxy() as proxy:
        proxy.hosts["no.such.invalid:80"] = parse_url(server.url).origin.port
        policy = egress_policy("no.such.invalid")
        assert await read_via(proxy, "http://no.such.invalid/mcp", policy=policy) == b"ok"
        assert proxy.heads == ["CONNECT no.such.invalid:80 HTTP/1.1\r\nHost: no.such.invalid:80\r\n\r\n"]
        assert "Host: no.such.invalid\r\n" in server.heads[0]
        assert "X-Key: canary-4711" in server.heads[0]


async def test_tls_is_checked_end_to_end_through_the_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    async with run_raw_server(OK, tls=context) as server, run_proxy() as proxy:
        port = parse_url(server.url).origin.port
        proxy.hosts |= {"127.0.0.1:443": port, "other.example.test:443": port}
        assert await read_via(proxy, "https://127.0.0.1/mcp") == b"ok"
        with pytest.raises(ConnectionFailed):
            await read_via(proxy, "https://other.example.test/mcp")
        assert "canary" not in str(proxy.heads)


async def test_websockets_go_through_the_proxy() -> None:
    from tests.http.in_process_server import run_server
    from tests.interop import server as interop

    from hubbub import Client

    async with run_server(interop.server, limits=("off",)) as running, run_proxy() as proxy:
        proxy.hosts["localhost:80"] = running.site.port
        rules = EgressRules.parse(proxy=proxy.url)
        config = ServerConfig(id="w", transport="websocket", url="ws://localhost/mcp-ws", egress=rules)
        async with Client(config) as client:
            assert (await client.list_tools()).tools
        assert proxy.heads[0].startswith("CONNECT localhost:80 ")


@pytest.mark.requirement("S5")
async def test_the_allow_list_and_checks_of_literal_addresses_apply_before_the_proxy_is_asked() -> None:
    async with run_proxy() as proxy:
        with pytest.raises(EgressRefused, match=r"do not allow example.com:80"):
            await read_via(proxy, "http://example.com/", allow=["api.example.com"])
        for literal in ("127.0.0.1", "0x7f.1", "[::ffff:10.0.0.1]", "169.254.169.254"):
            with pytest.raises(EgressRefused, match="blocks"):
                await read_via(proxy, f"http://{literal}/", policy=egress_policy("example.com"))
        assert proxy.heads == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "refused to connect, with status 407"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "did not answer with HTTP"),
        (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "sent data before the request"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000, "sent an answer that is too long"),
        (b"", "closed the connection"),
    ],
)
async def test_an_answer_of_the_proxy_that_opens_no_tunnel_is_an_error(answer: bytes, expected: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        if answer:
            await reader.read()

    async with assert_no_leaks(), stream_server(serve) as port:
        proxy = ConnectProxy({})
        proxy.url = f"http://127.0.0.1:{port}"
        with pytest.raises(ConnectionFailed, match=f"the egress proxy {expected}") as raised:
            await read_via(proxy, "http://example.com/")
        assert not raised.value.may_have_executed


async def test_a_target_that_the_proxy_refuses_is_an_error_without_its_words() -> None:
    async with run_proxy() as proxy:
        with pytest.raises(TransportError, match="status 403") as raised:
            await read_via(proxy, "http://example.com/")
        assert "10.1.2.3" not in raised.value.message


@pytest.mark.parametrize(
    "url", ["proxy:3128", "https://proxy:3128", "http://proxy", "http://user:canary@proxy:1", "http://proxy:1/x", "socks5://p:1"]
)  # fmt: skip
def test_a_proxy_is_an_http_url_with_a_port_and_nothing_else(url: str) -> None:
    with pytest.raises(SettingsError, match="must look like http://HOST:PORT") as raised:
        EgressRules.parse(proxy=url)
    assert "canary" not in raised.value.message


@pytest.mark.requirement("S3")
async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run_raw_server(OK) as server, run_proxy() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        async with client_with(EgressRules()) as client:
            response = await client.send("GET", server.url, headers={})
            assert await response.read(10) == b"ok"
        assert proxy.heads == []
