"""A scripted desktop: browsers with public and private windows, and covered, minimised or moved windows."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.packs.activity.virtual_screen import VirtualScreen, run_virtual_screen, skip_without_programs, wait_until

from hubbub.packs.activity.sidecar import accessibility, windows
from hubbub.packs.activity.sidecar.windows import Window

CHROMIUM, HIDDEN_CHROMIUM = "Open page", "Hidden page"
FIREFOX, HIDDEN_FIREFOX = "Open site", "Hidden site"
EDITOR, COVERED, MINIMISED, ELSEWHERE = "Editor", "Covered", "Minimised", "Elsewhere"
VAULT = "Vault"
WORDS = {
    CHROMIUM: "elephant", HIDDEN_CHROMIUM: "tiger", FIREFOX: "penguin", HIDDEN_FIREFOX: "leopard", EDITOR: "squirrel",
    COVERED: "walrus", MINIMISED: "zebra", ELSEWHERE: "giraffe", VAULT: "badger",
}  # fmt: skip
"""A word for each window that appears only there."""
BOXES = {
    CHROMIUM: (0, 0, 500, 300), HIDDEN_CHROMIUM: (500, 0, 500, 300), FIREFOX: (0, 300, 460, 300),
    HIDDEN_FIREFOX: (460, 300, 460, 300), VAULT: (1000, 0, 380, 130), COVERED: (960, 400, 380, 130),
    EDITOR: (950, 390, 420, 180),
}  # fmt: skip
BUTTON = "Feed the animals"
PREFERENCES = {
    "browser.aboutwelcome.enabled": "false",
    "browser.preonboarding.enabled": "false",
    "browser.sessionstore.resume_from_crash": "false",
    "browser.shell.checkDefaultBrowser": "false",
    "browser.startup.page": "0",
    "datareporting.policy.dataSubmissionEnabled": "false",
    "termsofuse.bypassNotification": "true",
}
ICONIC = 3
FROM_PAGER = 2


class Desktop:
    """Finds and moves windows by their titles."""

    def __init__(self, new_screen: VirtualScreen) -> None:
        self.screen = new_screen

    def window(self, name: str) -> Window:
        return next(each for each in windows.list_windows() or [] if each.title.startswith(name))

    def place(self, name: str, box: tuple[int, int, int, int]) -> None:
        """Move a window to a position, in front of the others."""
        left, top, width, height = box
        with self._open_window(name) as (connection, window):
            self._send_client_message(connection, window, "_NET_WM_STATE", 0, *map(connection.get_atom, _MAXIMISED))
            window.configure(x=left, y=top, width=width, height=height)
            self._send_client_message(connection, window, "_NET_ACTIVE_WINDOW", FROM_PAGER, 0, 0)
            connection.sync()

        def is_placed() -> bool:
            found = self.window(name)
            return found.is_active and found.is_shown and abs(found.box[0] - left) < 30 and abs(found.box[1] - top) < 30

        wait_until(is_placed, f"{name} at {box}")

    def bring_to_front(self, name: str) -> None:
        """Activate a window, also one that is minimised or on another desktop."""
        with self._open_window(name) as (connection, window):
            self._send_client_message(connection, window, "_NET_ACTIVE_WINDOW", FROM_PAGER, 0, 0)
        wait_until(lambda: self.window(name).is_active and self.window(name).is_shown, f"{name} in front")

    def minimise(self, name: str) -> None:
        with self._open_window(name) as (connection, window):
            self._send_client_message(connection, window, "WM_CHANGE_STATE", ICONIC)
        wait_until(lambda: not self.window(name).is_shown, f"{name} out of sight")

    def move_to_other_desktop(self, name: str) -> None:
        """Move a window to the second desktop."""
        with self._open_window(name) as (connection, window):
            self._send_client_message(connection, window, "_NET_WM_DESKTOP", 1, FROM_PAGER)
        wait_until(lambda: not self.window(name).is_shown, f"{name} out of sight")

    def arrange(self) -> None:
        """Arrange the windows side by side; the editor covers the window before it."""
        self.minimise(MINIMISED)
        self.move_to_other_desktop(ELSEWHERE)
        for name, box in BOXES.items():
            self.place(name, box)

    def foreground_window(self) -> dict[str, str]:
        """Return the foreground window as ActivityWatch's watcher records it."""
        from Xlib import X, display

        with closing(display.Display(self.screen.environment["DISPLAY"])) as connection:
            root = connection.screen().root
            active = root.get_full_property(connection.get_atom("_NET_ACTIVE_WINDOW"), X.AnyPropertyType).value[0]
            window = connection.create_resource_object("window", active)
            name = window.get_full_property(connection.get_atom("_NET_WM_NAME"), connection.get_atom("UTF8_STRING"))
            title = name.value.decode() if name is not None else window.get_wm_name()
            return {"app": window.get_wm_class()[1], "title": title}

    def paint(self) -> None:
        """Paint the background white."""
        from Xlib import display

        with closing(display.Display(self.screen.environment["DISPLAY"])) as connection:
            root = connection.screen().root
            root.change_attributes(background_pixel=connection.screen().white_pixel)
            root.clear_area()
            connection.sync()

    @contextmanager
    def _open_window(self, name: str) -> Iterator[tuple[Any, Any]]:
        from Xlib import display

        identifier = self.window(name).identifier
        with closing(display.Display(self.screen.environment["DISPLAY"])) as connection:
            yield connection, connection.create_resource_object("window", identifier)
            connection.sync()

    def _send_client_message(self, connection: Any, window: Any, kind: str, *values: int) -> None:
        """Send a client message to the window manager."""
        from Xlib import X
        from Xlib.protocol import event

        data = (32, [*values, 0, 0, 0, 0, 0][:5])
        message = event.ClientMessage(window=window, client_type=connection.get_atom(kind), data=data)
        mask = X.SubstructureRedirectMask | X.SubstructureNotifyMask
        connection.screen().root.send_event(message, event_mask=mask)


