"""A hub as clients of every era see it: lists, routing of calls, notifications."""

import asyncio
from typing import Any

import pytest
from tests.hub.local_hubs import library, list_names, make_hub, open_client, toolbox
from tests.server.raw_client import ALL_CAPABILITIES, DIALECTS, LEGACY, MODERN, PLAIN, connect_raw_client

from hubbub import (
    Caller,
    Context,
    HubSettings,
    Principal,
    ProvidedResource,
    Server,
    ToolSettings,
    UpstreamConfig,
    bounds,
)
from hubbub.hub.config import HubConfig
from hubbub.hub.gateway import Gateway
from hubbub.protocol.revisions import NEWEST_MODERN

NEWEST = (PLAIN, LEGACY[-1], MODERN)


def texts(result: Any) -> list[str]:
    return [item["text"] for item in result["content"]]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_tools_of_all_servers_are_listed_and_called(dialect: str) -> None:
    async with open_client(make_hub(toolbox("a", "one", "two"), toolbox("b", "three")), dialect) as client:
        assert await list_names(client) == ["one", "two", "three"]
        assert texts(await client.call("three", {"text": "x"})) == ["b/three x"]
        assert texts(await client.call("b__three")) == ["b/three"]


@pytest.mark.parametrize("dialect", NEWEST)
async def test_tools_of_the_same_name_get_the_server_as_prefix(dialect: str) -> None:
    async with open_client(make_hub(toolbox("a", "find"), toolbox("b", "find")), dialect) as client:
        assert await list_names(client) == ["a__find", "b__find"]
        assert texts(await client.call("a__find")) == ["a/find"]
        assert texts(await client.call("b__find")) == ["b/find"]
        error = await client.error("tools/call", {"name": "find", "arguments": {}})
        assert "a__find or b__find" in error["message"]
        assert error["data"]["availableTools"] == ["a__find", "b__find"]


async def test_a_tool_can_be_called_before_anything_was_listed() -> None:
    async with open_client(make_hub(toolbox("a", "one"), toolbox("b", "two"))) as client:
        assert texts(await client.call("two")) == ["b/two"]


@pytest.mark.parametrize("dialect", NEWEST)
async def test_an_unknown_tool_is_not_found(dialect: str) -> None:
    async with open_client(make_hub(toolbox("a", "one")), dialect) as client:
        error = await client.error("tools/call", {"name": "none", "arguments": {}})
        assert error["code"] == (-32000 if dialect == PLAIN else -32602)
        assert error["message"] == "Tool not found"
        assert "one" in error["data"]["availableTools"]


async def test_a_plain_caller_calls_a_tool_by_its_name() -> None:
    async with open_client(make_hub(library(), toolbox("b", "one")), PLAIN) as client:
        assert await client.result("find_book", {"title": "Emma"}) == {"found": "Emma", "in": "library"}
        assert await client.result("one", {"text": "x"}) == "b/one x"
        assert (await client.error("nothing", {}))["code"] == -32601


async def test_an_mcp_caller_cannot_call_a_tool_as_a_method() -> None:
    async with open_client(make_hub(toolbox("a", "one"))) as client:
        assert (await client.error("one", {}))["code"] == -32601


@pytest.mark.parametrize("dialect", [*LEGACY[2:], MODERN])
async def test_the_meta_of_an_entry_names_its_server(dialect: str) -> None:
    async with open_client(make_hub(library("a"), library("b")), dialect) as client:
        for kind, member in (
            ("tools", "tools"),
            ("prompts", "prompts"),
            ("resources", "resources"),
            ("resources/templates", "resourceTemplates"),
        ):
            entries = (await client.result(f"{kind}/list"))[member]
            owners = [entry["_meta"]["dev.hubbub/server"] for entry in entries]
            assert owners == [entry["_meta"]["hubbub/server"] for entry in entries], "the former key, for one release"
            assert {"a", "b"} <= set(owners) <= {"a", "b", "hub"}


@pytest.mark.parametrize("dialect", [PLAIN, *LEGACY[:2]])
async def test_older_callers_get_entries_without_newer_fields(dialect: str) -> None:
    async with open_client(make_hub(library("a")), dialect) as client:
        for entry in (await client.result("tools/list"))["tools"]:
            assert not {"_meta", "title", "outputSchema"} & set(entry)


