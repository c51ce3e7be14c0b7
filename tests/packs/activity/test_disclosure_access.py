"""Over HTTP, data that needs credentials is disclosed only to authenticated callers."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.http.in_process_server import RunningServer, run_server
from tests.http.keyring import Keyring
from tests.hub.local_hubs import make_hub
from tests.packs.activity.activitywatch_proxies import API_KEY, run_proxy_with_key
from tests.packs.activity.activitywatch_server import ActivityWatchServer, insert_morning
from tests.packs.activity.other_users import run_as_nobody
from tests.packs.activity.sidecars import run_sidecar
from tests.packs.activity.tool_clients import connect_tool_client, make_server

from hubbub import Secret

_POST = """
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
connection.request("POST", "/mcp", sys.argv[2], {"Content-Type": "application/json"})
print(connection.getresponse().read().decode())
"""
SCREEN = {"jsonrpc": "2.0", "id": 1, "method": "screen.read"}


async def post_message(
    http_server: RunningServer, message: dict[str, Any], headers: dict[str, str] | None = None
) -> Any:
    return (await http_server.site.post(message, headers=headers)).json


async def test_an_unauthenticated_user_of_this_machine_cannot_read_the_screen() -> None:
    with run_sidecar() as running_sidecar:
        async with run_server(make_server(sidecar_url=running_sidecar.url)) as http_server:
            output = await asyncio.to_thread(run_as_nobody, _POST, str(http_server.site.port), json.dumps(SCREEN))
    error = json.loads(output)["error"]
    assert "mock" not in output
    assert "only to authenticated callers" in error["message"]
    assert "hubbub keys create" in error["message"]


async def test_a_caller_with_a_key_can_read_the_screen(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    key = ring.add("ann")
    with run_sidecar() as running_sidecar:
        async with run_server(make_server(sidecar_url=running_sidecar.url), key_file=str(ring.path)) as http_server:
            response = await post_message(http_server, SCREEN, key)
            refused = await http_server.site.post(SCREEN)
    assert response["result"]["text"] == "mock text\nmock icon"
    assert refused.status == 401


async def test_behind_a_hub_the_caller_of_the_hub_is_checked(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    key = ring.add("ann")
    with run_sidecar() as running_sidecar:
        for settings, headers in (({}, {}), ({"key_file": str(ring.path)}, key)):
            hub = make_hub(make_server(sidecar_url=running_sidecar.url))
            async with run_server(hub.main_front, **settings) as http_server:
                answer = await post_message(http_server, SCREEN, headers)
            if settings:
                assert answer["result"]["text"] == "mock text\nmock icon"
            else:
                assert "only to authenticated callers" in answer["error"]["message"]


async def test_the_stdio_client_can_read_the_screen() -> None:
    with run_sidecar() as running_sidecar:
        async with connect_tool_client(sidecar_url=running_sidecar.url) as tool_client:
            assert (await tool_client.call("screen.read"))["text"]


async def test_the_probe_of_the_sidecar_is_disclosed_to_all_callers() -> None:
    with run_sidecar() as running_sidecar:
        async with run_server(make_server(sidecar_url=running_sidecar.url)) as http_server:
            health = await post_message(http_server, {**SCREEN, "method": "system.health"})
            frame = await post_message(http_server, {**SCREEN, "method": "nowframe.build"})
    assert health["result"]["sidecar_probe_status"] is True
    assert frame["result"]["omni_probe"]["mode"] == "mock"


async def test_activitywatch_data_without_an_api_key_is_disclosed_to_all_callers(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    async with run_server(make_server(watch.url)) as http_server:
        state = await post_message(http_server, {**SCREEN, "method": "aw.get_state"})
    assert state["result"]["buckets"]


@pytest.mark.parametrize("tool", ["aw.get_state", "nowframe.build", "aw.now", "aw.summary", "aw.timeline"])
async def test_activitywatch_data_behind_an_api_key_needs_an_authenticated_caller(
    tool: str, watch: ActivityWatchServer, tmp_path: Path
) -> None:
    insert_morning(watch)
    ring = Keyring(tmp_path / "keys.toml")
    key = ring.add("ann")
    with run_proxy_with_key(watch) as locked:
        async with run_server(make_server(locked.url, api_key=Secret(API_KEY))) as http_server:
            refused = await post_message(http_server, {**SCREEN, "method": tool})
            health = await post_message(http_server, {**SCREEN, "method": "system.health"})
        async with run_server(make_server(locked.url, api_key=Secret(API_KEY)), key_file=str(ring.path)) as http_server:
            disclosed = await post_message(http_server, {**SCREEN, "method": tool}, key)
    assert "only to authenticated callers" in refused["error"]["message"]
    assert health["result"]["aw_ok"] is True
    assert "result" in disclosed
