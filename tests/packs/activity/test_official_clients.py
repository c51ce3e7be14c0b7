"""The official SDK's client with the activity pack, in both eras, on stdio and over HTTP."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated
from tests.interop.http_recorder import ServerAddress
from tests.interop.python_client import DEPRECATED, ERAS, LEGACY, MODERN, block_text, connect_sdk_client
from tests.packs.activity.activitywatch_server import ActivityWatchServer, event, insert_morning
from tests.packs.activity.tool_clients import UNUSED_URL
from tests.packs.pack_servers import serve_pack

pytestmark = pytest.mark.filterwarnings(DEPRECATED)
NOW = "activity://now"
ALL_TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("aw.get_state", {}),
    ("nowframe.build", {"reason": "manual"}),
    ("system.health", {}),
    ("aw.now", {}),
    *(("aw.summary", {"period": "yesterday", "by": by}) for by in ("app", "title", "domain")),
    ("aw.summary", {"period": "yesterday", "by": "category", "categories": {"Work": "code"}}),
    ("aw.summary", {"period": "last_week", "by": "file", "per": "day"}),
    ("aw.summary", {"period": "yesterday 09:00-10:30", "per": "hour", "top": 1}),
    ("aw.categories", {"period": "yesterday", "categories": {"Work": "code"}}),
    *(("aw.export", {"period": "yesterday", "format": form, "limit": 2}) for form in ("csv", "json")),
    ("aw.timeline", {"period": "yesterday"}),
    ("aw.query", {"period": "yesterday", "query": 'RETURN = query_bucket(find_bucket("aw-watcher-window_"));'}),
    ("aw.query", {"period": "yesterday", "query": ["a = 1;", "RETURN = [a, {'b': a}];"]}),
]  # fmt: skip


@pytest.fixture(params=["stdio", "http"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path, watch: ActivityWatchServer) -> Iterator[ServerAddress]:
    settings = f'aw_url = "{watch.url}"\nsidecar_url = "{UNUSED_URL}"\ntime_zone = "UTC"\npoll_s = 0.1'
    with serve_pack(request.param, "activity", tmp_path, settings) as found:
        yield found


def show(watch: ActivityWatchServer, title: str) -> None:
    bucket = watch.bucket("aw-watcher-window_desk", "currentwindow")
    watch.insert(bucket, [event(datetime.now(UTC) - timedelta(seconds=1), 1, app="Code", title=title)])


async def title_now(client: Client) -> Any:
    (contents,) = (await client.read_resource(NOW)).contents
    return json.loads(block_text(contents))["window"]["title"]


@pytest.mark.parametrize("mode", ERAS)
async def test_every_tool_result_matches_its_schema(
    endpoint: ServerAddress, mode: str, watch: ActivityWatchServer
) -> None:
    insert_morning(watch)
    async with connect_sdk_client(endpoint, mode) as (client, _):
        listed = {
            tool.name: tool for tool in (await client.list_tools()).tools
        }  # after this, the client validates results
        assert {tool for tool, _ in ALL_TOOLS} | {"aw.chart", "screen.read"} == set(listed)
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in listed.values())
        for tool, arguments in ALL_TOOLS:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, (tool, result)
            assert result.structured_content == json.loads(block_text(result.content[0]))
        chart = await client.call_tool("aw.chart", {"period": "yesterday"})
        assert isinstance(chart.content[0], types.ImageContent)
        assert chart.content[0].mime_type == "image/png"
        assert "active" in block_text(chart.content[1])
        unseen = await client.call_tool("screen.read", {})
        assert unseen.is_error
        is_known = isinstance(endpoint, list)  # a command: stdio
        assert ("hubbub sidecar" if is_known else "hubbub keys create") in block_text(unseen.content[0])


@pytest.mark.parametrize("mode", ERAS)
async def test_prompts_and_the_resource_can_be_read(
    endpoint: ServerAddress, mode: str, watch: ActivityWatchServer
) -> None:
    insert_morning(watch)
    show(watch, "main.py")
    async with connect_sdk_client(endpoint, mode) as (client, _):
        assert [str(entry.uri) for entry in (await client.list_resources()).resources] == [NOW]
        assert await title_now(client) == "main.py"
        for prompt in (await client.list_prompts()).prompts:
            (message,) = (await client.get_prompt(prompt.name)).messages
            assert len(block_text(message.content)) > 100
        asked = await client.get_prompt("what_did_i_do", {"period": "yesterday"})
        assert "- Code: 1h 00m (67%)" in block_text(asked.messages[0].content)


async def test_a_legacy_client_is_notified_of_another_window(
    endpoint: ServerAddress, watch: ActivityWatchServer
) -> None:
    show(watch, "first")
    async with connect_sdk_client(endpoint, LEGACY) as (client, wire):
        await client.subscribe_resource(NOW)
        assert await title_now(client) == "first"
        show(watch, "second")
        note = await wire.wait_for(types.ResourceUpdatedNotification)
        assert str(note.params.uri) == NOW
        assert await title_now(client) == "second"


async def test_a_modern_client_is_notified_of_another_window(
    endpoint: ServerAddress, watch: ActivityWatchServer
) -> None:
    show(watch, "first")
    async with (
        connect_sdk_client(endpoint, MODERN) as (client, _),
        client.listen(resource_subscriptions=[NOW]) as subscription,
    ):
        assert await title_now(client) == "first"
        show(watch, "second")
        async with asyncio.timeout(60):
            assert await anext(subscription) == ResourceUpdated(uri=NOW)
        assert await title_now(client) == "second"
