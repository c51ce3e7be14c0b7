"""Server-side request forgery: no notation, name, redirect or answer leads a client to an address it must not reach."""

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.client.harness import assert_no_leaks
from tests.client.scripted_server import ScriptedRequest, legacy_handler, scripted_server
from tests.clock import advance_clock, wait_until
from tests.net.raw_server import OK, RawServer, run_raw_server

from hubbub import (
    Client,
    DeadlineExceeded,
    EgressRefused,
    HttpError,
    ResponseTooLarge,
    ServerConfig,
    SettingsError,
    TransportError,
)
from hubbub.net.egress import PUBLIC
from hubbub.net.pool import parse_url
from hubbub.pack.http import ANY_ADDRESS, EgressPolicy, HttpClient, egress_policy

LOOPBACK_FORMS = [
    "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.8.9.10",
    "2130706433", "017700000001", "0x7f000001", "0X7F.0.0.1", "0177.0.0.1", "0177.0x0.0.01", "0x7f.1",
    "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u2460\u2461\u2466.0.0.1",
    "[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]",
    "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]",
    "[2001:0:7f00:1:0:0:a247:27dd]", "[2001:0:5db8:d822::80ff:fffe]",
    "localhost", "LOCALHOST",
]  # fmt: skip
METADATA_FORMS = [
    "169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "169.254.169.254.",
    "[::ffff:a9fe:a9fe]", "[64:ff9b::169.254.169.254]", "[2002:a9fe:a9fe::]", "[fe80::1]", "[fd00:ec2::254]",
    "100.100.100.200", "0.0.0.0", "0", "[::]", "255.255.255.255", "224.0.0.1", "[ff02::1]",
]  # fmt: skip
INVALID_HOSTS = [
    "%31%32%37.0.0.1", "127.0.0.1%2eexample.com", "127.0.0.256", "1.2.3.4.5", "0x7g.1", "a_b..c", "[::1%25lo]",
]  # fmt: skip


@asynccontextmanager
async def client_for(policy: EgressPolicy, **options: Any) -> AsyncIterator[HttpClient]:
    client = HttpClient(policy, **options)
    try:
        yield client
    finally:
        await client.close()


def port_of(server: RawServer) -> int:
    return parse_url(server.url).origin.port


class Resolver:
    """Answers lookups as told, one answer after the other; the last one is repeated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.lookups: list[str] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", self.getaddrinfo)

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.lookups.append(host)
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        family = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(family[":" in each], socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]


# -- literal forms -----------------------------------------------------------------------


@pytest.mark.requirement("S2")
@pytest.mark.parametrize("host", LOOPBACK_FORMS)
async def test_no_form_of_a_loopback_address_is_connected_to(host: str) -> None:
    async with assert_no_leaks(), run_raw_server(OK) as server, client_for(PUBLIC) as client:
        with pytest.raises(EgressRefused) as raised:
            await client.send("GET", f"http://{host}:{port_of(server)}/", headers={})
        assert "127" not in raised.value.message
        with pytest.raises(EgressRefused):
            await client.open_websocket(f"ws://{host}:{port_of(server)}/", headers={}, protocols=(), limit=10)
        assert server.connections == 0


@pytest.mark.requirement("S2")
@pytest.mark.parametrize("host", METADATA_FORMS)
async def test_no_setting_allows_a_metadata_or_unusable_address(host: str) -> None:
    async with client_for(ANY_ADDRESS) as client:
        with pytest.raises(EgressRefused) as raised:
            await client.send("GET", f"http://{host}/", headers={})
        assert not raised.value.can_be_allowed
        assert "169.254" not in raised.value.message


@pytest.mark.parametrize("host", INVALID_HOSTS)
async def test_a_host_that_parsers_read_differently_is_refused(host: str) -> None:
    async with client_for(ANY_ADDRESS) as client:
        with pytest.raises(TransportError):
            await client.send("GET", f"http://{host}/", headers={})


@pytest.mark.requirement("S1")
@pytest.mark.parametrize(
    "url",
    [
        "http://user:pass@example.com/", "http://example.com@127.0.0.1/", "http://example.com/#@127.0.0.1/",
        "file:///etc/passwd", "gopher://example.com/", "ftp://example.com/", "http:///x", "http://",
        "http://example.com:0/", "http://exa mple.com/", "http://example.com\\@127.0.0.1/",
        "http://example.com\r\nX: y",
        "//example.com/", "example.com",
    ],
)  # fmt: skip
def test_a_url_that_hides_its_host_or_scheme_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match=r"`url`|needs a `url`"):
        ServerConfig(id="x", transport="http", url=url)


# -- names -------------------------------------------------------------------------------


@pytest.mark.requirement("S3")
async def test_a_name_is_looked_up_once_for_each_connection_and_checked_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DNS rebinding: the second answer is another address."""
    resolver = Resolver(monkeypatch, ["127.0.0.1"], ["10.0.0.1"])
    once = OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    async with run_raw_server(once) as server, client_for(EgressPolicy(frozenset(("loopback",)))) as client:
        url = f"http://rebinding.test:{port_of(server)}/"
        response = await client.send("GET", url, headers={})
        assert await response.read(10) == b"ok"
        assert resolver.lookups == ["rebinding.test"]
        assert f"Host: rebinding.test:{port_of(server)}" in server.heads[0]
        with pytest.raises(EgressRefused) as raised:
            await client.send("GET", url, headers={})
        assert len(resolver.lookups) == 2
        assert "10.0.0.1" not in raised.value.message


