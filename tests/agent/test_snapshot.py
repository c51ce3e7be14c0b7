"""Snapshots over real processes: parallel, partial, frozen, closed."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.agent.fakes import ScriptedClient, definitions
from tests.agent.servers import stdio
from tests.client.harness import odd_server_config
from tests.processes import is_running

from hubbub import DefinitionError, HubbubError, ServerConfig, SettingsError, Snapshot, ToolOrigin, ToolRegistryBuilder

SERVER = """
from hubbub import Server, run

server = Server("several")

@server.tool
async def echo(text: str) -> str:
    "Return the text as it came."
    return text

@server.tool
async def grow() -> str:
    "Register one more tool."
    @server.tool
    async def more() -> str:
        return "more"
    return "grown"

run(server)
"""


Children = Callable[[], set[psutil.Process]]


def missing(id: str) -> ServerConfig:
    return ServerConfig(id=id, command="/nonexistent/server")


def running_children() -> set[psutil.Process]:
    """Without the orphan reaper, a shell that the first stdio client starts and that runs as long as this process."""
    return {child for child in psutil.Process().children() if is_running(child) and child.name() != "sh"}


@pytest.fixture
def children() -> Children:
    """The processes started since the test began; servers of other tests of this worker may also be running."""
    before = running_children()
    return lambda: running_children() - before


async def test_servers_are_connected_and_their_tools_can_be_called(children: Children) -> None:
    async with await ToolRegistryBuilder([stdio("one"), stdio("two")]).build() as snapshot:
        assert [item.name for item in snapshot.definitions] == ["mcp_one__echo", "mcp_two__echo"]
        assert snapshot.definitions[0].description == "Return the text as it came. (MCP: one)"
        assert snapshot.mapping["mcp_two__echo"] == ToolOrigin("two", "echo")
        assert set(snapshot.clients) == {"one", "two"}
        assert snapshot.errors == {}
        result = await snapshot.clients["two"].call_tool("echo", {"text": "hello"})
        assert result.content[0].text == "hello"
    assert not children()


async def test_a_server_that_is_down_does_not_affect_the_tools_of_others() -> None:
    async with await ToolRegistryBuilder([missing("down"), stdio("up")], deadline_s=20).build() as snapshot:
        assert [item.name for item in snapshot.definitions] == ["mcp_up__echo"]
        assert isinstance(snapshot.errors["down"], HubbubError)
        assert set(snapshot.clients) == {"up"}


async def test_a_silent_server_delays_the_build_until_the_deadline_at_most(children: Children) -> None:
    silent = ServerConfig(
        id="silent", command=sys.executable, args=["-c", "import time; time.sleep(600)"], timeout_s=600
    )
    async with await ToolRegistryBuilder([silent], deadline_s=0.5).build() as snapshot:
        assert set(snapshot.errors) == {"silent"}
        assert snapshot.definitions == ()
    assert not children()


async def test_endless_pagination_ends_at_the_deadline_and_affects_no_other_server(children: Children) -> None:
    endless = odd_server_config("slow-pages", id="endless", timeout_s=60)
    async with await ToolRegistryBuilder([endless, stdio("up")], deadline_s=10).build() as snapshot:
        assert [item.name for item in snapshot.definitions] == ["mcp_up__echo"]
        assert "after 10 s while waiting for the list of tools of endless" in snapshot.errors["endless"].message
        assert set(snapshot.clients) == {"endless", "up"}
    assert not children()


async def test_one_missing_server_fails_the_build_when_all_are_required(children: Children) -> None:
    with pytest.raises(HubbubError):
        await ToolRegistryBuilder([missing("down"), stdio("up")], requires_all=True).build()
    assert not children()


async def test_a_name_collision_fails_the_build_and_closes_all_clients(children: Children) -> None:
    with pytest.raises(DefinitionError, match="mcp_a_b__echo"):
        await ToolRegistryBuilder([stdio("a.b"), stdio("a_b")]).build()
    assert not children()


async def test_cancelling_a_build_closes_all_clients(children: Children) -> None:
    silent = ServerConfig(
        id="silent", command=sys.executable, args=["-c", "import time; time.sleep(600)"], timeout_s=600
    )
    task = asyncio.ensure_future(ToolRegistryBuilder([silent]).build())
    async with asyncio.timeout(60):
        while not children():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children()


@pytest.mark.parametrize(
    ("configs", "options", "message"),
    [
        ([stdio("a"), stdio("a")], {}, "Two servers"),
        ([{"id": "a"}], {}, "command"),
        ([], {"name_limit": 10}, "64"),
    ],
)
def test_invalid_settings_are_refused_before_anything_starts(
    configs: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        ToolRegistryBuilder(configs, **options)


async def test_names_respect_a_lower_limit() -> None:
    async with await ToolRegistryBuilder([stdio("s" * 80)], name_limit=64).build() as snapshot:
        (definition,) = snapshot.definitions
        assert len(definition.name) == 64
        assert snapshot.mapping[definition.name].remote_tool_name == "echo"


async def test_a_renewed_snapshot_has_the_new_tools_and_the_old_one_does_not(tmp_path: Path) -> None:
    file = tmp_path / "several.py"
    file.write_text(SERVER)
    async with await ToolRegistryBuilder([stdio("s", file)]).build() as snapshot:
        await snapshot.clients["s"].call_tool("grow")
        renewed = await snapshot.renewed()
        assert [item.name for item in renewed.definitions] == ["mcp_s__echo", "mcp_s__grow", "mcp_s__more"]
        assert [item.name for item in snapshot.definitions] == ["mcp_s__echo", "mcp_s__grow"]
        assert renewed.clients["s"] is snapshot.clients["s"]


# -- constructed directly ------------------------------------------------------------


async def test_closing_closes_all_clients_and_suppresses_errors() -> None:
    clients = {"a": ScriptedClient(closes_badly=True), "b": ScriptedClient()}
    snapshot = Snapshot(clients=clients)
    await snapshot.close()
    await snapshot.close()
    assert (clients["a"].closed, clients["b"].closed) == (2, 2)


async def test_leaving_the_context_after_an_error_closes_all_clients() -> None:
    client = ScriptedClient()
    with pytest.raises(KeyError):
        async with Snapshot(clients={"a": client}):
            raise KeyError
    assert client.closed == 1


async def test_a_snapshot_constructed_directly_cannot_be_renewed() -> None:
    with pytest.raises(SettingsError):
        await Snapshot().renewed()


def test_a_snapshot_is_immutable() -> None:
    mapping, made = {"a": ToolOrigin("s", "a")}, list(definitions("a"))
    snapshot = Snapshot(made, mapping, {"s": ScriptedClient()})
    mapping["b"] = ToolOrigin("s", "b")
    made.clear()
    assert len(snapshot.definitions) == len(snapshot.mapping) == 1
    with pytest.raises(AttributeError):
        snapshot.definitions = ()  # type: ignore[misc]
    for held in (snapshot.mapping, snapshot.clients, snapshot.errors, snapshot.skipped):
        with pytest.raises(TypeError):
            held["x"] = None  # type: ignore[index]
    with pytest.raises(AttributeError):
        snapshot.mapping["a"].server_id = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        snapshot.definitions[0].parameters["type"] = "array"  # type: ignore[index]
