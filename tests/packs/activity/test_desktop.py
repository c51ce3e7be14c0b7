"""Disclosure of a real desktop, compared with what is visible on it. The desktop takes 15 s to start."""

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.packs.activity.activitywatch_server import HOST, ActivityWatchServer, event
from tests.packs.activity.desktop import (
    BUTTON,
    CHROMIUM,
    COVERED,
    EDITOR,
    ELSEWHERE,
    FIREFOX,
    HIDDEN_CHROMIUM,
    HIDDEN_FIREFOX,
    MINIMISED,
    VAULT,
    WORDS,
    Desktop,
    run_desktop,
)
from tests.packs.activity.sidecars import Sidecar, decode_image, run_sidecar
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub.packs.activity.browsers import UNCONFIRMED
from hubbub.packs.activity.privacy import PRIVATE
from hubbub.packs.activity.sidecar.picture import Picture

# The first test starts two browsers, and each test reads all of their windows.
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


@pytest.fixture(scope="module")
def _desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        run_desktop(tmp_path_factory.mktemp("desktop"), monkeypatch) as made,
    ):
        yield made


@pytest.fixture
def arranged_desktop(_desktop: Desktop) -> Desktop:
    """The desktop with all windows at their positions."""
    _desktop.arrange()
    return _desktop


@pytest.fixture
def local_sidecar() -> Iterator[Sidecar]:
    with run_sidecar("local") as running:
        yield running


def windows_mentioned(screen_result: Any) -> set[str]:
    """Return the windows whose word is disclosed."""
    text = json.dumps(screen_result).lower()
    return {name for name, word in WORDS.items() if word in text}


def parse_screen(local_sidecar: Sidecar) -> dict[str, Any]:
    status, response = local_sidecar.request("POST", "/parse", {"capture": True})
    assert status == 200, response
    found: dict[str, Any] = response
    return found


def picture_of(response: dict[str, Any]) -> Picture:
    return Picture.decode(base64.b64decode(response["som_image_base64"]))


async def test_screen_read_returns_only_visible_text(arranged_desktop: Desktop, local_sidecar: Sidecar) -> None:
    async with connect_tool_client(sidecar_url=local_sidecar.url) as tool_client:
        screen_result = await tool_client.call("screen.read")
    assert windows_mentioned(screen_result) == {CHROMIUM, FIREFOX, EDITOR}
    assert "Hidden" not in screen_result["text"].replace("Hidden toolbar buttons", "")
    assert {window["app"] for window in screen_result["windows"]} == {"Chromium", "firefox-esr", "XTerm"}
    assert screen_result["window"] == {"app": "XTerm", "title": EDITOR}
    assert screen_result["notes"] == []
    for name, app in ((CHROMIUM, "Chromium"), (FIREFOX, "firefox-esr"), (EDITOR, "XTerm")):
        of_word = [each for each in screen_result["elements"] if WORDS[name] in str(each["content"])]
        assert {screen_result["windows"][each["window"]]["app"] for each in of_word} == {app}
    lines = screen_result["text"].splitlines()
    assert (
        lines.index(f"[XTerm: {EDITOR}]")
        < lines.index(WORDS[EDITOR])
        < lines.index(f"[Chromium: {CHROMIUM} - Chromium]")
    )


def test_private_windows_are_blackened_exactly_where_visible(arranged_desktop: Desktop, local_sidecar: Sidecar) -> None:
    """An editor covers part of a private window; a minimised private window hides nothing."""
    arranged_desktop.minimise(VAULT)
    arranged_desktop.place(EDITOR, (700, 100, 420, 180))
    response = parse_screen(local_sidecar)
    image = decode_image(response["som_image_base64"])
    left, top, right, bottom = (round(edge) for edge in arranged_desktop.window(EDITOR).box)
    hidden = arranged_desktop.window(HIDDEN_CHROMIUM).box
    assert image.getpixel((left - 2, top + 50)) == BLACK  # private window, beside the editor
    assert image.getpixel((right - 40, bottom - 40)) == WHITE  # editor, in front of the private window
    assert image.getpixel((round(hidden[2]) + 4, 60)) == WHITE  # beside both
    assert image.getpixel((1200, 60)) == WHITE  # former position of the minimised window
    assert windows_mentioned([response["parsed_content_list"], response["windows"]]) == {
        CHROMIUM,
        FIREFOX,
        EDITOR,
        COVERED,
    }
    _, reread = local_sidecar.request("POST", "/parse", {"base64_image": response["som_image_base64"]})
    assert not windows_mentioned(reread["parsed_content_list"]) & {
        HIDDEN_CHROMIUM,
        HIDDEN_FIREFOX,
        VAULT,
        MINIMISED,
        ELSEWHERE,
    }
    # A private window in front hides everything behind it, also buttons, and is itself hidden.
    arranged_desktop.place(HIDDEN_FIREFOX, (0, 0, 460, 300))
    response = parse_screen(local_sidecar)
    assert CHROMIUM not in windows_mentioned(response["parsed_content_list"])
    buttons = [each for each in response["parsed_content_list"] if each["content"] == BUTTON]
    assert [response["windows"][each["window"]]["app"] for each in buttons] == ["firefox-esr"]
    assert response["window"] is None


