"""Callers that send slowly, read slowly or leave in the middle: they lose out, nobody else, and nothing is left."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from tests.http import in_process
from tests.http.eras import modern, open_session
from tests.http.in_process import Running
from tests.http.wire import JSON, EventStream, Link, call, head, request

from hubbub import Note, bounds
from hubbub.server.audience import TOOLS_CHANGED

PING = json.dumps(request("ping")).encode()
STREAM = {"Accept": "text/event-stream"}
running = partial(in_process.running, head_s=0.5, body_s=1.0, slow_reader_s=1.0)
MUCH = {"pieces": 400, "size": 50_000}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "KEEP_ALIVE_S", 0.3)


async def is_well(here: Running) -> None:
    assert (await here.site.post(request("ping"))).json["result"] == {}


# -- slow senders ------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"POST /m", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
async def test_a_head_that_does_not_come_is_408(sent: bytes) -> None:
    async with running() as here:
        before = await here.count()
        async with here.site.link() as link:
            await link.send(sent)
            answer = await link.answer()
            assert (answer.status, answer.header("x-mcp-version")) == (408, "1.0.0")
            assert await link.reader.read() == b""
            await here.settles_at(before)


async def test_a_head_that_trickles_is_cut_off_all_the_same() -> None:
    async with running() as here:
        before = await here.count()
        async with here.site.link() as link:
            await link.send(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            with pytest.raises(ConnectionError):
                await trickle(link, b"X: y\r\n")
            await is_well(here)
        await here.settles_at(before)


@pytest.mark.parametrize("framing", [{"Content-Length": "1000"}, {"Transfer-Encoding": "chunked"}])
async def test_a_body_that_trickles_is_cut_off(framing: dict[str, str]) -> None:
    async with running() as here:
        before = await here.count()
        async with here.site.link() as link:
            await link.send(head("POST", "/mcp", {"Host": "127.0.0.1", **JSON, **framing}))
            with pytest.raises(ConnectionError):
                await trickle(link, b"1\r\nx\r\n" if "Transfer-Encoding" in framing else b"x")
            await is_well(here)
        await here.settles_at(before)


async def trickle(link: Link, data: bytes) -> None:
    for _ in range(100):
        await link.send(data)
        await asyncio.sleep(0.1)


async def test_many_slow_senders_do_not_slow_down_the_others() -> None:
    async with running() as here:
        before = await here.count()
        links = [await asyncio.open_connection("127.0.0.1", here.site.port) for _ in range(300)]
        for _, writer in links:
            writer.write(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n1")
        for _ in range(20):
            await is_well(here)
        await here.settles_at(before)
        for _, writer in links:
            writer.close()


# -- slow readers ------------------------------------------------------------------------------


@asynccontextmanager
async def unread(
    here: Running, method: str, path: str, headers: dict[str, str], body: Any = None
) -> AsyncIterator[Link]:
    """A request whose answer nobody reads, on a connection that holds little."""
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", here.site.port))
    reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    link = Link(reader, writer)
    await link.ask(method, path, headers, b"" if body is None else json.dumps(body).encode())
    try:
        yield link
    finally:
        link.abort()


async def test_an_answer_that_nobody_reads_is_given_up() -> None:
    async with running() as here:
        before = await here.count()
        async with unread(here, "POST", "/mcp", JSON, request("big", {"size": 10_000_000})):
            await here.settles_at(before)


async def test_a_call_that_streams_to_nobody_is_cancelled_in_the_modern_era() -> None:
    async with running() as here:
        before = await here.count()
        body, headers = modern("tools/call", {"name": "pour", "arguments": MUCH}, progressToken=1)
        async with unread(here, "POST", "/mcp", JSON | headers, body):
            await here.happened("poured")
            await here.settles_at(before)


async def test_a_legacy_call_goes_on_without_its_reader() -> None:
    async with running() as here:
        session = await open_session(here.site)
        before = await here.count()
        async with unread(here, "POST", "/mcp", JSON | session.headers, call("pour", MUCH, token=1)):
            await here.happened("poured")
            await here.settles_at(before)
        assert (await session.post(request("ping"))).status == 200


@pytest.mark.parametrize("kind", ["plain", "session", "subscription", "old"])
async def test_a_stream_that_nobody_reads_is_given_up_and_others_hear_everything(kind: str) -> None:
    async with running() as here:
        session = await open_session(here.site)
        method, path, headers, body = "GET", "/mcp", dict(STREAM), None
        if kind == "session":
            headers |= session.headers
        elif kind == "subscription":
            body, headers = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            method, headers = "POST", headers | JSON
        elif kind == "old":
            path = "/sse"
        async with here.site.stream("GET", "/mcp", STREAM) as other:
            before = await here.count()
            async with unread(here, method, path, headers, body):
                await flood(here, before.connections, other)
            await here.settles_at(before)
            await is_well(here)


async def flood(here: Running, usual: int, other: EventStream) -> None:
    """Make changes until the server has given up the one that does not read; the other reads them all."""
    async with asyncio.timeout(60):
        for number in range(10**6):
            change = {"type": "tool_added", "toolName": f"tool_{number}_{'x' * 50_000}", "timestamp": number}
            here.server.audience.publish(Note(TOOLS_CHANGED, change))
            assert (await other.message())["params"] == change
            if len(here.http.server_state.connections) <= usual:
                return


# -- leaving in the middle ---------------------------------------------------------------------


async def leave(here: Running, headers: dict[str, str], body: Any, name: str) -> None:
    """Start a call and go away while it runs."""
    async with here.site.link() as link:
        await link.ask("POST", "/mcp", JSON | headers, json.dumps(body).encode())
        await here.happened(f"start {name}")
        link.abort()


async def test_plain_and_modern_callers_that_leave_cancel_their_calls() -> None:
    async with running() as here:
        before = await here.count()
        await leave(here, {}, call("wait", {"name": "plain"}), "plain")
        await here.happened("cancelled plain")
        await leave(here, {}, [request("ping", id=2), call("wait", {"name": "batch"})], "batch")
        await here.happened("cancelled batch")
        body, headers = modern("tools/call", {"name": "wait", "arguments": {"name": "modern"}})
        await leave(here, headers, body, "modern")
        await here.happened("cancelled modern")
        body, headers = modern("tools/call", {"name": "wait_streaming", "arguments": {"name": "s"}}, progressToken=1)
        await leave(here, headers, body, "s")
        await here.happened("cancelled s")
        await here.settles_at(before)


async def test_legacy_callers_that_leave_do_not_cancel_anything() -> None:
    async with running() as here:
        session = await open_session(here.site)
        before = await here.count()
        await leave(here, session.headers, call("wait", {"name": "a"}), "a")
        await is_well(here)
        assert "cancelled a" not in await here.history()
        await here.site.post(call("open_door", {"name": "a"}))
        await here.happened("done a")
        await here.settles_at(before)


async def test_a_caller_that_leaves_between_two_rounds_leaves_a_bounded_wait() -> None:
    async with running() as here:
        body, headers = modern("tools/call", {"name": "greet"}, capabilities={"elicitation": {}})
        assert (await here.site.post(body, headers)).json["result"]["resultType"] == "input_required"
        assert (await here.count()).rounds == 1  # it ends with its deadline, or with the server


async def test_requests_in_a_row_are_cancelled_with_the_first() -> None:
    async with running() as here:
        before = await here.count()
        waiting = json.dumps(call("wait", {"name": "a"})).encode()
        async with here.site.link() as link:
            await link.ask("POST", "/mcp", JSON, waiting)
            await here.happened("start a")
            for _ in range(3):
                await link.ask("POST", "/mcp", JSON, PING)
            link.abort()
        await here.site.post(call("open_door", {"name": "a"}))
        await here.settles_at(before)


async def test_a_stream_with_requests_behind_it_ends_with_its_caller() -> None:
    async with running() as here:
        before = await here.count()
        for _ in range(20):
            async with here.site.link() as link:
                await link.ask("GET", "/mcp", STREAM)
                await link.answer_head()
                await link.ask("POST", "/mcp", JSON, PING)
                link.abort()
        await here.settles_at(before)


async def test_streams_come_and_go_without_a_trace() -> None:
    async with running() as here:
        session = await open_session(here.site)
        before = await here.count()
        body, headers = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
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
                    stream.link.abort()
        await here.settles_at(before)
