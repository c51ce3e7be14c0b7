"""The disclosure log records caller, call and amount, never titles, and is limited in size."""

import json
import logging
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.http.in_process_server import run_server
from tests.http.keyring import Keyring
from tests.http.server_process import HUBBUB
from tests.packs.activity.activitywatch_server import ActivityWatchServer, insert_morning
from tests.packs.activity.sidecars import run_sidecar
from tests.packs.activity.tool_clients import UNUSED_URL, connect_tool_client, make_server
from tests.server.raw_client import DIALECTS, PLAIN

from hubbub.packs.activity import limits
from hubbub.packs.activity.disclosure_log import DisclosureLog


def path() -> Path:
    return Path(os.environ["XDG_DATA_HOME"]) / "hubbub" / "activity" / "disclosures.jsonl"


def entries() -> list[dict[str, Any]]:
    return [json.loads(line) for line in path().read_text().splitlines()]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_disclosure_is_logged_without_its_content(dialect: str, watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    async with connect_tool_client(watch.url, dialect=dialect) as tool_client:
        if dialect == PLAIN:
            await tool_client.client.result("aw.summary", {"period": "yesterday", "by": "title"})
        else:
            await tool_client.call("aw.summary", period="yesterday", by="title")
        await tool_client.client.ask("tools/list")
    (entry,) = entries()
    assert (entry["caller"], entry["tool"], entry["period"], entry["by"]) == (
        "stdio", "aw.summary", "yesterday", "title"
    )  # fmt: skip
    assert entry["events"] >= entry["titles"] > 1
    assert (entry["sites"], entry["buckets"]) == (1, 3)
    assert path().stat().st_mode & 0o777 == 0o600
    buckets = [watch.request("GET", f"buckets/{bucket}/events") for bucket in watch.request("GET", "buckets/")]
    known = {event["data"].get("title") for events in buckets for event in events}
    assert not [title for title in known if title and title in path().read_text()]


async def test_resources_prompts_and_the_screen_are_logged_with_the_caller(
    watch: ActivityWatchServer, tmp_path: Path
) -> None:
    insert_morning(watch)
    ring = Keyring(tmp_path / "keys.toml")
    key = ring.add("ann")
    with run_sidecar() as running_sidecar:
        async with run_server(make_server(watch.url, running_sidecar.url), key_file=str(ring.path)) as here:
            for method, params in (
                ("screen.read", {}),
                ("resources/read", {"uri": "activity://now"}),
                ("prompts/get", {"name": "what_did_i_do", "arguments": {"period": "yesterday"}}),
            ):
                answer = await here.site.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, key)
                assert "result" in answer.json, answer.json
    screen, resource, prompt = entries()
    assert (screen["caller"], screen["address"], screen["tool"], screen["lines"]) == (
        "key:ann", "127.0.0.1", "screen.read", 2
    )  # fmt: skip
    assert resource["resource"] == "activity://now"
    assert (prompt["prompt"], prompt["period"]) == ("what_did_i_do", "yesterday")


async def test_calls_that_disclose_nothing_are_not_logged(watch: ActivityWatchServer) -> None:
    async with connect_tool_client(UNUSED_URL) as tool_client:
        await tool_client.failure("aw.now")
        await tool_client.call("system.health")
    async with run_server(make_server(watch.url)) as here:
        await here.site.post({"jsonrpc": "2.0", "id": 1, "method": "screen.read"})
    assert not path().exists()


async def test_secrets_in_arguments_are_not_logged(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    query = 'RETURN = filter_keyvals(query_bucket(find_bucket("aw-watcher-window_")), "title", ["canary"]);'
    async with connect_tool_client(watch.url) as tool_client:
        await tool_client.call("aw.query", query=query, period="yesterday")
        await tool_client.call("aw.summary", period="yesterday", by="category", categories={"canary": "canary"})
    assert [entry["tool"] for entry in entries()] == ["aw.query", "aw.summary"]
    assert "canary" not in path().read_text()


async def test_the_log_can_be_disabled_or_moved(watch: ActivityWatchServer, tmp_path: Path) -> None:
    async with connect_tool_client(watch.url, disclosure_log="off") as tool_client:
        await tool_client.call("aw.now")
    assert not path().exists()
    async with connect_tool_client(watch.url, disclosure_log=str(tmp_path / "own" / "log")) as tool_client:
        await tool_client.call("aw.now")
    assert not path().exists()
    assert (tmp_path / "own" / "log").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("obstacle", ["folder", "link", "pipe", "file above"])
async def test_a_log_that_cannot_be_written_is_reported_and_the_call_succeeds(
    obstacle: str, watch: ActivityWatchServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = tmp_path / "log"
    if obstacle == "folder":
        place.mkdir()
    elif obstacle == "link":
        place.symlink_to(tmp_path / "victim")
    elif obstacle == "pipe":
        os.mkfifo(place)
    else:
        (tmp_path / "file").touch()
        place = tmp_path / "file" / "log"
    with caplog.at_level(logging.WARNING):
        async with connect_tool_client(watch.url, disclosure_log=str(place)) as tool_client:
            await tool_client.call("aw.now")
    assert "cannot write the disclosure log" in caplog.text
    assert not (tmp_path / "victim").exists()


def test_the_log_never_exceeds_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DISCLOSURE_LOG_BYTES", 1000)
    log = DisclosureLog(tmp_path / "new" / "log")
    for number in range(500):
        log.write({"time": "now", "number": number})
    files = sorted((tmp_path / "new").iterdir())
    assert len(files) == limits.DISCLOSURE_LOG_FILES
    assert all(file.stat().st_size < 1100 and file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert [entry["number"] for entry in log.read_last(50)] == list(range(450, 500))
    last = log.read_last(100_000)
    assert [entry["number"] for entry in last] == list(range(500 - len(last), 500))


def test_the_log_command_removes_control_characters_from_client_names(tmp_path: Path) -> None:
    log = DisclosureLog(path())
    log.write(
        {"time": "2026-11-16T20:00:00Z", "caller": "ann", "client": "evil\x1b[2J\n", "tool": "aw.now", "events": 4}
    )
    with path().open("ab") as file:
        file.write(b'{"cut": \n')
    done = subprocess.run(
        [HUBBUB, "activity", "log", "--last", "5"], capture_output=True, text=True, timeout=60, cwd="/"
    )
    assert done.stdout == "2026-11-16T20:00:00Z  ann  aw.now  client=evil?[2J?  events=4\n"
    path().unlink()
    done = subprocess.run([HUBBUB, "activity", "log"], capture_output=True, text=True, timeout=60, cwd="/")
    assert done.stdout.startswith("Nothing was disclosed")
