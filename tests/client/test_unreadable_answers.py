"""A response that cannot be read fails its request at once, with the reason, and nothing is repeated."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import WSMsgType, web
from tests.client.harness import assert_no_leaks, stdio_config
from tests.client.scripted_server import Handler, ScriptedRequest, legacy_handler, scripted_server

from hubbub import Client, InvalidParams, ServerConfig, TransportError

RESPONSE_LIMIT_S = 60.0  # the timeout of a call is much longer

PROGRAM = r"""
import json, os, sys
info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
calls = []
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": info}), flush=True)
    elif request["method"] == "tools/call":
        print("call", file=sys.stderr, flush=True)
        calls.append(request["id"])
        if len(calls) == 2:
            line = bytes.fromhex(os.environ["LINE"]).replace(b"ID", b"%d" % calls[0])
            line = line.replace(b"LONG", b"x" * (20 << 20)).replace(b"DEEP", b"[" * 300 + b"]" * 300)
            sys.stdout.buffer.write(b"a line of a log \xff NaN\n{\"level\": \"\xff\"}\n" + line + b"\n")
            sys.stdout.buffer.flush()
    elif request["method"] == "ping":
        answer = {"jsonrpc": "2.0", "id": calls[1], "result": {"content": [{"type": "text", "text": "second"}]}}
        print(json.dumps(answer), flush=True)
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {}}), flush=True)
"""
UNREADABLE = {
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\xff"}]}}': "not UTF-8",
    b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"x":DEEP}}': "nested deeper",
    b'{"result":{"content":[],"x":DEEP},"jsonrpc":"2.0","id":ID}': "nested deeper",
    b'{"jsonrpc":"2.0","id":ID,"result":{"x":"\\ud800"}}': "surrogate",
    b'{"jsonrpc":"2.0","id":ID,"result":{"x":"LONG"}}': "larger than",
    b'{"jsonrpc":"2.0","id":ID,"result":{"x":tru}}': "cannot be read",
    b'{"jsonrpc":"2.0","id":ID}': "must have a `method`",
}
WITHOUT_ID = {
    b'{"jsonrpc":"2.0","result":{"x":"LONG"},"id":ID}': "larger than",
    b'{"jsonrpc":"2.0","result":{"x":"\xff"}}': "not UTF-8",
}


@asynccontextmanager
async def two_calls(line: bytes) -> AsyncIterator[tuple[Client, list[asyncio.Task[object]], list[str]]]:
    """A server that answers the first of two calls with this line."""
    errors: list[str] = []
    config = stdio_config(
        "-c", PROGRAM, env={"LINE": line.hex()}, protocol_version="2025-11-25", on_stderr_line=errors.append
    )
    async with assert_no_leaks(), Client(config) as client:
        calls = [asyncio.create_task(client.call_tool("a", timeout_s=1000)) for _ in range(2)]
        async with asyncio.timeout(RESPONSE_LIMIT_S):
            yield client, calls, errors  # type: ignore[misc]


@pytest.mark.parametrize("line", UNREADABLE, ids=lambda line: UNREADABLE[line])
async def test_only_the_call_with_the_unreadable_response_fails(line: bytes) -> None:
    async with two_calls(line) as (client, (first, second), errors):
        with pytest.raises(TransportError, match=UNREADABLE[line]) as raised:
            await first
        assert raised.value.code == "INVALID_RESPONSE"
        assert raised.value.may_have_executed
        await client.ping()
        assert (await second).content[0].text == "second"  # type: ignore[attr-defined]
        assert errors == ["call", "call"]


@pytest.mark.parametrize("line", WITHOUT_ID, ids=lambda line: WITHOUT_ID[line])
async def test_all_calls_fail_if_the_response_may_belong_to_any(line: bytes) -> None:
    async with two_calls(line) as (client, calls, errors):
        for call in calls:
            with pytest.raises(TransportError, match=WITHOUT_ID[line]):
                await call
        assert client.is_open
        assert errors == ["call", "call"]


async def test_nan_and_infinity_are_null() -> None:
    line = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"x":NaN,"y":[-Infinity,"NaN"]}}}'
    async with two_calls(line) as (client, (first, second), _):
        result = await first
        assert result.structured_content == {"x": None, "y": [None, "NaN"]}  # type: ignore[attr-defined]
        assert json.loads(bytes(result.raw))["structuredContent"]["x"] is None  # type: ignore[attr-defined]
        await client.ping()
        await second


UNREADABLE_REQUEST_PROGRAM = r"""
import json, sys
info = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": info}), flush=True)
    elif request.get("method") == "tools/call":
        call = request["id"]
        question = b'{"jsonrpc":"2.0","id":"q1","method":"elicitation/create","params":{"message":"\xff"}}'
        sys.stdout.buffer.write(question + bytes([10]))
        sys.stdout.buffer.flush()
    elif request.get("id") == "q1":
        content = [{"type": "text", "text": str(request["error"]["code"])}]
        print(json.dumps({"jsonrpc": "2.0", "id": call, "result": {"content": content}}), flush=True)
