"""HTTP connections to servers that send exactly the bytes that a test gives them."""

import asyncio
import gzip
import ssl
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.harness import assert_no_leaks
from tests.clock import advance_and_settle, wait_until, yield_to_loop
from tests.net.raw_server import OK, make_certificate, open_client, run_raw_server, send_request

from hubbub import EgressRefused, TransportError, bounds
from hubbub.net.egress import PUBLIC
from hubbub.net.pool import parse_url
from hubbub.pack.http import HttpClient


async def test_a_connection_is_reused() -> None:
    async with assert_no_leaks(), run_raw_server(OK, OK, OK) as served, open_client() as http_client:
        for _ in range(3):
            assert await send_request(http_client, served) == b"ok"
        assert served.connections == 1
        start, *headers = served.heads[0].split("\r\n")
        assert start == "POST /mcp HTTP/1.1"
        assert {"X-One: 1", "Content-Length: 2", f"Host: {served.url[7:-4]}"} <= set(headers)


_CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n"
_GZIP = gzip.compress(b"ok")


@pytest.mark.parametrize(
    ("start", "endless", "reason"),
    [
        (_CHUNKED + b"0\r\n", b"x-more: 1\r\n" * 4000, "trailers"),
        (_CHUNKED + b"0\r\nx-one: ", b"1" * 50_000, "trailers"),
        (_CHUNKED + b"2;", b"e" * 50_000, "chunk extensions"),
        (b"", b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" * 2000, "the head"),
        (b"HTTP/1.1 200 OK\r\nx-one: ", b"1" * 50_000, "the head"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + _GZIP,
            b"z" * 50_000,
            "follow the compressed body",
        ),
    ],
    ids=["trailers", "one trailer", "chunk extension", "1xx", "one header", "behind gzip"],
)
async def test_bytes_outside_of_head_and_body_are_bounded(start: bytes, endless: bytes, reason: str) -> None:
    """A stream has no deadline, so everything that a server can send endlessly must have a limit."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        for _ in range(200):
            writer.write(endless)
            await writer.drain()

    async with (
        assert_no_leaks(),
        run_raw_server(last_handler=answer) as served,
        open_client() as http_client,
        asyncio.timeout(60),
    ):
        with pytest.raises(TransportError, match=reason):
            await _read_stream(http_client, served.url)


async def _read_stream(http_client: HttpClient, url: str) -> None:
    found = await http_client.send("GET", url, headers={}, is_stream=True)
    async for _ in found.chunks():
        pass


async def test_a_trailer_is_not_a_header() -> None:
    late = _CHUNKED + b"0\r\nmcp-session-id: late\r\n\r\n"
    async with assert_no_leaks(), run_raw_server(late, OK) as served, open_client() as http_client:
        found = await http_client.send("POST", served.url, headers={}, body=b"{}")
        assert await found.read(100) == b"ok"
        assert not found.header("mcp-session-id")
        assert await send_request(http_client, served) == b"ok"
        assert served.connections == 1


async def test_a_header_that_is_not_utf_8_is_text_that_can_be_encoded() -> None:
    async with (
        assert_no_leaks(),
        run_raw_server(OK.replace(b"content-length", b"x-odd: \xff\xed\xa0\x80\r\ncontent-length")) as served,
        open_client() as http_client,
    ):
        found = await http_client.send("POST", served.url, headers={}, body=b"{}")
        assert found.header("x-odd").encode().decode().startswith("\ufffd")
        found.close()


async def test_concurrent_requests_have_a_connection_each() -> None:
    async with assert_no_leaks(), run_raw_server(OK, OK) as served, open_client() as http_client:
        assert await asyncio.gather(*(send_request(http_client, served) for _ in range(5))) == [b"ok"] * 5
        assert served.connections == 5
        await asyncio.gather(*(send_request(http_client, served) for _ in range(5)))
        assert served.connections == 5


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" + OK, b"ok"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\n\r\n", b"ok"),
        (b"HTTP/1.1 204 None\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
    ],
)
async def test_responses_of_every_form_leave_the_connection_usable(answer: bytes, body: bytes) -> None:
    async with assert_no_leaks(), run_raw_server(answer, OK) as served, open_client() as http_client:
        assert await send_request(http_client, served) == body
        assert await send_request(http_client, served) == b"ok"
        assert served.connections == 1


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", OK + OK])
async def test_a_connection_that_closes_or_sends_extra_bytes_is_not_reused(answer: bytes) -> None:
    async with assert_no_leaks(), run_raw_server(answer) as served, open_client() as http_client:
        assert [await send_request(http_client, served), await send_request(http_client, served)] == [b"ok", b"ok"]
        assert served.connections == 2


async def test_unexpected_bytes_close_an_idle_connection() -> None:
    async def send_extra(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await reader.read()

    async with assert_no_leaks(), run_raw_server(OK, last_handler=send_extra) as served, open_client() as http_client:
        assert await send_request(http_client, served) == b"ok"
        await wait_until(lambda: served.open == 0)
        assert await send_request(http_client, served) == b"ok"
        assert served.connections == 2


async def test_a_body_may_end_with_its_connection() -> None:
    async with (
        assert_no_leaks(),
        run_raw_server(b"HTTP/1.1 200 OK\r\n\r\nall of it", close=True) as served,
        open_client() as http_client,
    ):
        assert await send_request(http_client, served) == b"all of it"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nok",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-encoding: br\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-encoding: gzip\r\n\r\nok",
    ],
)
async def test_an_incomplete_response_is_a_connection_error(answer: bytes) -> None:
    async with assert_no_leaks(), run_raw_server(answer, close=True) as served, open_client() as http_client:
        with pytest.raises(TransportError) as raised:
            await send_request(http_client, served)
        assert raised.value.code == "TRANSPORT_ERROR"
        assert raised.value.may_have_executed


async def test_an_endless_response_head_is_refused() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x: " + b"y" * 500)
            await writer.drain()
            await asyncio.sleep(0)

    async with assert_no_leaks(), run_raw_server(b"", last_handler=endless) as served, open_client() as http_client:
        with pytest.raises(TransportError, match="the head of the response exceeded"):
            await send_request(http_client, served)


def _raw_deflate(body: bytes) -> bytes:
    made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return made.compress(body) + made.flush()


COMPRESSED = [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", _raw_deflate)]


@pytest.mark.parametrize(("encoding", "compress"), COMPRESSED)
async def test_a_compressed_body_is_decompressed(encoding: str, compress: Callable[[bytes], bytes]) -> None:
    body = bytes(range(256)) * 1000
    packed = compress(body)
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(packed)}\r\n\r\n".encode()
    async with assert_no_leaks(), run_raw_server(head + packed, head + packed) as served, open_client() as http_client:
        assert await send_request(http_client, served, limit=len(body)) == body
        with pytest.raises(TransportError) as raised:
            await send_request(http_client, served, limit=len(body) - 1)
        assert raised.value.code == "HTTP_BODY_TOO_LARGE"


async def test_a_truncated_compressed_body_is_an_error() -> None:
    packed = gzip.compress(b"x" * 1000)[:-9]
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n".encode()
    async with assert_no_leaks(), run_raw_server(head + packed) as served, open_client() as http_client:
        with pytest.raises(TransportError, match="compressed body is incomplete"):
            await send_request(http_client, served)


async def test_reading_slowly_applies_backpressure_to_the_server() -> None:
    size = 64 * 1024 * 1024
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        piece = b"x" * 65536
        while sent < size:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
        await reader.read()

    head = f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode()
    async with assert_no_leaks(), run_raw_server(head, last_handler=flood) as served, open_client() as http_client:
        answer = await http_client.send("POST", served.url, headers={}, body=b"")
        before = -1
        while sent != before:  # until no more is sent
            before = sent
            await yield_to_loop(200)
        assert sent < size / 2
        assert answer.waiting_bytes < 2 * bounds.UNREAD_BODY_BYTES
        received = 0
        async for chunk in answer.chunks():
            received += len(chunk)
        assert received == size


async def test_cancelling_a_request_closes_its_connection() -> None:
    async with assert_no_leaks(), run_raw_server(b"") as served, open_client() as http_client:
        pending = asyncio.create_task(send_request(http_client, served))
        await wait_until(lambda: bool(served.heads))
        pending.cancel()
        await asyncio.wait([pending])
        await wait_until(lambda: served.open == 0)


async def test_closing_the_client_fails_waiting_requests() -> None:
    async with assert_no_leaks(), run_raw_server(b"") as served, open_client() as http_client:
        pending = asyncio.create_task(send_request(http_client, served))
        await wait_until(lambda: bool(served.heads))
        await http_client.close()
        with pytest.raises(TransportError, match="broke"):
            await pending


async def test_an_idle_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "POOLED_CONNECTION_IDLE_S", 0.02)
    async with assert_no_leaks(), run_raw_server(OK) as served, open_client() as http_client:
        assert await send_request(http_client, served) == b"ok"
        await wait_until(lambda: served.connections == 1 and served.open == 0)


@pytest.mark.parametrize(
    ("announced", "connections"), [("timeout=1", 2), ("Timeout = 0, max=9", 2), ("timeout=60", 1), ("max=9", 1)]
)
async def test_a_connection_with_a_short_keep_alive_timeout_is_not_reused(announced: str, connections: int) -> None:
    answer = OK.replace(b"\r\n", b"\r\nKeep-Alive: " + announced.encode() + b"\r\n", 1)
    async with assert_no_leaks(), run_raw_server(answer, answer) as served, open_client() as http_client:
        for _ in range(2):
            assert await send_request(http_client, served) == b"ok"
        assert served.connections == connections


async def test_requests_beyond_the_connection_limit_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 2)
    async with (
        assert_no_leaks(),
        run_raw_server(*[OK] * 10) as served,
        run_raw_server(OK) as other,
        open_client() as http_client,
    ):
        assert await asyncio.gather(*(send_request(http_client, served) for _ in range(10))) == [b"ok"] * 10
        assert served.connections == 2
        async with asyncio.timeout(60):
            waiting = [
                asyncio.create_task(send_request(http_client, served)),
                asyncio.create_task(send_request(http_client, other)),
            ]
            assert await asyncio.gather(*waiting) == [b"ok", b"ok"]


async def test_a_silent_server_times_out_and_a_slow_one_does_not() -> None:
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(6):
            await advance_and_settle(100)
            writer.write(b"x")
            await yield_to_loop()
        await reader.read()

    head = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n"
    async with (
        assert_no_leaks(),
        run_raw_server(head, last_handler=slowly) as served,
        open_client(idle_s=150) as http_client,
    ):
        assert await send_request(http_client, served) == b"x" * 6
    async with assert_no_leaks(), run_raw_server(head) as served, open_client(idle_s=0.1) as http_client:
        with pytest.raises(TransportError, match="sent nothing for"):
            await send_request(http_client, served)


async def test_tls_requires_a_trusted_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(path)
    async with run_raw_server(OK, OK, tls=tls) as served:
        async with assert_no_leaks(), open_client() as http_client:
            with pytest.raises(TransportError, match="cannot be reached") as raised:
                await send_request(http_client, served)
            assert not raised.value.may_have_executed
            assert served.heads == []
            assert raised.value.message.endswith(
                "its TLS certificate is not trusted (self-signed certificate); for a private CA set SSL_CERT_FILE=FILE"
            )
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        async with open_client() as http_client:
            connections = served.connections
            assert [await send_request(http_client, served), await send_request(http_client, served)] == [b"ok", b"ok"]
            assert served.connections == connections + 1


async def test_a_certificate_for_another_name_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    async with run_raw_server(OK, tls=tls) as served, open_client() as http_client:
        with pytest.raises(TransportError, match=r"certificate is not valid \(Hostname mismatch"):
            await http_client.send("POST", served.url.replace("127.0.0.1", "localhost"), headers={}, body=b"{}")


async def test_https_to_a_port_without_tls_says_so() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, open_client() as http_client:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match="this port does not speak TLS; use http://"):
            await http_client.send("POST", f"https://127.0.0.1:{port}/mcp", headers={}, body=b"{}")


@pytest.mark.parametrize(
    ("answered", "advice"),
    [(b"", "the port may need https://"), (b"\x15\x03\x01\x00\x02\x02\x16", "this port needs TLS; use https://")],
    ids=["closed", "alert"],
)
async def test_http_to_a_port_with_tls_says_so(answered: bytes, advice: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answered)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, open_client() as http_client:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TransportError, match=advice):
            await http_client.send("POST", f"http://127.0.0.1:{port}/mcp", headers={}, body=b"")


@pytest.mark.parametrize("headers", [{"X": "a\r\nY: b"}, {"X\n": "a"}, {"X": "a\rb"}, {"X": "a\0"}])
async def test_header_injection_is_refused(headers: dict[str, str]) -> None:
    async with assert_no_leaks(), run_raw_server(OK) as served, open_client() as http_client:
        with pytest.raises(TransportError) as raised:
            await http_client.send("POST", served.url, headers=headers)
        assert not raised.value.may_have_executed
        assert served.connections == 0


@pytest.mark.parametrize("url", ["http:///mcp", "http://h/a b", "http://h/a\u00e9", "http://h:99999/"])
async def test_an_invalid_url_is_refused(url: str) -> None:
    async with open_client() as http_client:
        with pytest.raises(TransportError) as raised:
            await http_client.send("GET", url, headers={})
        assert not raised.value.may_have_executed


def test_a_url_is_parsed_into_origin_and_request_head() -> None:
    parsed = parse_url("https://user:p%40ss@[::1]/a?b=c#d")
    assert parsed.origin == ("::1", 443, True)
    assert parsed.head_prefix.startswith("/a?b=c HTTP/1.1\r\nHost: [::1]\r\n")
    assert "Authorization: Basic dXNlcjpwQHNz\r\n" in parsed.head_prefix
    assert parse_url("http://B\u00fccher.example:8080").head_prefix.startswith(
        "/ HTTP/1.1\r\nHost: xn--bcher-kva.example:8080\r\n"
    )


@given(st.lists(st.binary(min_size=1, max_size=2000), max_size=8), st.lists(st.integers(1, 700), min_size=1))
def test_a_response_is_the_same_with_any_chunks(pieces: list[bytes], cuts: list[int]) -> None:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

    async def send_in_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at = 0
        for cut in cuts:
            writer.write(answer[at : at + cut])
            at += cut
            await asyncio.sleep(0)
        writer.write(answer[at:])
        await reader.read()

    async def main() -> bytes:
        async with run_raw_server(b"", last_handler=send_in_pieces) as served, open_client() as http_client:
            return await send_request(http_client, served)

    assert asyncio.run(main()) == b"".join(pieces)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::ffff:127.0.0.1]", "localhost", "127.1"])
async def test_a_forbidden_address_is_never_connected_to(host: str) -> None:
    async with run_raw_server(OK) as served:
        http_client = HttpClient(PUBLIC)
        with pytest.raises(EgressRefused):
            await http_client.send("GET", served.url.replace("127.0.0.1", host), headers={})
        await http_client.close()
        assert served.connections == 0
