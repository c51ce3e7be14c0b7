"""Servers of the official SDK behind the hub: both eras, on stdio and over HTTP, for callers of both eras."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.clock import wait_until
from tests.hub.upstream_callers import (
    ALL_CAPABILITIES,
    RecordingReturnPath,
    call_tool,
    call_until_complete,
    make_caller,
    request_result,
    result_text,
)
from tests.hub.upstream_callers import LEGACY as LEGACY_CALLER
from tests.hub.upstream_callers import MODERN as MODERN_CALLER
from tests.hub.upstreams import LEGACY, MODERN, open_upstream
from tests.interop.external_servers import make_studio_command, run_http_server

from hubbub import ChangeEvent, Revision, ServerConfig
from hubbub.hub.remote import RemoteUpstream

TRANSPORTS_AND_VERSIONS = [(transport, version) for transport in ("stdio", "http") for version in (LEGACY, MODERN)]
each_transport = pytest.mark.parametrize(
    ("transport", "version"), TRANSPORTS_AND_VERSIONS, ids=[f"{case[0]}-{case[1]}" for case in TRANSPORTS_AND_VERSIONS]
)
each_revision = pytest.mark.parametrize("revision", [MODERN_CALLER, LEGACY_CALLER], ids=["modern", "legacy"])


@asynccontextmanager
async def open_studio(transport: str, version: str) -> AsyncIterator[RemoteUpstream]:
    command = make_studio_command("python_sdk.py", [sys.executable])
    fields: dict[str, Any] = {"id": "studio", "protocol_version": version, "timeout_s": 30}
    if transport == "stdio":
        config = ServerConfig(command=command[0], args=[*command[1:], "stdio"], **fields)
        async with open_upstream(config, timeout_s=30, list_s=30) as upstream:
            yield upstream
        return
    with run_http_server([*command, "http"]) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with open_upstream(
            ServerConfig(transport="http", url=url, **fields), timeout_s=30, list_s=30
        ) as upstream:
            yield upstream


@each_transport
@each_revision
async def test_every_feature_works_in_every_era(transport: str, version: str, revision: Revision) -> None:
    async with open_studio(transport, version) as upstream:
        await upstream.refresh()
        assert upstream.state.version == version
        assert [entry.name for entry in upstream.snapshot.tools][:2] == ["echo", "add"]
        back, scope = RecordingReturnPath(), None if revision is MODERN_CALLER else "session"
        who = make_caller(revision, ALL_CAPABILITIES, scope=scope)
        assert result_text(await call_tool(upstream, "echo", {"text": "grüß dich\n"}, who)) == "grüß dich\n"
        assert (await call_tool(upstream, "add", {"a": 2, "b": 3}, who))["structuredContent"] == {
            "total": 5,
            "terms": [2, 3],
        }
        assert (await call_tool(upstream, "failing", {}, who))["isError"] is True
        params = {"name": "slow", "arguments": {"steps": 3}, "_meta": {"progressToken": "t"}}
        assert result_text(await request_result(upstream, "tools/call", params, who, back)) == "3 steps"
        assert [item["progress"] for item in back.notes_of("notifications/progress")] == [1, 2, 3]
        read = await request_result(upstream, "resources/read", {"uri": "memo://static"}, who)
        assert read["contents"][0]["text"] == "static text"
        prompt = await request_result(upstream, "prompts/get", {"name": "greeting", "arguments": {"name": "Ada"}}, who)
        assert prompt["messages"][0]["content"]["text"] == "Greet Ada in a plain style"
        completion = {
            "ref": {"type": "ref/prompt", "name": "greeting"},
            "argument": {"name": "style", "value": "f"},
        }
        found = await request_result(upstream, "completion/complete", completion, who)
        assert found["completion"]["values"] == ["formal", "friendly"]
        for name, arguments, expected in (
            ("ask_name", {}, "ada is 36"),
            ("sample_haiku", {"topic": "rain"}, "m: a poem of ada"),
            ("list_roots", {}, "file:///ada"),
        ):
            if revision is MODERN_CALLER:
                answer = await call_until_complete(upstream, name, arguments, back)
            else:
                answer = await call_tool(upstream, name, arguments, who, back)
            assert result_text(answer) == expected


@each_transport
@each_revision
async def test_cancellation_reaches_the_server(transport: str, version: str, revision: Revision) -> None:
    async with open_studio(transport, version) as upstream:
        back = RecordingReturnPath()
        params = {"name": "wait_forever", "arguments": {}, "_meta": {"progressToken": 1}}
        task = asyncio.create_task(request_result(upstream, "tools/call", params, make_caller(revision), back))
        await wait_until(lambda: bool(back.notes_of("notifications/progress")))
        task.cancel()
        await asyncio.wait([task])
        found = await call_tool(upstream, "counts", {"cancelled": 1})
        assert found["structuredContent"] == {"started": 1, "cancelled": 1}


@each_transport
@each_revision
async def test_changes_of_the_upstream_are_noticed(transport: str, version: str, revision: Revision) -> None:
    changes: list[ChangeEvent] = []
    who = make_caller(revision, ALL_CAPABILITIES, scope=None if revision is MODERN_CALLER else "session")
    async with open_studio(transport, version) as upstream:
        await upstream.refresh()
        can_watch = version == MODERN  # This SDK has no `resources/subscribe`, only `subscriptions/listen`.
        if can_watch:
            await upstream.subscribe("memo://watched")
        upstream.on_change = lambda _, change: changes.append(change)
        await call_tool(upstream, "register_tool", {"name": "late"}, who)
        await wait_until(lambda: "late" in [entry.name for entry in upstream.snapshot.tools])
        assert ChangeEvent("tools") in changes
        await call_tool(upstream, "touch_resource", {}, who)
        if can_watch:
            await wait_until(lambda: ChangeEvent("resource", "memo://watched") in changes)


@each_transport
async def test_concurrent_client_requests_reach_their_own_callers(transport: str, version: str) -> None:
    async with open_studio(transport, version) as upstream:
        backs = [RecordingReturnPath(f"p{number}") for number in range(3)]
        found = await asyncio.gather(
            *(
                call_tool(upstream, "ask_name", {}, make_caller(LEGACY_CALLER, ALL_CAPABILITIES, scope=back.name), back)
                for back in backs
            )
        )
        assert [result_text(item) for item in found] == ["p0 is 36", "p1 is 36", "p2 is 36"]
        assert all(len(back.requests) == 1 for back in backs)
