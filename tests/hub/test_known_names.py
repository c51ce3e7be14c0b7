"""Names while a hub starts: listed names stay callable, and the last known names of servers count from the start."""

import asyncio
import stat
from pathlib import Path

from tests.hub.local_hubs import list_names, make_hub, open_client, toolbox
from tests.hub.test_front_remote import crashing_upstream

from hubbub import HubSettings, Server, UpstreamConfig
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway
from hubbub.hub.known_names import KnownNames


async def test_a_listed_name_keeps_its_meaning_when_a_late_server_has_it_too(tmp_path: Path) -> None:
    (tmp_path / "slow").touch()
    hub = make_hub(toolbox("box", "hello"), crashing_upstream(tmp_path), list_s=0.5)
    async with open_client(hub) as client:
        assert await list_names(client) == ["hello"]
        (tmp_path / "slow").unlink()
        async with asyncio.timeout(60):
            while "mortal__hello" not in await list_names(client):
                await asyncio.sleep(0.05)
        assert await list_names(client) == ["box__hello", "mortal__hello", "die"]
        assert (await client.call("hello"))["content"][0]["text"] == "box/hello"
        assert (await client.call("mortal__hello"))["content"][0]["text"] == "hello"


async def test_a_name_found_by_searching_stays_callable() -> None:
    box = toolbox("box", "hello")
    other = Server("other")
    hub = make_hub(box, other, search="only")
    async with open_client(hub) as client:
        found = await client.call("hub.search", {"query": "hello"})
        assert found["structuredContent"]["tools"][0]["name"] == "hello"

        @other.tool(name="hello")
        async def later() -> str:
            return "other"

        async with asyncio.timeout(60):
            while "other__hello" not in hub.catalog.tools.listed:
                await asyncio.sleep(0.01)
        assert (await client.call("hello"))["content"][0]["text"] == "box/hello"


async def test_names_are_assigned_with_the_last_known_tools_of_servers_that_are_down(tmp_path: Path) -> None:
    known = KnownNames(tmp_path / "names")

    def hub() -> Gateway:
        box = toolbox("box", "hello", "other")
        upstreams = (UpstreamConfig(id="box", server=box), crashing_upstream(tmp_path))
        return Gateway(HubConfig(upstreams=upstreams, hub=HubSettings(list_s=20)), known_names=known)

    async with open_client(hub()) as client:
        assert await list_names(client) == ["box__hello", "other", "mortal__hello", "die"]
    known = KnownNames(tmp_path / "names")
    (tmp_path / "broken").touch()
    async with open_client(hub()) as client:
        assert await list_names(client) == ["box__hello", "other"]
        error = await client.error("tools/call", {"name": "hello", "arguments": {}})
        assert "call box__hello" in error["message"]
        assert "these servers are not connected" in (await client.error("tools/call", {"name": "die"}))["message"]
    (file,) = (tmp_path / "names").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_bytes(b"broken")
    known = KnownNames(tmp_path / "names")
    async with open_client(hub()) as client:
        assert await list_names(client) == ["hello", "other"]
