"""A refusal because of a limit names the setting that raises it."""

import asyncio
from typing import Any

import pytest
from tests.clock import advance_clock, wait_until
from tests.http.eras import initialize_request
from tests.http.in_process_server import run_server
from tests.http.raw_http import TIMEOUT_S, Response, Site, call
from tests.wire.byte_client import ByteClient
from tests.wire.recording_server import RecordingServer, run_recording_server
from tests.wire.request_bytes import HOST, get, request
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus


async def post_large(site: Site) -> Response:
    return await site.post(call("echo", {"text": "x" * 5000}))


async def open_second_session(site: Site) -> Response:
    assert (await site.post(initialize_request())).status == 200
    return await site.post(initialize_request())


async def open_second_stream(site: Site) -> Response:
    async with site.stream("GET"):
        return await site.get("/mcp", {"Accept": "text/event-stream"})


async def open_second_sse_stream(site: Site) -> Response:
    async with site.stream("GET", "/sse"):
        return await site.get("/sse")


@pytest.mark.parametrize(
    ("setting", "limit", "ask", "status"),
    [
        ("max_message_bytes", 2000, post_large, 413),
        ("max_sessions", 1, open_second_session, 503),
        ("max_streams", 1, open_second_stream, 503),
        ("max_streams", 1, open_second_sse_stream, 503),
    ],
    ids=["large body", "sessions", "streams", "old streams"],
)
async def test_a_refusal_names_its_setting(setting: str, limit: int, ask: Any, status: int) -> None:
    settings: dict[str, Any] = {setting: limit}
    async with run_server(**settings) as instance:
        answer = await ask(instance.site)
        assert answer.status == status
        assert setting in answer.json["error"]["message"]


HEAD_S, BODY_S = 20.0, 40.0
_POST = request(b"POST /a HTTP/1.1", HOST, b"Content-Length: 5000")


@pytest.mark.parametrize(
    ("limits", "sent", "waiting_s", "status", "setting"),
    [
        ({"head_bytes": 2000}, b"GET / HTTP/1.1\r\nX: " + b"x" * 3000, 0, 431, "max_head_bytes"),
        ({"head_s": HEAD_S}, b"GET / HTTP/1.1\r\n", 2 * HEAD_S, 408, "head_s"),
        ({"body_s": BODY_S}, _POST, 2 * BODY_S, 408, "body_s"),
        ({"pipelined_requests": 2}, get(b"/a") * 4, 0, 429, "max_pipelined_requests"),
        ({"unfinished_bytes": 1000}, _POST + b"x" * 2000, 0, 503, "max_unfinished_bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_refusal_of_a_connection_names_its_setting(
    limits: dict[str, Any], sent: bytes, waiting_s: float, status: int, setting: str
) -> None:
    async with run_recording_server(**limits) as server:
        client = await server.connect()
        client.transport.write(sent)
        await client.settle()
        advance_clock(waiting_s)
        assert await read_refusal(client) == (status, True), client.received
        assert f"({setting})".encode() in client.received


async def read_refusal(client: ByteClient) -> tuple[int, bool]:
    """Wait until the server closes; return the status of its last response, and whether it announces the end."""
    async with asyncio.timeout(TIMEOUT_S):
        await client.end
    last = bytes(client.received).rpartition(b"HTTP/1.1 ")[2]
    return int(last[:3]), b"\r\nconnection: close\r\n" in last


async def fill_connections(server: RecordingServer) -> None:
    for _ in range(7):  # the share of one address
        await server.connect()
    await wait_until(lambda: server.connections == 7)


async def fill_requests(server: RecordingServer) -> None:
    """Let requests run whose connections are closed, so that there is room for a connection, but not for a request."""
    server.held = asyncio.Event()
    for _ in range(8):
        client = await server.connect()
        client.transport.write(get(b"/held"))
        await client.settle()
        client.reset()
    await wait_until(lambda: not server.connections)


@pytest.mark.parametrize("fill", [fill_connections, fill_requests])
async def test_too_many_connections_and_too_many_requests_name_their_setting(fill: Any) -> None:
    async with run_recording_server(connections=8) as server:
        await fill(server)
        client = await server.connect()
        client.transport.write(get(b"/a"))
        assert await read_refusal(client) == (503, True)
        assert b"(max_connections)" in client.received
        assert b"\r\nretry-after: 1\r\n" in client.received
        if server.held is not None:
            server.held.set()


async def test_a_refused_websocket_names_its_setting() -> None:
    async with run_server(max_streams=1) as instance:
        url = f"ws://127.0.0.1:{instance.site.port}/mcp-ws"
        async with connect(url, open_timeout=TIMEOUT_S):
            with pytest.raises(InvalidStatus) as caught:
                await connect(url, open_timeout=TIMEOUT_S)
        assert caught.value.response.status_code == 503
        assert b"max_streams" in (caught.value.response.body or b"")


async def test_a_websocket_with_a_full_queue_is_closed_with_a_reason() -> None:
    async with run_server(max_queue_bytes=4096) as instance:
        async with connect(f"ws://127.0.0.1:{instance.site.port}/mcp-ws", open_timeout=TIMEOUT_S) as socket:
            await socket.send(b'{"jsonrpc":"2.0","id":1,"method":"big","params":{"size":10000}}')
            await socket.recv()
            await socket.wait_closed()
        assert socket.close_code == 1008
        assert "max_queue_bytes" in (socket.close_reason or "")
