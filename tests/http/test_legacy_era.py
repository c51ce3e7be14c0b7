"""The session era over HTTP: how a session is opened, named, kept apart and ended."""

import asyncio
from typing import Any

import pytest
from tests.http.eras import BOTH, NEWEST_LEGACY, handshake, open_session
from tests.http.in_process import running
from tests.http.wire import PATIENCE_S, Site, call, request

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY]
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_handshake_opens_a_session_of_the_asked_revision(demo: Site, version: str) -> None:
    answer = await demo.post(handshake(version), {"Accept": BOTH})
    assert answer.status == 200
    assert answer.json["result"]["protocolVersion"] == version
    name = answer.header("mcp-session-id")
    assert name is not None
    assert answer.header("set-cookie") == f"mcp_session={name}; Path=/; HttpOnly; SameSite=Strict"
    listed = await demo.post(request("tools/list"), {"Mcp-Session-Id": name, "MCP-Protocol-Version": version})
    assert listed.status == 200
    assert listed.header("set-cookie") is None


async def test_an_unknown_revision_is_answered_with_the_newest(demo: Site) -> None:
    for version in ("1999-01-01", "2026-07-28", "nonsense"):
        answer = await demo.post(handshake(version), {"Accept": BOTH})
        assert answer.json["result"]["protocolVersion"] == NEWEST_LEGACY


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", BOTH, "text/html, */*;q=0.8"])
async def test_a_missing_or_loose_accept_is_taken(demo: Site, accept: str | None) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = await demo.post(handshake(), headers)
    assert (answer.status, answer.header("content-type")) == (200, "application/json")


async def test_a_handshake_without_capabilities_is_taken(demo: Site) -> None:
    answer = await demo.post(request("initialize", {"protocolVersion": "2025-06-18"}))
    assert (answer.status, answer.json["result"]["protocolVersion"]) == (200, "2025-06-18")


@pytest.mark.parametrize(
    "params",
    [None, {}, {"protocolVersion": 1}, {"protocolVersion": "2025-06-18", "capabilities": []}, []],
    ids=str,
)
async def test_a_handshake_that_is_none_opens_no_session(demo: Site, params: Any) -> None:
    answer = await demo.post(request("initialize", params))
    assert (answer.status, answer.code) == (400, -32602)
    assert answer.header("mcp-session-id") is None
    assert answer.header("set-cookie") is None


@pytest.mark.parametrize("method", ["notifications/initialized", "initialized"])
async def test_both_names_of_the_last_step_are_taken(demo: Site, method: str) -> None:
    opened = await demo.post(handshake())
    name = str(opened.header("mcp-session-id"))
    answer = await demo.post({"jsonrpc": "2.0", "method": method, "params": {}}, {"Mcp-Session-Id": name})
    assert (answer.status, answer.body) == (202, b"")


async def test_a_session_is_found_by_its_cookie(demo: Site) -> None:
    opened = await demo.post(handshake("2025-06-18"))
    cookie = str(opened.header("set-cookie")).split(";")[0]
    answer = await demo.post(call("echo", {"text": "x"}), {"Cookie": f"theme=dark; {cookie}"})
    assert answer.json["result"]["structuredContent"] == {"echo": "x"}
    assert answer.header("set-cookie") is None


async def test_a_header_counts_more_than_a_cookie(demo: Site) -> None:
    opened = await demo.post(handshake("2025-06-18"))
    cookie = str(opened.header("set-cookie")).split(";")[0]
    answer = await demo.post(request("tools/list"), {"Cookie": cookie, "Mcp-Session-Id": "other"})
    assert answer.status == 404


@pytest.mark.parametrize("body", [request("tools/list"), INITIALIZED, [request("tools/list")]], ids=str)
@pytest.mark.parametrize("version", [{}, {"MCP-Protocol-Version": NEWEST_LEGACY}], ids=str)
async def test_an_unknown_session_is_404(demo: Site, body: Any, version: dict[str, str]) -> None:
    answer = await demo.post(body, {"Mcp-Session-Id": "gone", "Accept": BOTH, **version})
    assert (answer.status, answer.code) == (404, -32600)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_an_older_version_without_a_session_is_400(demo: Site, version: str, method: str) -> None:
    headers = {"MCP-Protocol-Version": version, "Content-Type": "application/json", "Accept": BOTH}
    answer = await demo.ask(method, "/mcp", headers, request("tools/list") if method == "POST" else b"")
    assert (answer.status, answer.code) == (400, -32600)


@pytest.mark.parametrize("version", ["1999-01-01", "2025-01-01"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_version_that_never_was_is_400_even_in_a_session(demo: Site, version: str, method: str) -> None:
    session = await open_session(demo)
    headers = session.headers | {"MCP-Protocol-Version": version, "Content-Type": "application/json"}
    answer = await demo.ask(method, "/mcp", headers, request("tools/list") if method == "POST" else b"")
    assert (answer.status, answer.code) == (400, -32600)
    assert (await session.post(request("ping"))).status == 200


async def test_an_ended_session_is_404(demo: Site) -> None:
    session = await open_session(demo)
    ended = await session.end()
    assert (ended.status, ended.body) == (204, b"")
    assert (await session.post(request("ping"))).status == 404
    assert (await session.end()).status == 404
    assert (await demo.get("/mcp", session.headers)).status == 404


async def test_there_is_no_session_to_end_without_one(demo: Site) -> None:
    assert (await demo.ask("DELETE", "/mcp")).status == 400


async def test_an_idle_session_ends_by_itself() -> None:
    async with running(session_idle_s=0.3) as here:
        session = await open_session(here.site)
        assert (await here.count()).sessions == 1
        async with asyncio.timeout(5):
            while (await here.count()).sessions:
                await asyncio.sleep(0.1)
        assert (await session.post(request("ping"))).status == 404


async def test_a_session_that_is_listened_to_is_not_idle() -> None:
    async with running(session_idle_s=0.2) as here:
        session = await open_session(here.site)
        async with session.listen() as stream:
            assert (await stream.next()) is not None
            await open_session(here.site)
            # The server looks at what was used longest ago first: when this one is gone, it has seen the other.
            async with asyncio.timeout(PATIENCE_S):
                while (await here.count()).sessions > 1:
                    await asyncio.sleep(0.1)
            assert (await session.post(request("ping"))).status == 200


async def test_sessions_do_not_share_subscriptions(playground: Site) -> None:
    one, two = await open_session(playground), await open_session(playground)
    await one.post(request("resources/subscribe", {"uri": "note://one"}))
    async with one.listen() as first, two.listen() as second:
        await first.next(), await second.next()
        await playground.post(call("touch", {"uri": "note://one"}))
        await playground.post(call("add_tool", {"name": "only_a_change"}))
        assert (await first.message())["method"] == "notifications/resources/updated"
        assert (await first.message())["method"] == "notifications/tools/list_changed"
        assert (await second.message())["method"] == "notifications/tools/list_changed"
    await playground.post(call("drop_tool", {"name": "only_a_change"}))


async def test_an_id_in_use_is_refused_and_the_first_call_goes_on() -> None:
    async with running() as here:
        session = await open_session(here.site)
        first = asyncio.create_task(session.post(call("wait", {"name": "a"}, id=5)))
        await here.happened("start a")
        second = await session.post(call("echo", {"text": "x"}, id=5))
        assert (second.status, second.code, second.json["id"]) == (400, -32600, None)
        await session.post(call("open_door", {"name": "a"}, id=6))
        assert (await first).json["result"]["content"][0]["text"] == "waited for a"


async def test_null_or_broken_ids_are_refused(demo: Site) -> None:
    session = await open_session(demo)
    for wrong in (None, 1.5, 1e300):
        assert (await session.post(request("ping", id=wrong))).status == 400
    for wrong in ([], {}, True):
        assert (await session.post(request("ping", id=wrong))).status == 400


async def test_a_call_of_a_batch_can_be_cancelled() -> None:
    async with running() as here:
        session = await open_session(here.site, "2025-03-26")
        batch = [call("wait", {"name": "a"}, id="x"), request("ping", id="y")]
        waiting = asyncio.create_task(session.post(batch))
        await here.happened("start a")
        doubled = await session.post(request("ping", id="x"))
        assert (doubled.status, doubled.code) == (400, -32600)
        again = await session.post([request("ping", id="x"), request("ping", id="z")])
        assert [(one["id"], "error" in one) for one in again.json] == [(None, True), ("z", False)]
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}}
        assert (await session.post(note)).status == 202
        assert [one["id"] for one in (await waiting).json] == ["y"]
        await here.happened("cancelled a")
        assert (await session.post(request("ping", id="x"))).json["result"] == {}


async def test_batches_are_part_of_one_revision_only(demo: Site) -> None:
    batch = [request("ping", id=1), INITIALIZED, request("tools/list", id=2)]
    for version in VERSIONS:
        session = await open_session(demo, version)
        answer = await session.post(batch)
        if version == "2025-03-26":
            assert [one["id"] for one in answer.json] == [1, 2]
            assert (await session.post([INITIALIZED])).status == 202
        else:
            assert (answer.status, answer.code) == (400, -32600)


async def test_errors_have_the_numbers_of_the_era(playground: Site) -> None:
    session = await open_session(playground)
    assert (await session.post(call("none"))).code == -32602
    assert (await session.post(request("resources/read", {"uri": "note://none"}))).code == -32002
    assert (await session.post(request("no/such"))).code == -32601
    assert (await session.post(request("echo", {"text": "x"}))).code == -32601
    wrong = await session.post(call("echo", {}))
    assert wrong.json["result"]["isError"] is True


async def test_a_call_is_cancelled_by_its_client_and_not_answered() -> None:
    async with running() as here:
        session = await open_session(here.site)
        call_of_a = asyncio.create_task(session.post(call("wait", {"name": "a"}, id="x")))
        await here.happened("start a")
        await session.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}})
        assert b"result" not in (await call_of_a).body
        await here.happened("cancelled a")


async def test_ending_a_session_ends_its_calls_and_streams() -> None:
    async with running() as here:
        session = await open_session(here.site)
        before = await here.count()
        async with session.listen() as stream:
            waiting = asyncio.create_task(session.post(call("wait", {"name": "a"})))
            await here.happened("start a")
            await session.end()
            await here.happened("cancelled a")
            assert b"result" not in (await waiting).body
            assert [event for event in await stream.rest() if event.data] == []
        await here.settles_at(before._replace(sessions=0, listeners=0))
