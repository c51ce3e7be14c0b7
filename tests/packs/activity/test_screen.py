"""A real screen: windows are found, text is read, private windows stay private, and programs describe themselves."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.packs.activity.desks import at_a_desk, privacy_rules
from tests.packs.activity.odd_server import Odd, odd_server
from tests.packs.activity.screens import Screen, eventually, screen
from tests.packs.activity.sidecars import Sidecar, opened_image, sidecar
from tests.packs.activity.watching import Watch, event

from hubbub import Secret
from hubbub.packs.activity.sidecar import accessibility, windows

CAPTURE = {"capture": True}
TOKEN = Secret("told-to-both")


def wait_for_windows(*titles: str) -> None:
    def are_there() -> bool:
        found = {window.title for window in windows.all_windows() or []}
        return set(titles) <= found

    eventually(are_there, f"the windows {titles}")


def show_two_windows(shown: Screen, private: str) -> None:
    """One of this title that tells of an elephant, and below it an editor that tells of a fox."""
    shown.terminal(private, "The secret elephant", "60x6+40+40")
    shown.terminal("Editor", "The quick brown fox", "60x6+40+400")
    wait_for_windows(private, "Editor")


def wait_for_text(asked: Sidecar, text: str) -> dict[str, Any]:
    """What is on the screen, once this is."""

    def read() -> dict[str, Any] | None:
        status, said = asked.ask("POST", "/parse", CAPTURE)
        assert status == 200, said
        return said if text in told(said) else None

    found = eventually(read, text)
    assert isinstance(found, dict)
    return found


def described() -> accessibility.Tree:
    return accessibility.read_tree() or accessibility.Tree()


def told(said: dict[str, Any]) -> str:
    return "\n".join(element["content"] for element in said["parsed_content_list"])


def test_windows_are_known_with_their_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(tmp_path, monkeypatch) as shown:
        shown.terminal("First window", "one")
        wait_for_windows("First window")
        (window,) = windows.all_windows() or []
    assert (window.app.lower(), window.title, window.is_active) == ("xterm", "First window", True)
    left, top, right, bottom = window.box
    assert right - left > 300
    assert bottom - top > 60


def test_what_is_written_on_the_screen_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(tmp_path, monkeypatch) as shown:
        shown.terminal("Editor", "The quick brown fox")
        wait_for_windows("Editor")
        with sidecar("local") as asked:
            said = wait_for_text(asked, "quick brown")
            _, probe = asked.ask("GET", "/probe")
    assert said["window"] == {"app": "XTerm", "title": "Editor"}
    assert said["som_image_base64"]
    assert (probe["engines"]["capture"], probe["engines"]["windows"]) == ("ok", "ok")


def test_private_windows_are_black_before_anything_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(tmp_path, monkeypatch) as shown:
        show_two_windows(shown, "My diary")
        with sidecar("local") as openly:
            wait_for_text(openly, "elephant")
        with sidecar("local", drop_titles=("diary",)) as asked:
            said = wait_for_text(asked, "quick brown")
            _, reread = asked.ask("POST", "/parse", {"base64_image": said["som_image_base64"]})
    everything = json.dumps([told(said), told(reread)]).lower()
    assert "elephant" not in everything
    assert "diary" not in everything


async def test_the_tool_tells_what_is_on_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(tmp_path, monkeypatch) as shown:
        shown.terminal("Editor", "password: hunter2 and more")
        wait_for_windows("Editor")
        with sidecar("local") as asked:
            wait_for_text(asked, "and more")
            async with at_a_desk(sidecar_url=asked.url) as asker:
                found = await asker.call("screen.read")
    assert found["window"] == {"app": "XTerm", "title": "Editor"}
    assert "and more" in found["text"]
    assert "hunter2" not in json.dumps(found)


def test_programs_that_describe_themselves_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(tmp_path, monkeypatch, has_bus=True) as shown:
        shown.question("Closing", "Keep the changes")
        wait_for_windows("Closing")
        eventually(lambda: any(node.name == "Save" for node in described().nodes), "the tree")
        with sidecar("local") as asked:
            _, said = asked.ask("POST", "/parse", CAPTURE)
    buttons = [item for item in said["parsed_content_list"] if item["content"] in ("Save", "Discard")]
    assert {item["content"] for item in buttons if item["source"] == "a11y"} == {"Save", "Discard"}
    assert all(item["interactivity"] for item in buttons if item["source"] == "a11y")
    assert len(buttons) == 2  # what was read from the picture as well is told once


def test_without_a_screen_there_is_a_clear_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with sidecar("omniparser", "http://127.0.0.1:9") as asked:
        status, said = asked.ask("POST", "/parse", CAPTURE)
    assert (status, said["error"]) == (503, "capture_unavailable")


def test_where_no_window_is_known_rules_about_windows_forbid_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with screen(tmp_path, monkeypatch, has_manager=False):
        with sidecar("local", drop_apps=("keepass",)) as asked:
            status, said = asked.ask("POST", "/parse", CAPTURE)
        with sidecar("local", drop_text=("salary",)) as asked:
            usual_status, usual = asked.ask("POST", "/parse", CAPTURE)
        with sidecar("local", drop_text=("salary",), unconfirmed_windows="show") as asked:
            other_status, other = asked.ask("POST", "/parse", CAPTURE)
    assert (status, said["error"]) == (usual_status, usual["error"]) == (503, "windows_unknown")
    assert "UNCONFIRMED_WINDOWS=show" in usual["details"]
    assert other_status == 200
    assert "cannot be known" in other["notes"][0]


def test_where_no_window_is_known_a_private_one_is_known_by_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every system but X11 is such a place, for whoever wants the screen to be read there."""
    with screen(tmp_path, monkeypatch, has_manager=False) as shown:
        shown.terminal("x", "Firefox Private Browsing", "60x6+40+40")
        with sidecar("local", incognito=False) as openly, sidecar("local", unconfirmed_windows="show") as asked:
            wait_for_text(openly, "Private Browsing")
            status, said = asked.ask("POST", "/parse", CAPTURE)
            given = {"base64_image": openly.ask("POST", "/parse", CAPTURE)[1]["som_image_base64"]}
            picture_status, _ = asked.ask("POST", "/parse", given)
        elements = [{"type": "text", "content": "Firefox Private Browsing", "bbox": [0, 0, 1, 1]}]
        found = Odd(body=json.dumps({"parsed_content_list": elements}).encode())
        with odd_server(found) as parser, sidecar("omniparser", parser.url, unconfirmed_windows="show") as handing_on:
            other_status, other = handing_on.ask("POST", "/parse", CAPTURE)
    assert (status, said["error"]) == (other_status, other["error"]) == (503, "private_window")
    assert "Browsing" not in str([said, other])
    assert picture_status == 200  # whoever sends a picture has seen it


