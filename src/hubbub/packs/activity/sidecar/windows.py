"""List windows and their positions on X11. The only importer of python-xlib.

Other systems have no such list, so rules can only be applied to the recognised text.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.privacy import Box
from hubbub.packs.activity.sidecar.engine import SidecarError

_ALL_DESKTOPS: Final = 0xFFFFFFFF
_FULL_OPACITY: Final = 0xFFFFFFFF
_ALPHA_DEPTH: Final = 32
_CONTROL_CHARACTERS: Final = dict.fromkeys((*range(32), *range(127, 160), *range(8234, 8239), *range(8294, 8298)), " ")
"""Control characters, and those that change the direction of text."""


class Window(msgspec.Struct, frozen=True):
    app: str
    title: str
    box: Box
    """Left, top, right, bottom, including the frame, in pixels of the screen."""
    is_active: bool
    identifier: int = 0
    pid: int | None = None
    """The process ID that the window claims."""
    is_shown: bool = True
    """Whether it is neither minimised nor on another desktop; it may still be covered."""
    is_popup: bool = False
    """A menu or similar, which the window manager does not manage."""
    solid: tuple[Box, ...] = ()
    """The opaque parts."""


def list_windows() -> list[Window] | None:
    """Return the windows, rearmost first; None if they cannot be listed.

    Raises: SidecarError, if there are too many.
    """
    try:
        from Xlib import display, error
    except ImportError:
        return None
    try:
        connection = display.Display()
    except Exception:  # the library has no common error for a missing display
        return None
    try:
        with closing(connection):
            return _WindowLister(connection).windows()
    except (error.XError, error.ConnectionClosedError, OSError):
        return None  # the display was closed meanwhile


class _WindowLister:
    """Lists all windows of a display once."""

    def __init__(self, connection: Any) -> None:
        self._display = connection
        self._root = connection.screen().root
        self._has_shapes = bool(connection.has_extension("SHAPE"))

    def windows(self) -> list[Window] | None:
        from Xlib.error import XError

        clients = self._read_integers(self._root, "_NET_CLIENT_LIST_STACKING", limits.SCREEN_WINDOWS + 1)
        if clients is None:
            return None
        children = self._root.query_tree().children
        if max(len(clients), len(children)) > limits.SCREEN_WINDOWS:
            raise SidecarError(
                503, "too_many_windows", f"more than {limits.SCREEN_WINDOWS} windows are open; close some"
            )
        self._desktop = self._read_integer(self._root, "_NET_CURRENT_DESKTOP")
        self._active = set(self._read_integers(self._root, "_NET_ACTIVE_WINDOW") or [])
        # The order of the root's children is authoritative; the window manager's own list may lag behind.
        order = {child.id: place for place, child in enumerate(children)}
        found: list[tuple[int, Window]] = []
        tops = set()
        for identifier in clients:
            try:
                top, window = self._read_managed(identifier)
            except XError:
                continue  # closed meanwhile
            tops.add(top)
            found.append((order.get(top, len(order)), window))
        for child in children:
            try:
                popup = None if child.id in tops else self._read_popup(child)
            except XError:
                continue
            if popup is not None:
                found.append((order[child.id], popup))
        if sum(window.is_shown for _, window in found) > limits.SCREEN_SHOWN_WINDOWS:
            raise SidecarError(
                503, "too_many_windows", f"more than {limits.SCREEN_SHOWN_WINDOWS} windows are shown; close some"
            )
        found.sort(key=lambda each: each[0])
        return [window for _, window in found]

    def _read_managed(self, identifier: int) -> tuple[int, Window]:
        window = self._display.create_resource_object("window", identifier)
        top = self._find_frame(window)
        return top.id, self._read_window(window, top, is_popup=False)

    def _read_popup(self, window: Any) -> Window | None:
        from Xlib import X

        kind = window.get_attributes()
        if not kind.override_redirect or kind.map_state != X.IsViewable or kind.win_class != X.InputOutput:
            return None
        place, screen = window.get_geometry(), self._display.screen()
        if not (-place.width < place.x < screen.width_in_pixels and -place.height < place.y < screen.height_in_pixels):
            return None  # window managers keep some outside of the screen
        return self._read_window(window, window, is_popup=True)

    def _find_frame(self, window: Any) -> Any:
        """Return the frame that the window manager put around a window, or the window itself."""
        for _ in range(limits.SCREEN_WINDOW_DEPTH):
            parent = window.query_tree().parent
            if not parent or parent == self._root:
                break
            window = parent
        return window

    def _read_window(self, window: Any, top: Any, *, is_popup: bool) -> Window:
        place = top.get_geometry()
        borders = 2 * place.border_width
        left, top_edge = float(place.x), float(place.y)
        box = (left, top_edge, left + place.width + borders, top_edge + place.height + borders)
        pid = self._read_integer(window, "_NET_WM_PID")
        names = self._read_bytes(window, "WM_CLASS").split(b"\0")
        return Window(
            app=_decode_text(names[1] if len(names) > 1 else b""),
            title=self._read_title(window),
            box=box,
            is_active=window.id in self._active,
            identifier=window.id,
            pid=pid,
            is_shown=is_popup or self._is_shown(window),
            is_popup=is_popup,
            solid=self._read_opaque_parts(window, top, box, is_popup=is_popup),
        )

    def _is_shown(self, window: Any) -> bool:
        from Xlib import X

        if window.get_attributes().map_state != X.IsViewable:
            return False
        states = self._read_integers(window, "_NET_WM_STATE", 64) or []
        # The title bar of a shaded window is still visible.
        hidden, shaded = (self._atom(name) in states for name in ("_NET_WM_STATE_HIDDEN", "_NET_WM_STATE_SHADED"))
        desktop = self._read_integer(window, "_NET_WM_DESKTOP")
        is_here = None in (desktop, self._desktop) or desktop in (self._desktop, _ALL_DESKTOPS)
        return is_here and (shaded or not hidden)

    def _read_opaque_parts(self, window: Any, top: Any, box: Box, *, is_popup: bool) -> tuple[Box, ...]:
        opacity = [self._read_integer(each, "_NET_WM_WINDOW_OPACITY") for each in (window, top)]
        depth = window.get_geometry().depth
        if any(each not in (None, _FULL_OPACITY) for each in opacity) or (is_popup and depth == _ALPHA_DEPTH):
            return ()
        left, top_edge, right, bottom = box
        if self._has_shapes and top.shape_query_extents().bounding_shaped:
            parts = top.shape_get_rectangles(0).rectangles
            if len(parts) > limits.SCREEN_SHAPE_PARTS:
                return ()
            placed = ((left + each.x, top_edge + each.y, each.width, each.height) for each in parts)
            return tuple((x, y, x + width, y + height) for x, y, width, height in placed)
        # Some programs draw their own shadow as part of the window.
        margins = self._read_integers(window, "_GTK_FRAME_EXTENTS", 4)
        before, after, above, below = margins if margins and len(margins) == 4 else (0, 0, 0, 0)
        return ((left + before, top_edge + above, right - after, bottom - below),)

    def _read_title(self, window: Any) -> str:
        """Return the title; old programs set only `WM_NAME`."""
        if name := self._read_bytes(window, "_NET_WM_NAME"):
            return _decode_text(name)
        return _decode_text(self._read_bytes(window, "WM_NAME"), fallback_encoding="latin-1")

    # -- properties, read only up to a limit: a title may have megabytes -----------------------

    def _read_bytes(self, window: Any, name: str) -> bytes:
        """Return the start of a string property and its end, where browsers write the kind of window."""
        max_bytes = limits.CHECKED_CHARACTERS
        found = window.get_property(self._atom(name), 0, 0, max_bytes // 4)
        if found is None or found.format != 8:
            return b""
        value = bytes(found.value)
        if found.bytes_after:
            start = max((max_bytes + found.bytes_after - limits.TITLE_TAIL_BYTES) // 4, max_bytes // 4)
            rest = window.get_property(self._atom(name), 0, start, limits.TITLE_TAIL_BYTES // 4 + 1)
            value += b" " + (bytes(rest.value) if rest is not None and rest.format == 8 else b"")
        return value

    def _read_integers(self, window: Any, name: str, max_items: int = 1) -> list[int] | None:
        found = window.get_property(self._atom(name), 0, 0, max_items)
        return [int(each) for each in found.value] if found is not None and found.format == 32 else None

    def _read_integer(self, window: Any, name: str) -> int | None:
        found = self._read_integers(window, name)
        return found[0] if found else None

    def _atom(self, name: str) -> int:
        atom: int = self._display.get_atom(name)
        return atom


def _decode_text(text: bytes, fallback_encoding: str = "utf-8") -> str:
    try:
        found = text.decode()
    except UnicodeDecodeError:
        found = text.decode(fallback_encoding, errors="replace")
    return found.translate(_CONTROL_CHARACTERS).strip()
