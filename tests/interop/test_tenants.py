"""The official SDK clients as users of two tenants on one hub, with published servers that have state behind it.

`server-memory` stores its graph in a file, which a secret names for each tenant; `server-everything` has state in its
process.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError
from tests.http.keyring import Keyring
from tests.http.server_process import ServerProcess
from tests.interop.external_servers import JUDGES
from tests.interop.python_client import DEPRECATED, ERAS, block_text, connect_sdk_client

pytestmark = [
    pytest.mark.filterwarnings(DEPRECATED),
    pytest.mark.usefixtures("own_folders"),
    pytest.mark.requirement("I2"),
    pytest.mark.requirement("I1"),
]

SCRIPT = "client_tenant.mjs"
TYPESCRIPT_CLIENTS = ["v1", "legacy", "auto"]
RULES = """
[[tenants]]
name = "red"
allow_stdio = true

[[tenants]]
name = "blue"
allow_stdio = true
servers = ["memory"]

[[policy.rules]]
effect = "deny"
tenants = ["blue"]
tools = ["memory/delete_*"]

[[policy.rules]]
effect = "confirm"
tools = ["memory/delete_entities"]
reason = "it cannot be undone"

[[quotas]]
limit = "3/hour"
per = ["user"]
tenants = ["blue"]
tools = ["read_graph"]

[secrets.graph]
env = "GRAPH_OF_HUB"
[secrets.graph.tenant]
red = {env = "GRAPH_OF_RED"}
blue = {env = "GRAPH_OF_BLUE"}
"""


class TeamHub(NamedTuple):
    """The address of the hub, and the keys of a user of each tenant."""

    url: str
    red: dict[str, str]
    blue: dict[str, str]
    green: dict[str, str]
    """Another user of the tenant `red`."""


@pytest.fixture
def hub(node: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TeamHub]:
    for owner in ("HUB", "RED", "BLUE"):
        monkeypatch.setenv(f"GRAPH_OF_{owner}", str(tmp_path / f"{owner.lower()}-graph.jsonl"))
    sections = [
        f"[servers.{name}]\ncommand = {json.dumps(node[0])}\nargs = {json.dumps([str(script(name)), *arguments])}\n"
        for name, arguments in (("memory", []), ("everything", ["stdio"]))
    ]
    sections[0] += 'env = {MEMORY_FILE_PATH = "${secret:graph}"}\n'
    path = tmp_path / "hubbub.toml"
    path.write_text("".join(sections) + "[hub]\nlist_s = 60\n" + RULES)
    ring = Keyring(tmp_path / "keys.toml")
    red, blue = ring.add("rita", tenant="red", user="rita"), ring.add("bert", tenant="blue", user="bert")
    green = ring.add("gina", tenant="red", user="gina")
    with ServerProcess("--config", str(path), "--key-file", str(ring.path)) as process:
        yield TeamHub(f"{process.url}/mcp", red, blue, green)


def script(name: str) -> Path:
    return JUDGES / "@modelcontextprotocol" / f"server-{name}" / "dist" / "index.js"


def entity(name: str) -> dict[str, Any]:
    return {"entities": [{"name": name, "entityType": "thing", "observations": [f"seen by {name}"]}]}


async def approve(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert "delete_entities" in params.message
    assert "it cannot be undone" in params.message
    return types.ElicitResult(action="accept", content={"approve": True})


async def decline(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("other", TYPESCRIPT_CLIENTS)
def test_two_tenants_share_a_hub_and_nothing_else(
    hub: TeamHub, run_async: Callable[..., Any], run_script: Callable[..., Any], mode: str, other: str
) -> None:
    async def create() -> set[str]:
        async with connect_sdk_client(hub.url, mode, hub.red) as (client, _):
            made = await client.call_tool("create_entities", entity("red-secret"))
            assert not made.is_error
            return {tool.name for tool in (await client.list_tools()).tools}

    async def read_and_delete() -> None:
        async with connect_sdk_client(hub.url, mode, hub.red, elicitation_callback=approve) as (client, _):
            graph = block_text((await client.call_tool("read_graph")).content[0])
            assert "red-secret" in graph
            assert "blue-secret" not in graph
            done = await client.call_tool("delete_entities", {"entityNames": ["red-secret"]})
            assert not done.is_error, done
            assert "red-secret" not in block_text((await client.call_tool("read_graph")).content[0])

    reds_tools = run_async(create())
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_graph", {}),
        ("create_entities", entity("blue-secret")),
        ("delete_entities", {"entityNames": ["red-secret", "blue-secret"]}),
        ("echo", {"message": "hi"}),
        ("read_graph", {}),
        ("search_nodes", {"query": "secret"}),
        ("read_graph", {}),
        ("read_graph", {}),
    ]
    seen = run_script(hub.url, SCRIPT, other, hub.blue["X-API-Key"], json.dumps(calls))
    assert {"read_graph", "delete_entities", "echo"} <= reds_tools
    assert "read_graph" in seen["tools"]
    assert not {name for name in seen["tools"] if name.startswith("delete_") or name == "echo"}
    assert "everything" not in json.dumps(seen["instructions"])
    first, created, denied, unknown, second, found, _, over = seen["results"]
    assert "red-secret" not in json.dumps(seen["results"][:2] + seen["results"][3:])
    assert "blue-secret" not in json.dumps(first)
    for result in (created, second, found):
        assert "blue-secret" in json.dumps(result)
    for result in (denied, unknown):
        assert "Tool not found" in result["error"]
        assert result["code"] == -32602
    assert over["isError"] is True
    said = json.loads(over["content"][0]["text"])["error"]
    assert said["type"] == "quota_exceeded"
    assert said["data"]["retryAfterMs"] > 0
    assert "the limit is 3 per hour for each user" in said["message"]
    run_async(read_and_delete())


@pytest.mark.parametrize("mode", ERAS)
def test_a_person_who_declines_in_the_client_stops_the_call(
    hub: TeamHub, run_async: Callable[..., Any], mode: str
) -> None:
    async def scenario() -> None:
        async with connect_sdk_client(hub.url, mode, hub.red, elicitation_callback=decline) as (client, _):
            await client.call_tool("create_entities", entity("kept"))
            refused = await client.call_tool("delete_entities", {"entityNames": ["kept"]})
            assert refused.is_error
            assert "approval_denied" in block_text(refused.content[0])
            assert "kept" in block_text((await client.call_tool("read_graph")).content[0])

    run_async(scenario())
    assert "kept" in Path(os.environ["GRAPH_OF_RED"]).read_text()
    assert not Path(os.environ["GRAPH_OF_BLUE"]).exists()


@pytest.mark.parametrize("mode", ERAS)
def test_two_users_of_one_tenant_have_their_own_state_in_a_server(
    hub: TeamHub, run_async: Callable[..., Any], mode: str
) -> None:
    async def scenario() -> None:
        async with (
            connect_sdk_client(hub.url, mode, hub.red) as (rita, _),
            connect_sdk_client(hub.url, mode, hub.green) as (gina, _),
        ):
            # The server adds a resource to its session.
            given = {"name": "own.txt.gz", "data": "data:text/plain,secret", "outputType": "resourceLink"}
            made = await rita.call_tool("gzip-file-as-resource", given)
            (link,) = made.content
            assert isinstance(link, types.ResourceLink), made
            assert (await rita.read_resource(str(link.uri))).contents
            with pytest.raises(MCPError, match=r"(?i)not found"):
                await gina.read_resource(str(link.uri))

    run_async(scenario())
