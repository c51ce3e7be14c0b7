"""Print the accessibility tree as two lines of JSON. Run with the system's Python, the only one with the library.

The first line has the windows of all programs, the second their elements, so a program that hangs during the second
does not affect the first. Imports nothing else, and uses nothing newer than Python 3.8.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

_MAX_DEPTH = 40
_MAX_FRAMES = 500
_MAX_NAME_CHARACTERS = 1000
_RESPONSE_TIMEOUT_MS = 500
_MAX_VISITED_NODES = 2000
"""Nodes that are visited in one window, so that time is left for the others."""
_INTERACTIVE_ROLES = {
    "push button", "button", "toggle button", "check box", "radio button", "menu item", "check menu item",
    "radio menu item", "entry", "text", "password text", "combo box", "link", "slider", "spin button", "page tab",
}  # fmt: skip
_SECRET_ROLES = {"password text"}


def main(max_nodes: int, seconds: float) -> None:
    import gi  # type: ignore[import-not-found]

    gi.require_version("Atspi", "2.0")
    from gi.repository import Atspi  # type: ignore[import-not-found]

    Atspi.set_timeout(_RESPONSE_TIMEOUT_MS, _RESPONSE_TIMEOUT_MS)
    deadline = time.monotonic() + seconds
    frames: list[dict[str, Any]] = []
    top_windows: list[Any] = []
    found: list[dict[str, Any]] = []
    visited = 0

    def get_box(node: Any) -> list[int]:
        box = node.get_extents(Atspi.CoordType.SCREEN)
        return [box.x, box.y, box.x + max(box.width, 0), box.y + max(box.height, 0)]

    def read_frames(program: Any) -> None:
        app, pid = program.get_name() or "", program.get_process_id()
        for index in range(min(program.get_child_count(), _MAX_FRAMES - len(frames))):
            top = program.get_child_at_index(index)
            if top is not None:
                name = top.get_name() or ""
                short = (
                    name
                    if len(name) <= 2 * _MAX_NAME_CHARACTERS
                    else name[:_MAX_NAME_CHARACTERS] + name[-_MAX_NAME_CHARACTERS:]
                )
                frames.append({"app": app[:_MAX_NAME_CHARACTERS], "pid": pid, "name": short, "box": get_box(top)})
                top_windows.append(top)

    def visit(node: Any, frame: int, depth: int) -> None:
        nonlocal visited
        if node is None or depth > _MAX_DEPTH or visited >= _MAX_VISITED_NODES or time.monotonic() > deadline:
            return
        visited += 1
        role, name = node.get_role_name(), node.get_name() or ""
        if role not in _SECRET_ROLES and name and depth:
            add(node, role, name, frame)
        for index in range(min(node.get_child_count(), _MAX_VISITED_NODES)):
            visit(node.get_child_at_index(index), frame, depth + 1)

    def add(node: Any, role: str, name: str, frame: int) -> None:
        if len(found) >= max_nodes or not node.get_state_set().contains(Atspi.StateType.SHOWING):
            return
        box = get_box(node)
        if box[2] > box[0] and box[3] > box[1]:
            found.append({
                "role": role, "name": name[:_MAX_NAME_CHARACTERS], "frame": frame, "box": box,
                "is_interactive": role in _INTERACTIVE_ROLES,
            })  # fmt: skip

    desktop = Atspi.get_desktop(0)
    for index in range(desktop.get_child_count()):
        program = desktop.get_child_at_index(index)
        try:
            if program is not None and time.monotonic() < deadline:
                read_frames(program)
        except Exception:  # the program exited meanwhile, or does not answer
            continue
    sys.stdout.write(json.dumps(frames) + "\n")
    sys.stdout.flush()
    for number, top in enumerate(top_windows):
        visited = 0
        try:
            visit(top, number, 0)
        except Exception:  # as above
            continue
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
