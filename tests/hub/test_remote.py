"""One server behind the hub: every era and transport, for callers of every era."""

import asyncio
from typing import Any

import pytest
from tests.clock import until
from tests.hub.callers import EVERYTHING, LEGACY, MODERN, Back, asked_by_result, caller, result, text, tool
from tests.hub.ends import WAYS, interop_upstream

from hubbub import Change, RemoteError, ResourceNotFound, Revision
from hubbub.protocol.revisions import PLAIN, R2024_11_05, R2025_03_26

ways = pytest.mark.parametrize(("transport", "version"), WAYS, ids=[f"{way[0]}-{way[1]}" for way in WAYS])
callers = pytest.mark.parametrize("revision", [MODERN, LEGACY], ids=["modern", "legacy"])


@ways
async def test_it_lists_everything_as_it_came(transport: str, version: str | None) -> None:
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


@ways
@callers
async def test_results_come_in_the_callers_revision(transport: str, version: str | None, revision: Revision) -> None:
    async with interop_upstream(transport, version) as upstream:
        await upstream.refresh()
        who = caller(revision)
        found = await tool(upstream, "echo", {"text": "grüß dich"}, who)
        assert text(found) == "grüß dich"
        assert ("resultType" in found) == (revision is MODERN)
        assert found.get("resultType", "complete") == "complete"
        sum_ = await tool(upstream, "add", {"a": 2, "b": 3}, who)
        assert sum_["structuredContent"] == {"total": 5, "terms": [2, 3]}
        failed = await tool(upstream, "failing", {}, who)
        assert failed["isError"] is True
        is_bare = revision is MODERN and version == MODERN.version
        assert (await tool(upstream, "count", {}, who))["structuredContent"] == (42 if is_bare else {"result": 42})
        read = await result(upstream, "resources/read", {"uri": "memo://static"}, who)
        assert read["contents"][0]["text"] == "static text"
        assert ("ttlMs" in read) == (revision is MODERN)
        prompt = await result(upstream, "prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}}, who)
        assert prompt["messages"][0]["content"]["text"] == "Greet Ada"
        reference = {"type": "ref/prompt", "name": "greeting"}
        params = {"ref": reference, "argument": {"name": "style", "value": "f"}}
        completed = await result(upstream, "completion/complete", params, who)
        assert completed["completion"]["values"] == ["formal", "friendly"]


@ways
async def test_older_and_plain_callers_get_what_they_know(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        old = await tool(upstream, "gallery", {}, caller(R2024_11_05))
        assert [block["type"] for block in old["content"]] == ["text", "image", "resource", "resource", "text"]
        newer = await tool(upstream, "gallery", {}, caller(R2025_03_26))
        assert [block["type"] for block in newer["content"]] == ["text", "image", "audio", "resource", "text"]
        assert "structuredContent" not in await tool(upstream, "add", {"a": 1}, caller(R2024_11_05))
        assert list(await tool(upstream, "add", {"a": 1}, caller(PLAIN))) == ["content"]


@ways
@callers
async def test_progress_arrives_in_order_and_before_the_answer(
    transport: str, version: str | None, revision: Revision
) -> None:
    async with interop_upstream(transport, version) as upstream:
        back = Back()
        params = {"name": "slow", "arguments": {"steps": 5}, "_meta": {"progressToken": "mine"}}
        found = await result(upstream, "tools/call", params, caller(revision, level="info"), back)
        assert text(found) == "5 steps"
        progress = back.told("notifications/progress")
        assert [item["progress"] for item in progress] == [1, 2, 3, 4, 5]
        assert {item["progressToken"] for item in progress} == {"mine"}
        assert [item["data"] for item in back.told("notifications/message")] == [f"did step {n}" for n in range(1, 6)]


@ways
async def test_logs_reach_only_those_who_want_them(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        for who, count in (
            (caller(MODERN), 0),
            (caller(MODERN, level="info"), 3),
            (caller(MODERN, level="warning"), 0),
            (caller(LEGACY, scope="a"), 3),
            (caller(LEGACY, scope="a", level="error"), 0),
            (caller(PLAIN, scope="b"), 0),
        ):
            back = Back()
            await tool(upstream, "slow", {"steps": 3}, who, back)
            assert len(back.told("notifications/message")) == count, who


@ways
async def test_a_legacy_caller_is_asked_while_its_call_is_open(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        back = Back()
        who = caller(LEGACY, EVERYTHING, scope="one")
        assert text(await tool(upstream, "ask_name", {}, who, back)) == "ada is 36"
        assert text(await tool(upstream, "sample_haiku", {"topic": "rain"}, who, back)) == "m: a poem of ada"
        assert "file:///ada" in text(await tool(upstream, "list_roots", {}, who, back))
        assert [method for method, _ in back.asked] == ["elicitation/create", "sampling/createMessage", "roots/list"]
        assert text(await tool(upstream, "interview", {}, who, back)) == "ada and ada"


@ways
async def test_a_modern_caller_gets_questions_as_results(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        back = Back()
        assert text(await asked_by_result(upstream, "ask_name", {}, back)) == "ada is 36"
        assert text(await asked_by_result(upstream, "sample_haiku", {"topic": "rain"}, back)) == "m: a poem of ada"
        assert "file:///ada" in text(await asked_by_result(upstream, "list_roots", {}, back))
        assert text(await asked_by_result(upstream, "interview", {}, back)) == "ada and ada"
        assert len(back.asked) == 5


@ways
async def test_a_state_is_of_no_use_to_another_caller(transport: str, version: str | None) -> None:
    async with interop_upstream(transport, version) as upstream:
        who = caller(MODERN, EVERYTHING, principal="ada")
        params: dict[str, Any] = {"name": "ask_name", "arguments": {}}
        found = await result(upstream, "tools/call", params, who)
        repeated = params | {"requestState": found["requestState"], "inputResponses": {}}
        for stolen in (
            (repeated, caller(MODERN, EVERYTHING, principal="eve")),
            (repeated | {"name": "interview"}, who),
            (repeated | {"requestState": "made up"}, who),
        ):
            with pytest.raises(Exception, match="requestState"):
                await result(upstream, "tools/call", *stolen)


@ways
@callers
async def test_a_caller_that_leaves_stops_the_upstreams_work(
    transport: str, version: str | None, revision: Revision
) -> None:
    async with interop_upstream(transport, version) as upstream:
        before = (await tool(upstream, "counts"))["structuredContent"]
        back = Back()
        params = {"name": "wait_forever", "arguments": {}, "_meta": {"progressToken": 1}}
        task = asyncio.create_task(result(upstream, "tools/call", params, caller(revision), back))
        await until(lambda: bool(back.told("notifications/progress")))
        assert upstream.state.in_flight == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        after = (await tool(upstream, "counts", {"cancelled": before["cancelled"] + 1}))["structuredContent"]
        assert after["cancelled"] == before["cancelled"] + 1
        assert upstream.state.in_flight == 0


@ways
async def test_changes_are_heard(transport: str, version: str | None) -> None:
    changes: list[Change] = []
    who = caller(LEGACY, EVERYTHING, scope="x")
    async with interop_upstream(transport, version) as upstream:
        upstream.on_change = lambda _, change: changes.append(change)
        await upstream.refresh()
        assert {change.kind for change in changes} == {"tools", "prompts", "resources"}
        await upstream.subscribe("memo://watched")
        changes.clear()
        name = f"late_{transport}_{version}".replace("-", "_")
        await tool(upstream, "register_tool", {"name": name}, who)
        await until(lambda: Change("tools") in changes)
        assert name in [entry.name for entry in upstream.snapshot.tools]
        await tool(upstream, "unregister_tool", {"name": name}, who)
        await until(lambda: name not in [entry.name for entry in upstream.snapshot.tools])
        changes.clear()
        await tool(upstream, "touch_resource", {}, who)
        await until(lambda: Change("resource", "memo://watched") in changes)
        await upstream.unsubscribe("memo://watched")
        changes.clear()
        await tool(upstream, "touch_resource", {}, who)
        await tool(upstream, "echo", {"text": "a"}, who)
        assert not changes


@ways
@callers
async def test_errors_come_in_the_callers_dialect(transport: str, version: str | None, revision: Revision) -> None:
    async with interop_upstream(transport, version) as upstream:
        with pytest.raises(ResourceNotFound) as missing:
            await result(upstream, "resources/read", {"uri": "memo://nowhere"}, caller(revision))
        assert missing.value.uri == "memo://nowhere"
        with pytest.raises(RemoteError) as unknown:
            await tool(upstream, "no-such-tool", {}, caller(revision))
        assert unknown.value.code == -32602
        assert upstream.state.failures == 0
