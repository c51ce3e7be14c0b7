"""Checks of `hubbub doctor` for the pack, and `hubbub sidecar` as a process."""

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.http.server_process import HUBBUB
from tests.packs.activity.activitywatch_server import ActivityWatchServer, event
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.sidecars import run_sidecar
from tests.packs.activity.tool_clients import UNUSED_URL, connect_tool_client

from hubbub.packs.activity import diagnosis
from hubbub.packs.activity.settings import ActivitySettings


async def run_check(check: Any, aw_url: str = UNUSED_URL, sidecar_url: str = UNUSED_URL) -> tuple[bool, str, str]:
    found = await check(ActivitySettings(aw_url=aw_url, sidecar_url=sidecar_url))
    return found.ok, found.detail, found.advice


async def test_an_unreachable_activitywatch_is_reported_with_install_advice() -> None:
    ok, detail, advice = await run_check(diagnosis.activitywatch)
    assert not ok
    assert "cannot be reached" in detail
    assert "activitywatch.net" in advice


async def test_a_running_activitywatch_is_reported_with_its_version(either_watch: ActivityWatchServer) -> None:
    ok, detail, _ = await run_check(diagnosis.activitywatch, either_watch.url)
    assert ok
    assert detail.startswith("v0.12")


async def test_an_activitywatch_that_requires_a_key_fails_the_check() -> None:
    with run_scripted_server(
        lambda method, path: ScriptedResponse() if path.endswith("info") else ScriptedResponse(401)
    ) as watch:
        ok, detail, _ = await run_check(diagnosis.activitywatch, watch.url)
    assert not ok
    assert "HUBBUB_ACTIVITY_API_KEY" in detail


async def test_watchers_are_reported_as_missing_silent_or_ok(watch: ActivityWatchServer) -> None:
    now = datetime.now(UTC)
    ok, detail, advice = await run_check(diagnosis.watchers, watch.url)
    assert (ok, "aw-watcher-window" in detail, "tray" in advice) == (False, True, True)
    watch.bucket("w", "currentwindow")
    watch.bucket("a", "afkstatus")
    ok, detail, _ = await run_check(diagnosis.watchers, watch.url)
    assert (ok, detail) == (False, "have recorded nothing yet")
    for name in ("w", "a"):
        watch.insert(name, [event(now - timedelta(days=2), 5, app="x", title="x")])
    ok, detail, _ = await run_check(diagnosis.watchers, watch.url)
    assert (ok, "nothing since" in detail) == (False, True)
    watch.insert("w", [event(now - timedelta(seconds=10), 5, app="x", title="x")])
    ok, detail, _ = await run_check(diagnosis.watchers, watch.url)
    assert (ok, "aw-watcher-afk has stopped" in detail) == (False, True)
    watch.insert("a", [event(now - timedelta(seconds=10), 5, status="not-afk")])
    ok, detail, _ = await run_check(diagnosis.watchers, watch.url)
    assert (ok, "last recorded" in detail) == (True, True)


async def test_a_missing_sidecar_is_optional_and_reported() -> None:
    found = await diagnosis.sidecar(ActivitySettings(sidecar_url=UNUSED_URL))
    assert (found.ok, found.optional, "hubbub sidecar" in found.detail) == (False, True, True)
    with run_scripted_server(
        ScriptedResponse(body=b'{"ok": true, "mode": "local", "ready": false, "reason": "ocr_missing"}')
    ) as running_sidecar:
        assert (await run_check(diagnosis.sidecar, sidecar_url=running_sidecar.url))[:2] == (
            False,
            "engine local: ocr_missing",
        )
    with run_scripted_server(ScriptedResponse(body=b'{"message": "ready"}')) as running_sidecar:
        assert (await run_check(diagnosis.sidecar, sidecar_url=running_sidecar.url))[0]


async def test_without_a_screen_doctor_and_probe_are_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    found = await diagnosis.ocr(ActivitySettings())
    assert (found.ok, found.optional) == (False, True)
    if shutil.which("tesseract") is not None:
        assert "DISPLAY" in found.advice
        with run_sidecar("local") as running_sidecar:
            ok, detail, _ = await run_check(diagnosis.sidecar, sidecar_url=running_sidecar.url)
        assert (ok, detail) == (False, "engine local: screen_missing")


def test_doctor_succeeds_without_a_sidecar(tmp_path: Path) -> None:
    (tmp_path / "hubbub.toml").write_text(f'[packs.activity]\nsidecar_url = "{UNUSED_URL}"\naw_url = "{UNUSED_URL}"\n')
    environment = {**os.environ, "HUBBUB_CONFIG": str(tmp_path / "hubbub.toml")}
    done = subprocess.run(
        [HUBBUB, "doctor", "activity"], capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment
    )
    (sidecar_line,) = [line for line in done.stdout.splitlines() if line.split()[:2] == ["-", "sidecar"]]
    assert "optional" in sidecar_line


async def test_a_missing_tesseract_is_reported_with_install_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    ok, _, advice = await run_check(diagnosis.ocr)
    assert (ok, "apt install tesseract-ocr" in advice) == (False, True)


def test_the_sidecar_process_stops_on_sigterm(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HUBBUB_")}
    process = subprocess.Popen(
        [HUBBUB, "sidecar", "--port", "0", "--engine", "mock"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        output = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", output)
        assert found, output
        assert "its results are invented" in output
        with urllib.request.urlopen(f"{found[0]}/probe", timeout=60) as answer:
            assert json.loads(answer.read())["mode"] == "mock"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


async def test_the_pack_finds_the_token_of_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("tesseract") is None:
        pytest.skip("no tesseract here: apt install tesseract-ocr")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HUBBUB_")}
    process = subprocess.Popen(
        [HUBBUB, "sidecar", "--port", "0"], stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
        assert found
        async with connect_tool_client(sidecar_url=found[0]) as tool_client:
            known = await tool_client.failure("screen.read")
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "of-another"))
        async with connect_tool_client(sidecar_url=found[0]) as tool_client:
            unknown = await tool_client.failure("screen.read")
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
    assert (known["code"], known["data"]["status"]) == ("http_error", 503)  # only the screen is missing
    assert unknown["code"] == "unauthorized"
    assert "HUBBUB_ACTIVITY_SIDECAR_TOKEN" in unknown["message"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--host", "0.0.0.0"], "could read the screen"),
        (["--port", "99999"], "try another --port"),
        (["--engine", "magic"], "invalid choice"),
        (["snapshot"], "--stage"),
    ],
)
def test_invalid_sidecar_arguments_are_refused_with_a_reason(arguments: list[str], word: str, tmp_path: Path) -> None:
    done = subprocess.run([HUBBUB, "sidecar", *arguments], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert word in done.stderr


def test_invalid_settings_are_refused_with_a_hint(tmp_path: Path) -> None:
    tmp_path.joinpath("hubbub.toml").write_text('[packs.activity]\naw_url = "nowhere"\n')
    command = [str(HUBBUB), "serve", "--pack", "activity", "--transport", "stdio", "--config", "hubbub.toml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "'nowhere' is not the address of a server" in done.stderr
    tmp_path.joinpath("hubbub.toml").write_text('[packs.activity.privacy]\ndrop_app = ["x"]\n')
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert "did you mean 'drop_apps'" in done.stderr
