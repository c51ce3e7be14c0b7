"""The legacy era over HTTP: opening, identifying, isolating and ending sessions."""

import asyncio
import gc
import json
import tracemalloc
from typing import Any

import pytest
from tests.clock import advance_and_settle
from tests.http.eras import BOTH_MEDIA_TYPES, NEWEST_LEGACY, initialize_request, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import Site, call, request

from hubbub import bounds

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", NEWEST_LEGACY]
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.mark.parametrize("version", VERSIONS)
async def test_initialize_opens_a_session_of_the_requested_revision(demo: Site, version: str) -> None:
    answer = await demo.post(initialize_request(version), {"Accept": BOTH_MEDIA_TYPES})
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
        answer = await demo.post(initialize_request(version), {"Accept": BOTH_MEDIA_TYPES})
        assert answer.json["result"]["protocolVersion"] == NEWEST_LEGACY


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", BOTH_MEDIA_TYPES, "text/html, */*;q=0.8"])
async def test_a_missing_or_wildcard_accept_header_is_allowed(demo: Site, accept: str | None) -> None:
    headers = {} if accept is None else {"Accept": accept}
    answer = await demo.post(initialize_request(), headers)
    assert (answer.status, answer.header("content-type")) == (200, "application/json")


async def test_initialize_without_capabilities_is_accepted(demo: Site) -> None:
    answer = await demo.post(request("initialize", {"protocolVersion": "2025-06-18"}))
    assert (answer.status, answer.json["result"]["protocolVersion"]) == (200, "2025-06-18")


@pytest.mark.parametrize(
    "params",
    [None, {}, {"protocolVersion": 1}, {"protocolVersion": "2025-06-18", "capabilities": []}, []],
    ids=str,
)
async def test_an_invalid_initialize_opens_no_session(demo: Site, params: Any) -> None:
    answer = await demo.post(request("initialize", params))
    assert (answer.status, answer.code) == (400, -32602)
    assert answer.header("mcp-session-id") is None
    assert answer.header("set-cookie") is None


@pytest.mark.parametrize("method", ["notifications/initialized", "initialized"])
async def test_both_names_of_the_initialized_notification_are_accepted(demo: Site, method: str) -> None:
    opened = await demo.post(initialize_request())
    name = str(opened.header("mcp-session-id"))
    answer = await demo.post({"jsonrpc": "2.0", "method": method, "params": {}}, {"Mcp-Session-Id": name})
    assert (answer.status, answer.body) == (202, b"")


async def test_a_session_is_found_by_its_cookie(demo: Site) -> None:
    opened = await demo.post(initialize_request("2025-06-18"))
    cookie = str(opened.header("set-cookie")).split(";")[0]
    answer = await demo.post(call("echo", {"text": "x"}), {"Cookie": f"theme=dark; {cookie}"})
    assert answer.json["result"]["structuredContent"] == {"echo": "x"}
    assert answer.header("set-cookie") is None


async def test_the_cookie_of_an_ended_session_gets_404_and_is_deleted(demo: Site) -> None:
    opened = await demo.post(initialize_request())
    cookie = {"Cookie": str(opened.header("set-cookie")).split(";")[0]}
    assert (await demo.request("DELETE", "/mcp", cookie)).status == 204
    for body in (request("tools/list"), [request("tools/list")], INITIALIZED):
        answer = await demo.post(body, cookie)
        assert (answer.status, answer.code) == (404, -32600)
        assert "Max-Age=0" in str(answer.header("set-cookie"))
    assert (await demo.get("/mcp", cookie)).status == 404
    assert (await demo.request("DELETE", "/mcp", cookie)).status == 404
    assert (await demo.post(initialize_request(), cookie)).status == 200


async def test_after_a_restart_session_cookies_get_404_and_plain_cookies_are_served() -> None:
    async with run_server() as before:
        plain, session = [
            str((await before.site.post(body)).header("set-cookie")).split(";")[0]
            for body in (request("ping"), initialize_request())
        ]
    async with run_server() as after:
        assert (await after.site.post(request("ping"), {"Cookie": plain})).status == 200
        assert (await after.site.post(request("ping"), {"Cookie": session})).status == 404


async def test_the_session_header_overrides_the_cookie(demo: Site) -> None:
    opened = await demo.post(initialize_request("2025-06-18"))
    cookie = str(opened.header("set-cookie")).split(";")[0]
    answer = await demo.post(request("tools/list"), {"Cookie": cookie, "Mcp-Session-Id": "other"})
    assert answer.status == 404


@pytest.mark.parametrize("body", [request("tools/list"), INITIALIZED, [request("tools/list")]], ids=str)
@pytest.mark.parametrize("version", [{}, {"MCP-Protocol-Version": NEWEST_LEGACY}], ids=str)
async def test_an_unknown_session_is_404(demo: Site, body: Any, version: dict[str, str]) -> None:
    answer = await demo.post(body, {"Mcp-Session-Id": "gone", "Accept": BOTH_MEDIA_TYPES, **version})
    assert (answer.status, answer.code) == (404, -32600)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_legacy_version_without_a_session_is_400(demo: Site, version: str, method: str) -> None:
    headers = {"MCP-Protocol-Version": version, "Content-Type": "application/json", "Accept": BOTH_MEDIA_TYPES}
    answer = await demo.request(method, "/mcp", headers, request("tools/list") if method == "POST" else b"")
    assert (answer.status, answer.code) == (400, -32600)


@pytest.mark.parametrize("version", ["1999-01-01", "2025-01-01"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_an_unknown_version_is_400_even_in_a_session(demo: Site, version: str, method: str) -> None:
    session = await open_session(demo)
    headers = session.headers | {"MCP-Protocol-Version": version, "Content-Type": "application/json"}
    answer = await demo.request(method, "/mcp", headers, request("tools/list") if method == "POST" else b"")
    assert (answer.status, answer.code) == (400, -32600)
    assert (await session.post(request("ping"))).status == 200


async def test_an_ended_session_is_404(demo: Site) -> None:
    session = await open_session(demo)
    ended = await session.end()
    assert (ended.status, ended.body) == (204, b"")
    assert (await session.post(request("ping"))).status == 404
    assert (await session.end()).status == 404
    assert (await demo.get("/mcp", session.headers)).status == 404


async def test_delete_without_a_session_is_refused(demo: Site) -> None:
    assert (await demo.request("DELETE", "/mcp")).status == 400


async def test_an_idle_session_expires() -> None:
    async with run_server(session_idle_s=600) as instance:
        session = await open_session(instance.site)
        assert (await instance.count_resources()).sessions == 1
        await advance_and_settle(601)
        assert (await instance.count_resources()).sessions == 0
        assert (await session.post(request("ping"))).status == 404


async def test_a_session_with_an_open_stream_does_not_expire() -> None:
    async with run_server(session_idle_s=600) as instance:
        session = await open_session(instance.site)
        async with session.listen() as stream:
            assert (await stream.next()) is not None
            await open_session(instance.site)
            await advance_and_settle(601)
            assert (await instance.count_resources()).sessions == 1
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


async def test_an_id_in_use_is_refused_and_the_first_call_continues() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        first = asyncio.create_task(session.post(call("wait", {"name": "a"}, id=5)))
        await instance.wait_for_history("start a")
        second = await session.post(call("echo", {"text": "x"}, id=5))
        assert (second.status, second.code, second.json["id"]) == (400, -32600, None)
        await session.post(call("open_door", {"name": "a"}, id=6))
        assert (await first).json["result"]["content"][0]["text"] == "waited for a"


async def test_null_and_invalid_ids_are_refused(demo: Site) -> None:
    session = await open_session(demo)
    wrongs: tuple[object, ...] = (None, 1.5, 1e300, [], {}, True)
    for wrong in wrongs:
        assert (await session.post(request("ping", id=wrong))).status == 400


async def test_ids_in_a_batch_follow_the_same_rule(demo: Site) -> None:
    session = await open_session(demo, "2025-03-26")
    answer = await session.post([request("ping", id=1.5), request("ping", id=2)])
    assert [(one["id"], "error" in one) for one in answer.json] == [(1.5, True), (2, False)]


async def test_a_call_of_a_batch_can_be_cancelled() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site, "2025-03-26")
        batch = [call("wait", {"name": "a"}, id="x"), request("ping", id="y")]
        waiting = asyncio.create_task(session.post(batch))
        await instance.wait_for_history("start a")
        doubled = await session.post(request("ping", id="x"))
        assert (doubled.status, doubled.code) == (400, -32600)
        again = await session.post([request("ping", id="x"), request("ping", id="z")])
        assert [(one["id"], "error" in one) for one in again.json] == [(None, True), ("z", False)]
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}}
        assert (await session.post(note)).status == 202
        assert [one["id"] for one in (await waiting).json] == ["y"]
        await instance.wait_for_history("cancelled a")
        assert (await session.post(request("ping", id="x"))).json["result"] == {}


async def test_batches_are_accepted_in_one_revision_only(demo: Site) -> None:
    batch = [request("ping", id=1), INITIALIZED, request("tools/list", id=2)]
    for version in VERSIONS:
        session = await open_session(demo, version)
        answer = await session.post(batch)
        if version == "2025-03-26":
            assert [one["id"] for one in answer.json] == [1, 2]
            assert (await session.post([INITIALIZED])).status == 202
        else:
            assert (answer.status, answer.code) == (400, -32600)


async def test_errors_have_the_codes_of_the_era(playground: Site) -> None:
    session = await open_session(playground)
    assert (await session.post(call("none"))).code == -32602
    assert (await session.post(request("resources/read", {"uri": "note://none"}))).code == -32002
    assert (await session.post(request("no/such"))).code == -32601
    assert (await session.post(request("echo", {"text": "x"}))).code == -32601
    wrong = await session.post(call("echo", {}))
    assert wrong.json["result"]["isError"] is True


async def test_a_call_is_cancelled_by_its_client_and_not_answered() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        call_of_a = asyncio.create_task(session.post(call("wait", {"name": "a"}, id="x")))
        await instance.wait_for_history("start a")
        await session.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}})
        assert b"result" not in (await call_of_a).body
        await instance.wait_for_history("cancelled a")


async def test_ending_a_session_ends_its_calls_and_streams() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        before = await instance.count_resources()
        async with session.listen() as stream:
            waiting = asyncio.create_task(session.post(call("wait", {"name": "a"})))
            await instance.wait_for_history("start a")
            await session.end()
            await instance.wait_for_history("cancelled a")
            assert b"result" not in (await waiting).body
            assert [event for event in await stream.rest() if event.data] == []
        await instance.wait_for_count(before._replace(sessions=0, listeners=0))


def many_capabilities(count: int) -> dict[str, Any]:
    return {"elicitation": {}, **{f"a{number}": {} for number in range(count)}}


async def test_a_session_uses_little_more_memory_than_its_capabilities() -> None:
    async with run_server() as instance:
        said = many_capabilities(1000)
        await open_session(instance.site, capabilities=said)
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(20):
                await open_session(instance.site, capabilities=said)
            gc.collect()
            cost = tracemalloc.get_traced_memory()[0] / 20
        finally:
            tracemalloc.stop()
        assert cost < 3 * len(json.dumps(said))


@pytest.mark.parametrize("count", [1, 1000])
async def test_many_capabilities_are_recognised(playground: Site, count: int) -> None:
    session = await open_session(playground, capabilities=many_capabilities(count))
    async with session.call(call("greet")) as stream:
        assert (await stream.message())["method"] == "elicitation/create"


@pytest.mark.parametrize("capabilities", [[], 5, "x"])
async def test_invalid_capabilities_open_no_session(demo: Site, capabilities: Any) -> None:
    answer = await demo.post(initialize_request(capabilities=capabilities))
    assert (answer.status, answer.code) == (400, -32602)


async def test_the_size_of_client_info_and_capabilities_is_limited(demo: Site) -> None:
    large = {"x": "y" * bounds.CLIENT_INFO_BYTES}
    assert (await demo.post(initialize_request(capabilities=large))).status == 413
    with_icons = initialize_request()
    with_icons["params"]["clientInfo"]["icons"] = [{"src": "data:" + "y" * bounds.CLIENT_INFO_BYTES}]
    assert (await demo.post(with_icons)).status == 200  # icons are not stored


async def test_a_number_out_of_float_range_opens_no_session(demo: Site) -> None:
    body = json.dumps(initialize_request(capabilities={"a": 0})).replace('"a": 0', '"a": 1e999').encode()
    answer = await demo.post(body)
    assert (answer.status, answer.code) == (400, -32602)
