"""Hubbub's client against servers of the official SDKs and of FastMCP: both eras, on stdio and over HTTP.

Every feature of each server is used once (`studio_client.py`), and the recorded payloads are compared here.
Differences between the servers are listed.
"""

import base64
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.external_servers import JUDGES, make_studio_command, run_http_server
from tests.interop.studio_client import FeatureResults, use_every_feature

from hubbub import ServerConfig

RUN_TIMEOUT_S = 120.0
LEGACY, MODERN = "2025-11-25", "2026-07-28"
STUDIOS = {"python": "python_sdk.py", "fastmcp": "fast_mcp.py", "v1": "typescript_v1.mjs", "v2": "typescript_v2.mjs"}
RUNS = [
    pytest.param((sdk, transport, version), id=f"{sdk}-{transport}-{version}")
    for sdk in STUDIOS
    for transport in ("stdio", "http")
    for version in (LEGACY, MODERN)
    if (sdk, version) != ("v1", MODERN)
]


@pytest.fixture(scope="module", params=RUNS)
def results(request: pytest.FixtureRequest, node: list[str], run_async: Callable[..., Any]) -> FeatureResults:
    """Results of every feature. The legacy era is requested only of servers that have both; else it is negotiated."""
    sdk, transport, version = request.param
    command = make_studio_command(STUDIOS[sdk], node)
    options: dict[str, Any] = {"id": sdk, "timeout_s": 20, "protocol_version": None}
    if version == LEGACY and sdk != "v1":
        options["protocol_version"] = version
    if transport == "stdio":
        variables = {"JUDGES": str(JUDGES)}
        config = ServerConfig(command=command[0], args=[*command[1:], "stdio"], env=variables, **options)
        found: FeatureResults = run_async(use_every_feature(config), RUN_TIMEOUT_S)
    else:
        with run_http_server([*command, "http"]) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            found = run_async(
                use_every_feature(ServerConfig(transport="streamable_http", url=url, **options)), RUN_TIMEOUT_S
            )
    return {**found, "sdk": sdk, "expected": version}


def text(result: Any) -> str:
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


def test_the_client_negotiates_a_version_and_gets_the_server_info(results: FeatureResults) -> None:
    assert results["version"] == results["expected"]
    assert results["server"] == ("studio", "1.2.3")
    assert results["instructions"] == "Ask for an echo."


def test_it_lists_tools_with_their_schemas(results: FeatureResults) -> None:
    tools = results["tools"]
    names = ["echo", "add", "gallery", "failing", "slow", "wait_forever", "counts", "ask_name"]
    assert list(tools)[:8] == names
    schema = tools["add"]["inputSchema"]
    assert schema["type"] == "object"
    assert schema["properties"]["a"]["type"] == "integer"
    assert schema["properties"]["b"]["default"] == 1
    assert schema["required"] == ["a"]
    output = tools["add"]["outputSchema"]
    assert output["properties"]["terms"]["items"]["type"] == "integer"
    assert output["required"] == ["total", "terms"]


def test_it_calls_tools(results: FeatureResults) -> None:
    assert text(results["called"]["echo"]) == "grüß dich\n"
    assert results["called"]["add"]["structuredContent"] == {"total": 5, "terms": [2, 3]}
    assert "isError" not in results["called"]["add"] or results["called"]["add"]["isError"] is False


def test_it_reads_every_kind_of_content(results: FeatureResults) -> None:
    words, image, audio, embedded, link = results["called"]["gallery"]["content"]
    assert words == {"type": "text", "text": "all kinds"}
    assert image == {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    assert audio == {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
    assert embedded["resource"] == {"uri": "memo://inside", "mimeType": "text/plain", "text": "inside"}
    assert link == {"type": "resource_link", "uri": "memo://static", "name": "static"}


def test_failures_are_results(results: FeatureResults) -> None:
    failing, wrong = results["called"]["failing"], results["called"]["wrong"]
    assert failing["isError"] is wrong["isError"] is True
    assert text(failing).endswith("the well is dry")
    assert "text" in text(wrong)
    unknown = results["called"]["unknown"]
    if results["sdk"] == "v2":
        assert unknown == -32602
    else:
        assert unknown["isError"] is True
        assert "missing" in text(unknown)


def test_progress_arrives_in_order_and_before_the_result(results: FeatureResults) -> None:
    assert results["progress"] == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3"), "3 steps"]


def test_the_server_stops_calls_that_are_cancelled_or_time_out(results: FeatureResults) -> None:
    assert results["cancelled"] == {
        "was_cancelled": True,
        "after_cancelling": {"started": 1, "cancelled": 1},
        "timeout": "Timed out after 0.3 s while waiting for the answer to tools/call",
        "after_timeout": {"started": 2, "cancelled": 2},
    }


def test_concurrent_calls_get_their_own_results(results: FeatureResults) -> None:
    assert results["many"] is True


def test_the_client_answers_elicitation_sampling_and_roots_requests(results: FeatureResults) -> None:
    expected = {"ask_name": "Ada is 36", "sample_haiku": "basho: old pond", "list_roots": "file:///home/ada"}
    if results["sdk"] == "fastmcp":  # FastMCP supports neither sampling nor roots
        expected = {"ask_name": "Ada is 36"}
    assert results["answered"] == expected
    (_, message, form), *samplings = results["asked"]
    assert message == "Who are you?"
    assert form["required"] == ["name"]
    assert form["properties"]["age"]["default"] == 0
    words = {"role": "user", "content": {"type": "text", "text": "A haiku about frogs"}}
    assert samplings == ([] if results["sdk"] == "fastmcp" else [("sampling", [words], "You are a poet", 64)])


def test_it_lists_and_reads_resources(results: FeatureResults) -> None:
    resources = results["resources"]
    named = [("memo://static", "static"), ("memo://bytes", "bytes"), ("memo://watched", "watched")]
    assert resources["listed"] == named
    assert resources["templates"] == ["memo://people/{name}"]
    assert resources["static"] == [{"uri": "memo://static", "mimeType": "text/plain", "text": "static text"}]
    (picture,) = resources["bytes"]
    assert base64.b64decode(picture["blob"]) == b"\x89PNG\r\n\x1a\n"
    assert resources["person"][0]["text"] == "about ada"
    assert resources["missing"] == -32602


def test_it_gets_prompts_and_completions(results: FeatureResults) -> None:
    prompts = results["prompts"]
    assert prompts["listed"] == [("greeting", [("name", True), ("style", False)])]
    (message,) = prompts["got"]
    assert message == {"role": "user", "content": {"type": "text", "text": "Greet Ada in a formal style"}}
    # The official Python SDK has no code for it.
    unknown = {LEGACY: 0, MODERN: -32603}[results["version"]] if results["sdk"] == "python" else -32602
    assert prompts["missing"] == unknown
    assert prompts["style"] == ["formal", "friendly"]
    assert prompts["name"] == ["ada", "alan"]


def test_the_client_receives_changes_until_it_unsubscribes(results: FeatureResults) -> None:
    changes = results["changes"]
    assert changes["is_listed"] is True
    assert changes["hello"] == "hello greets Ada"
    assert ("tools", "") in changes["received"]
    # Neither Python framework has `resources/subscribe`; only the SDK has `subscriptions/listen`.
    can_watch = results["sdk"] in ("v1", "v2") or (results["sdk"], results["version"]) == ("python", MODERN)
    assert changes["can_watch"] is can_watch
    if can_watch:
        assert ("resource", "memo://watched") in changes["received"]
        assert changes["watched"] == ("version 0", "version 1", [])
