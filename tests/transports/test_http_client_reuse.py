"""Requests of the Streamable HTTP client over a connection that is already open, which are sent without waiting."""

import asyncio
import json

import pytest
from tests.client.harness import assert_no_leaks
from tests.client.scripted_server import Handler, ScriptedRequest, legacy_handler, scripted_server
from tests.clock import advance_clock, wait_until
from tests.transports.http_configs import handle_method, make_config

from hubbub import Client, DeadlineExceeded, HttpError, TransportError

RESULT = {"content": [{"type": "text", "text": "called"}]}


async def respond_in_pieces(request: ScriptedRequest) -> None:
    """Send the head, and later each byte of the body by itself."""
    body = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": RESULT}).encode()
    request.writer.write(b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
    for byte in body:
        await request.writer.drain()
        await asyncio.sleep(0)
        request.writer.write(bytes([byte]))


async def respond_with_stream(request: ScriptedRequest) -> None:
    await request.stream("event: message\n")
    await asyncio.sleep(0)
    await request.stream(request.event(RESULT))


async def redirect_first(request: ScriptedRequest) -> None:
    if request.path == "/mcp":
        await request.reply(307, b"", location="/mcp/")
    else:
        await request.result(RESULT)


@pytest.mark.parametrize("answer", [respond_in_pieces, respond_with_stream, redirect_first])
async def test_any_response_reaches_the_caller(answer: Handler) -> None:
    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("tools/call", answer))) as server:
        async with Client(make_config(server)) as client:
            for _ in range(3):
                assert (await client.call_tool("echo")).text == "called"
        calls = server.all("tools/call")
        assert len(calls) == (4 if answer is redirect_first else 3)
        assert {call.headers["mcp-session-id"] for call in calls} == {"s1"}


async def test_requests_over_one_connection_differ_only_where_they_must() -> None:
    async with assert_no_leaks(), scripted_server(legacy_handler()) as server:
        async with Client(make_config(server, headers={"X-Fixed": "f"})) as client:
            await client.call_tool("echo")
            await client.call_tool("echo", {"text": "longer"})
        first, second = server.all("tools/call")
        assert first.writer is second.writer
        assert int(second.headers.pop("content-length")) > int(first.headers.pop("content-length"))
        assert first.headers == second.headers
        assert second.headers["x-fixed"] == "f"


class _SilentAnswer:
    """Answers with nothing, or with a stream without a response; `wait_closed` waits until the client closes it."""

    def __init__(self, *, is_stream: bool) -> None:
        self._is_stream = is_stream
        self._is_probing = asyncio.Event()
        self._is_closed = asyncio.Event()

    async def __call__(self, request: ScriptedRequest) -> None:
        if self._is_stream:
            await request.stream("event: message\n")
        await self._is_probing.wait()
        probe = b": comment\n" if self._is_stream else b"HTTP/1.1 102 X\r\n\r\n"
        for _ in range(100):  # few enough that the client does not object; refused once it has closed its end
            request.writer.write(probe)
            await asyncio.sleep(0)
        await wait_until(request.writer.is_closing)
        self._is_closed.set()

    async def wait_closed(self) -> None:
        self._is_probing.set()
        await self._is_closed.wait()


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_cancelled_call_closes_its_connection_and_no_other(is_stream: bool) -> None:
    silent = _SilentAnswer(is_stream=is_stream)
    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("tools/call", silent))) as server:
        async with Client(make_config(server)) as client:
            await client.tools()
            calling = asyncio.create_task(client.call_tool("echo"))
            await wait_until(lambda: server.count("tools/call") == 1)
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            await silent.wait_closed()
            await wait_until(lambda: server.count("notifications/cancelled") == 1)
            assert len(await client.tools()) == 1
        assert server.count("tools/call") == 1


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_timeout_closes_the_connection(is_stream: bool) -> None:
    silent = _SilentAnswer(is_stream=is_stream)
    handler = legacy_handler(handle_method("tools/call", silent))
    async with assert_no_leaks(), scripted_server(handler) as server, Client(make_config(server)) as client:
        calling = asyncio.create_task(client.call_tool("echo", timeout_s=30))
        await wait_until(lambda: server.count("tools/call") == 1)
        advance_clock(30)
        with pytest.raises(DeadlineExceeded):
            await calling
        await silent.wait_closed()


async def test_an_error_status_is_raised_and_the_connection_stays() -> None:
    async def refuse(request: ScriptedRequest) -> None:
        await request.reply(503, b"busy")

    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("tools/call", refuse))) as server:
        async with Client(make_config(server)) as client:
            for _ in range(2):
                with pytest.raises(HttpError):
                    await client.call_tool("echo")
        first, second = server.all("tools/call")
        assert first.writer is second.writer


async def test_a_call_on_a_connection_that_breaks_is_not_sent_again() -> None:
    async def reset(request: ScriptedRequest) -> None:
        request.reset()

    async with assert_no_leaks(), scripted_server(legacy_handler(handle_method("tools/call", reset))) as server:
        async with Client(make_config(server)) as client:
            with pytest.raises(TransportError) as raised:
                await client.call_tool("echo")
            assert raised.value.may_have_executed
        assert server.count("tools/call") == 1
