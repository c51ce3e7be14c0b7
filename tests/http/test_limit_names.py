"""A refusal because of a limit names the setting that raises it."""

from typing import Any

import pytest
from tests.http.eras import initialize_request
from tests.http.in_process_server import run_server
from tests.http.raw_http import TIMEOUT_S, Response, Site, call
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
