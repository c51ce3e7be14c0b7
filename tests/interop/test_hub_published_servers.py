"""The published server `everything` behind a hub: tools for capable clients are listed and work."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import Site, request
from tests.hub.upstream_callers import ALL_CAPABILITIES
from tests.interop.external_servers import JUDGES, run_http_server
from tests.ports import free_port

from hubbub import HubSettings, ServerConfig, UpstreamConfig
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway

SCRIPT = JUDGES / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
CONDITIONAL = {"get-roots-list", "trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request"}


@pytest.fixture(params=["stdio", "streamable_http"])
def everything(request: pytest.FixtureRequest, node: list[str]) -> Iterator[ServerConfig]:
    command = [*node, str(SCRIPT)]
    if request.param == "stdio":
        yield ServerConfig(id="everything", command=command[0], args=[*command[1:], "stdio"], timeout_s=30)
        return
    with run_http_server([*command, "streamableHttp"], {"PORT": str(port := free_port())}, port):
        url = f"http://127.0.0.1:{port}/mcp"
        yield ServerConfig(id="everything", transport="streamable_http", url=url, timeout_s=30)


async def ask(site: Site, era: str, method: str, params: dict[str, Any], capabilities: dict[str, Any]) -> Any:
    if era == "legacy":
        session = await open_session(site, capabilities=capabilities)
        return (await session.post(request(method, params))).json["result"]
    return (await site.post(*modern_request(method, params, capabilities=capabilities))).json["result"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_tools_for_capable_clients_are_listed_over_http(everything: ServerConfig, era: str) -> None:
    upstream = UpstreamConfig(id="everything", remote=everything)
    hub = Gateway(HubConfig(upstreams=(upstream,), hub=HubSettings(list_s=30, search="off")))
    async with run_server(hub.main_front, limits=("off",)) as here:
        listed = await ask(here.site, era, "tools/list", {}, ALL_CAPABILITIES)
        found = {entry["name"] for entry in listed["tools"]}
        assert len([name for name in found if not name.startswith("hub.")]) == 17
        assert found >= CONDITIONAL
        call = {"name": "trigger-elicitation-request", "arguments": {}}
        refused = await ask(here.site, era, "tools/call", call, {})
        assert refused["isError"] is True
        assert "declared none of these capabilities" in str(refused["content"])
        if era == "modern":
            asked = await ask(here.site, era, "tools/call", call, ALL_CAPABILITIES)
            assert asked["resultType"] == "input_required"
