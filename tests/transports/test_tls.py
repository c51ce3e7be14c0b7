"""TLS of the HTTP server: handshakes, requests and WebSockets."""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.http.certificates import Authority, Pair
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import wait_until
from tests.http.raw_http import JSON, TIMEOUT_S, RawConnection, Response, Site, call, request
from tests.transports.tls_server import cut_off_count, run_tls, wait_for_cut_off
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from hubbub import bounds
from hubbub.transports.server_tls import TlsFiles

PING = json.dumps(request("ping")).encode()

# -- requests ------------------------------------------------------------------------------------


async def test_requests_streams_and_large_responses(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair) as instance:
        before = await instance.count_resources()
        async with instance.site.connect() as link:
            tls = link.writer.get_extra_info("ssl_object")
            assert (tls.version(), tls.selected_alpn_protocol()) == ("TLSv1.3", None)
            for _ in range(3):
                await link.send_request("POST", "/mcp", JSON, PING)
                assert (await link.read_response()).json["result"] == {}
            await link.send_request("POST", "/mcp", JSON, json.dumps(request("big", {"size": 5_000_000})).encode())
            assert len((await link.read_response()).body) > 5_000_000
            await link.send_request(
                "POST", "/mcp", JSON, json.dumps(request("echo", {"text": "x" * 1_000_000})).encode()
            )
            assert len((await link.read_response()).body) > 1_000_000
        session = await open_session(instance.site)
        async with session.call(call("count", {"to": 3}, token=1)) as stream:
            messages = [event.json for event in await stream.rest() if event.data]
        assert [message.get("method", "result") for message in messages] == ["notifications/progress"] * 3 + ["result"]
        await session.end()
        await instance.wait_for_count(before)


async def test_cookies_are_secure(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair) as instance:
        answer = await instance.site.post(request("echo", {"text": "x"}))
        assert "; Secure" in (answer.header("set-cookie") or "")


async def test_alpn_offers_http_1_only(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    context = authority.client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with run_tls(tmp_path, authority, pair) as instance, instance.site.connect(ssl=context) as link:
        assert link.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"


async def test_tls_1_2_is_the_oldest_version(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair) as instance:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = authority.client_context()
            context.minimum_version = context.maximum_version = version
            async with instance.site.connect(ssl=context) as link:
                await link.send_request("GET", "/health")
                assert (await link.read_response()).status == 200
        context = TlsFiles(str(tmp_path / "server.pem"), str(tmp_path / "server.key")).context
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2


class MemoryClient:
    """A TLS client that sends bytes one by one, and keeps its connection open after the server's end of the stream."""

    def __init__(self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    async def run(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                for byte in self._outgoing.read():
                    self.writer.write(bytes([byte]))
                    await asyncio.sleep(0)
                self._incoming.write(await self._reader.read(65536))

    async def read_to_end(self) -> bytes:
        data = b""
        try:
            while part := await self.run(lambda: self.tls.read(65536)):
                data += part
        except ssl.SSLZeroReturnError:
            pass
        return data


@asynccontextmanager
async def open_memory_client(port: int, context: ssl.SSLContext) -> AsyncIterator[MemoryClient]:
    client = MemoryClient(context, *await asyncio.open_connection("127.0.0.1", port))
    await client.run(client.tls.do_handshake)
    yield client
    client.writer.close()
    await client.writer.wait_closed()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_handshake_and_request_may_arrive_byte_by_byte(
    tmp_path: Path, authority: Authority, pair: Pair, version: ssl.TLSVersion
) -> None:
    context = authority.client_context()
    context.minimum_version = context.maximum_version = version
    async with (
        run_tls(tmp_path, authority, pair) as instance,
        open_memory_client(instance.site.port, context) as client,
    ):
        client.tls.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await client.read_to_end()).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(("field", "status"), [(b"Bad Header", b"400"), (b"Connection: close", b"200")])
async def test_the_caller_may_send_after_the_last_response(
    tmp_path: Path, authority: Authority, pair: Pair, field: bytes, status: bytes
) -> None:
    """Most answer the end of our stream with theirs. Closing before that would reset the connection."""
    async with run_tls(tmp_path, authority, pair) as instance:
        async with open_memory_client(instance.site.port, authority.client_context()) as client:
            client.tls.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n%b\r\n\r\n" % field)
            assert (await client.read_to_end()).startswith(b"HTTP/1.1 %b " % status)
            client.writer.write(b"x" * 100_000)
            await client.writer.drain()
            assert len(instance.http.connections) == 1
        await wait_until(lambda: not instance.http.connections)


@pytest.mark.parametrize("expects_continue", [False, True])
async def test_a_refused_upload_gets_its_response(
    tmp_path: Path, authority: Authority, pair: Pair, expects_continue: bool
) -> None:
    async with run_tls(tmp_path, authority, pair, max_message_bytes=10_000) as instance:
        before = await instance.count_resources()
        async with instance.site.connect() as link:
            fields = JSON | {"Connection": "close"} | ({"Expect": "100-continue"} if expects_continue else {})
            await link.send_request("POST", "/mcp", fields, b"x" * 3_000_000)
            assert (await link.read_response()).status == 413
            assert await link.reader.read() == b""
        await instance.wait_for_count(before)


async def test_a_caller_that_reads_nothing_is_disconnected(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, slow_reader_s=0.5) as instance:
        context = authority.client_context()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", instance.site.port, limit=1024, ssl=context, server_hostname="localhost"
        )
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        link = RawConnection(reader, writer)
        await link.send_request("POST", "/mcp", JSON, json.dumps(request("big", {"size": 20_000_000})).encode())
        await wait_for_cut_off(instance, "slow_reader")
        link.abort()


async def test_a_stream_that_is_not_read_is_closed(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, slow_reader_s=0.5) as instance:
        before = await instance.count_resources()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", instance.site.port, limit=1024, ssl=authority.client_context(), server_hostname="localhost"
        )
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        body, headers = modern_request(
            "tools/call", {"name": "pour", "arguments": {"pieces": 2000, "size": 50_000}}, progressToken=1
        )
        link = RawConnection(reader, writer)
        await link.send_request("POST", "/mcp", JSON | headers, json.dumps(body).encode())
        await instance.wait_for_history("poured")
        await instance.wait_for_count(before)
        link.abort()


