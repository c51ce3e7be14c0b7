"""The TypeScript SDKs' clients against our server: version 1, and version 2 in both eras.

Each client runs `scenario.mjs` once over each transport that it has, in its own process; the
tests compare what it recorded.
"""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.http.server_process import ServerProcess
from tests.interop.http_recorder import ServerAddress

Seen = dict[str, Any]
CLIENTS = {
    "v1": ["client_v1.mjs"],
    "v2-legacy": ["client_v2.mjs", "legacy"],
    "v2-modern": ["client_v2.mjs", "auto"],
}
PAIRS = [
    *((client, transport) for client in CLIENTS for transport in ("stdio", "http")),
    ("v1", "sse"),
    ("v1", "websocket"),
    ("v2-legacy", "sse"),
]


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def seen(request: pytest.FixtureRequest, command: list[str], run_script: Callable[..., Any]) -> Seen:
    """Return what one client recorded over one transport."""
    client, transport = request.param
    with reached(transport, command) as address:
        return {"client": client, "transport": transport, **run_script(address, *CLIENTS[client])}


@contextmanager
def reached(transport: str, command: list[str]) -> Iterator[ServerAddress]:
    """Return the address of a new server."""
    if transport == "stdio":
        yield command
        return
    with ServerProcess(command[-1]) as process:
        host = process.url.removeprefix("http://")
        yield {"http": f"http://{host}/mcp", "sse": f"http://{host}/sse", "websocket": f"ws://{host}/mcp-ws"}[transport]


def is_modern(seen: Seen) -> bool:
    return bool(seen["client"] == "v2-modern")


def text(result: dict[str, Any]) -> str:
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


def test_the_client_gets_the_server_info(seen: Seen) -> None:
    assert seen["server"] == {"name": "interop", "title": "Interop fixture", "version": "1.2.3"}
    assert seen["instructions"] == "Ask for an echo."
    assert seen["capabilities"] == {
        "tools": {"listChanged": True},
        "resources": {"listChanged": True, "subscribe": True},
        "prompts": {"listChanged": True},
        "logging": {},
        "completions": {},
    }
    if seen["client"] != "v1":
        assert seen["version"] == ("2026-07-28" if is_modern(seen) else "2025-11-25")


def test_it_lists_tools_with_their_schemas(seen: Seen) -> None:
    tools = {tool["name"]: tool for tool in seen["tools"]["listed"]}
    assert list(tools)[:3] == ["echo", "add", "count"]
    assert tools["echo"]["annotations"] == {"title": "Echo", "readOnlyHint": True, "idempotentHint": True}
    assert tools["echo"]["inputSchema"]["properties"] == {"text": {"type": "string", "description": "What to say."}}
    assert tools["add"]["outputSchema"]["required"] == ["total", "terms"]
    assert "outputSchema" not in tools["echo"]


def test_tool_results_have_text_and_structured_content(seen: Seen) -> None:
    tools = seen["tools"]
    assert text(tools["echo"]) == "grüße 🌍"
    assert tools["add"]["structuredContent"] == {"total": 5, "terms": [2, 3]}
    assert json.loads(text(tools["add"])) == {"total": 5, "terms": [2, 3]}
    assert tools["count"]["structuredContent"] == (42 if is_modern(seen) else {"result": 42})
    assert text(tools["noisy"]) == "quiet"


def test_it_reads_every_kind_of_content(seen: Seen) -> None:
    words, image, audio, embedded, link = seen["tools"]["gallery"]["content"]
    assert words == {"type": "text", "text": "all kinds"}
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    assert (audio["type"], audio["mimeType"]) == ("audio", "audio/wav")
    assert embedded["resource"] == {"uri": "memo://inside", "mimeType": "text/plain", "text": "inside"}
    assert link == {"type": "resource_link", "uri": "memo://static", "name": "static", "mimeType": "text/plain"}


def test_failures_reach_the_client_as_results(seen: Seen) -> None:
    tools = seen["tools"]
    error: dict[str, Any] = {"type": "tool_error", "message": "the well is dry", "tool": "failing"}
    error |= {"code": "dry_well", "data": {"depth": 7}}
    assert tools["failing"]["isError"] is True
    assert tools["failing"]["structuredContent"] == {"ok": False, "error": error}
    assert tools["wrong"]["isError"] is True
    assert json.loads(text(tools["wrong"]))["error"]["type"] == "validation_error"


def test_a_failure_that_does_not_fit_the_output_schema_is_still_seen(seen: Seen) -> None:
    failed = seen["tools"]["failingSum"]
    assert failed["isError"] is True
    error = {"type": "tool_error", "message": "cannot add 1", "tool": "failing_sum"}
    assert json.loads(text(failed)) == {"ok": False, "error": error}
    assert "structuredContent" not in failed  # version 1 and the Inspector would refuse it


def test_an_unknown_tool_is_an_error(seen: Seen) -> None:
    assert seen["tools"]["unknown"]["code"] == -32602
    assert seen["tools"]["unknown"]["data"]["toolName"] == "missing"


