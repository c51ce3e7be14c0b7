"""Prints the accessibility tree as JSON. Run by the system's Python, which alone has the library.

Imports nothing else, and nothing newer than Python 3.8.
"""

from __future__ import annotations

import json
import sys
from typing import Any

_DEPTH = 40
_INTERACTIVE = {
    "push button", "button", "toggle button", "check box", "radio button", "menu item", "check menu item",
    "radio menu item", "entry", "text", "password text", "combo box", "link", "slider", "spin button", "page tab",
}  # fmt: skip
_SECRET = {"password text"}


def main(most: int) -> None:
    import gi  # type: ignore[import-not-found]

    gi.require_version("Atspi", "2.0")
    from gi.repository import Atspi  # type: ignore[import-not-found]

    found: list[dict[str, Any]] = []

    def visit(node: Any, app: str, depth: int) -> None:
        if node is None or depth > _DEPTH or len(found) >= most:
            return
        try:
            role, name = node.get_role_name(), node.get_name() or ""
            if role not in _SECRET and name:
                add(node, role, name, app)
            for index in range(min(node.get_child_count(), most)):
                visit(node.get_child_at_index(index), app, depth + 1)
        except Exception:  # a program that went away meanwhile
            pass

    def add(node: Any, role: str, name: str, app: str) -> None:
        if not node.get_state_set().contains(Atspi.StateType.SHOWING):
            return
        box = node.get_extents(Atspi.CoordType.SCREEN)
        if box.width > 0 and box.height > 0:
            found.append({
                "role": role, "name": name[:1000], "app": app,
                "box": [box.x, box.y, box.x + box.width, box.y + box.height],
                "is_interactive": role in _INTERACTIVE,
            })  # fmt: skip

    desktop = Atspi.get_desktop(0)
    for index in range(desktop.get_child_count()):
        program = desktop.get_child_at_index(index)
        if program is not None:
            visit(program, program.get_name() or "", 0)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
