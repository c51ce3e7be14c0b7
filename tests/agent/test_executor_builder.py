"""Who runs what: by membership, and found out before the first call."""

import pytest
from tests.agent.scripted import ScriptedClient, Tools, definitions

from hubbub import DefinitionError, ExecutorBuilder, Snapshot, ToolEntry, ToolsBuilder, bounds
from hubbub.agent.adapt import adapt_all


def snapshot(client: ScriptedClient | None = None) -> Snapshot:
    adapted = adapt_all({"srv": [ToolEntry("echo"), ToolEntry("write")]}, bounds.TOOL_KEY_CHARACTERS)
    return Snapshot(adapted.definitions, adapted.mapping, {"srv": client or ScriptedClient()})


def test_there_is_no_executor_when_tools_are_disabled() -> None:
    assert ExecutorBuilder.build(registry=ToolsBuilder.build(definitions("now")), enabled=False) is None


def test_own_tools_need_a_default_executor() -> None:
    with pytest.raises(DefinitionError, match="`default_executor` has to run now"):
        ExecutorBuilder.build(registry=ToolsBuilder.build(definitions("now")))


def test_mcp_tools_need_the_snapshot() -> None:
    registry = ToolsBuilder.build(mcp_definitions=snapshot().definitions)
    with pytest.raises(DefinitionError, match="`mcp_snapshot` has to run mcp_srv__echo"):
        ExecutorBuilder.build(registry=registry, default_executor=Tools())
    with pytest.raises(DefinitionError, match="mcp_snapshot"):
        ExecutorBuilder.build(registry=registry, mcp_snapshot=Snapshot(), default_executor=Tools())


async def test_calls_go_by_membership_and_not_by_prefix() -> None:
    client, own = ScriptedClient(), Tools()
    taken = snapshot(client)
    registry = ToolsBuilder.build(definitions("mcp_mine"), mcp_definitions=taken.definitions)
    executor = ExecutorBuilder.build(registry=registry, mcp_snapshot=taken, default_executor=own)
    assert executor is not None
    assert (await executor.call("mcp_mine", {}, call_id="1"))["ok"]
    assert (await executor.call("mcp_srv__echo", {"a": 1}, call_id="2"))["ok"]
    assert own.names == ["mcp_mine"]
    assert [name for name, _, _ in client.calls] == ["echo"]


async def test_what_is_hidden_cannot_be_called() -> None:
    client = ScriptedClient()
    taken = snapshot(client)
    registry = ToolsBuilder.build(mcp_definitions=taken.definitions, deny=["*__write"])
    executor = ExecutorBuilder.build(registry=registry, mcp_snapshot=taken)
    assert executor is not None
    assert executor.names == {"mcp_srv__echo"} == {item.name for item in registry.exposed}
    envelope = await executor.call("mcp_srv__write", {})
    assert [error["code"] for error in envelope["errors"]] == ["TOOL_NOT_IMPLEMENTED"]
    assert client.calls == []


def test_hidden_tools_need_nobody_to_run_them() -> None:
    registry = ToolsBuilder.build(definitions("now"), mcp_definitions=snapshot().definitions, deny=["mcp_*"])
    executor = ExecutorBuilder.build(registry=registry, default_executor=Tools())
    assert executor is not None
    assert executor.names == {"now"}