async def test_a_caller_that_does_not_close_is_disconnected(
    tmp_path: Path, authority: Authority, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LINGER_TIMEOUT_S", 0.1)
    async with (
        run_tls(tmp_path, authority, pair) as instance,
        open_memory_client(instance.site.port, authority.client_context()) as client,
    ):
        client.tls.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await client.read_to_end()).startswith(b"HTTP/1.1 200 OK")
        await wait_until(lambda: not instance.http.connections)


async def test_pipelined_requests_pause_the_caller(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    """While an earlier request waits for its response, the rest is read later and nothing is lost."""
    async with run_tls(tmp_path, authority, pair) as instance, instance.site.connect() as link:
        head = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        bodies = [json.dumps(request("echo", {"text": "x" * 30_000}, number)).encode() for number in range(20)]
        data = b"".join(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body) for body in bodies)
        sending = asyncio.create_task(link.send(data))
        assert [(await link.read_response()).json["id"] for _ in bodies] == list(range(20))
        await sending


# -- WebSocket -----------------------------------------------------------------------------------


async def test_websockets_over_tls(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, max_message_bytes=100_000) as instance:
        before = await instance.count_resources()
        url, context = f"wss://localhost:{instance.site.port}/mcp-ws", authority.client_context()
        async with connect(url, ssl=context, open_timeout=TIMEOUT_S) as socket:
            for number in range(3):
                await socket.send(json.dumps(request("echo", {"text": "x" * 50_000}, number)))
                assert json.loads(await socket.recv())["id"] == number
            await socket.send("x" * 500_000)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
        await instance.wait_for_count(before)


# -- handshakes ----------------------------------------------------------------------------------


async def test_plain_http_gets_an_explanation(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair) as instance:
        answer: Response = await Site(instance.site.port).get("/health")
        assert (answer.status, b"https://" in answer.body) == (400, True)
        assert await cut_off_count(instance, "tls_handshake") == 1


@pytest.mark.parametrize("sent", [b"\x00" * 9, b"\x16\x03\x01\x02\x00\x01", b"SSH-2.0-client\r\n"])
async def test_a_failed_handshake_is_counted_and_logged_in_one_line(
    tmp_path: Path, authority: Authority, pair: Pair, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with run_tls(tmp_path, authority, pair) as instance:
        before = await instance.count_resources()
        caplog.clear()
        _, writer = await asyncio.open_connection("127.0.0.1", instance.site.port)
        writer.write(sent)
        await writer.drain()
        writer.close()
        await wait_for_cut_off(instance, "tls_handshake")
        assert [record.getMessage() for record in caplog.records] == ["caller_cut_off"]
        assert not caplog.records[0].exc_info
        await instance.wait_for_count(before)


async def test_a_silent_caller_is_disconnected(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, head_s=0.3) as instance:
        reader, writer = await asyncio.open_connection("127.0.0.1", instance.site.port)
        async with asyncio.timeout(TIMEOUT_S):
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
        writer.close()
        await wait_for_cut_off(instance, "tls_handshake")


async def test_handshakes_count_as_connections(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, max_connections=8) as instance:
        writers = [(await asyncio.open_connection("127.0.0.1", instance.site.port))[1] for _ in range(12)]
        await wait_until(lambda: len(instance.http.connections) == 7)
        for writer in writers:
            writer.close()
        await wait_until(lambda: not instance.http.connections)
        assert await cut_off_count(instance, "too_many_connections") == 5
        assert await cut_off_count(instance, "tls_handshake") == 7


async def test_shutdown_ends_handshakes(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    async with run_tls(tmp_path, authority, pair, drain_s=600) as instance:
        reader, writer = await asyncio.open_connection("127.0.0.1", instance.site.port)
        await wait_until(lambda: len(instance.http.connections) == 1)
        instance.http.stop()
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass
        writer.close()
