"""What is told of a real desktop, compared with what can be seen on it. The desktop takes 15 s to come up."""

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.packs.activity.desks import at_a_desk
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
    desktop,
)
from tests.packs.activity.sidecars import Sidecar, opened_image, sidecar
from tests.packs.activity.watching import HOST, Watch, event

from hubbub.packs.activity.browsers import UNCONFIRMED
from hubbub.packs.activity.privacy import PRIVATE
from hubbub.packs.activity.sidecar.picture import Picture

# Two browsers come up in the first test, and all of their windows are read in each.
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


@pytest.fixture(scope="module")
def _desktop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desktop]:
    with pytest.MonkeyPatch.context() as monkeypatch, desktop(tmp_path_factory.mktemp("desktop"), monkeypatch) as made:
        yield made


@pytest.fixture
def shown(_desktop: Desktop) -> Desktop:
    """With all windows at their places."""
    _desktop.arrange()
    return _desktop


@pytest.fixture
def asked() -> Iterator[Sidecar]:
    with sidecar("local") as running:
        yield running


def words_in(told: Any) -> set[str]:
    """The windows whose word is told."""
    text = json.dumps(told).lower()
    return {name for name, word in WORDS.items() if word in text}


def parse(asked: Sidecar) -> dict[str, Any]:
    status, said = asked.ask("POST", "/parse", {"capture": True})
    assert status == 200, said
    found: dict[str, Any] = said
    return found


def picture_of(said: dict[str, Any]) -> Picture:
    return Picture.read(base64.b64decode(said["som_image_base64"]))


async def test_the_screen_tells_what_can_be_seen_and_nothing_else(shown: Desktop, asked: Sidecar) -> None:
    async with at_a_desk(sidecar_url=asked.url) as asker:
        told = await asker.call("screen.read")
    assert words_in(told) == {CHROMIUM, FIREFOX, EDITOR}
    assert "Hidden" not in told["text"].replace("Hidden toolbar buttons", "")
    assert {window["app"] for window in told["windows"]} == {"Chromium", "firefox-esr", "XTerm"}
    assert told["window"] == {"app": "XTerm", "title": EDITOR}
    assert told["notes"] == []
    for name, app in ((CHROMIUM, "Chromium"), (FIREFOX, "firefox-esr"), (EDITOR, "XTerm")):
        of_word = [each for each in told["elements"] if WORDS[name] in str(each["content"])]
        assert {told["windows"][each["window"]]["app"] for each in of_word} == {app}
    lines = told["text"].splitlines()
    assert (
        lines.index(f"[XTerm: {EDITOR}]")
        < lines.index(WORDS[EDITOR])
        < lines.index(f"[Chromium: {CHROMIUM} - Chromium]")
    )


def test_private_windows_are_black_exactly_where_they_can_be_seen(shown: Desktop, asked: Sidecar) -> None:
    """An editor lies on a private window; another that is minimised leaves no trace."""
    shown.minimise(VAULT)
    shown.place(EDITOR, (700, 100, 420, 180))
    said = parse(asked)
    image = opened_image(said["som_image_base64"])
    left, top, right, bottom = (round(edge) for edge in shown.window(EDITOR).box)
    hidden = shown.window(HIDDEN_CHROMIUM).box
    assert image.getpixel((left - 2, top + 50)) == BLACK  # private, beside the editor
    assert image.getpixel((right - 40, bottom - 40)) == WHITE  # of the editor, on the private window
    assert image.getpixel((round(hidden[2]) + 4, 60)) == WHITE  # beside both
    assert image.getpixel((1200, 60)) == WHITE  # where the minimised one was
    assert words_in([said["parsed_content_list"], said["windows"]]) == {CHROMIUM, FIREFOX, EDITOR, COVERED}
    _, reread = asked.ask("POST", "/parse", {"base64_image": said["som_image_base64"]})
    assert not words_in(reread["parsed_content_list"]) & {HIDDEN_CHROMIUM, HIDDEN_FIREFOX, VAULT, MINIMISED, ELSEWHERE}
    # A private window in front hides what is behind it, buttons too, and is hidden itself.
    shown.place(HIDDEN_FIREFOX, (0, 0, 460, 300))
    said = parse(asked)
    assert CHROMIUM not in words_in(said["parsed_content_list"])
    buttons = [each for each in said["parsed_content_list"] if each["content"] == BUTTON]
    assert [said["windows"][each["window"]]["app"] for each in buttons] == ["firefox-esr"]
    assert said["window"] is None


