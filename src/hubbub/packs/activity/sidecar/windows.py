"""Which windows are where, on X11. The only importer of python-xlib.

Elsewhere there is no list, and only what is written on the screen can be judged.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any

import msgspec

from hubbub.packs.activity.privacy import Box


class Window(msgspec.Struct, frozen=True):
    """One window."""

    app: str
    title: str
    box: Box
    """Left, top, right, bottom, in points of the screen."""
    is_active: bool


def all_windows() -> list[Window] | None:
    """The windows, those further back first; None where that cannot be known."""
    try:
        from Xlib import X, display  # type: ignore[import-untyped]
        from Xlib.error import XError  # type: ignore[import-untyped]
    except ImportError:
        return None
    try:
        opened = display.Display()
    except Exception:  # the library has no common error for a display that is not there
        return None
    with closing(opened):
        root = opened.screen().root
        listed = _property(opened, root, "_NET_CLIENT_LIST_STACKING", X.AnyPropertyType)
        if listed is None:
            return None
        active = _property(opened, root, "_NET_ACTIVE_WINDOW", X.AnyPropertyType)
        found = []
        for identifier in listed:
            try:
                found.append(_read(opened, root, int(identifier), active))
            except XError:
                continue  # it was closed meanwhile
        return [*found, *_unmanaged(opened, root)]


def _unmanaged(opened: Any, root: Any) -> list[Window]:
    """Menus and the like, which no window manager lists. What it draws itself belongs to no program."""
    from Xlib import X
    from Xlib.error import XError

    found = []
    for child in root.query_tree().children:
        try:
            kind = child.get_attributes()
            if kind.override_redirect and kind.map_state == X.IsViewable and child.get_wm_class():
                found.append(_read(opened, root, child.id, None))
        except XError:
            continue
    return found


def _read(opened: Any, root: Any, identifier: int, active: Any) -> Window:
    window = opened.create_resource_object("window", identifier)
    kind = window.get_wm_class()
    geometry = window.get_geometry()
    place = root.translate_coords(window, 0, 0)
    left, top = float(place.x), float(place.y)
    # Its frame, with the title on it, is drawn by the window manager around it.
    frame = _property(opened, window, "_NET_FRAME_EXTENTS", 0)
    before, after, above, below = (
        float(value) for value in (frame if frame is not None and len(frame) == 4 else (0, 0, 0, 0))
    )
    box = (left - before, top - above, left + geometry.width + after, top + geometry.height + below)
    return Window(kind[1] if kind else "", _title(opened, window), box, active is not None and identifier in active)


def _title(opened: Any, window: Any) -> str:
    """Old programs have only the old kind of name."""
    name = _property(opened, window, "_NET_WM_NAME", 0)
    if name is None:
        name = window.get_wm_name() or ""
    return name.decode("utf-8", errors="replace") if isinstance(name, bytes) else str(name)


def _property(opened: Any, window: Any, name: str, kind: int) -> Any:
    found = window.get_full_property(opened.intern_atom(name), kind)
    return None if found is None else found.value
