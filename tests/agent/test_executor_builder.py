"""Executors are chosen by membership in the snapshot, before the first call."""

import pytest
from tests.agent.fakes import FakeTools, ScriptedClient, definitions

from hubbub import DefinitionError, ExecutorBuilder, Snapshot, ToolEntry, ToolsBuilder, bounds
from hubbub.agent.tool_adapter import adapt_tools


def snapshot(client: ScriptedClient | None = None) -> Snapshot:
    adapted = adapt_tools({"srv": [ToolEntry("echo"), ToolEntry("write")]}, bounds.TOOL_KEY_CHARACTERS)
    return Snapshot(adapted.definitions, adapted.mapping, {"srv": client or ScriptedClient()})


def test_there_is_no_executor_when_tools_are_disabled() -> None:
    assert ExecutorBuilder.build(registry=ToolsBuilder.build(definitions("now")), enabled=False) is None


def test_local_tools_need_a_default_executor() -> None:
    with pytest.raises(DefinitionError, match="No executor for now; pass the `default_executor`"):
        ExecutorBuilder.build(registry=ToolsBuilder.build(definitions("now")))


def test_mcp_tools_need_the_snapshot() -> None:
    registry = ToolsBuilder.build(mcp_definitions=snapshot().definitions)
    with pytest.raises(DefinitionError, match="No executor for mcp_srv__echo, mcp_srv__write; pass the `mcp_snapshot`"):
        ExecutorBuilder.build(registry=registry, default_executor=FakeTools())
    with pytest.raises(DefinitionError, match="mcp_snapshot"):
        ExecutorBuilder.build(registry=registry, mcp_snapshot=Snapshot(), default_executor=FakeTools())


async def test_calls_are_routed_by_membership_and_not_by_prefix() -> None:
    client, local_tools = ScriptedClient(), FakeTools()
    mcp_snapshot_in_use = snapshot(client)
    registry = ToolsBuilder.build(definitions("mcp_mine"), mcp_definitions=mcp_snapshot_in_use.definitions)
    executor = ExecutorBuilder.build(registry=registry, mcp_snapshot=mcp_snapshot_in_use, default_executor=local_tools)
    assert executor is not None
    assert (await executor.call("mcp_mine", {}, call_id="1"))["ok"]
    assert (await executor.call("mcp_srv__echo", {"a": 1}, call_id="2"))["ok"]
    assert local_tools.names == ["mcp_mine"]
    assert [name for name, _, _ in client.calls] == ["echo"]


async def test_hidden_tools_cannot_be_called() -> None:
    client = ScriptedClient()
    mcp_snapshot_in_use = snapshot(client)
    registry = ToolsBuilder.build(mcp_definitions=mcp_snapshot_in_use.definitions, deny=["*__write"])
    executor = ExecutorBuilder.build(registry=registry, mcp_snapshot=mcp_snapshot_in_use)
    assert executor is not None
    assert executor.names == {"mcp_srv__echo"} == {item.name for item in registry.exposed}
    envelope = await executor.call("mcp_srv__write", {})
    assert [error["code"] for error in envelope["errors"]] == ["TOOL_NOT_IMPLEMENTED"]
    assert client.calls == []


def test_hidden_tools_need_no_executor() -> None:
    registry = ToolsBuilder.build(definitions("now"), mcp_definitions=snapshot().definitions, deny=["mcp_*"])
    executor = ExecutorBuilder.build(registry=registry, default_executor=FakeTools())
    assert executor is not None
    assert executor.names == {"now"}
