"""The official SDK's client with the tabletop pack, in both eras, on stdio and over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from tests.interop.http_recorder import ServerAddress
from tests.interop.python_client import DEPRECATED, ERAS, LEGACY, block_text, connect_sdk_client
from tests.packs.pack_servers import serve_pack

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


@pytest.fixture(params=["stdio", "http"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerAddress]:
    settings = f'database = "sqlite:///{tmp_path}/campaigns.db"'
    with serve_pack(request.param, "tabletop", tmp_path, settings) as found:
        yield found


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


async def read(client: Client, uri: str) -> Any:
    (contents,) = (await client.read_resource(uri)).contents
    assert (contents.uri, contents.mime_type) == (uri, "application/json")
    return json.loads(block_text(contents))


@pytest.mark.parametrize("mode", ERAS)
async def test_the_official_client_plays_a_session(target: ServerAddress, mode: str) -> None:
    async with connect_sdk_client(target, mode) as (client, _):
        await client.list_tools()  # after this, the client validates results against their schemas
        campaign = (await call(client, "campaign_create", name="Storm", gm_mode="AI"))["id"]
        alice = await call(client, "participant_create", campaign_id=campaign, display_name="Alice", role="PLAYER")
        hero = await call(client, "actor_create", campaign_id=campaign, name="Hero", kind="PC")
        await call(client, "actor_control_set", campaign_id=campaign, actor_id=hero["id"], controller=alice["id"])
        session = await call(client, "session_start", campaign_id=campaign)
        chosen = await call(client, "set_context", campaign_id=campaign, session_id=session["id"])
        with_context = {"context_id": chosen["context_id"]} if "context_id" in chosen else {}
        assert bool(with_context) == (mode != LEGACY)
        roll = await call(client, "duality_action_roll", modifier=1, difficulty=12, rng={}, **with_context)
        assert 1 <= roll["hope"] <= 12
        await call(client, "duality_explain", hope=roll["hope"], fear=roll["fear"], modifier=1, difficulty=12)
        await call(client, "duality_probability", difficulty=12)
        await call(client, "duality_rules_version")
        await call(client, "roll_dice", dice=[{"sides": 6, "count": 3}], **with_context)
        assert (await call(client, "session_end", **with_context))["status"] == "ENDED"
        events = await call(client, "events_list", **with_context)
        assert len(events["events"]) == 8
        control = await call(client, "actor_control_get", actor_id=hero["id"], **with_context)
        assert control["controller"] == alice["id"]
        failed = await client.call_tool("session_end", {"campaign_id": campaign})
        assert failed.is_error
        assert json.loads(block_text(failed.content[0]))["error"]["code"] == "FailedPrecondition"


@pytest.mark.parametrize("mode", ERAS)
async def test_the_official_client_reads_every_resource(target: ServerAddress, mode: str) -> None:
    async with connect_sdk_client(target, mode) as (client, _):
        campaign = (await call(client, "campaign_create", name="Storm", gm_mode="AI"))["id"]
        templates = (await client.list_resource_templates()).resource_templates
        uris = [template.uri_template.replace("{campaign_id}", campaign) for template in templates]
        uris += [entry.uri for entry in (await client.list_resources()).resources]
        keys = [next(iter(await read(client, uri))) for uri in uris]
        assert keys == ["campaign", "participants", "actors", "sessions", "campaigns", "context"]
        for uri, code in (("campaign://camp_nowhere", "NotFound"), ("campaign://_", "InvalidArgument")):
            with pytest.raises(MCPError) as error:
                await client.read_resource(uri)
            assert error.value.error.data["code"] == code
        reference = types.ResourceTemplateReference(type="ref/resource", uri="campaign://{campaign_id}/actors")
        completed = await client.complete(reference, {"name": "campaign_id", "value": "camp_"})
        assert completed.completion.values == [campaign]


async def test_a_legacy_client_is_notified_of_its_subscriptions(target: ServerAddress) -> None:
    async with connect_sdk_client(target, LEGACY) as (client, wire):
        campaign = (await call(client, "campaign_create", name="Storm", gm_mode="AI"))["id"]
        actors = f"campaign://{campaign}/actors"
        for uri in (actors, "context://current"):
            await client.subscribe_resource(uri)
        await call(client, "actor_create", campaign_id=campaign, name="Hero", kind="PC")
        note = await wire.wait_for(types.ResourceUpdatedNotification)
        assert note.params.uri == actors
        assert [actor["name"] for actor in (await read(client, actors))["actors"]] == ["Hero"]
        wire.notifications.clear()
        await call(client, "set_context", campaign_id=campaign)
        note = await wire.wait_for(types.ResourceUpdatedNotification)
        assert note.params.uri == "context://current"
        assert (await read(client, "context://current"))["context"]["campaign_id"] == campaign


async def test_a_modern_client_is_notified_on_its_listen_stream(target: ServerAddress) -> None:
    async with connect_sdk_client(target, "auto") as (client, _):
        campaign = (await call(client, "campaign_create", name="Storm", gm_mode="AI"))["id"]
        sessions = f"campaign://{campaign}/sessions"
        async with client.listen(resource_subscriptions=[sessions]) as updates:
            await call(client, "session_start", campaign_id=campaign)
            assert await anext(updates) == ResourceUpdated(uri=sessions)
            assert [session["status"] for session in (await read(client, sessions))["sessions"]] == ["ACTIVE"]
