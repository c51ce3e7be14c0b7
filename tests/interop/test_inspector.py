"""The Inspector's command line against our server, over each transport. It can only list, call, read and get."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.http.server_process import ServerProcess

ROOT = Path(__file__).parent.parent.parent
INSPECTOR = ROOT / "tests/judges/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
TOOL_FAILED = 5

WAYS = [("legacy", "stdio"), ("modern", "stdio"), ("legacy", "mcp"), ("modern", "mcp"), ("legacy", "sse")]

Inspect = Callable[..., tuple[int, Any]]


@pytest.fixture(scope="module")
def served(command: list[str]) -> Iterator[str]:
    """The address of a server over HTTP; nothing here changes it."""
    with ServerProcess(command[-1]) as process:
        yield process.url


@pytest.fixture(params=WAYS, ids="-".join)
def inspect(
    request: pytest.FixtureRequest, node: list[str], command: list[str], served: str, tmp_path: Path
) -> Inspect:
    """Run one method; return the exit code and the result."""
    era, way = request.param
    address = command if way == "stdio" else [f"{served}/{way}"]

    def run(*arguments: str) -> tuple[int, Any]:
        flags = ["--protocol-era", era, "--format", "json", "--quiet", "--method"]
        done = subprocess.run(
            [*node, str(INSPECTOR), "--cli", *address, *flags, *arguments],
            capture_output=True,
            timeout=60,
            env=os.environ | {"HOME": str(tmp_path)},
            check=False,
        )
        result = json.loads(done.stdout)["result"] if done.stdout else json.loads(done.stderr)
        return done.returncode, result

    return run


def test_it_lists_tools_and_finds_their_schemas_portable(inspect: Inspect) -> None:
    code, result = inspect("tools/list", "--strict")
    assert code == 0
    assert [tool["name"] for tool in result["tools"]][:3] == ["echo", "add", "count"]


def test_it_calls_a_tool(inspect: Inspect) -> None:
    code, result = inspect("tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3")
    assert code == 0
    assert result["structuredContent"] == {"total": 5, "terms": [2, 3]}


def test_a_tool_that_reports_progress_returns_its_result(inspect: Inspect) -> None:
    code, result = inspect("tools/call", "--tool-name", "slow", "--tool-arg", "steps=2")
    assert code == 0
    assert result["content"] == [{"type": "text", "text": "2 steps"}]


@pytest.mark.parametrize("tool", ["failing", "failing_sum"])
def test_a_failed_tool_is_shown_as_failed(inspect: Inspect, tool: str) -> None:
    arguments = ["--tool-arg", "a=1"] if tool == "failing_sum" else []
    code, result = inspect("tools/call", "--tool-name", tool, *arguments)
    assert code == TOOL_FAILED
    assert result["isError"] is True
    assert json.loads(result["content"][0]["text"])["error"]["tool"] == tool


def test_it_lists_and_reads_resources(inspect: Inspect) -> None:
    code, result = inspect("resources/list")
    assert code == 0
    uris = [entry["uri"] for entry in result["resources"]]
    assert uris == ["memo://static", "memo://bytes", "memo://watched", "memo://seen"]
    code, result = inspect("resources/templates/list")
    assert code == 0
    assert result["resourceTemplates"][0]["uriTemplate"] == "memo://people/{name}"
    code, result = inspect("resources/read", "--uri", "memo://people/grace")
    assert code == 0
    contents = {"uri": "memo://people/grace", "mimeType": "text/plain", "text": "about grace"}
    assert result["contents"] == [contents]


def test_a_missing_resource_is_shown_as_an_error(inspect: Inspect) -> None:
    code, result = inspect("resources/read", "--uri", "memo://nowhere")
    assert code == 1
    assert result["error"]["message"] == "Resource not found"


def test_it_lists_and_gets_prompts(inspect: Inspect) -> None:
    code, result = inspect("prompts/list")
    assert code == 0
    assert [prompt["name"] for prompt in result["prompts"]] == ["greeting"]
    code, result = inspect("prompts/get", "--prompt-name", "greeting", "--prompt-args", "name=Ada", "style=formal")
    assert code == 0
    assert [message["content"]["text"] for message in result["messages"]] == ["Greet Ada", "In a formal style"]


def test_it_starts_our_command_with_the_transport_in_a_variable(node: list[str], tmp_path: Path) -> None:
    """It interprets `--transport` itself; docs/serving.md shows this workaround."""
    serve = [sys.executable, "-m", "hubbub", "serve", str(ROOT / "examples" / "echo.py")]
    done = subprocess.run(
        [*node, str(INSPECTOR), "--cli", "-e", "HUBBUB_TRANSPORT=stdio", *serve, "--method", "tools/list"],
        capture_output=True, timeout=60, env=os.environ | {"HOME": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == ["echo"]
