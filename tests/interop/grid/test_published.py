"""Four published servers behind one hub, configured in an `mcpServers` file as users do."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.subscriptions import ResourceUpdated
from tests.http.server_process import ServerProcess
from tests.interop.external_servers import JUDGES
from tests.interop.grid.feature_checks import (
    LEGACY,
    MODERN,
    ClientRun,
    ServerTarget,
    accept,
    connect_client,
    result_text,
)
from tests.interop.python_client import DEPRECATED, block_text

RunAsync = Callable[..., Any]
PUBLISHED = JUDGES / "@modelcontextprotocol"

pytestmark = pytest.mark.filterwarnings(DEPRECATED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    (folder / "files").mkdir()
    (folder / "files" / "note.txt").write_text("a note\n")
    return folder


@pytest.fixture(scope="module")
def target(node: list[str], folder: Path) -> Iterator[ServerTarget]:
    def npm(name: str, *arguments: str, **more: Any) -> dict[str, Any]:
        script = str(PUBLISHED / f"server-{name}" / "dist" / "index.js")
        return {"command": node[0], "args": [*node[1:], script, *arguments], **more}

    servers = {
        "everything": npm("everything", "stdio"),
        "filesystem": npm("filesystem", str(folder / "files")),
        "memory": npm("memory", env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}),
        "time": {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "Europe/Berlin"]},
    }
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    with ServerProcess("--mcp-json", str(path)) as process:
        yield ServerTarget(f"{process.url}/mcp", "", folder / "journal")


@pytest.fixture(params=[pytest.param(LEGACY, id="legacy"), pytest.param(MODERN, id="modern")])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_each_tool_of_each_server_is_listed_under_its_own_name(
    target: ServerTarget, era: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with connect_client(target, era) as run:
            listed = (await run.client.list_tools()).tools
            owners = {tool.name: (tool.meta or {}).get("dev.hubbub/server") for tool in listed}
            wanted = {"get-sum": "everything", "read_text_file": "filesystem", "create_entities": "memory"}
            assert wanted.items() <= owners.items()
            assert owners["convert_time"] == "time"
            hints = next(tool for tool in listed if tool.name == "read_text_file").annotations
            assert hints is not None
            assert hints.read_only_hint is True

    run_async(scenario())


def test_a_tool_of_each_server_is_called(target: ServerTarget, folder: Path, era: str, run_async: RunAsync) -> None:
    ada = {"name": f"Ada {era}", "entityType": "person", "observations": ["writes programs"]}
    asked = {"source_timezone": "Asia/Tokyo", "time": "09:30", "target_timezone": "Asia/Kolkata"}

    async def scenario() -> None:
        async with connect_client(target, era) as run:
            assert result_text(await run.call("get-sum", a=2, b=3)) == "The sum of 2 and 3 is 5."
            weather = await run.call("get-structured-content", location="Chicago")
            assert weather.structured_content["humidity"] == 82
            assert result_text(await run.call("read_text_file", path=str(folder / "files" / "note.txt"))) == "a note\n"
            denied = await run.call("read_text_file", path="/etc/passwd")
            assert denied.is_error is True
            assert "outside allowed directories" in result_text(denied)
            made = await run.call("create_entities", entities=[ada])
            assert made.structured_content == {"entities": [ada]}
            converted = await run.call("convert_time", **asked)
            assert converted.structured_content["time_difference"] == "-3.5h"

    run_async(scenario())


def test_resources_prompts_and_completion_reach_their_server(
    target: ServerTarget, era: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with connect_client(target, era) as run:
            client = run.client
            listed = {str(entry.uri) for entry in (await client.list_resources()).resources}
            document = "demo://resource/static/document/features.md"
            assert document in listed
            (contents,) = (await client.read_resource(document)).contents
            assert block_text(contents).startswith("# Everything Server")
            (words,) = (await client.read_resource("demo://resource/dynamic/text/7")).contents
            assert block_text(words).startswith("Resource 7: This is a plaintext resource")
            got = await client.get_prompt("args-prompt", {"city": "Bonn", "state": "Rhineland"})
            assert block_text(got.messages[0].content) == "What's weather in Bonn, Rhineland?"
            reference = types.PromptReference(name="completable-prompt")
            found = await client.complete(reference, {"name": "department", "value": "S"})
            assert found.completion.values == ["Sales", "Support"]
            found = await client.complete(reference, {"name": "name", "value": ""}, {"department": "Sales"})
            assert found.completion.values == ["David", "Eve", "Frank"]

    run_async(scenario())


def test_a_published_server_sends_progress_and_client_requests_through_the_hub(
    target: ServerTarget, era: str, run_async: RunAsync
) -> None:
    async def scenario() -> None:
        async with connect_client(target, era) as run:
            work = {"duration": 0.2, "steps": 4}
            received = await run.call_and_record("trigger-long-running-operation", work)
            assert [event[1:3] for event in received[:-1]] == [(1, 4), (2, 4), (3, 4), (4, 4)]
            assert received[-1] == "Long running operation completed. Duration: 0.2 seconds, Steps: 4."
            await check_questions(run)

    run_async(scenario())


async def check_questions(run: ClientRun) -> None:
    run.answers = [accept(name="Ada", check=True, integer=7)]
    answered = await run.call("trigger-elicitation-request")
    assert "- Name: Ada" in block_text(answered.content[1])
    (form,) = [event for event in run.events if event[0] == "elicitation"]
    assert form[2]["required"] == ["name"]
    sampled = await run.call("trigger-sampling-request", prompt="frogs", maxTokens=9)
    assert json.loads(result_text(sampled).partition("\n")[2])["model"] == "basho"
    (asked,) = [event for event in run.events if event[0] == "sampling"]
    assert asked[2:4] == ("You are a helpful test server.", 9)


def test_a_change_of_a_published_server_reaches_the_client(target: ServerTarget, run_async: RunAsync) -> None:
    noted = {"name": "Grace", "entityType": "person", "observations": ["finds bugs"]}

    async def scenario() -> None:
        async with connect_client(target, MODERN) as run:
            listed = [str(entry.uri) for entry in (await run.client.list_resources()).resources]
            graph = next(uri for uri in listed if "graph" in uri)
            async with run.client.listen(resource_subscriptions=[graph]) as received:
                await run.call("create_entities", entities=[noted])
                assert await asyncio.wait_for(anext(received), 60) == ResourceUpdated(uri=graph)
            (read,) = (await run.client.read_resource(graph)).contents
            assert noted in json.loads(block_text(read))["entities"]

    run_async(scenario())
