"""Hostile windows and a disconnected screen result in one clear error and no disclosure."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.packs.activity.sidecars import run_sidecar
from tests.packs.activity.virtual_screen import run_virtual_screen, wait_until

from hubbub.packs.activity import limits
from hubbub.packs.activity.sidecar import windows

CAPTURE = {"capture": True}


@contextmanager
def open_display() -> Iterator[Any]:
    from Xlib import display

    with closing(display.Display()) as connection:
        yield connection


def show(connection: Any, title: bytes, app: str, *, is_popup: bool = False, is_mapped: bool = True) -> Any:
    from Xlib import X

    looks = {"background_pixel": connection.screen().white_pixel, "override_redirect": is_popup}
    window = connection.screen().root.create_window(300, 200, 100, 80, 0, X.CopyFromParent, **looks)
    window.set_wm_class(app.lower(), app)
    kind, name = connection.get_atom("UTF8_STRING"), connection.get_atom("_NET_WM_NAME")
    for start in range(0, len(title), 100_000):
        window.change_property(name, kind, 8, title[start : start + 100_000], X.PropModeAppend)
    if is_mapped:
        window.map()
    return window


def test_a_title_of_megabytes_is_truncated_without_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_virtual_screen(tmp_path, monkeypatch), open_display() as connection:
        show(connection, b"evil\x1b[31m\r\n" + "\u202e".encode() + b"x" * 4_000_000, "Evil")
        show(connection, b"x" * 4_000_000 + " — Mozilla Firefox Private Browsing".encode(), "firefox")
        connection.sync()
        wait_until(lambda: len(windows.list_windows() or []) == 2, "the windows")
        with run_sidecar("local") as running_sidecar:
            status, response = running_sidecar.request("POST", "/parse", CAPTURE)
        known = {window.app: window.title for window in windows.list_windows() or []}
    assert status == 200
    (reported_window,) = response["windows"]  # the other is private, according to the end of its title
    assert reported_window["app"] == "Evil"
    assert reported_window["title"].startswith("evil [31m")
    assert len(reported_window["title"]) <= limits.TEXT_CHARACTERS
    assert reported_window["title"].isprintable()
    assert max(map(len, known.values())) < 2 * limits.CHECKED_CHARACTERS


@pytest.mark.parametrize(("count", "is_mapped"), [(limits.SCREEN_WINDOWS, False), (limits.SCREEN_SHOWN_WINDOWS, True)])
def test_too_many_windows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, is_mapped: bool
) -> None:
    with run_virtual_screen(tmp_path, monkeypatch), open_display() as connection:
        for _ in range(count + 1):
            show(connection, b"x", "Evil", is_popup=True, is_mapped=is_mapped)
        connection.sync()
        with run_sidecar("local") as running_sidecar:
            status, response = running_sidecar.request("POST", "/parse", CAPTURE)
    assert (status, response["error"], set(response)) == (503, "too_many_windows", {"ok", "error", "details"})
    assert str(count) in response["details"]


def test_windows_that_close_while_they_are_listed_are_omitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flicker(stopped: threading.Event) -> None:
        with open_display() as connection:
            while not stopped.is_set():
                made = [show(connection, b"x", "Evil", is_popup=True) for _ in range(20)]
                connection.sync()
                for window in made:
                    window.destroy()

    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display:
        virtual_display.open_terminal("Editor", "steady")
        wait_until(windows.list_windows, "the window")
        stopped = threading.Event()
        thread = threading.Thread(target=flicker, args=(stopped,))
        thread.start()
        try:
            found = [windows.list_windows() for _ in range(30)]
        finally:
            stopped.set()
            thread.join()
    assert all(each is not None and "Editor" in [window.title for window in each] for each in found)


@pytest.mark.filterwarnings("ignore:.*socket.socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_a_disconnected_screen_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # python-xlib leaves unconnected sockets to the garbage collector.
    with run_virtual_screen(tmp_path, monkeypatch) as virtual_display, run_sidecar("local") as running_sidecar:
        assert running_sidecar.request("POST", "/parse", CAPTURE)[0] == 200
        os.kill(virtual_display.server_pid, signal.SIGKILL)
        wait_until(lambda: windows.list_windows() is None, "the end of the screen")
        status, response = running_sidecar.request("POST", "/parse", CAPTURE)
    assert (status, response["error"], set(response)) == (503, "capture_unavailable", {"ok", "error", "details"})
