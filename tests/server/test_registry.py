"""The registry and events of contract 001 (docs/decisions/0008), and notifications about changes."""

import time
from typing import Any, Never

import pytest
from tests.server.raw_client import DIALECTS, MODERN, PLAIN, SUBSCRIPTION_KEY, connect_raw_client

from hubbub import DefinitionError, Events, Server, Tool, ToolChange, ToolRegistry, View, bounds

CHANGED = "notifications/tools/list_changed"


async def calculator(a: int) -> int:
    """Calculates."""
    return a


def tool(name: str = "calculator", **options: Any) -> Tool:
    return Tool(calculator, name=name, **options)


class RecordedRegistry:
    """A registry and the changes that it emitted."""

    def __init__(self) -> None:
        self.events = Events()
        self.changes: list[ToolChange] = []
        self.events.on("toolChange", self.changes.append)
        self.registry = ToolRegistry(self.events)

    def change_names(self) -> list[tuple[str, str]]:
        return [(change.type, change.tool_name) for change in self.changes]


def test_a_new_tool_is_added_and_a_known_name_updated_in_its_place() -> None:
    recorded = RecordedRegistry()
    registry = recorded.registry
    first, second, replacement = tool("a"), tool("b"), tool("a", description="new")
    for each in (first, second, replacement):
        registry.register(each)
    assert recorded.change_names() == [("tool_added", "a"), ("tool_added", "b"), ("tool_updated", "a")]
    assert registry.names() == ["a", "b"]
    assert registry.all() == [replacement, second]
    assert registry.get("a") is replacement


def test_the_registry_can_be_queried() -> None:
    registry = RecordedRegistry().registry
    assert (registry.size(), registry.names(), registry.all()) == (0, [], [])
    assert registry.get("calculator") is None
    assert not registry.has("calculator")
    registry.register(tool())
    assert (registry.size(), registry.names()) == (1, ["calculator"])
    assert registry.has("calculator")
    assert "calculator" in registry
    assert len(registry) == len(list(registry)) == 1


def test_unregister_returns_whether_the_tool_existed() -> None:
    recorded = RecordedRegistry()
    recorded.registry.register(tool())
    assert recorded.registry.unregister("calculator") is True
    assert recorded.registry.unregister("calculator") is False
    assert recorded.change_names() == [("tool_added", "calculator"), ("tool_removed", "calculator")]


def test_clear_emits_one_event_for_each_tool() -> None:
    recorded = RecordedRegistry()
    for name in ("a", "b", "c"):
        recorded.registry.register(tool(name))
    recorded.changes.clear()
    recorded.registry.clear(reason="shutting down")
    assert recorded.change_names() == [("tool_removed", "a"), ("tool_removed", "b"), ("tool_removed", "c")]
    reasons = [change.metadata.reason for change in recorded.changes if change.metadata]
    assert reasons == ["shutting down"] * 3
    assert recorded.registry.size() == 0
    recorded.registry.clear()
    assert len(recorded.changes) == 3


def test_a_change_event_has_timestamp_tool_and_reason() -> None:
    recorded = RecordedRegistry()
    before = int(time.time() * 1000)
    recorded.registry.register(tool(), reason="because")
    (change,) = recorded.changes
    assert before <= change.timestamp <= int(time.time() * 1000)
    assert change.metadata
    assert change.metadata.description == "Calculates."
    assert change.metadata.input_schema == tool().input_schema
    assert change.metadata.reason == "because"


def test_the_registry_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TOOLS", 2)
    registry = RecordedRegistry().registry
    registry.register(tool("a"))
    registry.register(tool("b"))
    registry.register(tool("a"))
    with pytest.raises(DefinitionError, match="a server holds at most"):
        registry.register(tool("c"))


# -- events --------------------------------------------------------------------


CHANGE = ToolChange("tool_added", "x", 1)


def test_listeners_are_called_in_order_until_they_are_removed() -> None:
    events, received = Events(), []

    def first(change: ToolChange) -> None:
        received.append(("first", change))

    def second(change: ToolChange) -> None:
        received.append(("second", change))

    assert events.on("toolChange", first).on("toolChange", second) is events
    assert events.emit("toolChange", CHANGE) is True
    assert events.off("toolChange", first) is events
    events.emit("toolChange", CHANGE)
    assert received == [("first", CHANGE), ("second", CHANGE), ("second", CHANGE)]


def test_emit_returns_false_without_listeners() -> None:
    events = Events()
    assert events.emit("toolChange", CHANGE) is False
    assert events.off("toolChange", print) is events


def test_a_listener_that_raises_stops_neither_the_others_nor_the_change(caplog: pytest.LogCaptureFixture) -> None:
    recorded = RecordedRegistry()

    def broken(change: ToolChange) -> Never:
        raise RuntimeError("broken listener")

    received: list[ToolChange] = []
    recorded.events.on("toolChange", broken)
    recorded.events.on("toolChange", received.append)
    recorded.registry.register(tool())
    assert recorded.registry.has("calculator")
    assert len(received) == 1
    assert "broken listener" in caplog.text