def test_windows_of_a_browser_without_accessibility_are_hidden(
    arranged_desktop: Desktop, local_sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = arranged_desktop.window(CHROMIUM).pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        hung = parse_screen(local_sidecar)
    finally:
        os.kill(pid, signal.SIGCONT)
    for name in ("DBUS_SESSION_BUS_ADDRESS", "AT_SPI_BUS_ADDRESS"):
        monkeypatch.setenv(name, "unix:path=/nowhere")
    without = parse_screen(local_sidecar)
    for response in (hung, without):
        assert windows_mentioned([response["parsed_content_list"], response["windows"]]) == {FIREFOX, EDITOR}
        assert "Chromium are hidden, because it is unknown" in response["notes"][0]


def record_events(arranged_desktop: Desktop, watch: ActivityWatchServer) -> list[dict[str, str]]:
    """Activate each window, and insert what watchers would record; browsers record no private pages."""
    window = watch.bucket(f"aw-watcher-window_{HOST}", "currentwindow")
    web = watch.bucket("aw-watcher-web-chrome", "web.tab.current", host="unknown")
    names = (CHROMIUM, FIREFOX, HIDDEN_FIREFOX, VAULT, EDITOR, HIDDEN_CHROMIUM)
    start = datetime.now(UTC) - timedelta(minutes=len(names))
    watch.insert(watch.bucket(f"aw-watcher-afk_{HOST}", "afkstatus"), [event(start, 60 * len(names), status="not-afk")])
    recorded_windows = []
    for number, name in enumerate(names):
        arranged_desktop.bring_to_front(name)
        event_start = start + timedelta(minutes=number)
        recorded_windows.append(arranged_desktop.foreground_window())
        watch.insert(window, [event(event_start, 60, **recorded_windows[-1])])
        if name in (CHROMIUM, FIREFOX):
            watch.insert(web, [event(event_start, 60, title=name, url=f"https://{name[:4]}.example/", incognito=False)])
    return recorded_windows


async def test_every_tool_discloses_titles_of_public_windows(
    arranged_desktop: Desktop, watch: ActivityWatchServer
) -> None:
    recorded_windows = record_events(arranged_desktop, watch)
    assert recorded_windows[-1] == {
        "app": "Chromium",
        "title": f"{HIDDEN_CHROMIUM} - Chromium",
    }  # and does not say that it is private
    query = f'RETURN = query_bucket("aw-watcher-window_{HOST}");'
    async with connect_tool_client(watch.url) as tool_client:
        now = await tool_client.call("aw.now")
        summary = await tool_client.call("aw.summary", period="last_1h", by="title")
        everything = [
            now,
            summary,
            await tool_client.call("aw.timeline", period="last_1h", min_seconds=1),
            await tool_client.call("aw.query", period="last_1h", query=query),
            await tool_client.call("aw.export", period="last_1h"),
            await tool_client.call("aw.categories", period="last_1h"),
            await tool_client.client.call("aw.chart", {"period": "last_1h", "kind": "timeline", "by": "title"}),
            await tool_client.call("aw.get_state"),
            await tool_client.call("nowframe.build"),
            await tool_client.client.result("resources/read", {"uri": "activity://now"}),
            await tool_client.client.result("prompts/get", {"name": "what_did_i_do"}),
        ]
    assert now["window"]["title"] == UNCONFIRMED
    assert "it is unknown whether those windows are private" in str(now["notes"])
    titles = {row["name"]: round(row["seconds"]) for row in summary["rows"]}
    names = (f"{CHROMIUM} - Chromium", f"{FIREFOX} — Mozilla Firefox", EDITOR, PRIVATE, UNCONFIRMED)
    assert titles == dict.fromkeys(names, 60)
    assert all("it is unknown whether those windows are private" in json.dumps(each) for each in everything[:7])
    text = json.dumps(everything)
    assert not [name for name in (HIDDEN_CHROMIUM, HIDDEN_FIREFOX, VAULT) if name in text]


async def test_another_user_cannot_read_the_screen(arranged_desktop: Desktop) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    script = (
        "import sys, urllib.request, urllib.error\n"
        "request = urllib.request.Request(sys.argv[1] + '/parse', b'{\"capture\": true}')\n"
        "try: print(urllib.request.urlopen(request, timeout=60).read())\n"
        "except urllib.error.URLError as error: print('refused', error)\n"
    )
    with run_sidecar("local", token="only-known-to-me") as guarded:
        done = subprocess.run(
            ["/usr/bin/python3", "-c", script, guarded.url], user="nobody", cwd="/", capture_output=True, timeout=60
        )
    assert done.stdout.startswith(b"refused")
    assert not windows_mentioned(done.stdout.decode())
