"""A real screen: windows, text recognition, private windows, and accessible programs."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.packs.activity.activitywatch_server import ActivityWatchServer, event
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.sidecars import Sidecar, decode_image, run_sidecar
from tests.packs.activity.tool_clients import connect_tool_client, privacy_rules
from tests.packs.activity.virtual_screen import VirtualScreen, run_virtual_screen, wait_until

from hubbub import Secret
from hubbub.packs.activity.sidecar import accessibility, windows

CAPTURE = {"capture": True}
TOKEN = Secret("shared-by-both")


def wait_for_windows(*titles: str) -> None:
    def are_there() -> bool:
        found = {window.title for window in windows.list_windows() or []}
        return set(titles) <= found

    wait_until(are_there, f"the windows {titles}")


def show_two_windows(virtual_display: VirtualScreen, private: str) -> None:
    """Open a window with this title and the word elephant, and below it an editor with the word fox."""
    virtual_display.open_terminal(private, "The secret elephant", "60x6+40+40")
    virtual_display.open_terminal("Editor", "The quick brown fox", "60x6+40+400")
    wait_for_windows(private, "Editor")


def wait_for_text(running_sidecar: Sidecar, text: str) -> dict[str, Any]:
    """Wait until this text is on the screen, and return the response."""

    def read() -> dict[str, Any] | None:
        status, response = running_sidecar.request("POST", "/parse", CAPTURE)
        assert status == 200, response
        return response if text in content_text(response) else None

    found = wait_until(read, text)
    assert isinstance(found, dict)
    return found


def read_accessibility_tree() -> accessibility.AccessibilityTree:
    return accessibility.read_tree() or accessibility.AccessibilityTree()


def content_text(response: dict[str, Any]) -> str:
    return "\n".join(element["content"] for element in response["parsed_content_list"])


def test_windows_are_listed_with_their_boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display:
        virtual_display.open_terminal("First window", "one")
        wait_for_windows("First window")
        (window,) = windows.list_windows() or []
    assert (window.app.lower(), window.title, window.is_active) == ("xterm", "First window", True)
    left, top, right, bottom = window.box
    assert right - left > 300
    assert bottom - top > 60


def test_text_on_the_screen_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display:
        virtual_display.open_terminal("Editor", "The quick brown fox")
        wait_for_windows("Editor")
        with run_sidecar("local") as running_sidecar:
            response = wait_for_text(running_sidecar, "quick brown")
            _, probe = running_sidecar.request("GET", "/probe")
    assert response["window"] == {"app": "XTerm", "title": "Editor"}
    assert response["som_image_base64"]
    assert (probe["engines"]["capture"], probe["engines"]["windows"]) == ("ok", "ok")


def test_private_windows_are_blackened_before_text_recognition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display:
        show_two_windows(virtual_display, "My diary")
        with run_sidecar("local") as openly:
            wait_for_text(openly, "elephant")
        with run_sidecar("local", drop_titles=("diary",)) as running_sidecar:
            response = wait_for_text(running_sidecar, "quick brown")
            _, reread = running_sidecar.request("POST", "/parse", {"base64_image": response["som_image_base64"]})
    everything = json.dumps([content_text(response), content_text(reread)]).lower()
    assert "elephant" not in everything
    assert "diary" not in everything


async def test_the_tool_returns_the_text_of_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display:
        virtual_display.open_terminal("Editor", "password: hunter2 and more")
        wait_for_windows("Editor")
        with run_sidecar("local") as running_sidecar:
            wait_for_text(running_sidecar, "and more")
            async with connect_tool_client(sidecar_url=running_sidecar.url) as tool_client:
                found = await tool_client.call("screen.read")
    assert found["window"] == {"app": "XTerm", "title": "Editor"}
    assert "and more" in found["text"]
    assert "hunter2" not in json.dumps(found)


def test_accessible_programs_provide_their_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_virtual_screen(tmp_path, monkeypatch, has_bus=True) as virtual_display:
        virtual_display.open_dialog("Closing", "Keep the changes")
        wait_for_windows("Closing")
        wait_until(lambda: any(node.name == "Save" for node in read_accessibility_tree().nodes), "the tree")
        with run_sidecar("local") as running_sidecar:
            _, response = running_sidecar.request("POST", "/parse", CAPTURE)
    buttons = [item for item in response["parsed_content_list"] if item["content"] in ("Save", "Discard")]
    assert {item["content"] for item in buttons if item["source"] == "a11y"} == {"Save", "Discard"}
    assert all(item["interactivity"] for item in buttons if item["source"] == "a11y")
    assert len(buttons) == 2  # recognised text is not returned again


def test_without_a_screen_capture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with run_sidecar("omniparser", "http://127.0.0.1:9") as running_sidecar:
        status, response = running_sidecar.request("POST", "/parse", CAPTURE)
    assert (status, response["error"]) == (503, "capture_unavailable")


def test_without_a_window_list_window_rules_forbid_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_virtual_screen(tmp_path, monkeypatch, has_manager=False):
        with run_sidecar("local", drop_apps=("keepass",)) as running_sidecar:
            status, response = running_sidecar.request("POST", "/parse", CAPTURE)
        with run_sidecar("local", drop_text=("salary",)) as running_sidecar:
            usual_status, usual = running_sidecar.request("POST", "/parse", CAPTURE)
        with run_sidecar("local", drop_text=("salary",), unconfirmed_windows="show") as running_sidecar:
            other_status, other = running_sidecar.request("POST", "/parse", CAPTURE)
    assert (status, response["error"]) == (usual_status, usual["error"]) == (503, "windows_unknown")
    assert "UNCONFIRMED_WINDOWS=show" in usual["details"]
    assert other_status == 200
    assert "only by the text on the screen" in other["notes"][0]


def test_without_a_window_list_private_windows_are_detected_by_their_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This applies to every system except X11, if the user allows reading the screen there."""
    with run_virtual_screen(tmp_path, monkeypatch, has_manager=False) as virtual_display:
        virtual_display.open_terminal("x", "Firefox Private Browsing", "60x6+40+40")
        with (
            run_sidecar("local", incognito=False) as openly,
            run_sidecar("local", unconfirmed_windows="show") as running_sidecar,
        ):
            wait_for_text(openly, "Private Browsing")
            status, response = running_sidecar.request("POST", "/parse", CAPTURE)
            given = {"base64_image": openly.request("POST", "/parse", CAPTURE)[1]["som_image_base64"]}
            picture_status, _ = running_sidecar.request("POST", "/parse", given)
        elements = [{"type": "text", "content": "Firefox Private Browsing", "bbox": [0, 0, 1, 1]}]
        found = ScriptedResponse(body=json.dumps({"parsed_content_list": elements}).encode())
        with (
            run_scripted_server(found) as parser,
            run_sidecar("omniparser", parser.url, unconfirmed_windows="show") as handing_on,
        ):
            other_status, other = handing_on.request("POST", "/parse", CAPTURE)
    assert (status, response["error"]) == (other_status, other["error"]) == (503, "private_window")
    assert "Browsing" not in str([response, other])
    assert picture_status == 200  # the caller already has the picture


