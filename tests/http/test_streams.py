"""Server-sent events in each era: first event, messages, resumption and end of a stream."""

import asyncio
import json
from typing import Any

import pytest
from tests.clock import yield_to_loop
from tests.http.eras import ALL_CAPABILITIES, META_PREFIX, initialize_request, modern_request, open_session
from tests.http.in_process_server import RunningServer, run_server
from tests.http.raw_http import Event, EventStream, Site, call, request

from hubbub import bounds

LISTEN = "subscriptions/listen"
ACCEPT_EVENTS = {"Accept": "text/event-stream"}


def progress_values(messages: list[Any]) -> list[Any]:
    return [one["params"]["progress"] for one in messages if one.get("method") == "notifications/progress"]


# -- the stream of one call ------------------------------------------------------------


async def test_progress_precedes_the_result_on_a_stream_that_starts_with_an_empty_event(playground: Site) -> None:
    session = await open_session(playground)
    async with session.call(call("count", {"to": 3}, token="t")) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        assert stream.headers["cache-control"] == "no-cache, no-transform"
        assert stream.headers["x-accel-buffering"] == "no"
        first, *events = await stream.rest()
    assert (first.data, first.retry) == ("", str(bounds.RETRY_MS))
    identifiers = [event.id for event in (first, *events)]
    assert None not in identifiers
    assert len(set(identifiers)) == 5
    messages = [event.json for event in events]
    assert {event.event for event in events} == {"message"}
    assert progress_values(messages) == [1, 2, 3]
    assert messages[0]["params"] == {"progressToken": "t", "progress": 1, "total": 3}
    assert messages[-1]["result"]["content"][0]["text"] == "counted to 3"


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_streams_of_older_revisions_have_no_empty_first_event(playground: Site, version: str) -> None:
    session = await open_session(playground, version)
    async with session.call(call("count", {"to": 1}, token=1)) as stream:
        events = await stream.rest()
    assert [bool(event.data) for event in events] == [True, True]
    assert [event.retry for event in events] == [None, None]


async def test_a_modern_stream_has_no_ids(playground: Site) -> None:
    body, headers = modern_request("tools/call", {"name": "count", "arguments": {"to": 2}}, progressToken=7)
    async with playground.stream("POST", "/mcp", headers, body) as stream:
        events = await stream.rest()
    assert [event.id for event in events] == [None] * 3
    assert progress_values([event.json for event in events]) == [1, 2]
    assert events[-1].json["result"]["resultType"] == "complete"


async def test_a_response_is_streamed_only_if_a_message_precedes_it(playground: Site) -> None:
    session = await open_session(playground)
    for body in (call("count", {"to": 3}), call("echo", {"text": "x"}, token=1)):
        assert (await session.post(body)).header("content-type") == "application/json"


@pytest.mark.parametrize("accept", ["application/json", "application/json;q=1, text/plain"])
async def test_a_caller_that_accepts_only_json_gets_json(playground: Site, accept: str) -> None:
    session = await open_session(playground)
    answer = await session.post(call("count", {"to": 3}, token=1), {"Accept": accept})
    assert answer.header("content-type") == "application/json"
    assert answer.json["result"]["content"][0]["text"] == "counted to 3"
    body, headers = modern_request("tools/call", {"name": "count", "arguments": {"to": 2}}, progressToken=7)
    answer = await playground.post(body, headers | {"Accept": accept})
    assert answer.header("content-type") == "application/json"


async def test_a_caller_that_accepts_only_event_streams_gets_streams(playground: Site) -> None:
    answer = await playground.post(initialize_request(), ACCEPT_EVENTS)
    assert answer.header("content-type") == "text/event-stream"
    headers = ACCEPT_EVENTS | {"Mcp-Session-Id": str(answer.header("mcp-session-id"))}
    async with playground.stream("POST", "/mcp", headers, call("echo", {"text": "x"})) as stream:
        first, last = await stream.rest()
    assert (first.data, last.json["id"]) == ("", 1)
    body, more = modern_request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    async with playground.stream("POST", "/mcp", more | ACCEPT_EVENTS, body) as stream:
        assert stream.headers["content-type"] == "text/event-stream"
        assert [event.json["id"] for event in await stream.rest()] == [1]


