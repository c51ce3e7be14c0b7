"""The client's streams over Streamable HTTP: responses in a stream, resuming it, and the GET stream."""

import asyncio

import pytest
from tests.client.harness import assert_no_leaks
from tests.client.scripted_server import ScriptedRequest, hang, legacy_handler, scripted_server
from tests.clock import advance_clock, wait_until
from tests.transports.http_configs import handle_method, make_config

from hubbub import Client, TransportError, bounds

PING_EVENT = 'data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n'
"""Its answer tells a server that its stream was read so far."""

# -- the stream of an answer -----------------------------------------------------------


async def test_a_stream_may_arrive_in_one_chunk() -> None:
    async def stream(request: ScriptedRequest) -> None:
        await request.stream(": hello\n\n", "event: message\r\n", request.event({"tools": []}))

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle_method("tools/list", stream))) as server,
        Client(make_config(server)) as client,
    ):
        assert await client.tools() == []


async def test_a_last_event_without_its_empty_line_is_accepted() -> None:
    async def stream(request: ScriptedRequest) -> None:
        await request.stream(request.event({"tools": []}).rstrip("\n"))
        request.close()

    async with (
        scripted_server(legacy_handler(handle_method("tools/list", stream))) as server,
        Client(make_config(server)) as client,
    ):
        assert await client.tools() == []


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_broken_stream_is_resumed_after_exactly_the_retry_time(how: str) -> None:
    first: list[ScriptedRequest] = []
    times: list[float] = []

    async def handle(request: ScriptedRequest) -> None:
        if request.rpc == "tools/call":
            first.append(request)
            await request.stream(
                "id: e7\nretry: 200000\ndata:\n\n", 'data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n'
            )
            await wait_until(lambda: server.count("answer") == 1)  # the stream was read so far
            times.append(asyncio.get_running_loop().time())
            getattr(request, how)()
        elif request.method == "GET" and "last-event-id" in request.headers:
            times.append(asyncio.get_running_loop().time())
            await request.stream(first[0].event({"content": [{"type": "text", "text": "late"}]}))
        else:
            raise NotImplementedError

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle)) as server,
        Client(make_config(server)) as client,
    ):
        call = asyncio.create_task(client.call_tool("echo", timeout_s=3600))

        def is_done() -> bool:
            if not call.done():
                advance_clock(1)
            return call.done()

        await wait_until(lambda: times)
        await wait_until(is_done)
        assert (await call).text == "late"
        assert 200 <= times[1] - times[0] < 250
        assert server.all("GET")[-1].headers["last-event-id"] == "e7"
        assert server.all("GET")[-1].headers["mcp-session-id"] == "s1"
        assert server.count("tools/call") == 1


async def test_a_stream_without_event_ids_is_not_resumed() -> None:
    async def stream(request: ScriptedRequest) -> None:
        await request.stream(": nothing yet\n\n")
        request.close()

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle_method("tools/call", stream))) as server,
        Client(make_config(server)) as client,
    ):
        with pytest.raises(TransportError, match="ended before the response") as raised:
            await client.call_tool("echo")
        assert raised.value.code == "TRANSPORT_ERROR"
        assert raised.value.may_have_executed


async def test_the_number_of_resumptions_is_limited() -> None:
    async def handle(request: ScriptedRequest) -> None:
        if request.rpc != "tools/call" and "last-event-id" not in request.headers:
            raise NotImplementedError
        await request.stream("id: e1\nretry: 1\ndata:\n\n")
        request.close()

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle)) as server,
        Client(make_config(server, sse_max_reconnects=3)) as client,
    ):
        with pytest.raises(TransportError) as raised:
            await client.call_tool("echo")
        assert raised.value.code == "SSE_RECONNECTS_EXCEEDED"
        assert raised.value.data == {"reconnects": 3}
        assert len([request for request in server.all("GET") if "last-event-id" in request.headers]) == 3


@pytest.mark.parametrize(
    ("status", "code"), [(404, "MCP_SESSION_NOT_FOUND"), (500, "HTTP_ERROR"), (405, "HTTP_ERROR"), (200, "HTTP_ERROR")]
)
async def test_the_error_of_a_failed_resumption_has_the_reason(status: int, code: str) -> None:
    async def handle(request: ScriptedRequest) -> None:
        if request.rpc == "tools/call":
            await request.stream("id: e1\nretry: 1\ndata:\n\n")
            request.close()
        elif "last-event-id" in request.headers:
            await request.reply(status)
        else:
            raise NotImplementedError

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle)) as server,
        Client(make_config(server)) as client,
    ):
        with pytest.raises(TransportError) as raised:
            await client.call_tool("echo")
        assert raised.value.code == code


