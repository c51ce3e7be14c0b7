"""The JSON that a hub sends, including members that official clients ignore: each caller gets the form of its era.

Plain callers send JSON-RPC without any header or handshake, and get tools, resources and prompts all the
same. For MCP callers this is about members that exist in one era only.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.http.eras import Session, modern_request, open_session
from tests.http.raw_http import Response, Site, call, request
from tests.interop.grid.feature_checks import ServerTarget
from tests.interop.grid.workshops import QUICK, WORKSHOPS, Workshop

META = "io.modelcontextprotocol/"
Hub = Callable[[Workshop], ServerTarget]


@pytest.fixture(params=[pytest.param(workshop, id=workshop.name) for workshop in WORKSHOPS])
def target(request: pytest.FixtureRequest, hub: Hub) -> ServerTarget:
    return hub(request.param)


def site(target: ServerTarget) -> Site:
    return Site(int(str(target.address).rpartition(":")[2].partition("/")[0]))


# -- plain -----------------------------------------------------------------------------------------


async def test_a_plain_caller_gets_tools(target: ServerTarget) -> None:
    target_site = site(target)
    listed = (await target_site.post(request("tools/list"))).json["result"]
    names = [entry["name"] for entry in listed["tools"]]
    assert {f"{target.prefix}echo", f"{target.prefix}add"} <= set(names)
    called = await target_site.post(call(f"{target.prefix}echo", {"text": "grüß dich"}))
    assert called.json["result"] == {"content": [{"type": "text", "text": "grüß dich"}]}
    added = (await target_site.post(call(f"{target.prefix}add", {"a": 2, "b": 3}))).json["result"]
    assert set(added) == {"content"}
    assert json.loads(added["content"][0]["text"]) == {"total": 5, "terms": [2, 3]}
    unknown = await target_site.post(call(f"{target.prefix}missing"))
    assert unknown.code == -32000
    failed = await target_site.post(call(f"{target.prefix}failing"))
    assert failed.code == -32002
    assert "the well is dry" in failed.json["error"]["message"]


async def test_a_plain_caller_gets_resources(target: ServerTarget) -> None:
    target_site = site(target)
    listed = (await target_site.post(request("resources/list"))).json["result"]["resources"]
    assert f"{target.uri}/static" in [entry["uri"] for entry in listed]
    for name, text in (("static", "static text"), ("people/ada", "about ada")):
        read = (await target_site.post(request("resources/read", {"uri": f"{target.uri}/{name}"}))).json["result"]
        expected = {"uri": f"{target.uri}/{name}", "mimeType": "text/plain", "text": text}
        assert read["contents"] == [expected]
    missing = await target_site.post(request("resources/read", {"uri": f"{target.uri}/nowhere"}))
    assert missing.code == -32001


async def test_a_plain_caller_gets_prompts(target: ServerTarget) -> None:
    target_site = site(target)
    listed = (await target_site.post(request("prompts/list"))).json["result"]["prompts"]
    assert f"{target.prefix}greeting" in [entry["name"] for entry in listed]
    params = {"name": f"{target.prefix}greeting", "arguments": {"name": "Ada"}}
    got = (await target_site.post(request("prompts/get", params))).json["result"]
    assert got["messages"][0]["content"] == {"type": "text", "text": "Greet Ada in a plain style"}


async def test_a_client_request_to_a_plain_caller_is_an_error(target: ServerTarget) -> None:
    failed = (await site(target).post(call(f"{target.prefix}interview"))).json
    assert "error" in failed, failed
    assert (await site(target).post(call(f"{target.prefix}echo", {"text": "go on"}))).status == 200


# -- MCP -------------------------------------------------------------------------------------------


async def ask_legacy(session: Session, method: str, params: Any = None) -> Any:
    return result(await session.post(request(method, params), {"Accept": "application/json"}))


async def ask_modern(target_site: Site, method: str, params: Any = None) -> Any:
    body, headers = modern_request(method, params)
    return result(await target_site.post(body, headers | {"Accept": "application/json"}))


def result(answer: Response) -> Any:
    assert "result" in answer.json, answer.json
    return answer.json["result"]


REQUESTS = [
    ("tools/list", "", {"tools"}),
    ("resources/list", "", {"resources"}),
    ("resources/templates/list", "", {"resourceTemplates"}),
    ("prompts/list", "", {"prompts"}),
    ("tools/call", "gallery", {"content"}),
    ("tools/call", "add", {"content", "structuredContent"}),
    ("prompts/get", "greeting", {"description", "messages"}),
    ("resources/read", "static", {"contents"}),
]
ARGUMENTS = {"add": {"a": 2, "b": 3}, "greeting": {"name": "Ada"}, "gallery": {}}


def make_params(target: ServerTarget, method: str, name: str) -> dict[str, Any]:
    if not name:
        return {}
    if method == "resources/read":
        return {"uri": f"{target.uri}/{name}"}
    return {"name": target.prefix + name, "arguments": ARGUMENTS[name]}


async def test_a_legacy_caller_gets_no_members_of_the_modern_era(target: ServerTarget) -> None:
    session = await open_session(site(target))
    for method, name, members in REQUESTS:
        found = await ask_legacy(session, method, make_params(target, method, name))
        assert members <= set(found) <= members | {"isError", "nextCursor", "_meta"}, (method, found.keys())
        assert not [key for key in found.get("_meta", {}) if key.startswith(META)], (method, found)
    await session.end()


async def test_a_modern_caller_gets_every_member_of_its_era(target: ServerTarget) -> None:
    for method, name, members in REQUESTS:
        found = await ask_modern(site(target), method, make_params(target, method, name))
        assert found["resultType"] == "complete", method
        assert members <= set(found), (method, found.keys())
        who = found["_meta"][f"{META}serverInfo"]["name"]
        if method.endswith("/list"):
            assert who == "hubbub"
            assert found["cacheScope"] == "private", method
        else:
            assert who in ("hubbub", "workshop")  # the response of a modern server is forwarded unchanged
        assert ("ttlMs" in found) is (method not in ("tools/call", "prompts/get"))


@pytest.mark.parametrize("target", [pytest.param(one, id=one.name) for one in QUICK], indirect=True)
async def test_the_server_sees_the_capabilities_of_the_caller(target: ServerTarget) -> None:
    params = {"name": f"{target.prefix}whose", "arguments": {}}
    declared: list[dict[str, Any]] = [{}, {"elicitation": {}}, {"elicitation": {}, "sampling": {}}]
    for capabilities in declared:
        body, headers = modern_request("tools/call", params, capabilities=capabilities)
        found = result(await site(target).post(body, headers | {"Accept": "application/json"}))
        assert found["structuredContent"]["capabilities"] == sorted(capabilities)
        session = await open_session(site(target), capabilities=capabilities)
        found = await ask_legacy(session, "tools/call", params)
        assert found["structuredContent"]["capabilities"] == sorted(capabilities)
        await session.end()
