"""Servers of the official SDK behind the hub: both eras, on stdio and over HTTP, for callers of both eras."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.clock import until
from tests.hub.callers import EVERYTHING, Back, asked_by_result, caller, result, text, tool
from tests.hub.callers import LEGACY as LEGACY_CALLER
from tests.hub.callers import MODERN as MODERN_CALLER
from tests.hub.ends import LEGACY, MODERN, opened
from tests.interop.foreign import listening, studio_command

from hubbub import Change, Revision, ServerConfig
from hubbub.hub.remote import RemoteUpstream

WAYS = [(transport, version) for transport in ("stdio", "http") for version in (LEGACY, MODERN)]
ways = pytest.mark.parametrize(("transport", "version"), WAYS, ids=[f"{way[0]}-{way[1]}" for way in WAYS])
callers = pytest.mark.parametrize("revision", [MODERN_CALLER, LEGACY_CALLER], ids=["modern", "legacy"])


@asynccontextmanager
async def studio(transport: str, version: str) -> AsyncIterator[RemoteUpstream]:
    command = studio_command("python_sdk.py", [sys.executable])
    fields: dict[str, Any] = {"id": "studio", "protocol_version": version, "timeout_s": 30}
    if transport == "stdio":
        config = ServerConfig(command=command[0], args=[*command[1:], "stdio"], **fields)
        async with opened(config, timeout_s=30, list_s=30) as upstream:
            yield upstream
        return
    with listening([*command, "http"]) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with opened(ServerConfig(transport="http", url=url, **fields), timeout_s=30, list_s=30) as upstream:
            yield upstream


@ways
@callers
async def test_everything_works_for_everyone(transport: str, version: str, revision: Revision) -> None:
    async with studio(transport, version) as upstream:
        await upstream.refresh()
        assert upstream.state.version == version
        assert [entry.name for entry in upstream.snapshot.tools][:2] == ["echo", "add"]
        back, scope = Back(), None if revision is MODERN_CALLER else "session"
        who = caller(revision, EVERYTHING, scope=scope)
        assert text(await tool(upstream, "echo", {"text": "grüß dich\n"}, who)) == "grüß dich\n"
        assert (await tool(upstream, "add", {"a": 2, "b": 3}, who))["structuredContent"] == {
            "total": 5,
            "terms": [2, 3],
        }
        assert (await tool(upstream, "failing", {}, who))["isError"] is True
        params = {"name": "slow", "arguments": {"steps": 3}, "_meta": {"progressToken": "t"}}
        assert text(await result(upstream, "tools/call", params, who, back)) == "3 steps"
        assert [item["progress"] for item in back.told("notifications/progress")] == [1, 2, 3]
        read = await result(upstream, "resources/read", {"uri": "memo://static"}, who)
        assert read["contents"][0]["text"] == "static text"
        prompt = await result(upstream, "prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}}, who)
        assert prompt["messages"][0]["content"]["text"] == "Greet Ada in a plain style"
        completion = {
            "ref": {"type": "ref/prompt", "name": "greeting"},
            "argument": {"name": "style", "value": "f"},
        }
        found = await result(upstream, "completion/complete", completion, who)
        assert found["completion"]["values"] == ["formal", "friendly"]
        for name, arguments, said in (
            ("ask_name", {}, "ada is 36"),
            ("sample_haiku", {"topic": "rain"}, "m: a poem of ada"),
            ("list_roots", {}, "file:///ada"),
        ):
            if revision is MODERN_CALLER:
                answer = await asked_by_result(upstream, name, arguments, back)
            else:
                answer = await tool(upstream, name, arguments, who, back)
            assert text(answer) == said


@ways
@callers
async def test_cancelling_reaches_the_server(transport: str, version: str, revision: Revision) -> None:
    async with studio(transport, version) as upstream:
        back = Back()
        params = {"name": "wait_forever", "arguments": {}, "_meta": {"progressToken": 1}}
        task = asyncio.create_task(result(upstream, "tools/call", params, caller(revision), back))
        await until(lambda: bool(back.told("notifications/progress")))
        task.cancel()
        await asyncio.wait([task])
        found = await tool(upstream, "counts", {"cancelled": 1})
        assert found["structuredContent"] == {"started": 1, "cancelled": 1}


@ways
@callers
async def test_changes_are_heard(transport: str, version: str, revision: Revision) -> None:
    changes: list[Change] = []
    who = caller(revision, EVERYTHING, scope=None if revision is MODERN_CALLER else "session")
    async with studio(transport, version) as upstream:
        await upstream.refresh()
        can_watch = version == MODERN  # This SDK does not know `resources/subscribe`, only its successor.
        if can_watch:
            await upstream.subscribe("memo://watched")
        upstream.on_change = lambda _, change: changes.append(change)
        await tool(upstream, "register_tool", {"name": "late"}, who)
        await until(lambda: "late" in [entry.name for entry in upstream.snapshot.tools])
        assert Change("tools") in changes
        await tool(upstream, "touch_resource", {}, who)
        if can_watch:
            await until(lambda: Change("resource", "memo://watched") in changes)


@ways
async def test_two_who_are_asked_at_once_are_told_apart(transport: str, version: str) -> None:
    async with studio(transport, version) as upstream:
        backs = [Back(f"p{number}") for number in range(3)]
        found = await asyncio.gather(
            *(
                tool(upstream, "ask_name", {}, caller(LEGACY_CALLER, EVERYTHING, scope=back.name), back)
                for back in backs
            )
        )
        assert [text(item) for item in found] == ["p0 is 36", "p1 is 36", "p2 is 36"]
        assert all(len(back.asked) == 1 for back in backs)