def test_progress_arrives_in_order_and_before_the_result(seen: Seen) -> None:
    assert seen["progress"] == [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"], "3 steps"]


def test_a_cancelled_call_stops_and_the_server_continues(seen: Seen) -> None:
    assert seen["cancellation"] == {
        "outcome": "aborted",
        "before": {"started": 1, "cancelled": 0, "finished": 0},
        "after": {"started": 1, "cancelled": 1, "finished": 0},
    }


def test_elicitation_sampling_and_roots_requests_are_answered(seen: Seen) -> None:
    questions = seen["questions"]
    assert text(questions["form"]) == "Ada 1 is 36"
    assert text(questions["interview"]) == "Ada 2 and Ada 3"
    assert text(questions["haiku"]) == "basho: old pond"
    roots = ["file:///home/ada"]
    assert questions["roots"]["structuredContent"] == (roots if is_modern(seen) else {"result": roots})
    *forms, sampling = questions["asked"]
    assert [form["message"] for form in forms] == ["Who are you?", "Who are you?", "And your friend?"]
    fields = {"name": {"type": "string"}, "age": {"type": "integer", "default": 0}}
    assert forms[0]["requestedSchema"] == {"type": "object", "properties": fields, "required": ["name"]}
    assert sampling["messages"] == [{"role": "user", "content": {"type": "text", "text": "A haiku about frogs"}}]
    assert (sampling["maxTokens"], sampling["systemPrompt"], sampling["temperature"]) == (64, "You are a poet", 0.5)


def test_it_lists_and_reads_resources(seen: Seen) -> None:
    resources = seen["resources"]
    uris = [entry["uri"] for entry in resources["listed"]]
    assert uris == ["memo://static", "memo://bytes", "memo://watched", "memo://seen"]
    assert [entry["uriTemplate"] for entry in resources["templates"]] == ["memo://people/{name}"]
    static = {"uri": "memo://static", "mimeType": "text/plain", "text": "static text"}
    assert resources["text"]["contents"] == [static]
    assert base64.b64decode(resources["blob"]["contents"][0]["blob"]).startswith(b"\x89PNG")
    assert resources["filled"]["contents"][0]["text"] == "about ada"
    # Version 2 calls it -32602 in both eras, whatever the server sent.
    assert resources["missing"]["code"] == (-32002 if seen["client"] == "v1" else -32602)
    assert resources["missing"]["data"] == {"uri": "memo://nowhere"}


def test_it_gets_prompts_and_completions(seen: Seen) -> None:
    prompts = seen["prompts"]
    (listed,) = prompts["listed"]
    assert listed["arguments"] == [
        {"name": "name", "description": "Who.", "required": True},
        {"name": "style", "description": "How.", "required": False},
    ]
    assert [message["content"]["text"] for message in prompts["got"]["messages"]] == ["Greet Ada", "In a plain style"]
    assert prompts["missing"]["code"] == -32602
    assert prompts["completed"]["completion"] == {"values": ["formal", "friendly"], "total": 2, "hasMore": False}


def test_the_client_receives_changes_until_it_unsubscribes(seen: Seen) -> None:
    changes = seen["changes"]
    assert changes["added"] == "hello"
    assert text(changes["called"]) == "hello greets Ada"
    assert changes["read"]["contents"][0]["text"] == "version 1"
    assert [note["kind"] for note in changes["received"]] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
        "notifications/resources/list_changed",
    ]
    assert changes["received"][1]["params"]["uri"] == "memo://watched"
    assert changes["afterwards"] == []


def test_concurrent_calls_get_their_own_results(seen: Seen) -> None:
    assert seen["manyAtOnce"] is True


def test_the_client_reconnects_for_a_result_whose_stream_was_closed(seen: Seen) -> None:
    assert text(seen["polled"]) == "fetched"
    resumed = [exchange for exchange in seen["traffic"] if exchange["lastEventId"] is not None]
    if seen["transport"] == "http" and not is_modern(seen):
        assert {(exchange["method"], exchange["status"]) for exchange in resumed} == {("GET", 200)}
    else:
        assert resumed == []


def test_the_client_uses_one_session_over_http_and_ends_it(seen: Seen) -> None:
    sessions = {exchange["session"] for exchange in seen["traffic"]}
    if seen["transport"] != "http" or is_modern(seen):
        assert sessions <= {None}
        return
    first, *others = seen["traffic"]
    assert (first["method"], first["session"]) == ("POST", None)
    assert len({exchange["session"] for exchange in others}) == 1
    assert [exchange["status"] for exchange in others if exchange["method"] == "DELETE"] == [204]


def test_nothing_it_sent_over_http_was_refused(seen: Seen) -> None:
    is_silent = seen["transport"] in ("stdio", "websocket")
    assert bool(seen["traffic"]) is not is_silent
    refused = [exchange for exchange in seen["traffic"] if exchange["status"] >= 300]
    # Only the modern era has a status for parameters that are wrong: of the prompt that lacks an argument.
    wrong = [400] if seen["transport"] == "http" and is_modern(seen) else []
    assert [exchange["status"] for exchange in refused] == wrong
