"""Floods of sessions, streams, calls and credentials stay within their limits, and leave no resources."""

import asyncio
import gc
import json
import tracemalloc
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.clock import advance_and_settle
from tests.http.eras import BOTH_MEDIA_TYPES, initialize_request, modern_request, open_session
from tests.http.in_process_server import RunningServer, run_server
from tests.http.raw_http import JSON, RawConnection, Site, call, head, request
from tests.http.server_process import PLAYGROUND, ServerProcess

from hubbub import Caller, bounds
from hubbub.protocol.revisions import NEWEST_LEGACY
from hubbub.security.api_keys import append_record, generate_key
from hubbub.server.http.sessions import Sessions
from hubbub.server.subscriptions import Broadcaster

STREAM = {"Accept": "text/event-stream"}
SESSION_BYTES = 3 * 1024
OPENERS = 8
CAPABILITIES = {"elicitation": {}, "sampling": {}, "roots": {"listChanged": True}}
HANDSHAKE = json.dumps(initialize_request(capabilities=CAPABILITIES)).encode()


async def open_sessions(site: Site, number: int) -> list[int]:
    """Open this number of sessions without using them; return the HTTP statuses."""

    async def open_some(count: int) -> list[int]:
        statuses = []
        async with site.connect() as link:
            for _ in range(count):
                await link.send_request("POST", "/mcp", JSON | {"Accept": BOTH_MEDIA_TYPES}, HANDSHAKE)
                statuses.append((await link.read_response()).status)
        return statuses

    found = await asyncio.gather(*(open_some(number // OPENERS) for _ in range(OPENERS)))
    return [status for statuses in found for status in statuses]


async def open_sessions_pipelined(site: Site, number: int, row: int = 50) -> int:
    """Open sessions with pipelined requests on one connection; return how many were accepted."""
    fields = JSON | {"Host": "127.0.0.1", "Accept": BOTH_MEDIA_TYPES, "Content-Length": str(len(HANDSHAKE))}
    opened = 0
    async with site.connect() as link:
        for _ in range(number // row):
            await link.send((head("POST", "/mcp", fields) + HANDSHAKE) * row)
            answers = b""
            while answers.count(b"HTTP/1.1 ") < row or not answers.endswith(b"}"):
                answers += await link.reader.read(1 << 20)
            opened += answers.count(b"HTTP/1.1 200")
    return opened


# -- sessions ------------------------------------------------------------------------------------


async def test_an_idle_session_uses_little_memory() -> None:
    async with run_server() as here:
        await open_sessions(here.site, 200)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            assert set(await open_sessions(here.site, 1000)) == {200}
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()
        assert (await here.count_resources()).sessions == 1200
        assert grown / 1000 <= SESSION_BYTES


def test_ten_thousand_idle_sessions_use_little_memory_and_expire() -> None:
    now = [0.0]
    broadcaster = Broadcaster()
    sessions = Sessions(broadcaster, idle_s=60, clock=lambda: now[0])
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10_000):
            sessions.open(Caller(revision=NEWEST_LEGACY, capabilities={"elicitation": {}}))
        assert tracemalloc.get_traced_memory()[0] - before <= 10_000 * SESSION_BYTES
        now[0] = 61
        sessions.sweep()
        gc.collect()
        assert (len(sessions), len(broadcaster)) == (0, 0)
        # Empty hash tables keep their size.
        assert tracemalloc.get_traced_memory()[0] - before <= 1_000_000
    finally:
        tracemalloc.stop()


async def test_ten_thousand_sessions_over_http_use_little_memory() -> None:
    with ServerProcess(str(PLAYGROUND), "--max-sessions", "10400", "--log-level", "error") as own:
        process = psutil.Process(own.pid)
        assert (
            await open_sessions_pipelined(own.site, 400) == 400
        )  # memory that the first sessions allocate stays allocated
        before = process.memory_info().rss
        assert await open_sessions_pipelined(own.site, 10_000) == 10_000
        grown = process.memory_info().rss - before
        figures = (await own.site.get("/metrics")).body
        assert b"\nhubbub_sessions 10400.0\n" in figures
        assert grown / 10_000 <= SESSION_BYTES
        assert (await own.site.post(initialize_request())).status == 503
        assert (await own.site.post(*modern_request("tools/list"))).status == 200


async def test_a_flood_of_handshakes_is_refused_and_open_sessions_are_not_affected() -> None:
    async with run_server(max_sessions=50) as here:
        session = await open_session(here.site)
        async with session.listen() as stream:
            await stream.next()
            statuses = await open_sessions(here.site, 200)
            assert statuses.count(200) == 49
            assert statuses.count(503) == 151
            assert (await here.count_resources()).sessions == 50
            refused = await here.site.post(initialize_request())
            assert (refused.status, refused.code, refused.header("mcp-session-id")) == (503, -32603, None)
            assert refused.json["error"]["data"] == {"reason": "overloaded", "limit": 50}
            assert (await session.post(request("ping"))).json["result"] == {}
            await here.site.post(call("add_tool", {"name": "new"}))
            assert (await stream.message())["params"]["toolName"] == "new"
        await session.end()
        assert (await here.site.post(initialize_request())).status == 200
        assert (await here.site.post(*modern_request("tools/list"))).status == 200


async def test_sessions_of_a_flood_expire_and_make_room() -> None:
    async with run_server(max_sessions=20, session_idle_s=600) as here:
        await open_sessions(here.site, 40)
        assert (await here.site.post(initialize_request())).status == 503
        await advance_and_settle(601)
        assert (await here.site.post(initialize_request())).status == 200


@pytest.mark.parametrize("size", [100_000, 3_000_000])
async def test_oversized_capabilities_open_no_session(size: int) -> None:
    async with run_server() as here:
        long = {"experimental": {"x": "y" * size}}
        answer = await here.site.post(initialize_request(capabilities=long))
        assert (answer.status, answer.code) == (413, -32600)
        assert (await here.count_resources()).sessions == 0


async def test_calls_of_one_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 5)
    async with run_server() as here:
        session, other = await open_session(here.site), await open_session(here.site)
        waiting = [asyncio.create_task(session.post(call("wait", {"name": "a"}, id=number))) for number in range(8)]
        async with asyncio.timeout(60):
            while sum(task.done() for task in waiting) < 3:
                await asyncio.sleep(0.02)
        assert (await other.post(request("ping"))).status == 200
        await here.site.post(call("open_door", {"name": "a"}))
        answers = await asyncio.gather(*waiting)
        assert sorted(answer.status for answer in answers) == [200] * 5 + [503] * 3


# -- streams ---------------------------------------------------------------------------------------


async def open_streams(here: RunningServer | ServerProcess, number: int) -> list[RawConnection]:
    """Open this number of idle streams."""
    links = []
    for _ in range(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", here.site.port)
        link = RawConnection(reader, writer)
        await link.send_request("GET", "/mcp", STREAM)
        links.append(link)
    for link in links:
        assert (await link.read_head())[0] == 200
    return links


async def test_a_thousand_streams_are_notified_of_a_change_and_leave_no_resources() -> None:
    async with run_server() as here:
        before = await here.count_resources()
        links = await open_streams(here, 1000)
        during = await here.count_resources()
        assert (during.streams, during.listeners) == (1000, before.listeners + 1000)
        assert during.tasks - before.tasks <= 1000
        assert (await here.site.post(request("ping"))).status == 200
        await here.site.post(call("add_tool", {"name": "new"}))
        async with asyncio.timeout(60):
            received = await asyncio.gather(*(anext(link.chunks()) for link in links))
        assert all(b'"toolName":"new"' in event for event in received)
        for number, link in enumerate(links):
            link.abort() if number % 2 else link.close()
        await here.wait_for_count(before)


async def test_two_and_a_half_thousand_streams_are_notified_and_leave_no_resources() -> None:
    with ServerProcess(str(PLAYGROUND), "--log-level", "error") as own:
        process = psutil.Process(own.pid)
        usual = process.num_fds()
        links = await open_streams(own, 2500)
        assert b"\nhubbub_streams 2500.0\n" in (await own.site.get("/metrics")).body
        await own.site.post(call("add_tool", {"name": "new"}))
        async with asyncio.timeout(60):
            received = await asyncio.gather(*(anext(link.chunks()) for link in links))
        assert all(b'"toolName":"new"' in event for event in received)
        for number, link in enumerate(links):
            link.abort() if number % 2 else link.close()
        async with asyncio.timeout(60):
            while process.num_fds() > usual or b"\nhubbub_streams 0.0\n" not in (await own.site.get("/metrics")).body:
                await asyncio.sleep(0.1)


async def test_one_stream_too_many_is_refused_and_the_others_stay_open() -> None:
    async with run_server(max_streams=5) as here:
        before = await here.count_resources()
        links = await open_streams(here, 5)
        refused = await here.site.get("/mcp", STREAM)
        assert (refused.status, refused.json["error"]["data"]["reason"]) == (503, "overloaded")
        await here.site.post(call("add_tool", {"name": "new"}))
        assert b"new" in await anext(links[0].chunks())
        for link in links:
            link.close()
        await here.wait_for_count(before)
        for link in await open_streams(here, 5):
            link.close()


async def test_streams_of_one_session_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "STREAMS_PER_SESSION", 3)
    async with run_server() as here:
        session = await open_session(here.site)
        async with session.listen() as one, session.listen() as two, session.listen() as three:
            assert [(await stream.next()) is not None for stream in (one, two, three)] == [True] * 3
            assert (await here.site.get("/mcp", session.headers)).status == 503
            assert (await session.post(request("ping"))).status == 200


async def test_memory_is_constant_while_callers_connect_and_disconnect() -> None:
    async with run_server() as here:

        async def round_of_callers() -> None:
            session = await open_session(here.site)
            async with session.call(call("count", {"to": 20}, token=1)) as stream:
                await stream.rest()
            links = await open_streams(here, 20)
            await here.site.post(call("add_tool", {"name": "new"}))
            await here.site.post(call("drop_tool", {"name": "new"}))
            for link in links:
                link.abort()
            await here.site.post([request("echo", {"text": "x" * 10_000}, id=number) for number in range(50)])
            await session.end()

        for _ in range(3):
            await round_of_callers()
        before = await here.count_resources()
        gc.collect()
        tracemalloc.start()
        try:
            start = tracemalloc.get_traced_memory()[0]
            for _ in range(10):
                await round_of_callers()
            await here.wait_for_count(before)
            gc.collect()
            # Events of ended streams are evicted gradually from a bounded store.
            assert tracemalloc.get_traced_memory()[0] - start < 1_000_000
        finally:
            tracemalloc.stop()


# -- credentials ---------------------------------------------------------------------------------------


async def test_many_wrong_credentials_use_no_memory_and_affect_no_other_caller(tmp_path: Path) -> None:
    keys = tmp_path / "keys.toml"
    key, record = generate_key("ada")
    append_record(keys, record)
    async with run_server(key_file=str(keys)) as here:
        known = {"X-API-Key": key}
        session = await open_session(here.site, headers=known)
        wrong: list[dict[str, Any]] = [
            {},
            {"X-API-Key": "x"},
            {"X-API-Key": "hb_" + "f" * 8 + "_" + "0" * 48},
            {"Authorization": "Bearer " + "x" * 7000},
            {"Authorization": "Bearer a.b.c"},
            {"X-API-Key": "\xff\xfe"},
        ]
        async with here.site.connect() as link:
            for number in range(300):
                await link.send_request(
                    "POST", "/mcp", JSON | wrong[number % len(wrong)], json.dumps(initialize_request()).encode()
                )
                assert (await link.read_response()).status == 401
                if number % 50 == 0:
                    assert (await session.post(request("ping"))).status == 200
        assert (await here.site.get("/metrics", known)).body.count(b"hubbub_sessions 1") == 1


async def test_a_thousand_rounds_without_retries_are_limited() -> None:
    async with run_server() as here:
        async with here.site.connect() as link:
            body, headers = modern_request("tools/call", {"name": "greet"}, capabilities={"elicitation": {}})
            for _ in range(bounds.ROUNDS + 50):
                await link.send_request("POST", "/mcp", JSON | headers, json.dumps(body).encode())
                assert (await link.read_response()).status in (200, 503)
        assert (await here.count_resources()).rounds <= bounds.ROUNDS
        assert (await here.site.post(request("ping"))).status == 200


def test_the_limit_of_listen_streams_covers_all_sessions_and_connections() -> None:
    assert bounds.LISTEN_STREAMS >= bounds.SESSIONS + bounds.CONNECTIONS
