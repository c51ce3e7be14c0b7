"""The tools of a server, in the order they were registered (contract 001's registry).

Every change is an event; the server turns events into notifications to clients.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import DefinitionError
from hubbub.protocol.names import safe_name
from hubbub.server.events import ChangeType, Events, ToolChange, ToolChangeMetadata
from hubbub.server.pages import Places
from hubbub.server.tools import Tool


class ToolRegistry:
    """Tools by name."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._tools: dict[str, Tool] = {}
        self.places = Places()
        """Where each tool stands in the list."""
        self._safe: dict[str, Tool] | None = None
        self.get = self._tools.get
        """The tool of that name, or None."""
        self.lists_safe_names = False
        """Whether clients see `aw_get_state` for `aw.get_state`; both can be called."""

    def find(self, name: str) -> Tool | None:
        """The tool of that name, also if it is written in the letters that every model provider takes."""
        tool = self._tools.get(name)
        return self._aliases().get(name) if tool is None and self.lists_safe_names else tool

    def listed_name(self, tool: Tool) -> str:
        """The name under which clients see a tool: its own, unless safe names are wanted and this one is free."""
        safe = safe_name(tool.name) if self.lists_safe_names else tool.name
        return safe if self.find(safe) is tool else tool.name

    def _aliases(self) -> dict[str, Tool]:
        if self._safe is None:
            self._safe = {safe_name(tool.name): tool for tool in reversed(self._tools.values())}
        return self._safe

    def register(self, tool: Tool, *, reason: str | None = None) -> None:
        """Add a tool, or replace the one of that name in its place."""
        known = tool.name in self._tools
        if not known and len(self._tools) >= bounds.TOOLS:
            raise DefinitionError(f"a server holds at most {bounds.TOOLS} tools; {tool.name!r} is one too many")
        self._tools[tool.name] = tool
        self.places.add(tool.name)
        self._emit("tool_updated" if known else "tool_added", tool, reason)

    def unregister(self, name: str, *, reason: str | None = None) -> bool:
        """Remove a tool; whether there was one."""
        tool = self._tools.pop(name, None)
        if tool is None:
            return False
        self.places.remove(name)
        self._emit("tool_removed", tool, reason)
        return True

    def all(self) -> list[Tool]:
        """Every tool, in the order of registration."""
        return list(self._tools.values())

    def names(self) -> list[str]:
        """Every name, in the order of registration."""
        return list(self._tools)

    def has(self, name: str) -> bool:
        """Whether there is a tool of that name."""
        return name in self._tools

    def size(self) -> int:
        """How many tools there are."""
        return len(self._tools)

    def clear(self, *, reason: str | None = None) -> None:
        """Remove every tool, with one event each."""
        for name in self.names():
            self.unregister(name, reason=reason)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.all())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def _emit(self, kind: ChangeType, tool: Tool, reason: str | None) -> None:
        self._safe = None
        metadata = ToolChangeMetadata(
            description=tool.description or UNSET,
            input_schema=tool.input_schema,
            reason=reason if reason is not None else UNSET,
        )
        change = ToolChange(kind, tool.name, int(time.time() * 1000), metadata)
        self._events.emit("toolChange", change)
