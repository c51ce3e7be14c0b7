"""A hub with upstream processes that are slow, crash and restart, as its clients see it."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.client.harness import INTEROP, stdio_config
from tests.http.in_process_server import run_server
from tests.http.raw_http import request
from tests.hub.local_hubs import library, list_names, make_hub, open_client, toolbox
from tests.hub.upstreams import asking_config
from tests.server.raw_client import MODERN, RawClient

from hubbub import ServerConfig, UpstreamConfig

PROGRAM = """
import os, sys, time
from pathlib import Path
from hubbub import Server, run

folder = Path(sys.argv[1])
if (folder / "broken").exists():
    raise SystemExit("out of order")
while (folder / "slow").exists():
    time.sleep(0.01)
server = Server("mortal")

@server.tool
async def hello() -> str:
    return "hello"

@server.tool
async def die() -> str:
    (folder / "broken").touch()
    os._exit(3)

run(server)
"""


def crashing_upstream(folder: Path) -> UpstreamConfig:
    (folder / "mortal.py").write_text(PROGRAM)
    env = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    remote = ServerConfig(
        id="mortal", command=sys.executable, args=[str(folder / "mortal.py"), str(folder)], env=env, timeout_s=20
    )
    return UpstreamConfig(id="mortal", remote=remote)


async def read_marks(client: RawClient) -> dict[str, Any]:
    listed = (await client.result("tools/list"))["tools"]
    return {entry["name"]: entry["_meta"] for entry in listed if entry["name"] in ("hello", "die", "one")}


async def wait_until_listed(client: RawClient, name: str, *, is_stale: bool) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            found = await read_marks(client)
            if name in found and found[name].get("dev.hubbub/stale", False) is is_stale:
                return found
            await asyncio.sleep(0.02)


async def test_tools_of_a_server_that_is_down_stay_listed_with_the_reason(tmp_path: Path) -> None:
    async with open_client(make_hub(crashing_upstream(tmp_path), toolbox("box", "one")), MODERN) as client:
        assert await list_names(client) == ["hello", "die", "one"]
        died = await client.call("die")
        assert died["isError"] is True
        assert died["structuredContent"]["error"]["type"] == "upstream_unavailable"
        found = await wait_until_listed(client, "hello", is_stale=True)
        assert found["hello"]["dev.hubbub/server"] == "mortal"
        assert found["hello"]["dev.hubbub/reason"]
        assert "dev.hubbub/stale" not in found["one"]
        assert (await client.call("one"))["content"][0]["text"] == "box/one"
        failed = await client.call("hello")
        assert failed["structuredContent"]["error"]["data"]["server"] == "mortal"
        (tmp_path / "broken").unlink()
        await wait_until_listed(client, "hello", is_stale=False)
        assert (await client.call("hello"))["content"][0]["text"] == "hello"


async def test_a_list_has_a_time_limit_and_late_servers_are_notified(tmp_path: Path) -> None:
    (tmp_path / "slow").touch()
    hub = make_hub(crashing_upstream(tmp_path), toolbox("box", "one"), list_s=0.5)
    async with open_client(hub) as client:
        assert await list_names(client) == ["one"]
        error = await client.error("tools/call", {"name": "hello", "arguments": {}})
        assert "mortal" in error["message"]
        (tmp_path / "slow").unlink()
        async with asyncio.timeout(60):
            while "hello" not in await list_names(client):
                await asyncio.sleep(0.05)
        assert client.notifications("notifications/tools/list_changed")
        assert (await client.call("hello"))["content"][0]["text"] == "hello"


async def test_tool_not_found_names_the_servers_that_are_not_connected(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    async with open_client(make_hub(crashing_upstream(tmp_path), toolbox("box", "one"))) as client:
        error = await client.error("tools/call", {"name": "hello", "arguments": {}})
        assert "these servers are not connected: mortal" in error["message"]
        status = (await client.call("hub.status"))["structuredContent"]
        assert any(problem.startswith("mortal: ") for problem in status["problems"])


async def test_a_hub_is_ready_while_one_of_its_servers_is_ready(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    both, alone = make_hub(crashing_upstream(tmp_path), toolbox("box", "one")), make_hub(crashing_upstream(tmp_path))
    async with open_client(both) as client:
        await client.wait_until_idle()
        assert await both.main_front.problems() == []
    async with open_client(alone) as client:
        await client.wait_until_idle()
        (problem,) = await alone.main_front.problems()
        assert problem.startswith("mortal: ")


async def test_a_capable_client_on_stdio_needs_one_process_of_a_legacy_server_also_after_a_reload() -> None:
    hub = make_hub(UpstreamConfig(id="asker", remote=asking_config()))
    async with open_client(hub, capabilities={"elicitation": {"form": {}}}) as client:
        client.reply_with = lambda asked: {"result": {"action": "accept", "content": {"name": "ada"}}}
        assert (await client.call("ask", {"say": "who"}))["content"][0]["text"] == "who: ada"
        assert hub.upstreams["asker"].state.sessions == 1
        added = UpstreamConfig(id="other", remote=replace(asking_config(), id="other"))
        changed = UpstreamConfig(id="asker", remote=replace(asking_config(), timeout_s=7.0))
        await hub.apply(replace(hub.config, upstreams=(changed, added)))
        for name in ("asker__ask", "other__ask"):
            assert (await client.call(name, {"say": "who"}))["content"][0]["text"] == "who: ada"
        assert [upstream.state.sessions for upstream in hub.upstreams.values()] == [1, 1]


async def test_the_first_client_gets_the_instructions_of_the_servers() -> None:
    config = stdio_config(str(INTEROP))
    async with open_client(make_hub(UpstreamConfig(id="here", remote=config)), MODERN) as client:
        assert (await client.result("server/discover"))["instructions"] == "here: Ask for an echo."


async def test_discovery_does_not_wait_for_a_silent_server() -> None:
    silent = ServerConfig(id="silent", command="sleep", args=["60"])
    async with open_client(make_hub(UpstreamConfig(id="silent", remote=silent)), MODERN) as client:
        assert "instructions" not in await client.result("server/discover")


async def test_the_health_of_a_hub_names_the_servers_that_are_down() -> None:
    broken = UpstreamConfig(id="broken", remote=ServerConfig(id="broken", command="no-such-program-here"))
    for servers, status, expected in (
        ((library(), broken), 200, "degraded"),
        ((broken,), 503, "unavailable"),
        ((library(),), 200, "ready"),
    ):
        async with run_server(make_hub(*servers).main_front) as here:
            await here.site.post(request("tools/list"))
            answer = await here.site.get("/mcp/health")
            assert (answer.status, answer.json["status"]) == (status, expected)
            problems = ["broken: the program cannot be started"] if broken in servers else []
            assert answer.json["problems"] == problems


async def test_a_hub_is_degraded_while_a_pack_in_it_is_not_ready() -> None:
    ailing = library("ailing")

    async def check() -> str | None:
        return "the store cannot be written"

    ailing.health_checks.append(check)
    async with run_server(make_hub(library(), ailing).main_front) as here:
        answer = await here.site.get("/mcp/health")
        assert answer.json == {"status": "degraded", "problems": ["ailing: the store cannot be written"]}
