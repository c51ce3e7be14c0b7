"""Plain JSON-RPC over HTTP: no handshake, stateless cookies, tools as methods, batches."""

import asyncio
import gc
import re
import socket
import tracemalloc

import pytest
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import JSON, Site, call, request

COOKIE = re.compile(r"mcp_session=([\w-]+\.[0-9a-f]+); Path=/; HttpOnly; SameSite=Strict")


async def test_a_first_request_is_served_and_gets_a_cookie(demo: Site) -> None:
    answer = await demo.post(request("ping"))
    assert answer.body == b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert COOKIE.fullmatch(str(answer.header("set-cookie")))
    assert answer.header("mcp-session-id") is None


async def test_the_cookie_is_set_only_once(demo: Site) -> None:
    cookie = str((await demo.post(request("ping"))).header("set-cookie")).split(";")[0]
    for _ in range(3):
        answer = await demo.post(request("ping"), {"Cookie": cookie})
        assert (answer.status, answer.header("set-cookie")) == (200, None)


async def test_the_cookie_identifies_the_state_of_the_caller(playground: Site) -> None:
    first = await playground.post(request("who"))
    cookie = str(first.header("set-cookie")).split(";")[0]
    second = await playground.post(request("who"), {"Cookie": cookie})
    other = await playground.post(request("who"))
    assert first.json["result"]["scope"] == second.json["result"]["scope"] == cookie.removeprefix("mcp_session=")
    assert other.json["result"]["scope"] != first.json["result"]["scope"]


@pytest.mark.parametrize("forged", ["", "x", "x.y", ".", "AAAAAAAAAAAAAAAAAAAAAA." + "0" * 22, "ü.ü", "a" * 5000])
async def test_a_cookie_that_we_did_not_issue_is_replaced(demo: Site, forged: str) -> None:
    answer = await demo.post(request("ping"), {"Cookie": f"mcp_session={forged}"})
    assert answer.status == 200
    assert COOKIE.fullmatch(str(answer.header("set-cookie")))


async def test_cookies_use_no_server_memory() -> None:
    async with run_server() as instance:

        async def memory_after(requests: int) -> int:
            for _ in range(requests):
                assert (await instance.site.post(request("ping"))).header("set-cookie") is not None
            await instance.wait_for_count(idle)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        idle = await instance.count_resources()
        tracemalloc.start()
        try:
            # Load and cache everything before measuring.
            before = await memory_after(100)
            # Storing one cookie would take more than a hundred bytes.
            assert await memory_after(400) - before < 400 * 50
        finally:
            tracemalloc.stop()


async def test_a_tool_called_as_a_method_returns_its_bare_value(demo: Site) -> None:
    answer = await demo.post(request("echo", {"text": "x"}))
    assert answer.body == b'{"jsonrpc":"2.0","id":1,"result":{"echo":"x"}}'
    assert (await demo.post(request("echo", {"text": 1}))).code == -32003
    assert (await demo.post(request("echo"))).code == -32003


async def test_tools_called_as_methods_are_counted_as_tool_calls(demo: Site) -> None:
    async def count_calls(method: str, outcome: str) -> float:
        figures = (await demo.get("/metrics")).body.decode()
        labels = f'{{era="plain",method="{method}",outcome="{outcome}"}}'
        found = [line for line in figures.splitlines() if line.startswith("hubbub_") and f"_count{labels}" in line]
        return float(found[0].split()[-1]) if found else 0.0

    series = [("tools/call", "ok"), ("tools/call", "tool_error"), ("other", "ok"), ("other", "error")]
    before = [await count_calls(*one) for one in series]
    await demo.post(request("echo", {"text": "x"}))
    await demo.post(request("echo", {"text": 1}))
    await demo.post(request("no/such"))
    assert [now - then for now, then in zip([await count_calls(*one) for one in series], before, strict=True)] == [
        1,
        1,
        0,
        1,
    ]


async def test_a_batch_is_answered_by_one_array(demo: Site) -> None:
    batch = [
        request("ping", id="a"),
        {"jsonrpc": "2.0", "method": "ping"},
        request("echo", {"text": "x"}, id="b"),
        {"nonsense": 1},
        request("no/such", id="c"),
        [request("ping")],
        request("initialize", {"protocolVersion": "2025-06-18"}, id="d"),
    ]
    answer = await demo.post(batch)
    assert answer.status == 200
    assert COOKIE.fullmatch(str(answer.header("set-cookie")))
    found = [(one["id"], one.get("error", {}).get("code")) for one in answer.json]
    assert found == [("a", None), ("b", None), (None, -32600), ("c", -32601), (None, -32600), ("d", -32600)]