_MAXIMISED = ("_NET_WM_STATE_MAXIMIZED_HORZ", "_NET_WM_STATE_MAXIMIZED_VERT")


def _write_page(folder: Path, title: str) -> str:
    path = folder / f"{title.replace(' ', '-')}.html"
    path.write_text(f"<title>{title}</title><h1>{WORDS[title]}</h1><button>{BUTTON}</button>")
    return path.as_uri()


def _chromium(folder: Path) -> list[str]:
    return [
        "chromium", "--no-sandbox", "--no-first-run", "--disable-gpu", "--password-store=basic",
        "--force-renderer-accessibility", f"--user-data-dir={folder / 'chromium'}",
    ]  # fmt: skip


def _firefox(folder: Path) -> list[str]:
    profile = folder / "firefox"
    profile.mkdir(exist_ok=True)
    lines = (f'user_pref("{name}", {value});\n' for name, value in PREFERENCES.items())
    (profile / "user.js").write_text("".join(lines))
    return ["firefox-esr", "--profile", str(profile)]


@contextmanager
def run_desktop(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desktop]:
    """Run a desktop with all windows open."""
    skip_without_programs("chromium", "firefox-esr")
    with run_virtual_screen(folder, monkeypatch, has_bus=True, size="1400x900") as new_screen:
        new_desktop = Desktop(new_screen)
        new_desktop.paint()
        chromium, firefox = _chromium(folder), _firefox(folder)
        new_screen.start([*chromium, _write_page(folder, CHROMIUM)])
        new_screen.start([*firefox, "--new-window", _write_page(folder, FIREFOX)])
        for title in (COVERED, MINIMISED, ELSEWHERE, EDITOR):
            new_screen.open_terminal(title, WORDS[title], "28x5+800+600")
        new_screen.open_terminal(VAULT, WORDS[VAULT], "28x5+500+600", app="KeePassXC")
        _wait_for(CHROMIUM, FIREFOX, COVERED, MINIMISED, ELSEWHERE, EDITOR, VAULT)
        new_screen.start([*chromium, "--incognito", _write_page(folder, HIDDEN_CHROMIUM)])
        new_screen.start([*firefox, "--private-window", _write_page(folder, HIDDEN_FIREFOX)])
        _wait_for(HIDDEN_CHROMIUM, HIDDEN_FIREFOX)
        new_desktop.arrange()
        wait_until(_has_accessibility_tree, "the accessibility trees of the browsers")
        yield new_desktop


def _wait_for(*titles: str) -> None:
    def are_listed() -> bool:
        found = [window.title for window in windows.list_windows() or []]
        return all(any(each.startswith(title) for each in found) for title in titles)

    wait_until(are_listed, f"the windows {titles}")


def _has_accessibility_tree() -> bool:
    tree = accessibility.read_tree() or accessibility.AccessibilityTree()
    names = [frame.name for frame in tree.frames]
    has_pages = sum(node.name == BUTTON for node in tree.nodes) >= 2
    return has_pages and all(any(name.startswith(title) for name in names) for title in (CHROMIUM, HIDDEN_CHROMIUM))