def test_listeners_may_be_added_or_removed_during_an_event() -> None:
    events, received = Events(), []

    def once(change: ToolChange) -> None:
        received.append(change)
        events.off("toolChange", once)
        events.on("toolChange", received.append)

    events.on("toolChange", once)
    events.emit("toolChange", CHANGE)
    assert len(received) == 1
    events.emit("toolChange", CHANGE)
    assert len(received) == 2


def test_unknown_event_names_are_refused() -> None:
    with pytest.raises(ValueError, match="toolChange"):
        Events().on("other", print)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="toolChange"):
        Events().emit("other", CHANGE)  # type: ignore[arg-type]


# -- clients -------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [dialect for dialect in DIALECTS if dialect != MODERN])
async def test_every_session_is_notified_of_every_change(dialect: str) -> None:
    server = Server("s")
    async with connect_raw_client(server, dialect) as client, connect_raw_client(server, dialect) as other:
        server.tool(calculator)
        server.tool(calculator)
        server.tools.unregister("calculator")
        for each in (client, other):
            await each.wait_until_idle()
            notes = each.notifications(CHANGED)
            assert [(note["type"], note["toolName"]) for note in notes] == [
                ("tool_added", "calculator"),
                ("tool_updated", "calculator"),
                ("tool_removed", "calculator"),
            ]
            assert all(set(note) == {"type", "toolName", "timestamp"} for note in notes)
            assert all(isinstance(note["timestamp"], int) for note in notes)


async def test_a_change_notification_has_the_documented_members() -> None:
    server = Server("s")
    async with connect_raw_client(server) as client:
        server.tool(calculator)
        note = await client.next_message()
    assert list(note) == ["jsonrpc", "method", "params"]
    assert note["method"] == CHANGED
    assert list(note["params"]) == ["type", "toolName", "timestamp"]


async def test_a_tool_registered_at_run_time_can_be_called_at_once() -> None:
    server = Server("s")
    async with connect_raw_client(server, "2025-11-25") as client:
        assert (await client.result("tools/list"))["tools"] == []
        server.tool(calculator)
        assert [entry["name"] for entry in (await client.result("tools/list"))["tools"]] == ["calculator"]
        assert (await client.call("calculator", {"a": 3}))["structuredContent"] == {"result": 3}
        server.tools.unregister("calculator")
        assert (await client.error("tools/call", {"name": "calculator"}))["code"] == -32602


async def test_a_modern_client_receives_only_notifications_that_it_subscribed_to() -> None:
    server = Server("s")
    async with connect_raw_client(server, MODERN) as client:
        await client.wait_until_idle()
        server.tool(calculator)
        await client.wait_until_idle()
        assert client.received == []
        client.send_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=9)
        await client.wait_until_idle()
        server.tool(calculator)
        await client.wait_until_idle()
        (note,) = client.notifications(CHANGED)
        assert note.pop("timestamp") > 0
        assert note == {"type": "tool_updated", "toolName": "calculator", "_meta": {SUBSCRIPTION_KEY: 9}}


# -- profiles ------------------------------------------------------------------


def profiled(**options: Any) -> Server:
    server = Server("s", profiles={"core": View(("a*",)), "full": View(), "safe": View(read_only=True)}, **options)
    for name in ("alpha", "another", "beta"):
        server.tools.register(tool(name))
    return server


async def listed(server: Server) -> list[str]:
    async with connect_raw_client(server, PLAIN) as client:
        return [entry["name"] for entry in (await client.result("tools/list"))["tools"]]


async def test_the_list_shows_the_active_profile() -> None:
    assert await listed(profiled()) == ["alpha", "another", "beta"]
    assert await listed(profiled(profile="core")) == ["alpha", "another"]
    assert await listed(profiled(profile="safe")) == []


async def test_changing_the_profile_notifies_clients() -> None:
    server = profiled()
    async with connect_raw_client(server) as client:
        server.use_profile("core")
        assert (await client.next_message())["method"] == CHANGED
    assert await listed(server) == ["alpha", "another"]


def test_an_unknown_profile_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(DefinitionError, match="core, full, safe"):
        profiled(profile="nope")


def test_a_view_matches_names_exactly_as_written() -> None:
    view = View(("aw.*", "Exact"), exclude=("aw.secret*",))
    shown = [name for name in ("aw.get", "aw.secret_1", "awXget", "Exact", "exact") if view.shows(tool(name))]
    assert shown == ["aw.get", "Exact"]


async def test_available_tools_are_those_of_the_profile() -> None:
    async with connect_raw_client(profiled(profile="core")) as client:
        error = await client.error("tools/call", {"name": "x"})
    assert error["data"]["availableTools"] == ["alpha", "another"]