async def test_duplicate_ids_in_a_batch_are_refused(demo: Site) -> None:
    answer = await demo.post([request("ping", id=1), request("ping", id=1), request("ping", id="1")])
    assert [(one["id"], one.get("error", {}).get("code")) for one in answer.json] == [
        (1, None),
        (None, -32600),
        ("1", None),
    ]


async def test_an_empty_method_is_unknown_in_every_dialect(demo: Site) -> None:
    legacy = await open_session(demo)
    batching = await open_session(demo, "2025-03-26")
    nameless = request("")
    body, headers = modern_request("")
    answers = [await demo.post(nameless), await legacy.post(nameless), await demo.post(body, headers)]
    assert [(answer.status, answer.code, answer.json["id"]) for answer in answers] == [
        (200, -32601, 1),
        (200, -32601, 1),
        (404, -32601, 1),
    ]
    for answer in (await demo.post([nameless, request("ping", id=2)]), await batching.post([nameless])):
        assert answer.json[0]["error"]["code"] == -32601
    assert (await legacy.post({"jsonrpc": "2.0", "method": ""})).status == 202


async def test_an_empty_or_too_long_batch_is_refused(demo: Site) -> None:
    assert (await demo.request("POST", "/mcp", JSON, b"[]")).code == -32600
    assert (await demo.post([request("ping")] * 257)).code == -32600
    assert len((await demo.post([request("ping")] * 256)).json) == 256


async def test_a_batch_of_notifications_has_no_answer(demo: Site) -> None:
    answer = await demo.post([{"jsonrpc": "2.0", "method": "ping"}] * 2)
    assert (answer.status, answer.body) == (202, b"")


async def test_null_and_fractional_ids_are_accepted(demo: Site) -> None:
    assert b'"id":null' in (await demo.post(request("ping", id=None))).body
    assert b'"id":1.5' in (await demo.post(request("ping", id=1.5))).body


async def test_a_listener_is_notified_of_list_changes_but_not_of_resource_updates() -> None:
    async with run_server() as instance, instance.site.stream("GET", "/mcp", {"Accept": "text/event-stream"}) as stream:
        assert stream.status == 200
        assert stream.headers["content-type"] == "text/event-stream"
        assert COOKIE.fullmatch(stream.headers["set-cookie"])
        await instance.site.post(call("touch", {"uri": "note://one"}))
        await instance.site.post(call("add_tool", {"name": "new"}))
        event = await stream.next()
        assert event is not None
        assert (event.json["method"], event.json["params"]["toolName"]) == ("notifications/tools/list_changed", "new")
        assert event.id is None  # the stream cannot be resumed


@pytest.mark.parametrize("accept", [None, "*/*", "text/*", "text/event-stream;q=0.5"])
async def test_accept_headers_that_allow_listening(demo: Site, accept: str | None) -> None:
    async with demo.connect() as link:
        await link.send_request("GET", "/mcp", {} if accept is None else {"Accept": accept})
        assert (await link.read_head())[0] == 200


async def test_listening_without_accepting_event_streams_is_406(demo: Site) -> None:
    assert (await demo.get("/mcp", {"Accept": "application/json"})).status == 406


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
async def test_a_body_with_another_content_type_is_415(demo: Site, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    answer = await demo.request("POST", "/mcp", headers, request("ping"))
    assert (answer.status, answer.code) == (415, -32600)


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", "application/json ;x=y"])
async def test_accepted_content_types_of_json(demo: Site, kind: str) -> None:
    assert (await demo.request("POST", "/mcp", {"Content-Type": kind}, request("ping"))).status == 200


async def test_several_requests_share_one_connection(demo: Site) -> None:
    async with demo.connect() as link:
        for _ in range(5):
            await link.send_request("POST", "/mcp", JSON, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
            assert (await link.read_response()).json["result"] == {}


async def test_small_responses_are_sent_without_delay() -> None:
    async with run_server() as instance, instance.site.connect() as link:
        await link.send_request("GET", "/health")
        await link.read_response()
        for connection in instance.http.connections:
            accepted = connection.transport.get_extra_info("socket")
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


async def test_pipelined_requests_are_answered_in_order(demo: Site) -> None:
    async with demo.connect() as link:
        for number in range(5):
            await link.send_request("POST", "/mcp", JSON, b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number)
        assert [(await link.read_response()).json["id"] for _ in range(5)] == list(range(5))


async def test_a_thousand_concurrent_callers_are_all_answered(demo: Site) -> None:
    async def one(number: int) -> int:
        return int((await demo.post(request("ping", id=number))).json["id"])

    for start in range(0, 1000, 200):
        wanted = range(start, start + 200)
        assert await asyncio.gather(*map(one, wanted)) == list(wanted)