async def test_non_object_results_are_wrapped_for_older_callers() -> None:
    server = Server("sums")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    hub = make_hub(server)
    async with open_client(hub, "2025-06-18") as client:
        (tool,) = [entry for entry in (await client.result("tools/list"))["tools"] if entry["name"] == "add"]
        assert tool["outputSchema"]["properties"]["result"]["type"] == "integer"
        assert (await client.call("add", {"a": 1, "b": 2}))["structuredContent"] == {"result": 3}
    async with open_client(make_hub(server), MODERN) as client:
        assert (await client.call("add", {"a": 1, "b": 2}))["structuredContent"] == 3


async def test_settings_rename_hide_and_describe_single_tools() -> None:
    tools = {
        "one": ToolSettings(name="first", description="The first."),
        "two": ToolSettings(hidden=True),
    }
    config = UpstreamConfig(id="a", server=toolbox("a", "one", "two", "three"), tools=tools)
    async with open_client(make_hub(config)) as client:
        entries = {entry["name"]: entry for entry in (await client.result("tools/list"))["tools"]}
        assert entries["first"]["description"] == "The first."
        assert "two" not in entries
        assert texts(await client.call("first")) == ["a/one"]
        await client.error("tools/call", {"name": "two", "arguments": {}})
        await client.error("tools/call", {"name": "a__two", "arguments": {}})


async def test_settings_select_tools_and_prompts_of_a_server() -> None:
    config = UpstreamConfig(id="lib", server=library(), include=("*book*",), exclude=("lend*",))
    async with open_client(make_hub(config)) as client:
        assert await list_names(client) == ["find_book"]
        assert await list_names(client, "prompts") == []


async def test_read_only_hides_tools_that_are_not_read_only() -> None:
    config = UpstreamConfig(id="lib", server=library(), read_only=True)
    async with open_client(make_hub(config)) as client:
        assert await list_names(client) == ["find_book"]
        assert await list_names(client, "prompts") == ["review"]


async def test_safe_names_are_listed_and_both_forms_can_be_called() -> None:
    async with open_client(make_hub(toolbox("a", "aw.get"), lists_safe_names=True)) as client:
        listed = [entry["name"] for entry in (await client.result("tools/list"))["tools"]]
        assert listed == ["hub_status", "hub_read_result", "aw_get"]
        assert texts(await client.call("aw_get")) == texts(await client.call("aw.get")) == ["a/aw.get"]
        assert (await client.call("hub_status"))["structuredContent"]["tools"] == 1


async def test_a_server_cannot_use_the_name_of_a_builtin_tool() -> None:
    async with open_client(make_hub(toolbox("a", "hub.status"))) as client:
        listed = [entry["name"] for entry in (await client.result("tools/list"))["tools"]]
        assert listed == ["hub.status", "hub.read_result", "a__hub.status"]
        assert texts(await client.call("a__hub.status")) == ["a/hub.status"]
        assert "servers" in (await client.call("hub.status"))["structuredContent"]


# -- resources, prompts, completion ----------------------------------------------


@pytest.mark.parametrize("dialect", NEWEST)
async def test_resources_are_read_from_the_server_that_lists_them(dialect: str) -> None:
    async with open_client(make_hub(library("a"), library("b")), dialect) as client:
        read = (await client.result("resources/read", {"uri": "book://b/moby"}))["contents"]
        assert [item["text"] for item in read] == ["Call me b."]
        read = (await client.result("resources/read", {"uri": "page://a/7"}))["contents"]
        assert [item["text"] for item in read] == ["page 7 of a"]


@pytest.mark.parametrize(("dialect", "code"), [(PLAIN, -32001), (LEGACY[-1], -32002), (MODERN, -32602)])
async def test_an_unknown_resource_is_not_found(dialect: str, code: int) -> None:
    async with open_client(make_hub(library("a"), library("b")), dialect) as client:
        assert (await client.error("resources/read", {"uri": "book://c/moby"}))["code"] == code


def book_server(name: str) -> Server:
    server = Server(name)

    @server.resource("book://moby")
    def moby() -> str:
        return f"Call me {name}."

    @server.resource("page://{number}")
    def page(number: str) -> str:
        return f"page {number} of {name}"

    return server


@pytest.mark.parametrize("dialect", NEWEST)
async def test_a_duplicate_uri_gets_the_server_as_prefix_for_the_second_server(dialect: str) -> None:
    async with open_client(make_hub(book_server("a"), book_server("my_b")), dialect) as client:
        listed = [entry["uri"] for entry in (await client.result("resources/list"))["resources"]]
        assert listed == ["hub://status", "book://moby", "my-b+book://moby"]
        for uri, text in (
            ("book://moby", "Call me a."),
            ("my-b+book://moby", "Call me my_b."),
            ("page://3", "page 3 of a"),
            ("my-b+page://3", "page 3 of my_b"),
        ):
            (content,) = (await client.result("resources/read", {"uri": uri}))["contents"]
            assert (content["uri"], content["text"]) == (uri, text)


