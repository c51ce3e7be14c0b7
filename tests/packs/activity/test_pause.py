"""The user can pause disclosure immediately in running servers, and callers cannot end the pause."""

import json
import subprocess
from argparse import ArgumentTypeError
from pathlib import Path

import pytest
from tests.http.server_process import HUBBUB
from tests.packs.activity.activitywatch_server import ActivityWatchServer, insert_morning
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.sidecars import run_sidecar
from tests.packs.activity.tool_clients import LEGACY, UNUSED_URL, ToolClient, connect_tool_client, make_server
from tests.server.raw_client import connect_raw_client

from hubbub.packs.activity import diagnosis
from hubbub.packs.activity.command import parse_duration
from hubbub.packs.activity.pause import Pause
from hubbub.packs.activity.settings import ActivitySettings

QUERY = 'RETURN = query_bucket(find_bucket("aw-watcher-window_"));'


def hubbub(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([HUBBUB, "activity", *arguments], capture_output=True, text=True, timeout=60, cwd="/")


async def test_a_running_server_discloses_nothing_until_the_user_resumes(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    with run_sidecar() as running_sidecar:
        server = make_server(watch.url, running_sidecar.url)
        async with server.running(), connect_raw_client(server, LEGACY) as client:
            tool_client = ToolClient(client)
            await tool_client.call("aw.now")
            assert "until" in hubbub("pause", "--for", "1h30m").stdout
            tools = {tool["name"] for tool in (await client.result("tools/list"))["tools"]} - {"system.health"}
            assert len(tools) > 7
            for tool in tools:
                error = await tool_client.failure(tool, **({"query": QUERY} if tool == "aw.query" else {}))
                assert (error["code"], error["message"].startswith("Paused by the user until ")) == (
                    "paused",
                    True,
                ), tool
            read = await client.error("resources/read", {"uri": "activity://now"})
            assert "Paused by the user" in read["message"]
            for prompt in (await client.result("prompts/list"))["prompts"]:
                error = await client.error("prompts/get", {"name": prompt["name"]})
                assert "Paused by the user" in error["message"]
            health = await tool_client.call("system.health")
            assert (health["aw_ok"], health["causes"]["paused"]["kind"]) == (True, "paused")
            assert "Paused by the user" in hubbub("status").stdout
            assert "Not paused" in hubbub("resume").stdout
            assert "paused" not in (await tool_client.call("system.health"))["causes"]
            assert (await tool_client.call("screen.read"))["text"]


async def test_doctor_does_not_report_a_pause_as_a_failure(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    Pause().start(None)
    settings = ActivitySettings(aw_url=watch.url)
    there, watchers = await diagnosis.activitywatch(settings), await diagnosis.watchers(settings)
    missing = await diagnosis.activitywatch(ActivitySettings(aw_url=UNUSED_URL))
    assert (there.ok, missing.ok, watchers.optional) == (True, False, True)
    assert "Paused by the user" in watchers.detail


async def test_a_pause_that_starts_during_a_screen_read_withholds_its_result() -> None:
    def answer(method: str, path: str) -> ScriptedResponse:
        Pause().start(None)
        return ScriptedResponse(body=b'{"ok": true, "parsed_content_list": [{"type": "text", "content": "canary"}]}')

    with run_scripted_server(answer) as running_sidecar:
        async with connect_tool_client(sidecar_url=running_sidecar.url) as tool_client:
            error = await tool_client.failure("screen.read")
    assert error["code"] == "paused"
    assert "canary" not in json.dumps(error)


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_a_pause_ends_after_its_time_or_on_resume(seconds: float | None, tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    pause = Pause(tmp_path / "new" / "paused.json", clock=lambda: now[0])
    assert pause.message() is None
    assert not pause.end()
    pause.start(seconds)
    assert pause.path.stat().st_mode & 0o777 == 0o600
    assert "Paused by the user" in str(pause.message())
    now[0] += 60
    assert (pause.message() is None) == (seconds is not None)
    assert pause.end() == (seconds is None)
    assert pause.message() is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"until": "soon"}', b'{"until": 1e300}', b"\xff" * 5000])
def test_an_invalid_pause_file_counts_as_a_pause(content: bytes, tmp_path: Path) -> None:
    pause = Pause(tmp_path / "paused.json")
    pause.path.write_bytes(content)
    assert "cannot be read" in str(pause.message())
    assert pause.end()
    assert pause.message() is None


def test_a_folder_in_place_of_the_pause_file_counts_as_a_pause(tmp_path: Path) -> None:
    pause = Pause(tmp_path / "paused.json")
    pause.path.mkdir()
    assert "cannot be read" in str(pause.message())


def test_the_sidecar_refuses_to_read_the_screen_during_a_pause(tmp_path: Path) -> None:
    pause = Pause(tmp_path / "paused.json")
    with run_sidecar(pause=pause) as running_sidecar:
        assert running_sidecar.request("POST", "/parse", {"capture": True})[0] == 200
        pause.start(None)
        status, response = running_sidecar.request("POST", "/parse", {"capture": True})
    assert (status, response["error"]) == (503, "paused")


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("2d", 172800)])
def test_durations_are_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0m", "30", "m", "-5m", "1.5h", "30m1h", "999999d", "٣m"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="30m"):
        parse_duration(text)


@pytest.mark.parametrize("arguments", [(), ("stop",), ("pause", "--for", "soon"), ("log", "--last", "0")])
def test_an_invalid_command_is_refused(arguments: tuple[str, ...]) -> None:
    done = hubbub(*arguments)
    assert (done.returncode, "usage: hubbub activity" in done.stderr) == (2, True)
