"""Hubbub's client against servers that others have published, as their users start them.

From npm: `everything` (on stdio, over Streamable HTTP and over HTTP+SSE), `filesystem`, `memory`.
From PyPI: `mcp-server-time`. Payloads are compared as far as the server's are the same every time.
"""

import asyncio
import base64
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.interop.external_servers import JUDGES, run_http_server
from tests.interop.studio_client import WAIT_S, to_wire_form
from tests.ports import free_port

from hubbub import (
    ChangeEvent,
    Client,
    ElicitationAnswer,
    ElicitationRequest,
    RemoteError,
    Root,
    SamplingAnswer,
    SamplingRequest,
    ServerConfig,
)

RunAsync = Callable[..., Any]
PUBLISHED = JUDGES / "@modelcontextprotocol"
HANDLERS = 16  # the tools of `everything`, with those that it adds for client capabilities


@pytest.fixture(params=["stdio", "streamable_http", "sse", "fallback"])
def everything(request: pytest.FixtureRequest, node: list[str]) -> Iterator[ServerConfig]:
    """`everything` over each of its transports; `fallback` is HTTP+SSE that the client must detect."""
    command = [*node, str(PUBLISHED / "server-everything" / "dist" / "index.js")]
    if request.param == "stdio":
        yield ServerConfig(id="everything", command=command[0], args=[*command[1:], "stdio"])
        return
    kind, path = ("streamableHttp", "mcp") if request.param == "streamable_http" else ("sse", "sse")
    transport = "streamable_http" if request.param == "fallback" else request.param
    with run_http_server([*command, kind], {"PORT": str(port := free_port())}, port):
        yield ServerConfig(id="everything", transport=transport, url=f"http://127.0.0.1:{port}/{path}")


def published(node: list[str], name: str, *arguments: str, **options: Any) -> ServerConfig:
    """Return the command of a server from npm."""
    script = str(PUBLISHED / f"server-{name}" / "dist" / "index.js")
    return ServerConfig(id=name, command=node[0], args=[*node[1:], script, *arguments], **options)


