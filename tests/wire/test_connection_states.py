"""What a connection of the HTTP server does after refusals, early answers and idle times, and what is left of it."""

import asyncio
import gc
import logging
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from tests.clock import advance_clock, wait_until, yield_to_loop
from tests.http.eras import META_PREFIX, MODERN
from tests.http.in_process_server import run_server
from tests.http.raw_http import JSON, TIMEOUT_S
from tests.http.raw_http import request as rpc_request
from tests.wire.byte_client import send_pieces
from tests.wire.recording_server import run_recording_server
from tests.wire.request_bytes import CHUNKED, HANDSHAKE, HOST, chunked, get, length, read_statuses, request

from hubbub.ports import WebSocketExchange
from hubbub.transports.http_connection import HttpConnection
from hubbub.transports.http_exchange import ServerExchange

LARGE_BODY = b"x" * 1_000_000


def read_problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged as a warning or worse, or with a traceback."""
    found = [entry for entry in caplog.records if entry.levelno >= logging.WARNING or entry.exc_info]
    return [entry.getMessage() for entry in found]


# -- what is left over -------------------------------------------------------------------------


def count_left_over() -> dict[str, int]:
    """Count the connections and exchanges that exist in this process."""
    gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    return {kind.__name__: kinds.count(kind) for kind in (HttpConnection, ServerExchange)}


async def test_calls_with_invalid_params_leave_no_objects() -> None:
    meta = {META_PREFIX + "protocolVersion": MODERN, META_PREFIX + "clientCapabilities": {}}
    message = rpc_request("tools/call", {"arguments": {}, "_meta": meta})
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "history"}
    async with run_server() as instance:
        before = count_left_over()
        for _ in range(50):
            answer = await instance.site.post(message, headers)
            assert answer.code == -32602, answer
        await wait_until(lambda: not instance.http.connections)
        await yield_to_loop()
        assert count_left_over() == before


async def test_idle_connections_do_not_affect_others_and_are_closed() -> None:
    async with run_recording_server(idle_s=60) as server, AsyncExitStack() as stack:
        links = [await stack.enter_async_context(server.site.connect()) for _ in range(300)]
        for link in links:
            await link.send_request("GET", "/a")
            assert (await link.read_response()).status == 200
        assert (await server.site.get("/a")).status == 200
        await wait_until(lambda: server.connections == len(links))
        advance_clock(2 * 60)
        await wait_until(lambda: server.connections == 0, lambda: server.connections)
        for link in links:
            assert await link.reader.read() == b""
        assert (await server.site.get("/a")).status == 200
        assert not server.cut_off


# -- writes ------------------------------------------------------------------------------------


class CountingTransport:
    """Counts what is written to a transport."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)
        self.transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


@pytest.mark.parametrize("repeats", [1, 4], ids=["parsed head", "repeated head"])
async def test_head_and_body_of_a_response_are_one_write(repeats: int) -> None:
    async with run_recording_server() as server, server.site.connect() as link:
        await link.send_request("POST", "/a", body=b"hello")
        assert (await link.read_response()).status == 200
        [connection] = server.http.connections
        counting = CountingTransport(connection.transport)
        connection.transport = cast(asyncio.Transport, counting)
        for _ in range(repeats):
            await link.send_request("POST", "/a", body=b"hello")
            assert (await link.read_response()).body == b"5 of /a\n"
        assert [data.endswith(b"\r\n\r\n5 of /a\n") for data in counting.written] == [True] * repeats


# -- answers before the body -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/unknown", JSON, 404),
        ("/mcp", {"Content-Type": "text/plain"}, 415),
        ("/mcp", JSON | {"Host": "evil.example"}, 403),
    ],
    ids=["unknown path", "wrong content type", "wrong host"],
)
async def test_a_large_body_after_its_response_is_dropped_and_the_next_request_answered(
    path: str, headers: dict[str, str], status: int
) -> None:
    async with run_server(max_message_bytes=2 * len(LARGE_BODY)) as instance:
        async with instance.site.connect() as link:
            for _ in range(3):
                sending = asyncio.create_task(link.send_request("POST", path, headers, LARGE_BODY))
                answer = await link.read_response()
                assert answer.status == status
                assert answer.header("connection") != "close"
                await sending
                await link.send_request("GET", "/health")
                assert (await link.read_response()).status == 200
            assert len(instance.http.connections) == 1
        await wait_until(lambda: not instance.http.connections)


# -- other protocols ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        request(b"CONNECT a:80 HTTP/1.1", b"Host: a:80", length(b"hello"), body=b"hello"),
        request(b"CONNECT a:80 HTTP/1.1", b"Host: a:80", CHUNKED, body=chunked(b"hello")),
        request(b"CONNECT a:80 HTTP/1.1", b"Host: a:80"),
        request(b"CONNECT a:80 HTTP/1.1", b"Host: a:80", *HANDSHAKE),
    ],
    ids=["body", "chunked body", "no body", "handshake"],
)
async def test_connect_gets_one_response_and_the_end(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with run_recording_server() as server:
        received = await send_pieces(server.site.port, [data + get(b"/a")])
        assert (read_statuses(received.data), received.is_closed) == ([400], True)
        await wait_until(lambda: server.connections == 0)
        assert (server.seen, dict(server.cut_off)) == ([], {"malformed": 1})
    assert read_problems(caplog) == []


@pytest.mark.parametrize(
    ("target", "status"), [(b"http://evil.example/mcp-ws", 400), (b"http://127.0.0.1/mcp-ws", 101), (b"/mcp-ws", 101)]
)
async def test_a_websocket_handshake_for_another_host_is_refused(target: bytes, status: int) -> None:
    async with run_server() as instance, instance.site.connect() as link:
        await link.send(request(b"GET %b HTTP/1.1" % target, HOST, *HANDSHAKE))
        assert (await link.read_head())[0] == status


async def test_a_websocket_client_may_read_after_the_server_has_closed(caplog: pytest.LogCaptureFixture) -> None:
    is_closed = asyncio.Event()

    async def serve_websocket(exchange: WebSocketExchange) -> None:
        await exchange.accept(None)
        sending = asyncio.create_task(exchange.send(b"x" * 20_000_000))
        await yield_to_loop()
        assert not sending.done()
        await exchange.close(1001)
        is_closed.set()
        await asyncio.gather(sending, return_exceptions=True)

    async with run_recording_server(serve_websocket) as server:
        client = await server.connect()
        client.transport.pause_reading()
        client.transport.write(get(b"/mcp-ws", *HANDSHAKE))
        await is_closed.wait()
        await yield_to_loop()
        client.transport.resume_reading()
        async with asyncio.timeout(TIMEOUT_S):
            await client.end
        await wait_until(lambda: server.connections == 0)
        assert read_statuses(bytes(client.received[:1000])) == [101]
        assert len(client.received) > 20_000_000
        assert client.received.endswith(b"\x88\x02\x03\xe9")
    assert read_problems(caplog) == []


async def test_an_incomplete_request_above_the_limit_of_pipelining_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    incomplete = (
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{"
    )
    async with run_server(max_pipelined_requests=1) as instance, instance.site.connect() as link:
        await link.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 2 + incomplete)
        async with asyncio.timeout(TIMEOUT_S):
            answers = await link.reader.read()
        assert read_statuses(answers) == [200, 200, 429]
    assert not read_problems(caplog)
