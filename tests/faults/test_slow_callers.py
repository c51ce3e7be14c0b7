"""Callers that send slowly, read slowly or disconnect early: others are not affected, and no resources are left."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from tests.http import in_process_server
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import RunningServer
from tests.http.raw_http import JSON, EventStream, RawConnection, call, head, request

from hubbub import Notification, bounds
from hubbub.server.subscriptions import TOOLS_CHANGED

PING = json.dumps(request("ping")).encode()
STREAM = {"Accept": "text/event-stream"}
running = partial(in_process_server.run_server, head_s=0.5, body_s=1.0, slow_reader_s=1.0)
LARGE_OUTPUT = {"pieces": 400, "size": 50_000}


@pytest.fixture(autouse=True)
def _short_keep_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "KEEP_ALIVE_S", 0.3)


async def check_health(here: RunningServer) -> None:
    assert (await here.site.post(request("ping"))).json["result"] == {}


# -- slow senders ------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"POST /m", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
async def test_a_missing_head_is_408(sent: bytes) -> None:
    async with running() as here:
        before = await here.count_resources()
        async with here.site.connect() as link:
            await link.send(sent)
            answer = await link.read_response()
            assert (answer.status, answer.header("x-mcp-version")) == (408, "1.0.0")
            assert await link.reader.read() == b""
            await here.wait_for_count(before)


async def test_a_head_that_arrives_too_slowly_is_disconnected() -> None:
    async with running() as here:
        before = await here.count_resources()
        async with here.site.connect() as link:
            await link.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            with pytest.raises(ConnectionError):
                await send_slowly(link, b"X: y\r\n")
            await check_health(here)
        await here.wait_for_count(before)


@pytest.mark.parametrize("framing", [{"Content-Length": "1000"}, {"Transfer-Encoding": "chunked"}])
async def test_a_body_that_arrives_too_slowly_is_disconnected(framing: dict[str, str]) -> None:
    async with running() as here:
        before = await here.count_resources()
        async with here.site.connect() as link:
            await link.send(head("POST", "/mcp", {"Host": "127.0.0.1", **JSON, **framing}))
            with pytest.raises(ConnectionError):
                await send_slowly(link, b"1\r\nx\r\n" if "Transfer-Encoding" in framing else b"x")
            await check_health(here)
        await here.wait_for_count(before)


async def send_slowly(link: RawConnection, data: bytes) -> None:
    for _ in range(100):
        await link.send(data)
        await asyncio.sleep(0.1)


async def test_many_slow_senders_do_not_slow_down_the_others() -> None:
    async with running() as here:
        before = await here.count_resources()
        links = [await asyncio.open_connection("127.0.0.1", here.site.port) for _ in range(300)]
        for _, writer in links:
            writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n1")
        for _ in range(20):
            await check_health(here)
        await here.wait_for_count(before)
        for _, writer in links:
            writer.close()


# -- slow readers ------------------------------------------------------------------------------


@asynccontextmanager
async def unread_request(
    here: RunningServer, method: str, path: str, headers: dict[str, str], body: Any = None
) -> AsyncIterator[RawConnection]:
    """Send a request whose response is never read, on a connection with small buffers."""
    small_socket = socket.socket()
    small_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    small_socket.setblocking(False)
    await asyncio.get_running_loop().sock_connect(small_socket, ("127.0.0.1", here.site.port))
    reader, writer = await asyncio.open_connection(sock=small_socket, limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    link = RawConnection(reader, writer)
    await link.send_request(method, path, headers, b"" if body is None else json.dumps(body).encode())
    try:
        yield link
    finally:
        link.abort()


async def test_a_response_that_is_not_read_is_aborted() -> None:
    async with running() as here:
        before = await here.count_resources()
        async with unread_request(here, "POST", "/mcp", JSON, request("big", {"size": 10_000_000})):
            await here.wait_for_count(before)


async def test_a_modern_call_whose_stream_is_not_read_is_cancelled() -> None:
    async with running() as here:
        before = await here.count_resources()
        body, headers = modern_request("tools/call", {"name": "pour", "arguments": LARGE_OUTPUT}, progressToken=1)
        async with unread_request(here, "POST", "/mcp", JSON | headers, body):
            await here.wait_for_history("poured")
            await here.wait_for_count(before)


async def test_a_legacy_call_continues_when_its_stream_is_not_read() -> None:
    async with running() as here:
        session = await open_session(here.site)
        before = await here.count_resources()
        async with unread_request(here, "POST", "/mcp", JSON | session.headers, call("pour", LARGE_OUTPUT, token=1)):
            await here.wait_for_history("poured")
            await here.wait_for_count(before)
        assert (await session.post(request("ping"))).status == 200


@pytest.mark.parametrize("kind", ["plain", "session", "subscription", "old"])
async def test_a_stream_that_is_not_read_is_closed_and_the_others_get_every_notification(kind: str) -> None:
    async with running() as here:
        session = await open_session(here.site)
        method, path, headers, body = "GET", "/mcp", dict(STREAM), None
        if kind == "session":
            headers |= session.headers
        elif kind == "subscription":
            body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            method, headers = "POST", headers | JSON
        elif kind == "old":
            path = "/sse"
        async with here.site.stream("GET", "/mcp", STREAM) as other:
            before = await here.count_resources()
            async with unread_request(here, method, path, headers, body):
                await flood(here, before.connections, other)
            await here.wait_for_count(before)
            await check_health(here)


async def flood(here: RunningServer, initial_connections: int, other: EventStream) -> None:
    """Publish changes until the server has closed the stream that is not read; the other stream is read."""
    async with asyncio.timeout(60):
        for number in range(10**6):
            change = {"type": "tool_added", "toolName": f"tool_{number}_{'x' * 50_000}", "timestamp": number}
            here.server.broadcaster.publish(Notification(TOOLS_CHANGED, change))
            assert (await other.message())["params"] == change
            if len(here.http.connections) <= initial_connections:
                return


# -- disconnecting during a call ---------------------------------------------------------------------


async def abandon_call(here: RunningServer, headers: dict[str, str], body: Any, name: str) -> None:
    """Start a call and disconnect while it runs."""
    async with here.site.connect() as link:
        await link.send_request("POST", "/mcp", JSON | headers, json.dumps(body).encode())
        await here.wait_for_history(f"start {name}")
        link.abort()


async def test_plain_and_modern_callers_that_disconnect_cancel_their_calls() -> None:
    async with running() as here:
        before = await here.count_resources()
        await abandon_call(here, {}, call("wait", {"name": "plain"}), "plain")
        await here.wait_for_history("cancelled plain")
        await abandon_call(here, {}, [request("ping", id=2), call("wait", {"name": "batch"})], "batch")
        await here.wait_for_history("cancelled batch")
        body, headers = modern_request("tools/call", {"name": "wait", "arguments": {"name": "modern"}})
        await abandon_call(here, headers, body, "modern")
        await here.wait_for_history("cancelled modern")
        body, headers = modern_request(
            "tools/call", {"name": "wait_streaming", "arguments": {"name": "s"}}, progressToken=1
        )
        await abandon_call(here, headers, body, "s")
        await here.wait_for_history("cancelled s")
        await here.wait_for_count(before)


async def test_legacy_callers_that_disconnect_do_not_cancel_their_calls() -> None:
    async with running() as here:
        session = await open_session(here.site)
        before = await here.count_resources()
        await abandon_call(here, session.headers, call("wait", {"name": "a"}), "a")
        await check_health(here)
        assert "cancelled a" not in await here.history()
        await here.site.post(call("open_door", {"name": "a"}))
        await here.wait_for_history("done a")
        await here.wait_for_count(before)


async def test_a_caller_that_disconnects_between_rounds_leaves_one_suspended_round() -> None:
    async with running() as here:
        body, headers = modern_request("tools/call", {"name": "greet"}, capabilities={"elicitation": {}})
        assert (await here.site.post(body, headers)).json["result"]["resultType"] == "input_required"
        assert (await here.count_resources()).rounds == 1  # it ends with its deadline, or with the server


async def test_pipelined_requests_are_cancelled_with_the_first() -> None:
    async with running() as here:
        before = await here.count_resources()
        waiting = json.dumps(call("wait", {"name": "a"})).encode()
        async with here.site.connect() as link:
            await link.send_request("POST", "/mcp", JSON, waiting)
            await here.wait_for_history("start a")
            for _ in range(3):
                await link.send_request("POST", "/mcp", JSON, PING)
            link.abort()
        await here.site.post(call("open_door", {"name": "a"}))
        await here.wait_for_count(before)


async def test_a_stream_with_pipelined_requests_behind_it_ends_with_its_connection() -> None:
    async with running() as here:
        before = await here.count_resources()
        for _ in range(20):
            async with here.site.connect() as link:
                await link.send_request("GET", "/mcp", STREAM)
                await link.read_head()
                await link.send_request("POST", "/mcp", JSON, PING)
                link.abort()
        await here.wait_for_count(before)


async def test_closed_streams_leave_no_resources() -> None:
    async with running() as here:
        session = await open_session(here.site)
        before = await here.count_resources()
        body, headers = modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        for number in range(60):
            opened = (
                here.site.stream("GET", "/mcp", STREAM),
                session.listen(),
                here.site.stream("POST", "/mcp", headers, body),
                here.site.stream("GET", "/sse", STREAM),
            )[number % 4]
            async with opened as stream:
                assert stream.status == 200
                if number % 8 < 4:
                    stream.connection.abort()
        await here.wait_for_count(before)
