"""`hubbub.testing`, as a project that tests its server uses it."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hubbub import (
    SUPPORTED_PROTOCOL_VERSIONS,
    Client,
    Context,
    ElicitationAnswer,
    Hub,
    SamplingAnswer,
    Server,
    ToolAnnotations,
    View,
)
from hubbub.testing import ElicitationScript, SamplingScript, assert_schema, connect


@dataclass
class Name:
    name: str


def asking_server() -> Server:
    server = Server("asking", profiles={"few": View(include=("greet",))})

    @server.tool
    async def greet(context: Context, times: int = 1) -> str:
        """Greet a person."""
        answers_given = [await context.elicit(f"Who is number {number}?", Name) for number in range(times)]
        return ", ".join(one.content.name if one.content is not None else one.action for one in answers_given)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def haiku(context: Context, topic: str) -> str:
        """Write a haiku."""
        return (await context.sample(f"A haiku on {topic}")).text

    return server


@pytest.mark.parametrize("version", [item for item in SUPPORTED_PROTOCOL_VERSIONS if item >= "2025-06-18"])
async def test_scripted_answers_are_given_in_order(version: str) -> None:
    answers: list[ElicitationAnswer | dict[str, Any] | str] = [
        {"name": "Ada"},
        "decline",
        ElicitationAnswer("accept", {"name": "Eve"}),
    ]
    model: list[SamplingAnswer | str] = ["old pond", SamplingAnswer({"type": "text", "text": "frog"}, "tiny")]
    async with connect(asking_server(), protocol_version=version, elicitation=answers, sampling=model) as client:
        assert (await client.call_tool("greet", {"times": 3})).text == "Ada, decline, Eve"
        assert [(await client.call_tool("haiku", {"topic": "x"})).text for _ in range(2)] == ["old pond", "frog"]


async def test_a_script_records_the_requests() -> None:
    person, model = ElicitationScript({"name": "Ada"}), SamplingScript("frog")
    async with connect(asking_server(), elicitation=person, sampling=model) as client:
        await client.call_tool("greet")
        await client.call_tool("haiku", {"topic": "ponds"})
    assert [request.message for request in person.requests] == ["Who is number 0?"]
    assert model.requests[0].max_tokens == 1024
    person.assert_finished()


async def test_an_unused_answer_fails_the_test() -> None:
    answers: list[dict[str, str] | str] = [{"name": "Ada"}, "cancel", {"name": "Eve"}]
    with pytest.raises(AssertionError) as caught:
        async with connect(asking_server(), elicitation=answers, sampling=["frog"]) as client:
            await client.call_tool("greet")
    assert str(caught.value).splitlines() == [
        "elicitation: requests from the server: 1; remove the answers that were not used: 'cancel', {'name': 'Eve'}",
        "sampling: requests from the server: 0; remove the answers that were not used: 'frog'",
    ]


async def test_a_missing_answer_fails_the_test() -> None:
    with pytest.raises(AssertionError, match=r"server: 2, scripted answers: 1; add .* 'Who is number 1\?'"):
        async with connect(asking_server(), elicitation=[{"name": "Ada"}]) as client:
            assert (await client.call_tool("greet", {"times": 2})).is_error


async def test_a_missing_answer_is_added_as_a_note_to_the_failure() -> None:
    with pytest.raises(AssertionError, match="None") as caught:
        async with connect(asking_server(), protocol_version="2025-11-25", sampling=[]) as client:
            assert (await client.call_tool("haiku", {"topic": "ponds"})).is_error is None
    assert caught.value.__notes__ == [
        "sampling: requests from the server: 1, scripted answers: 0; add answers to 'A haiku on ponds'"
    ]


async def test_answers_that_are_not_a_list_are_refused() -> None:
    for wrong, advice in (
        ({"name": "Ada"}, "write elicitation="),
        ("decline", "write"),
        (lambda request: "", "Client"),
    ):
        with pytest.raises(TypeError, match=advice):
            async with connect(asking_server(), elicitation=wrong):  # type: ignore[arg-type]
                pass


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(ValueError, match="'Ada' is not an answer to elicitation; use accept, decline, cancel"):
        ElicitationScript("Ada")
    with pytest.raises(TypeError, match="None is not an answer to sampling; use a string or"):
        SamplingScript(None)  # type: ignore[arg-type]


# -- snapshots -----------------------------------------------------------------------


@pytest.fixture
def snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CI", "MCP_UPDATE_SCHEMAS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "tools.json"


async def test_an_unchanged_snapshot_passes(snapshot: Path) -> None:
    server = asking_server()
    assert_schema(server, snapshot, update=True)
    assert_schema(server, snapshot)
    async with Client(server) as client:
        assert_schema(await client.tools(), snapshot)
    stored = json.loads(snapshot.read_text(encoding="utf-8"))
    assert [tool["name"] for tool in stored] == ["greet", "haiku"]
    assert stored[1]["annotations"] == {"readOnlyHint": True}


def test_a_changed_snapshot_fails_with_a_diff_and_advice(snapshot: Path) -> None:
    assert_schema(asking_server(), snapshot, update=True)
    changed = asking_server()

    @changed.tool
    async def greet(times: int = 2) -> str:
        """Greet a person twice."""
        return ""

    @changed.tool
    async def wave() -> None:
        """Wave."""

    changed.tools.unregister("haiku")
    with pytest.raises(AssertionError) as caught:
        assert_schema(changed, snapshot)
    lines = str(caught.value).splitlines()
    assert "MCP_UPDATE_SCHEMAS=1" in lines[0]
    assert [line for line in lines if line.startswith("Tool ")] == [
        "Tool 'greet' changed:",
        "Tool 'haiku' was removed.",
        "Tool 'wave' is new.",
    ]
    assert '-  "description": "Greet a person.",' in lines
    assert '+  "description": "Greet a person twice.",' in lines
    assert '+        "default": 2' in lines
    assert_schema(asking_server(), snapshot)


def test_the_layout_of_a_snapshot_does_not_matter(snapshot: Path) -> None:
    assert_schema(asking_server(), snapshot, update=True)
    snapshot.write_text(json.dumps(json.loads(snapshot.read_text())))
    assert_schema(asking_server(), snapshot)


@pytest.mark.parametrize("text", ["{", "[1]", '[{"title": "x"}]', "7"])
def test_an_invalid_snapshot_file_is_refused(snapshot: Path, text: str) -> None:
    snapshot.write_text(text)
    with pytest.raises(AssertionError, match=r"tools.json is not a snapshot of tools: run the test once with"):
        assert_schema(asking_server(), snapshot)


def test_the_folder_of_a_snapshot_is_created(snapshot: Path) -> None:
    assert_schema(asking_server(), snapshot.parent / "a" / "b" / "tools.json", update=True)
    assert_schema(asking_server(), snapshot.parent / "a" / "b" / "tools.json")


async def test_an_object_without_tools_is_refused_with_what_to_pass(snapshot: Path) -> None:
    hub = Hub([asking_server()])
    for wrong in (hub, hub.front(), Client(asking_server())):
        with pytest.raises(TypeError, match=r"`await client.tools\(\)`"):
            assert_schema(wrong, snapshot, update=True)  # type: ignore[arg-type]
    async with Client(hub) as client:
        assert_schema(await client.tools(), snapshot, update=True)
    assert "greet" in snapshot.read_text()


def test_a_snapshot_is_written_only_on_request(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match=r"The snapshot .*tools.json does not exist: run the test once with"):
        assert_schema(asking_server(), snapshot)
    assert not snapshot.exists()
    monkeypatch.setenv("MCP_UPDATE_SCHEMAS", "1")
    assert_schema(asking_server(), snapshot)
    assert snapshot.exists()


def test_a_snapshot_is_never_written_in_ci(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError, match="not written in CI"):
        assert_schema(asking_server(), snapshot, update=True)
    assert not snapshot.exists()


def test_a_snapshot_has_the_tools_that_the_profile_shows(snapshot: Path) -> None:
    server = asking_server()
    server.use_profile("few")
    assert_schema(server, snapshot, update=True)
    assert [tool["name"] for tool in json.loads(snapshot.read_text(encoding="utf-8"))] == ["greet"]


# -- the plugin ----------------------------------------------------------------------

PROJECT = '''
import asyncio
from contextlib import AsyncExitStack
from hubbub import Server
from hubbub.testing import assert_schema

server = Server("s")

@server.tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b

def test_adds(mcp_connect):
    async def main():
        async with mcp_connect(server) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == 3
    asyncio.run(main())

def test_the_schema_is_beside_this_file():
    assert_schema(server, "tools.json")

opened = AsyncExitStack()
loop = asyncio.new_event_loop()

def test_leaves_one_open(mcp_connect):
    loop.run_until_complete(opened.enter_async_context(mcp_connect(server)))

def test_closes_it():
    loop.run_until_complete(opened.aclose())
    loop.close()
'''


def test_a_project_uses_the_plugin(snapshot: Path) -> None:
    folder = snapshot.parent
    (folder / "conftest.py").write_text('pytest_plugins = ["hubbub.testing"]\n')
    (folder / "tests").mkdir()
    (folder / "tests" / "test_project.py").write_text(PROJECT)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # they take seconds to load
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=60)
    assert "1 failed, 3 passed, 1 error" in done.stdout, done.stdout
    assert f"The snapshot {folder / 'tests' / 'tools.json'} does not exist" in done.stdout
    assert "Clients were left open: [<Client 's'>]" in done.stdout


def test_pytest_is_imported_by_the_plugin_only() -> None:
    code = "import sys, hubbub, hubbub.testing; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert done.stdout == "False\n"
