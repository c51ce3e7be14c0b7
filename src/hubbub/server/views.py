"""What is visible: names chosen by patterns, and nothing but what only reads if so wished.

One `View` serves tool profiles, hub endpoints and an agent's allow and deny lists alike.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from hubbub.server.tools import Tool


class View(msgspec.Struct, frozen=True):
    """Which tools can be seen. Patterns are shell-style: `vdo_*`, `aw.?et_state`."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    read_only: bool = False

    def shows(self, tool: Tool) -> bool:
        """Whether this view shows the tool."""
        if self is EVERYTHING:
            return True
        if not _matches(tool.name, self.include) or _matches(tool.name, self.exclude):
            return False
        return not self.read_only or (tool.annotations is not None and tool.annotations.read_only_hint is True)


EVERYTHING = View()


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(pattern == "*" or fnmatchcase(name, pattern) for pattern in patterns)
