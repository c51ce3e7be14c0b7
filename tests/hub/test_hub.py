"""A hub that is built in Python."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.agent.servers import stdio
from tests.hub.local_hubs import list_names, toolbox
from tests.oauth.client.protected_server import protected_server
from tests.server.asgi_exchange import call_app
from tests.server.raw_client import connect_raw_client

from hubbub import (
    Call,
    CallNext,
    Client,
    Hub,
    HubSettings,
    OAuth,
    Reply,
    Server,
    ServerConfig,
    SettingsError,
    UpstreamConfig,
    ViewSettings,
)


async def test_in_process_servers_are_served_as_one() -> None:
    hub = Hub([toolbox("a", "find"), toolbox("b", "find", "keep")], name="both", settings=HubSettings(search="off"))
    async with hub, connect_raw_client(hub.front(), "2025-11-25") as client:
        assert await list_names(client) == ["a__find", "b__find", "keep"]
        assert "b/keep" in str(await client.call("keep"))


async def test_options_of_servers_and_views_are_those_of_the_settings_file() -> None:
    hub = Hub(
        [toolbox("a", "find"), UpstreamConfig(id="b", server=toolbox("x", "keep"), prefix="always")],
        views={"second": ViewSettings(servers=("b",))},
    )
    async with hub, connect_raw_client(hub.front("second"), "2026-07-28") as client:
        assert await list_names(client) == ["b__keep"]
    with pytest.raises(SettingsError, match="'second'"):
        hub.front("secnd")


@pytest.mark.parametrize("version", ["2026-07-28", "2025-06-18"])
async def test_a_client_in_the_same_process_needs_no_socket(version: str) -> None:
    hub = Hub([toolbox("a", "find"), toolbox("b", "keep")], views={"second": ViewSettings(servers=("b",))})
    async with Client(hub, protocol_version=version) as everything, Client(hub.front("second")) as second:
        assert (everything.server_info.name, everything.protocol_version) == ("hubbub", version)
        assert "a/find" in str((await everything.call_tool("find")).content)
        assert [tool.name for tool in await second.tools()] == ["hub.status", "hub.read_result", "keep"]
        await everything.close()
        assert "b/keep" in str((await second.call_tool("keep")).content), "the last client closes the hub"


async def test_a_hub_is_opened_once_for_many_users() -> None:
    server, life = Server("clock"), list[str]()

    @server.lifespan
    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        life.append("open")
        yield
        life.append("closed")

    hub = Hub([server])
    async with hub:
        for _ in range(2):
            async with Client(hub) as client:
                assert await client.tools()
        assert life == ["open"]
    assert life == ["open", "closed"]


def test_servers_with_the_same_id_are_refused() -> None:
    with pytest.raises(SettingsError, match="'a'"):
        Hub([Server("a"), ServerConfig(id="a", command="other")])
    with pytest.raises(SettingsError, match="'hub'"):
        Hub([Server("hub")])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Hub(toolbox("a")), r"write `Hub\(\[server\]\)`"),  # type: ignore[arg-type]
        (lambda: Hub([{"command": "x"}]), "not dict; read_mcp_json"),  # type: ignore[list-item]
        (lambda: Hub([], settings=HubSettings(search="x")), "settings: search must be one of"),  # type: ignore[arg-type]
        (lambda: Hub([], views={"v": {"servers": []}}), "must be a ViewSettings, not dict"),  # type: ignore[dict-item]
        (lambda: Hub([], views={"health": ViewSettings()}), r"views\['health'\]: 'health' is not a valid view name"),
        (lambda: Hub([toolbox("a")], views={"v": ViewSettings(servers=("b",))}), "unknown server 'b'; known: a"),
    ],
)
def test_invalid_options_are_refused_with_advice(build: Callable[[], Hub], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        build()


async def test_middleware_runs_around_the_calls_of_all_views() -> None:
    hub, methods = Hub([toolbox("a", "find")], views={"other": ViewSettings()}), list[str]()

    @hub.middleware
    async def note(call: Call, call_next: CallNext) -> Reply:
        methods.append(call.method)
        return await call_next(call)

    async with Client(hub) as client, Client(hub.front("other")) as other:
        methods.clear()
        await client.call_tool("find")
        await other.call_tool("find")
    assert methods == ["tools/call"] * 2


async def test_a_hub_can_be_a_server_of_another_hub() -> None:
    inner = Hub([toolbox("a", "find")], name="inner")
    async with Client(Hub([inner, toolbox("b", "keep")])) as client:
        assert "a/find" in str((await client.call_tool("find")).content)


async def test_a_hub_is_an_asgi_app_with_its_views() -> None:
    hub = Hub([toolbox("a", "find"), toolbox("b", "keep")], views={"second": ViewSettings(servers=("b",))})
    app = hub.asgi()
    async with app.lifespan():
        for path, tools in (("/mcp", ["find", "keep"]), ("/mcp/second", ["keep"])):
            answer = await call_app(app, path, body={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            assert [tool["name"] for tool in answer.json["result"]["tools"]][2:] == tools


async def test_a_hub_can_be_opened_again_after_it_was_closed() -> None:
    hub = Hub([toolbox("a", "find"), stdio("demo")], settings=HubSettings(search="off"))
    for _ in range(2):
        async with Client(hub) as client:
            assert {"find", "echo"} <= {tool.name for tool in await client.tools()}
            assert "a/find" in str((await client.call_tool("find")).content)
            assert "hi" in str((await client.call_tool("echo", {"text": "hi"})).content)


async def test_a_hub_that_is_opened_twice_closes_with_the_second_exit() -> None:
    hub = Hub([toolbox("a", "find")])
    async with hub:
        async with hub, Client(hub) as client:
            assert "a/find" in str((await client.call_tool("find")).content)
        async with Client(hub) as client:
            assert "a/find" in str((await client.call_tool("find")).content)


async def test_the_status_says_which_login_of_the_operator_is_missing() -> None:
    async with protected_server() as server:
        hub = Hub([server.config(OAuth(login_command="hubbub login notes"), id="notes")])
        async with Client(hub) as client:
            await client.tools()
            status = await client.call_tool("hub.status", {})
        assert status.structured_content is not None
        (upstream,) = status.structured_content["servers"]
        assert upstream["reason"] == "it needs a login of the operator: run `hubbub login notes`"