"""


async def test_an_unreadable_server_request_is_answered_with_an_error() -> None:
    config = stdio_config("-c", UNREADABLE_REQUEST_PROGRAM, protocol_version="2025-11-25")
    async with assert_no_leaks(), Client(config) as client, asyncio.timeout(RESPONSE_LIMIT_S):
        result = await client.call_tool("a", timeout_s=1000)
        assert result.text == "-32700"


async def test_a_lone_surrogate_in_an_argument_is_refused_before_it_is_sent() -> None:
    async with two_calls(b"{}") as (client, calls, _):
        with pytest.raises(InvalidParams, match="surrogate"):
            await client.call_tool("a", {"x": "\ud800"})
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


# -- over other transports -------------------------------------------------------------


def handler_with_body(body: bytes, kind: str) -> Handler:
    async def special(request: ScriptedRequest) -> None:
        if request.rpc != "tools/call":
            raise NotImplementedError
        answer = body.replace(b"ID", str(request.message["id"]).encode())
        if kind == "sse":
            await request.reply(200, b"data: " + answer + b"\n\n", content_type="text/event-stream")
        else:
            await request.reply(200, answer)

    return legacy_handler(special)


@pytest.mark.parametrize("kind", ["json", "sse"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"jsonrpc":"2.0","id":ID,"result":{"x":"\xff"}}', "not UTF-8"),
        (b'{"jsonrpc":"2.0","id":ID,"result":' + b"[" * 300 + b"]" * 300 + b"}", "nested deeper"),
    ],
)
async def test_over_http_the_error_has_the_reason(kind: str, body: bytes, reason: str) -> None:
    async with assert_no_leaks(), scripted_server(handler_with_body(body, kind)) as server:
        config = ServerConfig(id="h", transport="http", url=server.url, protocol_version="2025-11-25")
        async with Client(config) as client, asyncio.timeout(RESPONSE_LIMIT_S):
            with pytest.raises(TransportError, match=reason):
                await client.call_tool("a", timeout_s=1000)
        assert server.count("tools/call") == 1


@pytest.mark.parametrize("kind", ["json", "sse"])
async def test_over_http_nan_and_infinity_are_null(kind: str) -> None:
    body = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"x":NaN}}}'
    async with assert_no_leaks(), scripted_server(handler_with_body(body, kind)) as server:
        config = ServerConfig(id="h", transport="http", url=server.url, protocol_version="2025-11-25")
        async with Client(config) as client:
            assert (await client.call_tool("a")).structured_content == {"x": None}


@pytest.mark.parametrize("is_binary", [True, False])
async def test_over_websocket_only_the_call_with_the_unreadable_response_fails(is_binary: bool) -> None:
    async def serve(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("mcp.v1",))
        await socket.prepare(request)
        async for message in socket:
            rpc = json.loads(message.data)
            info = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "w", "version": "1"}}
            if rpc["method"] == "initialize":
                await socket.send_json({"jsonrpc": "2.0", "id": rpc["id"], "result": info})
            elif rpc["method"] == "tools/call":
                answer = b'{"jsonrpc":"2.0","id":%d,"result":{"x":"\xff"}}' % rpc["id"]
                await socket.send_frame(answer, WSMsgType.BINARY if is_binary else WSMsgType.TEXT)
        return socket

    application = web.Application()
    application.router.add_get("/ws", serve)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        url = f"ws://127.0.0.1:{runner.addresses[0][1]}/ws"
        config = ServerConfig(id="w", transport="websocket", url=url, protocol_version="2025-11-25")
        async with Client(config) as client, asyncio.timeout(RESPONSE_LIMIT_S):
            with pytest.raises(TransportError, match="not UTF-8"):
                await client.call_tool("a", timeout_s=1000)
            assert client.is_open
    finally:
        await runner.cleanup()