class Callbacks:
    """Answers client requests and records notifications."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.changes: asyncio.Queue[ChangeEvent] = asyncio.Queue()
        self.logs: list[Any] = []

    def client(self, config: ServerConfig) -> Client:
        return Client(
            config,
            elicitation=self.elicit,
            sampling=self.sample,
            roots=[Root("file:///home/ada", "home")],
            on_change=self.changes.put_nowait,
            on_log=self.logs.append,
        )

    def elicit(self, request: ElicitationRequest) -> ElicitationAnswer:
        self.asked.append(request)
        return ElicitationAnswer("accept", {"name": "Ada", "check": True, "integer": 7})

    def sample(self, request: SamplingRequest) -> SamplingAnswer:
        self.asked.append(request)
        return SamplingAnswer({"type": "text", "text": "old pond"}, model="basho")

    async def until(self, wanted: ChangeEvent) -> None:
        async with asyncio.timeout(WAIT_S):
            while await self.changes.get() != wanted:
                pass


def text(result: Any) -> str:
    (block,) = to_wire_form(result)["content"]
    return str(block["text"])


# -- everything ----------------------------------------------------------------


def test_the_everything_server_is_listed_called_read_and_completed(
    everything: ServerConfig, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with Client(everything) as client:
            assert client.server_info.name == "mcp-servers/everything"
            assert client.protocol_version == "2025-11-25"
            assert client.instructions is not None
            await check_tools(client)
            await check_resources(client)
            await check_prompts(client)

    run_async(scenario())


async def check_tools(client: Client) -> None:
    names = [tool.name for tool in await client.tools()]
    assert {"echo", "get-sum", "get-structured-content"} <= set(names)
    assert "trigger-sampling-request" not in names  # the client did not declare sampling
    assert text(await client.call_tool("echo", {"message": "grüß dich"})) == "Echo: grüß dich"
    assert text(await client.call_tool("get-sum", {"a": 2, "b": 3})) == "The sum of 2 and 3 is 5."
    weather = to_wire_form(await client.call_tool("get-structured-content", {"location": "Chicago"}))
    assert weather["structuredContent"] == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    assert json.loads(weather["content"][0]["text"]) == weather["structuredContent"]
    _, image, _ = to_wire_form(await client.call_tool("get-tiny-image"))["content"]
    assert image["mimeType"] == "image/png"
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")
    links = to_wire_form(await client.call_tool("get-resource-links", {"count": 2}))["content"]
    assert [block["type"] for block in links] == ["text", "resource_link", "resource_link"]
    wrong = to_wire_form(await client.call_tool("get-sum", {"a": "two", "b": 3}))
    assert wrong["isError"] is True
    assert "Invalid arguments for tool get-sum" in wrong["content"][0]["text"]


async def check_resources(client: Client) -> None:
    listed = [entry.uri for entry in await client.resources()]
    assert "demo://resource/static/document/features.md" in listed
    templates = [entry.uri_template for entry in await client.templates()]
    assert templates == ["demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"]
    (document,) = to_wire_form(await client.read_resource("demo://resource/static/document/features.md"))["contents"]
    assert document["mimeType"] == "text/markdown"
    assert document["text"].startswith("# Everything Server")
    (words,) = to_wire_form(await client.read_resource("demo://resource/dynamic/text/7"))["contents"]
    assert words["text"].startswith("Resource 7: This is a plaintext resource")
    (blob,) = to_wire_form(await client.read_resource("demo://resource/dynamic/blob/7"))["contents"]
    assert base64.b64decode(blob["blob"]).startswith(b"Resource 7: This is a base64 blob")
    made = {"name": "words.gz", "data": "data:text/plain,many%20words"}
    (link,) = to_wire_form(await client.call_tool("gzip-file-as-resource", made))["content"]
    (packed,) = to_wire_form(await client.read_resource(link["uri"]))["contents"]
    assert gzip.decompress(base64.b64decode(packed["blob"])) == b"many words"
    with pytest.raises(RemoteError) as missing:
        await client.read_resource("demo://nowhere")
    assert missing.value.code == -32602


async def check_prompts(client: Client) -> None:
    prompts = {entry.name: entry for entry in await client.prompts()}
    assert prompts.keys() == {"simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"}
    got = await client.get_prompt("args-prompt", {"city": "Bonn", "state": "Rhineland"})
    (message,) = to_wire_form(got)["messages"]
    assert message == {"role": "user", "content": {"type": "text", "text": "What's weather in Bonn, Rhineland?"}}
    reference = {"type": "ref/prompt", "name": "completable-prompt"}
    found = await client.complete(reference, "department", "S")
    assert to_wire_form(found)["completion"]["values"] == ["Sales", "Support"]
    found = await client.complete(reference, "name", "", context={"department": "Sales"})
    assert to_wire_form(found)["completion"]["values"] == ["David", "Eve", "Frank"]


def test_the_everything_server_sends_requests_progress_and_changes(
    everything: ServerConfig, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        person = Callbacks()
        async with person.client(everything) as client:
            while len(await client.tools()) < HANDLERS:  # it adds some when it knows the capabilities of the client
                await person.until(ChangeEvent("tools"))
            await check_questions(client, person)
            await check_progress(client)
            await check_subscription(client, person)

    run_async(scenario())


async def check_questions(client: Client, person: Callbacks) -> None:
    answered = to_wire_form(await client.call_tool("trigger-elicitation-request"))["content"]
    assert "User provided the requested information" in answered[0]["text"]
    assert "- Name: Ada" in answered[1]["text"]
    assert "- Favorite Integer: 7" in answered[1]["text"]
    (form,) = person.asked
    assert form.requested_schema["required"] == ["name"]
    assert form.requested_schema["properties"]["integer"]["default"] == 42
    sampled = text(await client.call_tool("trigger-sampling-request", {"prompt": "frogs", "maxTokens": 9}))
    result = json.loads(sampled.partition("\n")[2])
    assert (result["model"], result["content"]) == ("basho", {"type": "text", "text": "old pond"})
    asked = person.asked[1]
    assert (asked.max_tokens, asked.system_prompt) == (9, "You are a helpful test server.")
    assert "frogs" in asked.messages[0]["content"]["text"]
    roots = to_wire_form(await client.call_tool("get-roots-list"))["content"]
    assert "file:///home/ada" in roots[0]["text"]


async def check_progress(client: Client) -> None:
    received: list[Any] = []
    work = {"duration": 0.2, "steps": 4}
    done = await client.call_tool(
        "trigger-long-running-operation", work, progress=lambda update: received.append((update.progress, update.total))
    )
    assert text(done) == "Long running operation completed. Duration: 0.2 seconds, Steps: 4."
    assert received == [(1, 4), (2, 4), (3, 4), (4, 4)]
    started = asyncio.Event()
    call = asyncio.create_task(
        client.call_tool(
            "trigger-long-running-operation", {"duration": 200, "steps": 1000}, progress=lambda _: started.set()
        )
    )
    async with asyncio.timeout(WAIT_S):
        await started.wait()
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    assert text(await client.call_tool("echo", {"message": "still there"})) == "Echo: still there"


async def check_subscription(client: Client, person: Callbacks) -> None:
    await client.set_level("debug")
    uri = "demo://resource/static/document/features.md"
    await client.subscribe(uri)
    assert "Started" in text(await client.call_tool("toggle-subscriber-updates"))
    await person.until(ChangeEvent("resource", uri))
    await client.unsubscribe(uri)
    assert "Stopped" in text(await client.call_tool("toggle-subscriber-updates"))
    assert any(f"Received Subscribe Resource request for URI: {uri}" in str(log.data) for log in person.logs)


# -- the others ----------------------------------------------------------------


def test_the_filesystem_server_uses_the_roots_of_the_client(
    node: list[str], run_async: RunAsync, tmp_path: Path
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    note = inside / "note.txt"

    async def scenario() -> None:
        config = published(node, "filesystem", str(outside))
        async with Client(config, roots=lambda: [Root(inside.as_uri(), "inside")]) as client:
            assert client.server_info.name == "secure-filesystem-server"
            async with asyncio.timeout(WAIT_S):
                while str(inside) not in text(await client.call_tool("list_allowed_directories")):
                    await asyncio.sleep(0.02)
            content = "first line\nsecond line\n"
            await client.call_tool("write_file", {"path": str(note), "content": content})
            assert note.read_text() == content
            read = to_wire_form(await client.call_tool("read_text_file", {"path": str(note), "head": 1}))
            assert read["structuredContent"] == {"content": "first line"}
            edit = {"oldText": "second", "newText": "last"}
            edited = text(await client.call_tool("edit_file", {"path": str(note), "edits": [edit]}))
            assert "+last line" in edited
            assert note.read_text() == "first line\nlast line\n"
            assert text(await client.call_tool("list_directory", {"path": str(inside)})) == "[FILE] note.txt"
            denied = to_wire_form(await client.call_tool("read_text_file", {"path": "/etc/passwd"}))
            assert denied["isError"] is True
            assert "outside allowed directories" in denied["content"][0]["text"]
            annotations = {tool.name: to_wire_form(tool).get("annotations", {}) for tool in await client.tools()}
            assert annotations["read_text_file"]["readOnlyHint"] is True

    run_async(scenario())


def test_the_memory_server_stores_a_graph(node: list[str], run_async: RunAsync, tmp_path: Path) -> None:
    memory_file = tmp_path / "memory.jsonl"
    ada = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}

    async def scenario() -> None:
        config = published(node, "memory", env={"MEMORY_FILE_PATH": str(memory_file)})
        changes: asyncio.Queue[ChangeEvent] = asyncio.Queue()
        async with Client(config, on_change=changes.put_nowait) as client:
            (graph,) = await client.resources()
            await client.subscribe(graph.uri)
            made = await client.call_tool("create_entities", {"entities": [ada]})
            assert to_wire_form(made)["structuredContent"] == {"entities": [ada]}
            async with asyncio.timeout(WAIT_S):
                assert await changes.get() == ChangeEvent("resource", graph.uri)
            found = await client.call_tool("search_nodes", {"query": "programs"})
            assert to_wire_form(found)["structuredContent"] == {"entities": [ada], "relations": []}
            (read,) = to_wire_form(await client.read_resource(graph.uri))["contents"]
            assert json.loads(read["text"])["entities"] == [ada]
        async with Client(config) as client:
            again = to_wire_form(await client.call_tool("open_nodes", {"names": ["Ada"]}))
            assert again["structuredContent"]["entities"] == [ada]

    run_async(scenario())


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_the_time_server_converts_time(run_async: RunAsync, version: str) -> None:
    command = ["-m", "mcp_server_time", "--local-timezone", "Europe/Berlin"]

    async def scenario() -> None:
        config = ServerConfig(id="time", command=sys.executable, args=command, protocol_version=version)
        async with Client(config) as client:
            assert client.protocol_version == version
            assert [tool.name for tool in await client.tools()] == ["get_current_time", "convert_time"]
            asked = {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "Asia/Kolkata"}
            converted = to_wire_form(await client.call_tool("convert_time", asked))["structuredContent"]
            assert converted["time_difference"] == "-3.5h"
            assert converted["source"]["timezone"] == "Asia/Tokyo"
            assert converted["target"]["datetime"].endswith("T06:00:00+05:30")
            wrong = to_wire_form(await client.call_tool("get_current_time", {"timezone": "Nowhere/Else"}))
            assert wrong["isError"] is True
            assert "Nowhere/Else" in wrong["content"][0]["text"]

    run_async(scenario())
