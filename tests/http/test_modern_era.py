"""The modern era over HTTP: required metadata and headers of a request, and refusals."""

import base64
import json
from typing import Any

import pytest
from tests.http.eras import META_PREFIX, MODERN, modern_meta, modern_request
from tests.http.raw_http import JSON, Site, request

HEADERS = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}


async def test_a_request_with_all_required_metadata_is_served_without_a_session(demo: Site) -> None:
    body, headers = modern_request("tools/list", id="a")
    answer = await demo.post(body, headers)
    assert (answer.status, answer.json["id"]) == (200, "a")
    assert answer.header("mcp-session-id") is None
    assert answer.header("set-cookie") is None
    result = answer.json["result"]
    assert (result["resultType"], result["cacheScope"]) == ("complete", "private")
    assert isinstance(result["ttlMs"], int)
    assert result["_meta"][f"{META_PREFIX}serverInfo"]["name"] == "hubbub"
    assert [tool["name"] for tool in result["tools"]] == ["hello-world", "echo", "health"]


async def test_discovery_names_the_versions_and_the_server(demo: Site) -> None:
    answer = await demo.post(*modern_request("server/discover"))
    assert answer.json["result"]["supportedVersions"] == [MODERN]
    assert "serverInfo" not in answer.json["result"]


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such", "echo"])
async def test_a_method_that_the_era_does_not_have_is_404(demo: Site, method: str) -> None:
    answer = await demo.post(
        *modern_request(method, {"protocolVersion": "2025-11-25", "level": "info", "uri": "a:b"}, id=7)
    )
    assert (answer.status, answer.code, answer.json["id"]) == (404, -32601, 7)


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"_meta": {}},
        {"_meta": {f"{META_PREFIX}clientCapabilities": {}}},
        {"_meta": {f"{META_PREFIX}protocolVersion": MODERN}},
        {"_meta": {f"{META_PREFIX}protocolVersion": MODERN, f"{META_PREFIX}clientCapabilities": None}},
        {"_meta": {f"{META_PREFIX}protocolVersion": 20260728, f"{META_PREFIX}clientCapabilities": {}}},
        {"_meta": []},
        {"_meta": modern_meta(**{f"{META_PREFIX}logLevel": "loud"})},
    ],
    ids=str,
)
async def test_a_request_without_client_metadata_is_400(demo: Site, params: Any) -> None:
    answer = await demo.post(request("tools/list", params, 3), HEADERS)
    assert (answer.status, answer.code, answer.json["id"]) == (400, -32602, 3)


@pytest.mark.parametrize("header", [None, "2025-11-25", "2026-07-29", "2026-07-28, 2026-07-28"])
async def test_a_version_header_that_differs_from_the_body_is_a_mismatch(demo: Site, header: str | None) -> None:
    body, headers = modern_request("tools/list")
    del headers["MCP-Protocol-Version"]
    answer = await demo.post(body, headers if header is None else headers | {"MCP-Protocol-Version": header})
    assert (answer.status, answer.code) == (400, -32020)


@pytest.mark.parametrize("version", ["2026-07-29", "2099-01-01", "DRAFT-1"])
async def test_an_unknown_version_is_refused_and_the_supported_ones_are_named(demo: Site, version: str) -> None:
    body = request("tools/list", {"_meta": modern_meta(version=version)}, 1)
    answer = await demo.post(body, HEADERS | {"MCP-Protocol-Version": version})
    assert (answer.status, answer.code) == (400, -32022)
    assert answer.json["error"]["data"] == {"supported": [MODERN], "requested": version}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("version", [MODERN, "2027-01-01"])
async def test_only_post_is_allowed_in_the_modern_era(demo: Site, method: str, version: str) -> None:
    answer = await demo.request(method, "/mcp", {"MCP-Protocol-Version": version, "Accept": "text/event-stream"})
    assert answer.status == 405


@pytest.mark.parametrize("sent", [None, "", "tools/call", "TOOLS/LIST", "=?base64?dG9vbHMvbGlzdA=?="])
async def test_the_method_header_must_repeat_the_method(demo: Site, sent: str | None) -> None:
    body, headers = modern_request("tools/list")
    del headers["Mcp-Method"]
    answer = await demo.post(body, headers if sent is None else headers | {"Mcp-Method": sent})
    assert (answer.status, answer.code) == (400, -32020)


@pytest.mark.parametrize("sent", [None, "", "Echo", "echo2", "=?base64?ZWNobw=?=", "=?base64?!!!!?="])
async def test_the_name_header_must_repeat_the_name(demo: Site, sent: str | None) -> None:
    body, headers = modern_request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    del headers["Mcp-Name"]
    answer = await demo.post(body, headers if sent is None else headers | {"Mcp-Name": sent})
    assert (answer.status, answer.code) == (400, -32020)


@pytest.mark.parametrize("sent", ["echo", "  echo  ", "=?base64?ZWNobw==?="])
async def test_the_name_header_may_be_padded_or_in_base64(demo: Site, sent: str) -> None:
    body, headers = modern_request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    answer = await demo.post(body, headers | {"Mcp-Name": sent})
    assert answer.json["result"]["structuredContent"] == {"echo": "x"}


