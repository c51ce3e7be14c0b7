"""Windows that mean harm, and a screen that goes away: one clear error, and nothing told."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.packs.activity.screens import eventually, screen
from tests.packs.activity.sidecars import sidecar

from hubbub.packs.activity import limits
from hubbub.packs.activity.sidecar import windows

CAPTURE = {"capture": True}


@contextmanager
def opened_display() -> Iterator[Any]:
    from Xlib import display

    with closing(display.Display()) as opened:
        yield opened


def show(opened: Any, title: bytes, app: str, *, is_popup: bool = False, is_mapped: bool = True) -> Any:
    from Xlib import X

    looks = {"background_pixel": opened.screen().white_pixel, "override_redirect": is_popup}
    window = opened.screen().root.create_window(300, 200, 100, 80, 0, X.CopyFromParent, **looks)
    window.set_wm_class(app.lower(), app)
    kind, name = opened.get_atom("UTF8_STRING"), opened.get_atom("_NET_WM_NAME")
    for start in range(0, len(title), 100_000):
        window.change_property(name, kind, 8, title[start : start + 100_000], X.PropModeAppend)
    if is_mapped:
        window.map()
    return window


def test_a_title_of_megabytes_is_cut_and_has_no_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with screen(tmp_path, monkeypatch), opened_display() as opened:
        show(opened, b"evil\x1b[31m\r\n" + "\u202e".encode() + b"x" * 4_000_000, "Evil")
        show(opened, b"x" * 4_000_000 + " — Mozilla Firefox Private Browsing".encode(), "firefox")
        opened.sync()
        eventually(lambda: len(windows.all_windows() or []) == 2, "the windows")
        with sidecar("local") as asked:
            status, said = asked.ask("POST", "/parse", CAPTURE)
        known = {window.app: window.title for window in windows.all_windows() or []}
    assert status == 200
    (told,) = said["windows"]  # the other is private, as the end of its title says
    assert told["app"] == "Evil"
    assert told["title"].startswith("evil [31m")
    assert len(told["title"]) <= limits.TEXT_CHARACTERS
    assert told["title"].isprintable()
    assert max(map(len, known.values())) < 2 * limits.JUDGED_CHARACTERS


@pytest.mark.parametrize(("count", "is_mapped"), [(limits.SCREEN_WINDOWS, False), (limits.SCREEN_SHOWN_WINDOWS, True)])
def test_too_many_windows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, is_mapped: bool
) -> None:
    with screen(tmp_path, monkeypatch), opened_display() as opened:
        for _ in range(count + 1):
            show(opened, b"x", "Evil", is_popup=True, is_mapped=is_mapped)
        opened.sync()
        with sidecar("local") as asked:
            status, said = asked.ask("POST", "/parse", CAPTURE)
    assert (status, said["error"], set(said)) == (503, "too_many_windows", {"ok", "error", "details"})
    assert str(count) in said["details"]


def test_windows_that_close_while_they_are_listed_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flicker(stopped: threading.Event) -> None:
        with opened_display() as opened:
            while not stopped.is_set():
                made = [show(opened, b"x", "Evil", is_popup=True) for _ in range(20)]
                opened.sync()
                for window in made:
                    window.destroy()

    with screen(tmp_path, monkeypatch) as shown:
        shown.terminal("Editor", "steady")
        eventually(windows.all_windows, "the window")
        stopped = threading.Event()
        thread = threading.Thread(target=flicker, args=(stopped,))
        thread.start()
        try:
            found = [windows.all_windows() for _ in range(30)]
        finally:
            stopped.set()
            thread.join()
    assert all(each is not None and "Editor" in [window.title for window in each] for each in found)


@pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_screen_that_goes_away_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # python-xlib leaves sockets that did not connect to the garbage collector.
    with screen(tmp_path, monkeypatch) as shown, sidecar("local") as asked:
        assert asked.ask("POST", "/parse", CAPTURE)[0] == 200
        os.kill(shown.server_pid, signal.SIGKILL)
        eventually(lambda: windows.all_windows() is None, "the end of the screen")
        status, said = asked.ask("POST", "/parse", CAPTURE)
    assert (status, said["error"], set(said)) == (503, "capture_unavailable", {"ok", "error", "details"})