async def test_an_unlisted_uri_is_read_from_the_first_server_that_has_it() -> None:
    class Cellar:
        def list_resources(self) -> list[Any]:
            return []

        async def get_resource(self, uri: str) -> Any:
            return ProvidedResource(uri=uri, name="barrel", content="wine") if uri == "cellar://1" else None

    server = Server("cellar")
    server.add_resources(Cellar())
    async with open_client(make_hub(library("a"), server)) as client:
        (content,) = (await client.result("resources/read", {"uri": "cellar://1"}))["contents"]
        assert content["text"] == "wine"


@pytest.mark.parametrize("dialect", NEWEST)
async def test_prompts_and_completions_are_forwarded_to_their_server(dialect: str) -> None:
    async with open_client(make_hub(library("a"), library("b")), dialect) as client:
        assert await list_names(client, "prompts") == ["a__review", "b__review"]
        got = await client.result("prompts/get", {"name": "b__review", "arguments": {"title": "Emma"}})
        assert got["messages"][0]["content"]["text"] == "Review Emma for b"
        reference = {"type": "ref/prompt", "name": "a__review"}
        params = {"ref": reference, "argument": {"name": "title", "value": "Mo"}}
        assert (await client.result("completion/complete", params))["completion"]["values"] == ["Moby-Dick"]
        error = await client.error("prompts/get", {"name": "review", "arguments": {"title": "x"}})
        assert "a__review or b__review" in error["message"]


# -- changes -----------------------------------------------------------------------


async def test_a_list_change_of_one_server_is_notified_and_listed() -> None:
    server = toolbox("a", "one")
    async with open_client(make_hub(server, toolbox("b", "two"))) as client:
        assert await list_names(client) == ["one", "two"]
        assert client.notifications("notifications/tools/list_changed") == []

        @server.tool
        async def three() -> str:
            return "3"

        await wait_for_notes(client, "notifications/tools/list_changed")
        assert await list_names(client) == ["one", "three", "two"]
        assert texts(await client.call("three")) == ["3"]


async def wait_for_notes(client: Any, method: str, times: int = 1) -> list[Any]:
    """Wait until a client has received `times` notifications of this method; return their parameters."""
    async with asyncio.timeout(60):
        while len(client.notifications(method)) < times:
            client.handle_message(await client.next_message())
    return list(client.notifications(method))


@pytest.mark.parametrize("uri", ["book://moby", "b+book://moby"])
async def test_resource_updates_have_the_uri_that_the_client_subscribed_to(uri: str) -> None:
    first, second = book_server("a"), book_server("b")
    changed = first if uri.startswith("book") else second
    hub = make_hub(first, second)
    async with open_client(hub) as client:
        await client.result("resources/subscribe", {"uri": uri})
        changed.resource_updated("book://moby")
        assert await wait_for_notes(client, "notifications/resources/updated") == [{"uri": uri}]
        await client.result("resources/unsubscribe", {"uri": uri})
        await wait_for_watches(hub)
        changed.resource_updated("book://moby")
        await client.wait_until_idle()
        assert len(client.notifications("notifications/resources/updated")) == 1


async def wait_for_watches(hub: Any, watched: int = 0) -> None:
    """Wait until the hub has this number of subscriptions."""
    async with asyncio.timeout(60):
        while len(hub.subscriptions) != watched:
            await asyncio.sleep(0.001)


async def test_the_subscriptions_of_a_disconnected_client_are_removed() -> None:
    hub = make_hub(book_server("a"))
    async with hub.running():
        async with (
            connect_raw_client(hub.main_front, LEGACY[-1]) as first,
            connect_raw_client(hub.main_front, LEGACY[-1]) as second,
        ):
            for client in (first, second):
                await client.result("resources/subscribe", {"uri": "book://moby"})
            assert len(hub.subscriptions) == 1
        await wait_for_watches(hub)