def test_the_screen_is_returned_as_a_png(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display:
        assert isinstance(virtual_display, VirtualScreen)
        with run_sidecar("local") as running_sidecar:
            _, response = running_sidecar.request("POST", "/parse", CAPTURE)
    picture = base64.b64decode(response["som_image_base64"])
    assert picture.startswith(b"\x89PNG")
    assert response["window"] is None


async def test_the_window_of_a_private_page_is_blackened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: ActivityWatchServer
) -> None:
    """The sidecar knows windows but not pages; the pack sends it the titles to hide."""
    now = datetime.now(UTC)
    tab = event(now - timedelta(seconds=60), 59, url="https://bank.example/", title="Account 123")
    watch.insert(watch.bucket("aw-watcher-web-firefox", "web.tab.current", host="unknown"), [tab])
    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display:
        show_two_windows(virtual_display, "Account 123 - Fox")
        with run_sidecar("local") as openly, run_sidecar("local", token=TOKEN.reveal()) as running_sidecar:
            wait_for_text(openly, "elephant")
            wait_for_text(openly, "quick brown")
            content_text = []
            for rules in ({"drop_urls": ("bank",)}, {"mask_urls": ("bank",)}):
                async with connect_tool_client(
                    watch.url, running_sidecar.url, sidecar_token=TOKEN, privacy=privacy_rules(**rules)
                ) as tool_client:
                    content_text.append(json.dumps(await tool_client.call("screen.read")))
    for each in content_text:
        assert "quick brown" in each
        assert "elephant" not in each
        assert "Account" not in each


def test_menus_of_a_private_app_are_blackened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from Xlib import X, display

    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display:
        assert isinstance(virtual_display, VirtualScreen)
        opened = display.Display()
        root = opened.screen().root
        white = opened.screen().white_pixel
        looks = {"background_pixel": white, "override_redirect": True}
        menu = root.create_window(300, 200, 100, 80, 0, X.CopyFromParent, **looks)
        menu.set_wm_class("keepassxc", "KeePassXC")
        menu.map()
        opened.sync()
        wait_until(lambda: any(each.app == "KeePassXC" for each in windows.list_windows() or []), "the menu")
        with run_sidecar("local", private_apps=()) as openly, run_sidecar("local") as running_sidecar:
            seen = [
                each.request("POST", "/parse", CAPTURE)[1]["som_image_base64"] for each in (openly, running_sidecar)
            ]
        opened.close()
    points = [decode_image(each).getpixel((350, 240)) for each in seen]
    assert points == [(255, 255, 255), (0, 0, 0)]


async def test_a_sidecar_without_rules_applies_those_of_the_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been started in a folder without settings."""
    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display:
        show_two_windows(virtual_display, "My diary")
        with run_sidecar("local") as openly, run_sidecar("local", token=TOKEN.reveal()) as running_sidecar:
            wait_for_text(openly, "elephant")
            wait_for_text(openly, "quick brown")
            content_text = []
            for rules in ({"drop_titles": ("diary",)}, {"regions": ("1280x380+0+0",)}):
                async with connect_tool_client(
                    sidecar_url=running_sidecar.url, sidecar_token=TOKEN, privacy=privacy_rules(**rules)
                ) as tool_client:
                    content_text.append((await tool_client.call("screen.read"))["text"])
    for each in content_text:
        assert "quick brown" in each
        assert "elephant" not in each