def test_a_screen_is_told_as_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with screen(tmp_path, monkeypatch) as shown:
        assert isinstance(shown, Screen)
        with sidecar("local") as asked:
            _, said = asked.ask("POST", "/parse", CAPTURE)
    picture = base64.b64decode(said["som_image_base64"])
    assert picture.startswith(b"\x89PNG")
    assert said["window"] is None


async def test_the_window_of_a_private_page_is_black(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: Watch
) -> None:
    """The sidecar knows windows and no pages; the pack tells it the titles of those that nobody is to see."""
    now = datetime.now(UTC)
    tab = event(now - timedelta(seconds=60), 59, url="https://bank.example/", title="Account 123")
    watch.insert(watch.bucket("aw-watcher-web-firefox", "web.tab.current", host="unknown"), [tab])
    with screen(tmp_path, monkeypatch) as shown:
        show_two_windows(shown, "Account 123 - Fox")
        with sidecar("local") as openly, sidecar("local", token=TOKEN.reveal()) as asked:
            wait_for_text(openly, "elephant")
            wait_for_text(openly, "quick brown")
            told = []
            for rules in ({"drop_urls": ("bank",)}, {"mask_urls": ("bank",)}):
                async with at_a_desk(
                    watch.url, asked.url, sidecar_token=TOKEN, privacy=privacy_rules(**rules)
                ) as asker:
                    told.append(json.dumps(await asker.call("screen.read")))
    for each in told:
        assert "quick brown" in each
        assert "elephant" not in each
        assert "Account" not in each


def test_menus_of_a_private_app_are_black_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from Xlib import X, display

    with screen(tmp_path, monkeypatch) as shown:
        assert isinstance(shown, Screen)
        opened = display.Display()
        root = opened.screen().root
        white = opened.screen().white_pixel
        looks = {"background_pixel": white, "override_redirect": True}
        menu = root.create_window(300, 200, 100, 80, 0, X.CopyFromParent, **looks)
        menu.set_wm_class("keepassxc", "KeePassXC")
        menu.map()
        opened.sync()
        eventually(lambda: any(each.app == "KeePassXC" for each in windows.all_windows() or []), "the menu")
        with sidecar("local", private_apps=()) as openly, sidecar("local") as asked:
            seen = [each.ask("POST", "/parse", CAPTURE)[1]["som_image_base64"] for each in (openly, asked)]
        opened.close()
    points = [opened_image(each).getpixel((350, 240)) for each in seen]
    assert points == [(255, 255, 255), (0, 0, 0)]


async def test_a_sidecar_without_rules_keeps_those_of_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been started where it found no settings."""
    with screen(tmp_path, monkeypatch) as shown:
        show_two_windows(shown, "My diary")
        with sidecar("local") as openly, sidecar("local", token=TOKEN.reveal()) as asked:
            wait_for_text(openly, "elephant")
            wait_for_text(openly, "quick brown")
            told = []
            for rules in ({"drop_titles": ("diary",)}, {"regions": ("1280x380+0+0",)}):
                async with at_a_desk(
                    sidecar_url=asked.url, sidecar_token=TOKEN, privacy=privacy_rules(**rules)
                ) as asker:
                    told.append((await asker.call("screen.read"))["text"])
    for each in told:
        assert "quick brown" in each
        assert "elephant" not in each
