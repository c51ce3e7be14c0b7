"""A remote upstream in every era and over every transport, for callers of every era."""

import asyncio
from typing import Any

import pytest
from tests.clock import wait_until
from tests.hub.upstream_callers import (
    ALL_CAPABILITIES,
    LEGACY,
    MODERN,
    RecordingReturnPath,
    call_tool,
    call_until_complete,
    make_caller,
    request_result,
    result_text,
)
from tests.hub.upstreams import TRANSPORTS_AND_VERSIONS, interop_upstream

from hubbub import ChangeEvent, RemoteError, ResourceNotFound, Revision
from hubbub.protocol.revisions import PLAIN, R2024_11_05, R2025_03_26

each_transport = pytest.mark.parametrize(
    ("transport", "version"), TRANSPORTS_AND_VERSIONS, ids=[f"{case[0]}-{case[1]}" for case in TRANSPORTS_AND_VERSIONS]
)
callers = pytest.mark.parametrize("revision", [MODERN, LEGACY], ids=["modern", "legacy"])


@each_transport
async def test_a_remote_upstream_lists_entries_unchanged(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        phase = upstream.state.phase
        assert phase == "idle"
        await upstream.refresh()
        snapshot = upstream.snapshot
        tools = {entry.name: entry for entry in snapshot.tools}
        assert list(tools)[:3] == ["echo", "add", "count"]
        assert tools["echo"].annotations.read_only_hint is True
        assert b'"Give the text back."' in bytes(tools["echo"].members["description"])
        assert [entry.name for entry in snapshot.prompts] == ["greeting"]
        assert "memo://static" in [entry.name for entry in snapshot.resources]
        assert [entry.name for entry in snapshot.templates] == ["memo://people/{name}"]
        assert snapshot.instructions == "Ask for an echo."
        assert (snapshot.name, snapshot.version, snapshot.title) == ("interop", "1.2.3", "Interop fixture")
        assert snapshot.revision is not None
        assert upstream.state.phase == "ready"
        assert not upstream.state.is_stale


@each_transport
@callers
async def test_results_are_in_the_revision_of_the_caller(
    transport: str, version: str | None, revision: Revision
) -> None:
    async with interop_upstream(transport, version) as upstream:
        await upstream.refresh()
        sender = make_caller(revision)
        found = await call_tool(upstream, "echo", {"text": "grüß dich"}, sender)
        assert result_text(found) == "grüß dich"
        assert ("resultType" in found) == (revision is MODERN)
        assert found.get("resultType", "complete") == "complete"
        sum_ = await call_tool(upstream, "add", {"a": 2, "b": 3}, sender)
        assert sum_["structuredContent"] == {"total": 5, "terms": [2, 3]}
        failed = await call_tool(upstream, "failing", {}, sender)
        assert failed["isError"] is True
        is_bare = revision is MODERN and version == MODERN.version
        assert (await call_tool(upstream, "count", {}, sender))["structuredContent"] == (
            42 if is_bare else {"result": 42}
        )
        read = await request_result(upstream, "resources/read", {"uri": "memo://static"}, sender)
        assert read["contents"][0]["text"] == "static text"
        assert ("ttlMs" in read) == (revision is MODERN)
        prompt = await request_result(
            upstream, "prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}}, sender
        )
        assert prompt["messages"][0]["content"]["text"] == "Greet Ada"
        reference = {"type": "ref/prompt", "name": "greeting"}
        params = {"ref": reference, "argument": {"name": "style", "value": "f"}}
        completed = await request_result(upstream, "completion/complete", params, sender)
        assert completed["completion"]["values"] == ["formal", "friendly"]


@each_transport
async def test_legacy_and_plain_callers_get_only_fields_of_their_revision(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        old = await call_tool(upstream, "gallery", {}, make_caller(R2024_11_05))
        assert [block["type"] for block in old["content"]] == ["text", "image", "resource", "resource", "text"]
        newer = await call_tool(upstream, "gallery", {}, make_caller(R2025_03_26))
        assert [block["type"] for block in newer["content"]] == ["text", "image", "audio", "resource", "text"]
        assert "structuredContent" not in await call_tool(upstream, "add", {"a": 1}, make_caller(R2024_11_05))
        assert list(await call_tool(upstream, "add", {"a": 1}, make_caller(PLAIN))) == ["content"]


@each_transport
@callers
async def test_progress_arrives_in_order_and_before_the_response(
    transport: str, version: str | None, revision: Revision
) -> None:
    async with interop_upstream(transport, version) as upstream:
        back = RecordingReturnPath()
        params = {"name": "slow", "arguments": {"steps": 5}, "_meta": {"progressToken": "mine"}}
        found = await request_result(upstream, "tools/call", params, make_caller(revision, level="info"), back)
        assert result_text(found) == "5 steps"
        progress = back.notes_of("notifications/progress")
        assert [item["progress"] for item in progress] == [1, 2, 3, 4, 5]
        assert {item["progressToken"] for item in progress} == {"mine"}
        assert [item["data"] for item in back.notes_of("notifications/message")] == [
            f"did step {n}" for n in range(1, 6)
        ]


@each_transport
async def test_log_messages_reach_only_callers_that_requested_them(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        for sender, count in (
            (make_caller(MODERN), 0),
            (make_caller(MODERN, level="info"), 3),
            (make_caller(MODERN, level="warning"), 0),
            (make_caller(LEGACY, scope="a"), 3),
            (make_caller(LEGACY, scope="a", level="error"), 0),
            (make_caller(PLAIN, scope="b"), 0),
        ):
            back = RecordingReturnPath()
            await call_tool(upstream, "slow", {"steps": 3}, sender, back)
            assert len(back.notes_of("notifications/message")) == count, sender


@each_transport
async def test_a_legacy_caller_gets_client_requests_while_its_call_is_open(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        back = RecordingReturnPath()
        sender = make_caller(LEGACY, ALL_CAPABILITIES, scope="one")
        assert result_text(await call_tool(upstream, "ask_name", {}, sender, back)) == "ada is 36"
        assert (
            result_text(await call_tool(upstream, "sample_haiku", {"topic": "rain"}, sender, back))
            == "m: a poem of ada"
        )
        assert "file:///ada" in result_text(await call_tool(upstream, "list_roots", {}, sender, back))
        assert [method for method, _ in back.requests] == ["elicitation/create", "sampling/createMessage", "roots/list"]
        assert result_text(await call_tool(upstream, "interview", {}, sender, back)) == "ada and ada"


@each_transport
async def test_a_modern_caller_gets_client_requests_as_input_required_results(
    transport: str, version: str | None
) -> None:
    async with interop_upstream(transport, version) as upstream:
        back = RecordingReturnPath()
        assert result_text(await call_until_complete(upstream, "ask_name", {}, back)) == "ada is 36"
        assert (
            result_text(await call_until_complete(upstream, "sample_haiku", {"topic": "rain"}, back))
            == "m: a poem of ada"
        )
        assert "file:///ada" in result_text(await call_until_complete(upstream, "list_roots", {}, back))
        assert result_text(await call_until_complete(upstream, "interview", {}, back)) == "ada and ada"
        assert len(back.requests) == 5


@each_transport
async def test_a_request_state_is_refused_from_another_caller(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        sender = make_caller(MODERN, ALL_CAPABILITIES, principal="ada")
        params: dict[str, Any] = {"name": "ask_name", "arguments": {}}
        found = await request_result(upstream, "tools/call", params, sender)
        repeated = params | {"requestState": found["requestState"], "inputResponses": {}}
        for stolen in (
            (repeated, make_caller(MODERN, ALL_CAPABILITIES, principal="eve")),
            (repeated | {"name": "interview"}, sender),
            (repeated | {"requestState": "made up"}, sender),
        ):
            with pytest.raises(Exception, match="requestState"):
                await request_result(upstream, "tools/call", *stolen)


@each_transport
@callers
async def test_a_caller_that_disconnects_cancels_the_call_at_the_upstream(
    transport: str, version: str | None, revision: Revision
) -> None:
    async with interop_upstream(transport, version) as upstream:
        before = (await call_tool(upstream, "counts"))["structuredContent"]
        back = RecordingReturnPath()
        params = {"name": "wait_forever", "arguments": {}, "_meta": {"progressToken": 1}}
        task = asyncio.create_task(request_result(upstream, "tools/call", params, make_caller(revision), back))
        await wait_until(lambda: bool(back.notes_of("notifications/progress")))
        assert upstream.state.in_flight == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        after = (await call_tool(upstream, "counts", {"cancelled": before["cancelled"] + 1}))["structuredContent"]
        assert after["cancelled"] == before["cancelled"] + 1
        assert upstream.state.in_flight == 0


@each_transport
async def test_changes_of_the_upstream_are_noticed(transport: str, version: str | None) -> None:
    changes: list[ChangeEvent] = []
    sender = make_caller(LEGACY, ALL_CAPABILITIES, scope="x")
    async with interop_upstream(transport, version) as upstream:
        upstream.on_change = lambda _, change: changes.append(change)
        await upstream.refresh()
        assert {change.kind for change in changes} == {"tools", "prompts", "resources"}
        await upstream.subscribe("memo://watched")
        changes.clear()
        name = f"late_{transport}_{version}".replace("-", "_")
        await call_tool(upstream, "register_tool", {"name": name}, sender)
        await wait_until(lambda: ChangeEvent("tools") in changes)
        assert name in [entry.name for entry in upstream.snapshot.tools]
        await call_tool(upstream, "unregister_tool", {"name": name}, sender)
        await wait_until(lambda: name not in [entry.name for entry in upstream.snapshot.tools])
        changes.clear()
        await call_tool(upstream, "touch_resource", {}, sender)
        await wait_until(lambda: ChangeEvent("resource", "memo://watched") in changes)
        await upstream.unsubscribe("memo://watched")
        changes.clear()
        await call_tool(upstream, "touch_resource", {}, sender)
        await call_tool(upstream, "echo", {"text": "a"}, sender)
        assert not changes


@each_transport
@callers
async def test_errors_are_in_the_dialect_of_the_caller(transport: str, version: str | None, revision: Revision) -> None:
    async with interop_upstream(transport, version) as upstream:
        with pytest.raises(ResourceNotFound) as missing:
            await request_result(upstream, "resources/read", {"uri": "memo://nowhere"}, make_caller(revision))
        assert missing.value.uri == "memo://nowhere"
        with pytest.raises(RemoteError) as unknown:
            await call_tool(upstream, "no-such-tool", {}, make_caller(revision))
        assert unknown.value.code == -32602
        assert upstream.state.failures == 0
