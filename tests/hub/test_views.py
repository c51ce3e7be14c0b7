"""Views: only their entries can be listed, called, read, searched and subscribed to."""

import pytest
from tests.hub.local_hubs import library, list_names, make_hub, open_client, toolbox
from tests.server.raw_client import MODERN

from hubbub import View, ViewSettings
from hubbub.hub.gateway import Gateway


def hub_with_view(**view: object) -> Gateway:
    settings = ViewSettings(**view)  # type: ignore[arg-type]
    return make_hub(toolbox("a", "read_file", "write_file"), library("lib"), views={"v": settings})


@pytest.mark.parametrize(
    ("view", "tools"),
    [
        ({}, ["read_file", "write_file", "find_book", "lend_book"]),
        ({"include": ("read_*", "find_*")}, ["read_file", "find_book"]),
        ({"include": ("a/*",)}, ["read_file", "write_file"]),
        ({"exclude": ("*/lend_book", "write_*")}, ["read_file", "find_book"]),
        ({"servers": ("lib",)}, ["find_book", "lend_book"]),
        ({"servers": ("lib",), "exclude": ("lend*",)}, ["find_book"]),
        ({"read_only": True}, ["find_book"]),
        ({"include": ()}, []),
    ],
)
async def test_a_view_lists_and_calls_only_its_tools(view: dict[str, object], tools: list[str]) -> None:
    async with open_client(hub_with_view(**view), view="v") as client:
        assert await list_names(client) == tools
        for name in ("read_file", "write_file", "a__read_file", "a__write_file"):
            answer = await client.ask("tools/call", {"name": name, "arguments": {}})
            assert ("result" in answer) == (name.removeprefix("a__") in tools)


async def test_an_excluded_tool_stays_excluded_when_another_server_has_the_same_name() -> None:
    settings = ViewSettings(exclude=("write_*",))
    hub = make_hub(toolbox("a", "read_file", "write_file"), toolbox("b", "write_file"), views={"v": settings})
    async with open_client(hub, view="v") as client:
        assert await list_names(client) == ["read_file"]
        for name in ("write_file", "a__write_file", "b__write_file"):
            await client.error("tools/call", {"name": name, "arguments": {}})


async def test_an_excluded_tool_stays_excluded_when_its_name_is_shortened() -> None:
    hub = make_hub(toolbox("a", "x" * 60 + "_delete"), views={"v": ViewSettings(exclude=("*_delete",))})
    async with open_client(hub, view="v") as client:
        assert await list_names(client) == []


async def test_resources_and_prompts_are_those_of_the_servers_of_a_view() -> None:
    async with open_client(hub_with_view(servers=("a",)), view="v") as client:
        assert [entry["uri"] for entry in (await client.result("resources/list"))["resources"]] == ["hub://status"]
        templates = (await client.result("resources/templates/list"))["resourceTemplates"]
        assert [entry["uriTemplate"] for entry in templates] == ["hub://results/{id}{?offset}"]
        assert await list_names(client, "prompts") == []
        for uri in ("book://lib/moby", "page://lib/1", "lib+book://lib/moby"):
            assert (await client.error("resources/read", {"uri": uri}))["code"] == -32002
            assert "error" in await client.ask("resources/subscribe", {"uri": uri})
        await client.error("prompts/get", {"name": "review", "arguments": {"title": "x"}})
        reference = {"type": "ref/prompt", "name": "review"}
        await client.error("completion/complete", {"ref": reference, "argument": {"name": "title", "value": ""}})


async def test_patterns_apply_to_prompts_too() -> None:
    async with open_client(hub_with_view(exclude=("rev*",)), view="v") as client:
        assert await list_names(client, "prompts") == []
        await client.error("prompts/get", {"name": "review", "arguments": {"title": "x"}})


async def test_a_view_can_change_descriptions() -> None:
    hub = hub_with_view(descriptions={"read_file": "Read a file of the project."})
    async with open_client(hub, view="v") as client:
        entries = {entry["name"]: entry for entry in (await client.result("tools/list"))["tools"]}
        assert entries["read_file"]["description"] == "Read a file of the project."
        assert entries["write_file"]["description"] == "The tool write_file of a."
    async with open_client(hub_with_view(descriptions={"read_file": "x"})) as client:
        entries = {entry["name"]: entry for entry in (await client.result("tools/list"))["tools"]}
        assert entries["read_file"]["description"] == "The tool read_file of a."


async def test_the_status_of_a_view_lists_only_its_servers() -> None:
    async with open_client(hub_with_view(servers=("a",)), MODERN, view="v") as client:
        status = (await client.call("hub.status"))["structuredContent"]
        assert status["view"] == "v"
        assert [server["id"] for server in status["servers"]] == ["a"]
        assert status["tools"] == 2


async def test_a_view_may_exclude_builtin_tools() -> None:
    async with open_client(hub_with_view(exclude=("hub.*",), search="on"), view="v") as client:
        listed = [entry["name"] for entry in (await client.result("tools/list"))["tools"]]
        assert not [name for name in listed if name.startswith("hub.")]
        await client.error("tools/call", {"name": "hub.status", "arguments": {}})


async def test_search_and_call_are_limited_to_the_view() -> None:
    async with open_client(hub_with_view(include=("read_*", "find_*"), search="only"), MODERN, view="v") as client:
        listed = [entry["name"] for entry in (await client.result("tools/list"))["tools"]]
        assert listed == ["hub.status", "hub.search", "hub.call", "hub.read_result"]
        found = (await client.call("hub.search", {"query": "write or read a file"}))["structuredContent"]
        assert [tool["name"] for tool in found["tools"]] == ["read_file"]
        called = await client.call("hub.call", {"name": "read_file", "arguments": {"text": "x"}})
        assert called["content"][0]["text"] == "a/read_file x"
        refused = await client.call("hub.call", {"name": "write_file", "arguments": {}})
        assert refused["isError"] is True


def test_a_pattern_with_a_slash_matches_server_and_original_name() -> None:
    view = View(include=("git/*", "read_*"), exclude=("git/push",))
    assert view.names("git__pull", "git/pull")
    assert not view.names("push", "git/push")
    assert view.names("read_file", "files/read")
    assert not view.names("write_file", "files/read_all")