# -- the GET stream -----------------------------------------------


async def test_server_notifications_are_delivered_and_server_requests_answered() -> None:
    changes: list[str] = []

    async def handle(request: ScriptedRequest) -> None:
        if request.method != "GET":
            raise NotImplementedError
        await request.stream("data: \n\n", 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n')
        await request.stream("data: nonsense\n\n", PING_EVENT)
        await hang(request)

    async with assert_no_leaks(), scripted_server(legacy_handler(handle)) as server:
        async with Client(make_config(server), on_change=lambda change: changes.append(change.kind)):
            await wait_until(lambda: changes == ["tools"] and server.count("answer") == 1)
        answer = server.all("answer")[0]
        assert answer.message == {"jsonrpc": "2.0", "id": "q", "result": {}}
        assert answer.headers["mcp-session-id"] == "s1"


async def _ends_soon(request: ScriptedRequest) -> None:
    await request.stream("retry: 1\n\n")
    request.close()


async def test_a_long_lived_stream_is_reopened_without_limit() -> None:
    async def ends_late(request: ScriptedRequest) -> None:
        await request.stream("retry: 1\n\n", PING_EVENT)
        await wait_until(lambda: server.count("answer") == server.count("GET"))
        advance_clock(2 * bounds.STABLE_AFTER_S)
        request.close()

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle_method("GET", ends_late))) as server,
        Client(make_config(server)),
    ):
        await wait_until(lambda: server.count("GET") > 30)


async def test_a_short_lived_stream_is_abandoned_and_the_hook_is_called() -> None:
    diagnostics: list[str] = []
    handler = legacy_handler(handle_method("GET", _ends_soon))
    async with (
        scripted_server(handler) as server,
        Client(make_config(server, on_stderr_line=diagnostics.append)) as client,
    ):
        await wait_until(lambda: any("is not opened again" in line for line in diagnostics))
        assert server.count("GET") == 20
        assert len(await client.tools()) == 1


async def test_a_response_may_arrive_on_the_other_stream() -> None:
    streams: list[ScriptedRequest] = []

    async def handle(request: ScriptedRequest) -> None:
        if request.method == "GET":
            streams.append(request)
            await request.stream(": open\n\n")
            await hang(request)
        elif request.rpc == "tools/call":
            await request.reply(202, {"accepted": True})
            await streams[0].stream(request.event({"content": [{"type": "text", "text": "elsewhere"}]}))
        else:
            raise NotImplementedError

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle)) as server,
        Client(make_config(server)) as client,
    ):
        await wait_until(lambda: bool(streams))
        assert (await client.call_tool("echo")).text == "elsewhere"


async def test_a_server_request_on_a_late_stream_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "SERVER_STREAM_WAIT_S", 3600)
    streams: list[ScriptedRequest] = []
    may_open = asyncio.Event()

    async def handle(request: ScriptedRequest) -> None:
        if request.method == "GET":
            await may_open.wait()
            await request.stream(": open\n\n")
            streams.append(request)
            await hang(request)
        elif request.rpc == "tools/call":
            assert streams, "messages sent before the stream is open are lost"
            await streams[0].stream(PING_EVENT)
            await request.result({"content": []})
        else:
            raise NotImplementedError

    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle)) as server,
        Client(make_config(server)) as client,
    ):
        call = asyncio.create_task(client.call_tool("echo"))
        await wait_until(lambda: server.count("GET") == 1)
        may_open.set()
        await call
        await wait_until(lambda: server.count("answer") == 1)


async def test_a_stream_that_never_opens_delays_the_first_call_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "SERVER_STREAM_WAIT_S", 3600)
    async with (
        assert_no_leaks(),
        scripted_server(legacy_handler(handle_method("GET", hang))) as server,
        Client(make_config(server)) as client,
    ):
        call = asyncio.create_task(client.call_tool("echo", timeout_s=10_000))
        await wait_until(lambda: server.count("GET") == 1)
        advance_clock(3600)
        assert (await call).text == "called"
        await client.call_tool("echo")
