"""Over HTTP, what the pack has credentials for is disclosed only to callers that have proved who they are."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.http.in_process import Running, running
from tests.http.keyring import Keyring
from tests.hub.assembled import hub_of
from tests.packs.activity.desks import at_a_desk, make_server
from tests.packs.activity.gates import KEY, locked_watch
from tests.packs.activity.other_users import run_as_nobody
from tests.packs.activity.sidecars import sidecar
from tests.packs.activity.watching import Watch, a_morning

from hubbub import Secret

_POST = """
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
connection.request("POST", "/mcp", sys.argv[2], {"Content-Type": "application/json"})
print(connection.getresponse().read().decode())
"""
SCREEN = {"jsonrpc": "2.0", "id": 1, "method": "screen.read"}


async def ask(here: Running, message: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    return (await here.site.post(message, headers=headers)).json


async def test_another_user_of_this_machine_does_not_see_the_screen() -> None:
    with sidecar() as eyes:
        async with running(make_server(sidecar_url=eyes.url)) as here:
            said = await asyncio.to_thread(run_as_nobody, _POST, str(here.site.port), json.dumps(SCREEN))
    error = json.loads(said)["error"]
    assert "mock" not in said
    assert "only to authenticated callers" in error["message"]
    assert "hubbub key add" in error["message"]


async def test_whoever_has_a_key_sees_it(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    key = ring.add("ann")
    with sidecar() as eyes:
        async with running(make_server(sidecar_url=eyes.url), key_file=str(ring.path)) as here:
            seen = await ask(here, SCREEN, key)
            refused = await here.site.post(SCREEN)
    assert seen["result"]["text"] == "mock text\nmock icon"
    assert refused.status == 401


async def test_behind_a_hub_in_the_same_process_it_counts_who_calls_the_hub(tmp_path: Path) -> None:
    ring = Keyring(tmp_path / "keys.toml")
    key = ring.add("ann")
    with sidecar() as eyes:
        for settings, headers in (({}, {}), ({"key_file": str(ring.path)}, key)):
            hub = hub_of(make_server(sidecar_url=eyes.url))
            async with running(hub.main, **settings) as here:
                answer = await ask(here, SCREEN, headers)
            if settings:
                assert answer["result"]["text"] == "mock text\nmock icon"
            else:
                assert "only to authenticated callers" in answer["error"]["message"]


async def test_whoever_starts_the_server_on_stdio_sees_it() -> None:
    with sidecar() as eyes:
        async with at_a_desk(sidecar_url=eyes.url) as asker:
            assert (await asker.call("screen.read"))["text"]


async def test_what_the_sidecar_says_of_itself_is_told_to_all() -> None:
    with sidecar() as eyes:
        async with running(make_server(sidecar_url=eyes.url)) as here:
            health = await ask(here, {**SCREEN, "method": "system.health"})
            frame = await ask(here, {**SCREEN, "method": "nowframe.build"})
    assert health["result"]["sidecar_probe_status"] is True
    assert frame["result"]["omni_probe"]["mode"] == "mock"


async def test_what_activitywatch_tells_everybody_is_told_to_all(watch: Watch) -> None:
    a_morning(watch)
    async with running(make_server(watch.url)) as here:
        state = await ask(here, {**SCREEN, "method": "aw.get_state"})
    assert state["result"]["buckets"]


@pytest.mark.parametrize("tool", ["aw.get_state", "nowframe.build", "aw.now", "aw.summary", "aw.timeline"])
async def test_what_activitywatch_protects_with_a_key_is_not(tool: str, watch: Watch, tmp_path: Path) -> None:
    a_morning(watch)
    ring = Keyring(tmp_path / "keys.toml")
    key = ring.add("ann")
    with locked_watch(watch) as locked:
        async with running(make_server(locked.url, api_key=Secret(KEY))) as here:
            refused = await ask(here, {**SCREEN, "method": tool})
            health = await ask(here, {**SCREEN, "method": "system.health"})
        async with running(make_server(locked.url, api_key=Secret(KEY)), key_file=str(ring.path)) as here:
            told = await ask(here, {**SCREEN, "method": tool}, key)
    assert "only to authenticated callers" in refused["error"]["message"]
    assert health["result"]["aw_ok"] is True
    assert "result" in told