def test_a_browser_that_does_not_describe_its_windows_is_hidden(
    shown: Desktop, asked: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = shown.window(CHROMIUM).pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        hung = parse(asked)
    finally:
        os.kill(pid, signal.SIGCONT)
    for name in ("DBUS_SESSION_BUS_ADDRESS", "AT_SPI_BUS_ADDRESS"):
        monkeypatch.setenv(name, "unix:path=/nowhere")
    without = parse(asked)
    for said in (hung, without):
        assert words_in([said["parsed_content_list"], said["windows"]]) == {FIREFOX, EDITOR}
        assert "Chromium are hidden: it cannot be known" in said["notes"][0]


def record(shown: Desktop, watch: Watch) -> list[dict[str, str]]:
    """Bring each window to the front, and write what the watchers would: the browser's none of private pages."""
    window = watch.bucket(f"aw-watcher-window_{HOST}", "currentwindow")
    web = watch.bucket("aw-watcher-web-chrome", "web.tab.current", host="unknown")
    names = (CHROMIUM, FIREFOX, HIDDEN_FIREFOX, VAULT, EDITOR, HIDDEN_CHROMIUM)
    start = datetime.now(UTC) - timedelta(minutes=len(names))
    watch.insert(watch.bucket(f"aw-watcher-afk_{HOST}", "afkstatus"), [event(start, 60 * len(names), status="not-afk")])
    written = []
    for number, name in enumerate(names):
        shown.raise_up(name)
        begun = start + timedelta(minutes=number)
        written.append(shown.in_front())
        watch.insert(window, [event(begun, 60, **written[-1])])
        if name in (CHROMIUM, FIREFOX):
            watch.insert(web, [event(begun, 60, title=name, url=f"https://{name[:4]}.example/", incognito=False)])
    return written


async def test_every_tool_tells_titles_of_windows_that_are_not_private(shown: Desktop, watch: Watch) -> None:
    written = record(shown, watch)
    assert written[-1] == {
        "app": "Chromium",
        "title": f"{HIDDEN_CHROMIUM} - Chromium",
    }  # and says not that it is private
    query = f'RETURN = query_bucket("aw-watcher-window_{HOST}");'
    async with at_a_desk(watch.url) as asker:
        now = await asker.call("aw.now")
        summary = await asker.call("aw.summary", period="last_1h", by="title")
        everything = [
            now,
            summary,
            await asker.call("aw.timeline", period="last_1h", min_seconds=1),
            await asker.call("aw.query", period="last_1h", query=query),
            await asker.call("aw.export", period="last_1h"),
            await asker.call("aw.categories", period="last_1h"),
            await asker.client.call("aw.chart", {"period": "last_1h", "kind": "timeline", "by": "title"}),
            await asker.call("aw.get_state"),
            await asker.call("nowframe.build"),
            await asker.client.result("resources/read", {"uri": "activity://now"}),
            await asker.client.result("prompts/get", {"name": "what_did_i_do"}),
        ]
    assert now["window"]["title"] == UNCONFIRMED
    assert "cannot be known" in str(now["notes"])
    titles = {row["name"]: round(row["seconds"]) for row in summary["rows"]}
    names = (f"{CHROMIUM} - Chromium", f"{FIREFOX} — Mozilla Firefox", EDITOR, PRIVATE, UNCONFIRMED)
    assert titles == dict.fromkeys(names, 60)
    assert all("cannot be known" in json.dumps(each) for each in everything[:7])
    text = json.dumps(everything)
    assert not [name for name in (HIDDEN_CHROMIUM, HIDDEN_FIREFOX, VAULT) if name in text]


async def test_another_user_does_not_see_the_screen(shown: Desktop) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    script = (
        "import sys, urllib.request, urllib.error\n"
        "request = urllib.request.Request(sys.argv[1] + '/parse', b'{\"capture\": true}')\n"
        "try: print(urllib.request.urlopen(request, timeout=60).read())\n"
        "except urllib.error.URLError as error: print('refused', error)\n"
    )
    with sidecar("local", token="only-known-to-me") as guarded:
        done = subprocess.run(
            ["/usr/bin/python3", "-c", script, guarded.url], user="nobody", cwd="/", capture_output=True, timeout=60
        )
    assert done.stdout.startswith(b"refused")
    assert not words_in(done.stdout.decode())
