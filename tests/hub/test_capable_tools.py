"""Tools that a server lists only to clients with capabilities: listed to all clients, usable with the capability."""

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.http.eras import modern_request, open_session
from tests.http.in_process_server import run_server
from tests.http.raw_http import Site, request
from tests.hub.local_hubs import list_names, make_hub, open_client
from tests.hub.upstream_callers import (
    ALL_CAPABILITIES,
    ELICITATION,
    LEGACY,
    MODERN,
    RecordingReturnPath,
    call_tool,
    call_until_complete,
    make_caller,
    result_text,
)
from tests.hub.upstreams import open_upstream
from tests.server.raw_client import MODERN as MODERN_DIALECT

from hubbub import ServerConfig, ToolError, UpstreamConfig
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway
from hubbub.hub.known_names import KnownNames

PROGRAM = """
import json, os, sys
from pathlib import Path

with Path(sys.argv[1]).open("a") as file:
    file.write("started\\n")
capabilities = {}

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def tools():
    found = ["plain"]
    if sys.argv[2] == "more":
        found += [name for name in ("elicitation", "sampling", "roots") if name in capabilities]
    return [{"name": name, "inputSchema": {"type": "object"}} for name in found]

for line in sys.stdin:
    message = json.loads(line)
    match message.get("method"):
        case "initialize":
            capabilities = message["params"]["capabilities"]
            info = {"serverInfo": {"name": "choosy", "version": "1"}, "capabilities": {"tools": {}}}
            say(id=message["id"], result={"protocolVersion": message["params"]["protocolVersion"], **info})
        case "tools/list":
            say(id=message["id"], result={"tools": tools()})
        case "tools/call":
            name = message["params"]["name"]
            if name == "elicitation" and name in capabilities:
                asked = message["id"]
                schema = {"type": "object", "properties": {"name": {"type": "string"}}}
                params = {"message": "who?", "requestedSchema": schema}
                say(id="q", method="elicitation/create", params=params)
            elif name == "plain":
                say(id=message["id"], result={"content": [{"type": "text", "text": json.dumps(sorted(capabilities))}]})
            else:
                say(id=message["id"], error={"code": -32602, "message": f"Tool {name} not found"})
        case None if message.get("id") == "q":
            say(id=asked, result={"content": [{"type": "text", "text": message["result"]["content"]["name"]}]})
"""


def choosy_config(folder: Path, *, more: bool = True) -> ServerConfig:
    program = folder / "choosy.py"
    program.write_text(PROGRAM)
    args = [str(program), str(folder / "starts"), "more" if more else "same"]
    return ServerConfig(id="choosy", command=sys.executable, args=args, protocol_version="2025-11-25", timeout_s=20)


def count_starts(folder: Path) -> int:
    return (folder / "starts").read_text().count("started")


async def list_tools_as(site: Site, era: str, capabilities: dict[str, Any]) -> list[str]:
    if era == "legacy":
        found = await (await open_session(site, capabilities=capabilities)).post(request("tools/list"))
    else:
        found = await site.post(*modern_request("tools/list", capabilities=capabilities))
    return [entry["name"] for entry in found.json["result"]["tools"] if not entry["name"].startswith("hub.")]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_tools_that_need_capabilities_are_listed_once_a_capable_client_connects(tmp_path: Path, era: str) -> None:
    hub = make_hub(UpstreamConfig(id="choosy", remote=choosy_config(tmp_path)))
    everything = ["plain", "elicitation", "sampling", "roots"]
    async with run_server(hub.main_front, limits=("off",)) as here:
        assert await list_tools_as(here.site, era, {}) == ["plain"]
        assert await list_tools_as(here.site, era, ALL_CAPABILITIES) == everything
        assert await list_tools_as(here.site, era, {}) == everything


async def test_a_capable_modern_client_on_stdio_gets_the_full_list_too(tmp_path: Path) -> None:
    hub = make_hub(UpstreamConfig(id="choosy", remote=choosy_config(tmp_path)))
    async with open_client(hub, MODERN_DIALECT, capabilities=ALL_CAPABILITIES) as client:
        assert await list_names(client) == ["plain", "elicitation", "sampling", "roots"]


async def test_tools_that_need_capabilities_fail_for_callers_without_them(tmp_path: Path) -> None:
    async with open_upstream(choosy_config(tmp_path)) as upstream:
        upstream.expect_capable()
        await upstream.refresh()
        back = RecordingReturnPath("ada")
        assert (
            result_text(await call_tool(upstream, "elicitation", {}, make_caller(LEGACY, ELICITATION, scope="1"), back))
            == "ada"
        )
        assert result_text(await call_until_complete(upstream, "elicitation", {}, back)) == "ada"
        for revision in (LEGACY, MODERN):
            with pytest.raises(ToolError, match="declared none of these capabilities"):
                await call_tool(upstream, "elicitation", {}, make_caller(revision))
        assert (
            result_text(await call_tool(upstream, "plain", {}, make_caller(MODERN))) == "[]"
        )  # no capabilities are declared for other callers


async def test_a_server_whose_list_does_not_depend_on_capabilities_is_probed_only_once(tmp_path: Path) -> None:
    def hub() -> Gateway:
        upstream = UpstreamConfig(id="choosy", remote=choosy_config(tmp_path, more=False))
        return Gateway(HubConfig(upstreams=(upstream,)), known_names=KnownNames(tmp_path / "names"))

    async def listed() -> Any:
        async with open_client(hub(), MODERN_DIALECT, capabilities=ALL_CAPABILITIES) as client:
            return await list_names(client)

    assert await listed() == ["plain"]
    assert count_starts(tmp_path) == 2
    assert await listed() == ["plain"]
    assert count_starts(tmp_path) == 3


async def test_clients_without_capabilities_need_no_second_process(tmp_path: Path) -> None:
    hub = make_hub(UpstreamConfig(id="choosy", remote=choosy_config(tmp_path)))
    async with open_client(hub, MODERN_DIALECT, capabilities={}) as client:
        assert await list_names(client) == ["plain"]
        await client.call("plain")
    assert count_starts(tmp_path) == 1