async def test_repeated_headers_are_compared_with_each_body(demo: Site) -> None:
    right, headers = modern_request("tools/call", {"name": "echo", "arguments": {"text": "x"}})
    wrong_name, _ = modern_request("tools/call", {"name": "ecko", "arguments": {"text": "x"}})
    wrong_method, _ = modern_request("tools/list")
    invalid, _ = modern_request("tools/call", {"name": 4})
    statuses = []
    async with demo.connect() as link:
        for body in (right, right, right, wrong_name, right, wrong_method, right, invalid, wrong_name, right):
            await link.send_request("POST", "/mcp", JSON | headers, json.dumps(body).encode())
            statuses.append((await link.read_response()).status)
    assert statuses == [200, 200, 200, 400, 200, 400, 200, 400, 400, 200]


async def test_a_non_ascii_resource_uri_is_sent_in_base64(playground: Site) -> None:
    body, headers = modern_request("resources/read", {"uri": "note://größe"})
    assert headers["Mcp-Name"].startswith("=?base64?")
    assert (await playground.post(body, headers)).json["result"]["contents"][0]["text"] == "3"


WEATHER = {"name": "weather", "arguments": {"region": "Köln", "days": 3}}
KOELN = f"=?base64?{base64.b64encode('Köln'.encode()).decode()}?="


async def test_parameters_in_headers_agree_with_the_arguments(playground: Site) -> None:
    body, headers = modern_request("tools/call", WEATHER)
    answer = await playground.post(body, headers | {"Mcp-Param-Region": KOELN, "mcp-param-days": "3"})
    assert answer.json["result"]["content"][0]["text"] == "Köln: 3"


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"Mcp-Param-Region": KOELN},
        {"Mcp-Param-Region": KOELN, "Mcp-Param-Days": "4"},
        {"Mcp-Param-Region": KOELN, "Mcp-Param-Days": "three"},
        {"Mcp-Param-Region": "Köln", "Mcp-Param-Days": "3"},
        {"Mcp-Param-Region": "=?base64?S8O2bG4?=", "Mcp-Param-Days": "3"},
        {"Mcp-Param-Region": "Bonn", "Mcp-Param-Days": "3"},
    ],
    ids=str,
)
async def test_parameters_in_headers_that_disagree_are_refused(playground: Site, sent: dict[str, str]) -> None:
    body, headers = modern_request("tools/call", WEATHER)
    answer = await playground.post(body, headers | sent)
    assert (answer.status, answer.code) == (400, -32020)


async def test_a_header_for_a_missing_argument_is_refused(playground: Site) -> None:
    body, headers = modern_request("tools/call", {"name": "weather", "arguments": {"region": "Bonn"}})
    assert (await playground.post(body, headers | {"Mcp-Param-Region": "Bonn"})).status == 200
    answer = await playground.post(body, headers | {"Mcp-Param-Region": "Bonn", "Mcp-Param-Days": "1"})
    assert (answer.status, answer.code) == (400, -32020)


async def test_session_headers_and_cookies_are_ignored(demo: Site) -> None:
    body, headers = modern_request("tools/list")
    answer = await demo.post(body, headers | {"Mcp-Session-Id": "none", "Cookie": "mcp_session=none"})
    assert (answer.status, answer.header("mcp-session-id")) == (200, None)


async def test_a_notification_is_accepted_without_a_response_body(demo: Site) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    answer = await demo.post(note, {"MCP-Protocol-Version": MODERN})
    assert (answer.status, answer.body) == (202, b"")


async def test_failures_of_tools_are_results_and_unknown_names_are_errors(playground: Site) -> None:
    broken = await playground.post(*modern_request("tools/call", {"name": "broken"}))
    assert broken.json["result"]["isError"] is True
    assert (await playground.post(*modern_request("tools/call", {"name": "none"}))).code == -32602
    assert (await playground.post(*modern_request("resources/read", {"uri": "note://none"}))).code == -32602


async def test_an_input_request_is_answered_by_a_retry(playground: Site) -> None:
    params: dict[str, Any] = {"name": "greet", "arguments": {}}
    first = await playground.post(*modern_request("tools/call", params, capabilities={"elicitation": {}}))
    asked = first.json["result"]
    assert asked["resultType"] == "input_required"
    (key,) = asked["inputRequests"]
    params |= {
        "inputResponses": {key: {"action": "accept", "content": {"name": "Ada"}}},
        "requestState": asked["requestState"],
    }
    second = await playground.post(*modern_request("tools/call", params, id=2, capabilities={"elicitation": {}}))
    assert second.json["result"]["content"][0]["text"] == "Hello, Ada!"
    again = await playground.post(*modern_request("tools/call", params, id=3, capabilities={"elicitation": {}}))
    assert again.code == -32602


async def test_the_error_names_the_missing_client_capability(playground: Site) -> None:
    answer = await playground.post(*modern_request("tools/call", {"name": "greet"}))
    assert (answer.status, answer.code) == (400, -32021)
    assert answer.json["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}


@pytest.mark.parametrize("body", [b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]'])
async def test_a_batch_is_refused(demo: Site, body: bytes) -> None:
    answer = await demo.request("POST", "/mcp", HEADERS | {"Content-Type": "application/json"}, body)
    assert (answer.status, answer.code) == (400, -32600)


async def test_a_batch_whose_items_claim_to_be_modern_is_refused(demo: Site) -> None:
    body, _ = modern_request("tools/list")
    answer = await demo.post([body])
    assert [(one["id"], one["error"]["code"]) for one in answer.json] == [(1, -32600)]