@pytest.mark.requirement("S2")
@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"], ["10.0.0.1"], ["::1"], ["169.254.169.254"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"],
        ["93.184.216.34", "127.0.0.1"], ["127.0.0.1", "93.184.216.34"], ["2606:4700::1111", "::ffff:10.0.0.1"],
    ],
)  # fmt: skip
async def test_a_public_name_with_any_address_that_is_not_public_is_refused(
    addresses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Resolver(monkeypatch, addresses)
    made: list[Any] = []
    monkeypatch.setattr(socket, "socket", lambda **fields: made.append(fields))
    async with client_for(egress_policy("public.example.com")) as client:
        with pytest.raises(EgressRefused) as raised:
            await client.send("GET", "https://public.example.com/", headers={})
    assert not made
    assert not any(address in raised.value.message for address in addresses)


async def test_a_name_of_the_local_network_may_also_have_a_link_local_address(monkeypatch: pytest.MonkeyPatch) -> None:
    Resolver(monkeypatch, ["fe80::1", "127.0.0.1"])
    async with run_raw_server(OK) as server, client_for(egress_policy("box.local")) as client:
        response = await client.send("GET", f"http://box.local:{port_of(server)}/", headers={})
        assert await response.read(10) == b"ok"


@pytest.mark.requirement("S7")
async def test_errors_do_not_contain_the_address_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async with run_raw_server(OK) as server:
        port = port_of(server)
    Resolver(monkeypatch, ["127.0.0.1"])
    async with client_for(ANY_ADDRESS) as client:
        with pytest.raises(TransportError, match="cannot be reached: Connection refused") as raised:
            await client.send("GET", f"http://internal.test:{port}/", headers={})
    assert "127.0.0.1" not in raised.value.message + str(raised.value.data)


# -- redirects ---------------------------------------------------------------------------


@pytest.mark.requirement("S4")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_server_carries_nothing_there(status: int) -> None:
    async with run_raw_server(OK) as other:

        async def redirect(request: ScriptedRequest) -> None:
            location = f"{other.url}?secret-path"
            await request.reply(status, b"", location=location)

        async with scripted_server(redirect) as server:
            config = ServerConfig(id="x", transport="http", url=server.url, headers={"Authorization": "Bearer canary"})
            with pytest.raises(HttpError, match="redirects are not followed") as raised:
                await Client(config).start()
        assert other.connections == 0
        assert "secret-path" not in raised.value.message


@pytest.mark.requirement("S4")
async def test_a_redirect_to_a_metadata_address_is_not_followed() -> None:
    async def redirect(request: ScriptedRequest) -> None:
        await request.reply(307, b"", location="http://169.254.169.254/latest/meta-data")

    async with scripted_server(redirect) as server:
        with pytest.raises(HttpError, match="redirects are not followed"):
            await Client(ServerConfig(id="x", transport="http", url=server.url)).start()


# -- sizes and times ---------------------------------------------------------------------

LIMIT = 100_000
BOMB = bytes(50_000_000)


@pytest.mark.requirement("S6")
@pytest.mark.parametrize(
    ("encoding", "body"),
    [("gzip", gzip.compress(BOMB, 9)), ("deflate", zlib.compress(BOMB, 9)), ("x-gzip", gzip.compress(BOMB, 9))],
)
async def test_a_compression_bomb_is_stopped_at_the_limit_of_the_decompressed_size(encoding: str, body: bytes) -> None:
    assert len(body) < LIMIT
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\n\r\n"
    async with run_raw_server(head.encode() + body) as server, client_for(ANY_ADDRESS) as client:
        response = await client.send("GET", server.url, headers={})
        with pytest.raises(ResponseTooLarge):
            await response.read(LIMIT)
        response.close()


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd", "compress"])
async def test_other_encodings_are_refused(encoding: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: 2\r\n\r\nok"
    async with run_raw_server(answer.encode()) as server, client_for(ANY_ADDRESS) as client:
        response = await client.send("GET", server.url, headers={})
        with pytest.raises(TransportError, match="is not supported"):
            await response.read(LIMIT)


async def endless(writer: asyncio.StreamWriter, piece: bytes) -> None:
    while True:
        writer.write(piece)
        await writer.drain()


@pytest.mark.requirement("S6")
@pytest.mark.parametrize(
    ("start", "piece", "error"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X: " + b"x" * 1000 + b"\r\n", TransportError),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000, ResponseTooLarge),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            b"3e8\r\n" + b"x" * 1000 + b"\r\n",
            ResponseTooLarge,
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", b"x" * 1000, ResponseTooLarge),
    ],
)
async def test_an_endless_answer_is_cut_off(start: bytes, piece: bytes, error: type[TransportError]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(start)
        await endless(writer, piece)

    async with run_raw_server(last_handler=answer) as server, client_for(ANY_ADDRESS) as client:
        with pytest.raises(error):
            await (await client.send("GET", server.url, headers={})).read(LIMIT)


@pytest.mark.requirement("S6")
async def test_an_endless_event_is_cut_off_and_endless_events_end_with_the_time_limit_of_the_call() -> None:
    async def answer(request: ScriptedRequest) -> None:
        if request.rpc not in ("tools/list", "prompts/list"):
            raise NotImplementedError
        is_event = request.rpc == "tools/list"
        await request.stream("data: " if is_event else ": a comment\n\n")
        while True:
            await request.stream("x" * 1000 if is_event else ": another\n\n")

    async with scripted_server(legacy_handler(answer)) as server:
        config = ServerConfig(
            id="x", transport="http", url=server.url, protocol_version="2025-11-25", max_response_bytes=LIMIT,
            timeout_s=600,
        )  # fmt: skip
        async with Client(config) as client:
            with pytest.raises(ResponseTooLarge):
                await client.list_tools()
            call = asyncio.create_task(client.list_prompts())
            await wait_until(lambda: server.count("prompts/list") == 1)
            advance_clock(600)
            with pytest.raises(DeadlineExceeded):
                await call