async def test_a_modern_client_receives_the_notifications_that_it_subscribed_to() -> None:
    server = book_server("a")
    hub = make_hub(server)
    async with open_client(hub, MODERN) as client:
        subscription = {"toolsListChanged": True, "resourceSubscriptions": ["book://moby"]}
        listening = client.send_request("subscriptions/listen", {"notifications": subscription})
        await wait_for_notes(client, "notifications/subscriptions/acknowledged")
        server.resource_updated("book://moby")
        (note,) = await wait_for_notes(client, "notifications/resources/updated")
        assert note["uri"] == "book://moby"
        server.tool(name="one")(toolbox("x", "one").tools.all()[0].function)
        await wait_for_notes(client, "notifications/tools/list_changed")
        client.notify("notifications/cancelled", {"requestId": listening})
        await wait_for_watches(hub)


async def test_the_status_resource_of_the_hub_can_be_subscribed_to() -> None:
    hub = make_hub(toolbox("a", "one"))
    async with open_client(hub) as client:
        await client.result("resources/subscribe", {"uri": "hub://status"})
        assert len(hub.subscriptions) == 0


# -- progress, cancellation, instructions ------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [LEGACY[-1], MODERN])
async def test_progress_of_a_tool_reaches_its_caller(dialect: str) -> None:
    server = Server("slow")

    @server.tool
    async def work(context: Context) -> str:
        await context.progress(1, 2)
        await context.progress(2, 2)
        return "done"

    async with open_client(make_hub(server), dialect) as client:
        assert texts(await client.call("work", meta={"progressToken": "p"})) == ["done"]
        assert [note["progress"] for note in client.notifications("notifications/progress")] == [1, 2]


async def test_cancelling_a_call_cancels_it_at_its_server() -> None:
    server, ended = Server("slow"), asyncio.Event()

    @server.tool
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with open_client(make_hub(server), capabilities=ALL_CAPABILITIES) as client:
        identifier = client.send_request("tools/call", {"name": "wait", "arguments": {}})
        await client.wait_until_idle()
        client.notify("notifications/cancelled", {"requestId": identifier})
        async with asyncio.timeout(60):
            await ended.wait()


async def test_the_instructions_of_connected_servers_are_combined() -> None:
    hub = make_hub(library("a"), library("b"))
    async with open_client(hub), connect_raw_client(hub.main_front, MODERN) as client:
        await client.wait_until_idle()
        instructions = (await client.result("server/discover"))["instructions"]
        assert instructions == "a: Ask a for books.\n\nb: Ask b for books."


async def test_servers_whose_names_give_the_same_uri_scheme_are_distinguished() -> None:
    async with open_client(make_hub(book_server("x"), book_server("my b"), book_server("my_b"))) as client:
        listed = [entry["uri"] for entry in (await client.result("resources/list"))["resources"]]
        assert listed[1:] == ["book://moby", "my-b+book://moby", "my-b-2+book://moby"]
        (read,) = (await client.result("resources/read", {"uri": "my-b-2+book://moby"}))["contents"]
        assert read["text"] == "Call me my_b."


@pytest.mark.parametrize("is_on", [True, False])
async def test_without_output_schemas_structured_content_is_limited_too(is_on: bool) -> None:
    server = Server("rows")

    @server.tool
    async def rows() -> list[dict[str, int]]:
        """Give many rows."""
        return [{"number": number} for number in range(5000)]

    config = HubConfig(
        upstreams=(UpstreamConfig(id="rows", server=server),),
        hub=HubSettings(output_schemas=is_on, result_bytes=10_000),
    )
    async with open_client(Gateway(config)) as client:
        (listed,) = [tool for tool in (await client.result("tools/list"))["tools"] if tool["name"] == "rows"]
        assert ("outputSchema" in listed) is is_on
        found = await client.call("rows")
        assert ("structuredContent" in found) is is_on
        assert not found.get("isError")
        assert "hub://results/" in str(found["content"])


async def test_lists_of_the_callers_that_were_served_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "HUB_CACHED_SCOPE_SETS", 3)
    server = Server("guarded")
    for number in range(4):
        server.tool(name=f"tool{number}", scopes=[f"scope{number}"])(lambda: "")
    hub = make_hub(server)

    def lists(number: int) -> Any:
        principal = Principal(f"user{number}", frozenset({f"scope{number}"}))
        return hub.fronts[""].visible_to(Caller(revision=NEWEST_MODERN, principal=principal))

    async with open_client(hub) as client:
        await list_names(client)
        found = [lists(number) for number in range(3)]
        assert lists(0) is found[0]
        lists(3)
        assert (lists(0) is found[0], lists(2) is found[2]) == (True, True)
        assert lists(1) is not found[1]
