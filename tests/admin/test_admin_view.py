"""Administration at /mcp/admin: for callers with the scope hub:admin in every era; for others it does not exist."""

from pathlib import Path
from typing import Any

import pytest
from tests.admin.admin_hub import open_admin_hub
from tests.http.eras import BOTH_MEDIA_TYPES, initialize_request, modern_request
from tests.http.in_process_server import run_server
from tests.http.raw_http import request
from tests.hub.local_hubs import library, make_hub
from tests.hub.upstream_callers import make_caller, request_result

from hubbub import Principal, SettingsError, ToolError, ViewSettings
from hubbub.admin.server import add_admin_view, make_admin_server
from hubbub.hub.config import check_view_name

PATH = "/mcp/admin"


async def test_an_administrator_uses_it_in_every_era(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        assert (await hub.administer("hub.status"))["servers"][0]["id"] == "asker"
        plain = await hub.site.post(request("hub.status", {}), hub.root, path=PATH)
        assert plain.json["result"]["name"] == "hubbub"
        opened = await hub.site.post(initialize_request(), {"Accept": BOTH_MEDIA_TYPES, **hub.root}, path=PATH)
        session = {"Mcp-Session-Id": str(opened.header("mcp-session-id")), "Accept": BOTH_MEDIA_TYPES, **hub.root}
        listed = await hub.site.post(request("tools/list", {}), session, path=PATH)
        names = [tool["name"] for tool in listed.json["result"]["tools"]]
        assert {"hub.status", "hub.sessions.list", "hub.sessions.logout"} <= set(names)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_for_callers_without_the_scope_it_does_not_exist(tmp_path: Path, method: str) -> None:
    async with open_admin_hub(tmp_path) as hub:
        refused = await hub.site.request(method, PATH, {"Content-Type": "application/json", **hub.ada}, b"{}")
        unknown = await hub.site.request(method, "/mcp/nimda", {"Content-Type": "application/json", **hub.ada}, b"{}")
        assert (refused.status, unknown.status) == (404, 404)
        assert refused.body.replace(b"admin", b"nimda") == unknown.body
        assert b"/mcp/admin" not in unknown.body


async def test_an_anonymous_caller_on_loopback_gets_nothing() -> None:
    hub = make_hub(library(), views={"reader": ViewSettings(read_only=True)})
    add_admin_view(hub)
    async with run_server(hub.main_front) as here:
        body, headers = modern_request("tools/list", {})
        refused = await here.site.post(body, headers, path=PATH)
        assert refused.status == 404
        assert refused.json["error"]["message"] == "Unknown view 'admin'; use one of reader"


async def test_the_tools_of_administration_are_not_in_other_views(tmp_path: Path) -> None:
    async with open_admin_hub(tmp_path) as hub:
        body, headers = modern_request("tools/list", {})
        listed = await hub.site.post(body, headers | hub.root)
        assert "hub.sessions.list" not in str(listed.json)
        refused = await hub.call("hub.sessions.list", key=hub.root)
        assert "hub.sessions.list" in str(refused.json["error"])


def test_no_view_of_a_hub_can_have_its_name() -> None:
    with pytest.raises(SettingsError, match=r"'admin' is not a valid view name; .* and not 'health' or 'admin'"):
        check_view_name("admin", "views")


def test_every_tool_requires_the_scope_and_says_what_it_does() -> None:
    server = make_admin_server(make_hub(library()))
    assert len(server.tools.all()) >= 3
    for tool in server.tools.all():
        assert tool.scopes == {"hub:admin"}
        assert tool.description
        assert tool.description.endswith(".")
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint in (True, False)


async def administer(server: Any, tool: str, arguments: dict[str, Any], principal: Principal) -> Any:
    who = make_caller()
    who.principal = principal
    return await request_result(server, "tools/call", {"name": tool, "arguments": arguments}, who)


async def test_the_administrator_of_a_tenant_cannot_name_another_tenant() -> None:
    server = make_admin_server(make_hub(library()))
    tenant_admin = Principal("acme/ann#1", frozenset({"hub:admin"}), tenant="acme", user="ann")
    for tool in ("hub.sessions.list", "hub.sessions.logout"):
        with pytest.raises(ToolError, match="administers the tenant 'acme' only"):
            await administer(server, tool, {"tenant": "other"}, tenant_admin)
        assert not (await administer(server, tool, {"tenant": "acme"}, tenant_admin)).get("isError")


async def test_the_administrator_of_a_tenant_sees_the_status_of_that_tenant_only() -> None:
    hub = make_hub(library())
    hub.problems.append("a problem of the whole hub")
    server = make_admin_server(hub)
    tenant_admin = Principal("acme/ann#1", frozenset({"hub:admin"}), tenant="acme", user="ann")
    status = (await administer(server, "hub.status", {}, tenant_admin))["structuredContent"]
    assert [tenant["name"] for tenant in status["tenants"]] == ["acme"]
    assert status["problems"] == []
    operator = Principal("root", frozenset({"hub:admin"}))
    assert (await administer(server, "hub.status", {}, operator))["structuredContent"]["problems"] == [
        "a problem of the whole hub"
    ]
