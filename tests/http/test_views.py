"""Views over HTTP: each has its own endpoint, with the same authentication, limits and metrics."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.http.eras import BOTH_MEDIA_TYPES, initialize_request, modern_request
from tests.http.in_process_server import run_server
from tests.http.raw_http import Response, Site, request
from tests.hub.local_hubs import library, make_hub, toolbox

from hubbub import HubSettings, ServerConfig, UpstreamConfig, ViewSettings
from hubbub.hub.front import Front
from hubbub.security.api_keys import append_record, generate_key

VIEWS = {"reader": ViewSettings(read_only=True), "boxes": ViewSettings(servers=("box",))}


def two_views() -> Front:
    return make_hub(library("lib"), toolbox("box", "open", "close"), views=VIEWS).main_front


async def post(site: Site, path: str, body: Any, headers: dict[str, str] | None = None) -> Response:
    return await site.post(body, headers, path=path)


def names(answer: Response) -> list[str]:
    assert answer.status == 200, answer
    tools = answer.json["result"]["tools"]
    return [tool["name"] for tool in tools if not tool["name"].startswith("hub.")]


ALL = ["find_book", "lend_book", "open", "close"]
TOOLS_BY_PATH = {"/mcp": ALL, "/mcp/reader": ["find_book"], "/mcp/boxes": ["open", "close"]}


@pytest.mark.parametrize(("path", "shown"), TOOLS_BY_PATH.items())
async def test_each_endpoint_lists_the_tools_of_its_view_in_every_era(path: str, shown: list[str]) -> None:
    async with run_server(two_views()) as there:
        assert names(await post(there.site, path, request("tools/list"))) == shown
        body, headers = modern_request("tools/list")
        assert names(await post(there.site, path, body, headers)) == shown
        opened = await post(there.site, path, initialize_request(), {"Accept": BOTH_MEDIA_TYPES})
        session = {"Mcp-Session-Id": str(opened.header("mcp-session-id")), "MCP-Protocol-Version": "2025-11-25"}
        assert (
            names(await post(there.site, path, request("tools/list"), session | {"Accept": BOTH_MEDIA_TYPES})) == shown
        )
        for other in set(TOOLS_BY_PATH) - {path}:
            lost = await post(there.site, other, request("tools/list"), session | {"Accept": BOTH_MEDIA_TYPES})
            assert lost.status == 404, "a session belongs to the address where it was opened"


@pytest.mark.parametrize("path", ["/mcp/none", "/mcp/reader/", "/mcp/", "/mcp/Reader"])
async def test_an_unknown_view_is_not_found_and_the_known_ones_are_named(path: str) -> None:
    async with run_server(two_views()) as there:
        answer = await post(there.site, path, request("tools/list"))
        assert answer.status == 404
        assert "reader, boxes" in answer.json["error"]["message"]


async def test_the_health_of_a_hub_has_the_usual_path() -> None:
    async with run_server(two_views()) as there:
        assert (await there.site.get("/mcp/health")).json == {"status": "ready", "problems": []}
        assert (await there.site.request("PUT", "/mcp/reader", {})).header("allow") == "POST, GET, DELETE"


async def test_a_server_without_views_has_no_view_endpoints() -> None:
    async with run_server() as there:
        answer = await post(there.site, "/mcp/reader", request("tools/list"))
        assert (answer.status, "/mcp/health" in answer.json["error"]["message"]) == (404, True)


async def test_a_view_requires_authentication_too(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key, record = generate_key("ada")
    append_record(path, record)
    async with run_server(two_views(), key_file=str(path)) as there:
        for view in ("/mcp/reader", "/mcp/none"):
            assert (await post(there.site, view, request("ping"))).status == 401
        admitted = {"Authorization": f"Bearer {key}"}
        assert (await post(there.site, "/mcp/reader", request("ping"), admitted)).status == 200
        evil = {"Origin": "https://evil.example"} | admitted
        assert (await post(there.site, "/mcp/reader", request("ping"), evil)).status == 403


async def test_messages_to_views_count_towards_the_rate_limit_of_the_hub() -> None:
    async with run_server(two_views(), limits=("mcp=3/minute",)) as there:
        statuses = [
            (await post(there.site, path, request("ping"))).status
            for path in ("/mcp", "/mcp/reader", "/mcp/none", "/mcp/boxes", "/mcp")
        ]
        assert statuses == [200, 200, 404, 429, 429]


async def test_metrics_name_the_route_and_not_the_view() -> None:
    async with run_server(two_views()) as there:
        await post(there.site, "/mcp/reader", request("ping"))
        await post(there.site, "/mcp/boxes", initialize_request(), {"Accept": BOTH_MEDIA_TYPES})
        figures = (await there.site.get("/metrics")).body.decode()
        assert 'route="/mcp/{view}",status="200"} 2.0' in figures
        assert "reader" not in figures
        assert "hubbub_sessions 1.0" in figures
        assert 'method="ping"' in figures


async def test_a_change_is_notified_at_the_endpoints_that_show_the_tool() -> None:
    server = toolbox("box", "open")
    hub = make_hub(library("lib"), server, views=VIEWS)
    async with run_server(hub.main_front) as there:
        headers = {"Accept": "text/event-stream"}
        async with (
            there.site.stream("GET", "/mcp/boxes", headers) as boxes,
            there.site.stream("GET", "/mcp", headers) as everything,
        ):
            await post(there.site, "/mcp", request("tools/list"))
            server.tools.unregister("open")
            for stream in (boxes, everything):
                async with asyncio.timeout(60):
                    event = await stream.message()
                assert event["method"] == "notifications/tools/list_changed"


async def test_a_hub_that_is_its_own_upstream_does_not_list_itself() -> None:
    async with run_server(make_hub(toolbox("box", "open")).main_front) as other:
        me = UpstreamConfig(
            id="me", remote=ServerConfig(id="me", transport="http", url=f"http://localhost:{other.site.port}/mcp")
        )
        hub = other.server.hub  # type: ignore[attr-defined]
        await hub.apply(
            msgspec.structs.replace(hub.config, upstreams=(*hub.config.upstreams, me), hub=HubSettings(list_s=1))
        )
        answer = await other.site.post(request("tools/list"))
        assert names(answer) == ["open"]
        async with asyncio.timeout(60):
            while not hub.problems:
                await asyncio.sleep(0.05)
                assert names(await other.site.post(request("tools/list"))) == ["open"]
        assert hub.problems == ["me: this server is the hub itself, so its tools are not shown"]


async def test_two_hubs_that_are_upstreams_of_each_other_list_everything_once() -> None:
    def upstream_config(name: str, port: int) -> UpstreamConfig:
        url = f"http://localhost:{port}/mcp"
        return UpstreamConfig(id=name, remote=ServerConfig(id=name, transport="http", url=url))

    def tools(answer: Any) -> list[str]:
        return sorted(name for name in names(answer) if "hub" not in name)

    async with (
        run_server(make_hub(toolbox("box", "open")).main_front, limits=("off",)) as one,
        run_server(make_hub(toolbox("jar", "close")).main_front, limits=("off",)) as two,
    ):
        for site, other in ((one, upstream_config("two", two.site.port)), (two, upstream_config("one", one.site.port))):
            hub = site.server.hub  # type: ignore[attr-defined]
            upstreams = (*hub.config.upstreams, other)
            await hub.apply(msgspec.structs.replace(hub.config, upstreams=upstreams, hub=HubSettings(list_s=1)))
        async with asyncio.timeout(60):
            for site in (one, two):
                while tools(await site.site.post(request("tools/list"))) != ["close", "open"]:
                    await asyncio.sleep(0.1)
        for _ in range(3):
            for site in (one, two):
                assert tools(await site.site.post(request("tools/list"))) == ["close", "open"]
                assert len(site.server.hub.catalog.tools.listed) <= 4  # type: ignore[attr-defined]