@pytest.mark.parametrize(("mode", "kind"), [("json", "application/json"), ("sse", "text/event-stream")])
async def test_the_response_mode_can_be_set(mode: str, kind: str) -> None:
    async with run_server(response=mode) as instance:
        session = await open_session(instance.site)
        answer = await session.post(call("count", {"to": 3}, token=1))
        assert answer.header("content-type") == kind
        body, headers = modern_request("tools/call", {"name": "count", "arguments": {"to": 2}}, progressToken=7)
        assert (await instance.site.post(body, headers)).header("content-type") == kind
        plain = await instance.site.post(call("count", {"to": 3}, token=1))
        assert plain.header("content-type") == "application/json"
        for only, wanted in (("application/json", "application/json"), ("text/event-stream", kind)):
            answer = await session.post(call("echo", {"text": "x"}), {"Accept": only})
            assert answer.header("content-type") == wanted


# -- client requests -------------------------------------------------------------------------


async def test_a_client_request_is_sent_on_the_stream_of_the_call_and_answered_by_post(playground: Site) -> None:
    session = await open_session(playground, capabilities=ALL_CAPABILITIES)
    async with session.call(call("greet")) as stream:
        question = await stream.message()
        assert (question["method"], question["params"]["message"]) == ("elicitation/create", "Who are you?")
        answer = {"action": "accept", "content": {"name": "Ada"}}
        taken = await session.post({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert (taken.status, taken.body) == (202, b"")
        assert (await stream.message())["result"]["content"][0]["text"] == "Hello, Ada!"
        assert await stream.next() is None


async def test_another_session_cannot_respond_to_a_client_request(playground: Site) -> None:
    asked = await open_session(playground, capabilities=ALL_CAPABILITIES)
    other = await open_session(playground, capabilities=ALL_CAPABILITIES)
    async with asked.call(call("greet")) as stream:
        question = await stream.message()
        wrong = {"action": "accept", "content": {"name": "Mallory"}}
        assert (await other.post({"jsonrpc": "2.0", "id": question["id"], "result": wrong})).status == 202
        assert (await playground.post({"jsonrpc": "2.0", "id": question["id"], "result": wrong})).status == 202
        await asked.post({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        assert (await stream.message())["result"]["content"][0]["text"] == "decline"


async def test_a_client_may_respond_with_an_error(playground: Site) -> None:
    session = await open_session(playground, capabilities=ALL_CAPABILITIES)
    async with session.call(call("greet")) as stream:
        question = await stream.message()
        error = {"code": -1, "message": "not now"}
        await session.post({"jsonrpc": "2.0", "id": question["id"], "error": error})
        last = await stream.message()
        assert "not now" in json.dumps(last)


# -- resumption -----------------------------------------------------------------------


async def start_and_disconnect(instance: RunningServer, session: Any, name: str) -> str:
    """Start a call and abort its connection after the first progress; return the last event id."""
    async with session.call(call("wait_streaming", {"name": name}, id=name, token=name)) as stream:
        first = await stream.next()
        event = await stream.next()
        assert first is not None
        assert event is not None
        assert progress_values([event.json]) == [1]
        await instance.wait_for_history(f"start {name}")
        stream.connection.abort()
    return str(event.id)


async def test_a_broken_stream_can_be_resumed_while_the_call_runs() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        last = await start_and_disconnect(instance, session, "a")
        async with session.listen(last) as stream:
            await instance.site.post(call("open_door", {"name": "a"}))
            messages = [event.json for event in await stream.rest()]
        assert progress_values(messages) == [2]
        assert messages[-1]["result"]["content"][0]["text"] == "waited for a"


async def test_a_result_is_stored_for_a_caller_that_reconnects_late() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        last = await start_and_disconnect(instance, session, "a")
        await instance.site.post(call("open_door", {"name": "a"}))
        await instance.wait_for_history("done a")
        events: list[Event] = []
        for _ in range(2):  # and again, if that connection broke too
            async with session.listen(last) as stream:
                events = await stream.rest()
            assert [event.id for event in events] == sorted({str(event.id) for event in events})
            assert events[-1].json["result"]["content"][0]["text"] == "waited for a"
        async with session.listen(events[0].id) as stream:
            assert len(await stream.rest()) == 1


async def test_a_client_request_waits_for_a_caller_that_reconnects() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site, capabilities=ALL_CAPABILITIES)
        async with session.call(call("greet")) as stream:
            first = await stream.next()
            assert first is not None
            stream.connection.abort()
        async with session.listen(first.id) as stream:
            question = await stream.message()
            answer = {"action": "accept", "content": {"name": "Ada"}}
            await session.post({"jsonrpc": "2.0", "id": question["id"], "result": answer})
            assert (await stream.message())["result"]["content"][0]["text"] == "Hello, Ada!"
            assert await stream.next() is None


async def test_streams_of_one_session_are_not_mixed_up() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        names = ["a", "b", "c"]
        ids = {name: await start_and_disconnect(instance, session, name) for name in names}
        for name in reversed(names):
            await instance.site.post(call("open_door", {"name": name}))
            await instance.wait_for_history(f"done {name}")
        for name in names:
            async with session.listen(ids[name]) as stream:
                messages = [event.json for event in await stream.rest()]
            assert {one["params"]["progressToken"] for one in messages if "params" in one} == {name}
            assert [one["id"] for one in messages if "id" in one] == [name]


async def test_a_session_cannot_resume_the_stream_of_another() -> None:
    async with run_server() as instance:
        owner, other = await open_session(instance.site), await open_session(instance.site)
        last = await start_and_disconnect(instance, owner, "a")
        await instance.site.post(call("open_door", {"name": "a"}))
        await instance.wait_for_history("done a")
        async with other.listen(last) as stream:
            event = await stream.next()
            assert event is not None
            assert event.data == ""  # a new stream


@pytest.mark.parametrize(
    "wrong", ["", "x", "1", "1-", "-1", "1-1-1", "99-1", "1-\u00b2", "\u00b2-1", "9" * 100, "1-" * 40]
)
async def test_a_wrong_event_id_starts_a_new_stream(playground: Site, wrong: str) -> None:
    session = await open_session(playground)
    async with session.listen(wrong) as stream:
        event = await stream.next()
        assert stream.status == 200
        assert event is not None
        assert (event.data, event.retry) == ("", str(bounds.RETRY_MS))


async def test_a_tool_can_close_its_stream_and_let_the_caller_poll() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        async with session.call(call("wait_polled", {"name": "a"}, id="p")) as stream:
            (event,) = await stream.rest()
        assert (event.data, event.retry) == ("", str(bounds.RETRY_MS))
        async with session.listen(event.id) as stream:
            await instance.site.post(call("open_door", {"name": "a"}))
            assert (await stream.message())["id"] == "p"
            assert await stream.next() is None


# -- the GET stream of a session ------------------------------------------------------------


async def test_a_session_is_notified_of_changes_on_its_get_stream() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        await session.post(request("resources/subscribe", {"uri": "note://one"}))
        async with session.listen() as stream:
            first = await stream.next()
            assert first is not None
            assert (first.data, first.retry) == ("", str(bounds.RETRY_MS))
            await instance.site.post(call("touch", {"uri": "note://two"}))
            await instance.site.post(call("touch", {"uri": "note://one"}))
            assert await stream.message() == {
                "jsonrpc": "2.0",
                "method": "notifications/resources/updated",
                "params": {"uri": "note://one"},
            }
            await instance.site.post(call("add_tool", {"name": "new"}))
            note = await stream.message()
            assert (note["method"], note["params"]["type"]) == ("notifications/tools/list_changed", "tool_added")
            await session.post(request("resources/unsubscribe", {"uri": "note://one"}))
            await instance.site.post(call("touch", {"uri": "note://one"}))
            await instance.site.post(call("drop_tool", {"name": "new"}))
            assert (await stream.message())["params"]["type"] == "tool_removed"


async def test_changes_during_a_disconnect_are_delivered_on_reconnect() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        before = await instance.count_resources()
        async with session.listen() as stream:
            first = await stream.next()
            assert first is not None
        await instance.wait_for_count(before)
        await instance.site.post(call("add_tool", {"name": "new"}))
        async with session.listen(first.id) as stream:
            assert (await stream.message())["params"]["toolName"] == "new"


async def test_with_two_get_streams_each_change_is_sent_on_one_of_them() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        async with session.listen() as one, session.listen() as two:
            await one.next(), await two.next()
            for name in ("x", "y"):
                await instance.site.post(call("add_tool", {"name": name}))
            readers = [asyncio.create_task(stream.message()) for stream in (one, two)]
            await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
            await (one if readers[0].done() else two).message()  # the second change arrives on the same stream
            await yield_to_loop()
            assert [reader.done() for reader in readers].count(True) == 1
            for task in readers:
                task.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


async def test_a_stream_resumed_twice_is_served_to_the_last_connection() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        async with session.listen() as first:
            event = await first.next()
            assert event is not None
            async with session.listen(event.id) as second:
                assert await first.next() is None
                await instance.site.post(call("add_tool", {"name": "new"}))
                assert (await second.message())["params"]["toolName"] == "new"


# -- keep-alive and subscriptions ------------------------------------------------------------


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "KEEP_ALIVE_S", 0.1)


async def wait_for_keep_alives(stream: EventStream, number: int) -> None:
    """Read until this number of keep-alives has arrived."""
    while number:
        event = await stream.next(comments=True)
        assert event is not None
        number -= event.comment == "keep-alive"


@pytest.mark.usefixtures("quickly")
async def test_idle_streams_send_keep_alives() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        body, headers = modern_request(LISTEN, {"notifications": {"toolsListChanged": True}})
        streams = [
            session.listen(),
            instance.site.stream("GET", "/mcp", ACCEPT_EVENTS),
            instance.site.stream("POST", "/mcp", headers, body),
            instance.site.stream("GET", "/sse", ACCEPT_EVENTS),
            session.call(call("wait_streaming", {"name": "a"}, id=9, token=1)),
        ]
        for opened in streams:
            async with opened as stream:
                await wait_for_keep_alives(stream, 2)
        await instance.site.post(call("open_door", {"name": "a"}))


@pytest.mark.usefixtures("quickly")
async def test_a_response_that_is_not_streamed_has_no_keep_alives() -> None:
    async with run_server() as instance:
        session = await open_session(instance.site)
        waiting = asyncio.create_task(session.post(call("wait", {"name": "a"})))
        await instance.wait_for_history("start a")
        async with session.listen() as beside:  # where keep-alives can be seen
            await wait_for_keep_alives(beside, 4)
        await instance.site.post(call("open_door", {"name": "a"}))
        assert (await waiting).json["result"]["content"][0]["text"] == "waited for a"


async def test_a_subscription_is_acknowledged_filtered_and_tagged() -> None:
    async with run_server() as instance:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["note://one"]}
        body, headers = modern_request(LISTEN, {"notifications": wanted}, id="sub")
        tag = {f"{META_PREFIX}subscriptionId": "sub"}
        async with instance.site.stream("POST", "/mcp", headers, body) as stream:
            acknowledged = await stream.message()
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            assert acknowledged["params"]["_meta"] == tag
            assert acknowledged["params"]["notifications"]["toolsListChanged"] is True
            assert acknowledged["params"]["notifications"]["resourceSubscriptions"] == ["note://one"]
            await instance.site.post(call("touch", {"uri": "note://two"}))
            await instance.site.post(call("touch", {"uri": "note://one"}))
            assert (await stream.message())["params"] == {"uri": "note://one", "_meta": tag}
            await instance.site.post(call("add_tool", {"name": "new"}))
            changed = await stream.message()
            assert changed["method"] == "notifications/tools/list_changed"
            assert changed["params"]["_meta"] == tag


async def test_subscriptions_are_independent_and_are_removed_on_disconnect() -> None:
    async with run_server() as instance:
        before = await instance.count_resources()
        one, headers = modern_request(LISTEN, {"notifications": {"toolsListChanged": True}}, id=1)
        two, _ = modern_request(LISTEN, {"notifications": {"promptsListChanged": True}}, id=2)
        async with instance.site.stream("POST", "/mcp", headers, one) as first:
            async with instance.site.stream("POST", "/mcp", headers, two) as second:
                await first.message(), await second.message()
                assert (await instance.count_resources()).listeners == before.listeners + 2
            await instance.site.post(call("add_tool", {"name": "new"}))
            assert (await first.message())["params"]["_meta"] == {f"{META_PREFIX}subscriptionId": 1}
        await instance.wait_for_count(before)


@pytest.mark.parametrize("wanted", [{"toolsListChanged": "yes"}, [], {"resourceSubscriptions": "note://one"}])
async def test_an_invalid_listen_filter_is_refused(playground: Site, wanted: Any) -> None:
    body, headers = modern_request(LISTEN, {"notifications": wanted})
    answer = await playground.post(body, headers)
    assert (answer.status, answer.code) == (400, -32602)


# -- HTTP+SSE, the transport of 2024-11-05 ----------------------------------------------------------------


async def test_http_sse_responses_are_sent_on_the_stream(playground: Site) -> None:
    async with playground.stream("GET", "/sse", ACCEPT_EVENTS) as stream:
        endpoint = await stream.next()
        assert endpoint is not None
        assert (endpoint.event, endpoint.data.startswith("/messages?session_id=")) == ("endpoint", True)

        async def post(body: Any) -> None:
            answer = await playground.post(body, path=endpoint.data)
            assert answer.status == 202

        await post(initialize_request("2024-11-05"))
        assert (await stream.message())["result"]["protocolVersion"] == "2024-11-05"
        await post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        await post(call("count", {"to": 2}, id=2, token=1))
        messages = [await stream.message() for _ in range(3)]
        assert progress_values(messages) == [1, 2]
        assert messages[-1]["id"] == 2


async def test_http_sse_refuses_messages_without_a_known_stream(playground: Site) -> None:
    for path in ("/messages", "/messages?session_id=", "/messages?session_id=none", "/messages?x=1"):
        assert (await playground.post(request("ping"), path=path)).status == 404
    assert (await playground.get("/messages")).status == 405
    assert (await playground.post(request("ping"), path="/sse")).status == 405


async def test_http_sse_limits_concurrent_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "IN_FLIGHT", 3)
    async with run_server() as instance, instance.site.stream("GET", "/sse", ACCEPT_EVENTS) as stream:
        endpoint = await stream.next()
        assert endpoint is not None
        statuses = [
            (await instance.site.post(call("wait", {"name": "a"}, id=number), path=endpoint.data)).status
            for number in range(5)
        ]
        assert statuses == [202, 202, 202, 503, 503]
        await instance.site.post(call("open_door", {"name": "a"}))
        assert {(await stream.message())["id"] for _ in range(3)} == {0, 1, 2}


async def test_http_sse_clients_get_only_their_own_responses(playground: Site) -> None:
    async with (
        playground.stream("GET", "/sse", ACCEPT_EVENTS) as one,
        playground.stream("GET", "/sse", ACCEPT_EVENTS) as two,
    ):
        scopes = set()
        for stream in (one, two):
            endpoint = await stream.next()
            assert endpoint is not None
            await playground.post(request("who"), path=endpoint.data)
            scopes.add((await stream.message())["result"]["scope"])
    assert len(scopes) == 2
    assert "process" not in scopes


async def test_an_http_sse_client_that_disconnects_cancels_its_calls() -> None:
    async with run_server() as instance:
        before = await instance.count_resources()
        async with instance.site.stream("GET", "/sse", ACCEPT_EVENTS) as stream:
            endpoint = await stream.next()
            assert endpoint is not None
            await instance.site.post(call("wait", {"name": "a"}), path=endpoint.data)
            await instance.wait_for_history("start a")
        await instance.wait_for_history("cancelled a")
        await instance.wait_for_count(before)
