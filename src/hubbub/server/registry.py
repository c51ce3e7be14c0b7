"""The tools of a server, in the order they were registered (the registry of contract 001, docs/decisions/0008).

Every change is an event; the server turns events into notifications to clients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import DefinitionError
from hubbub.protocol.tool_names import safe_name
from hubbub.server.events import ChangeType, Events, ToolChange, ToolChangeMetadata
from hubbub.server.pagination import StableOrder
from hubbub.server.tools import Tool


class ToolRegistry:
    """The tools of one server, by name."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._tools: dict[str, Tool] = {}
        self.order = StableOrder()
        """The place of each tool in the list."""
        self.scoped: set[str] = set()
        """Names of current and former tools that require scopes."""
        self._tools_by_safe_name: dict[str, Tool] | None = None
        self.get = self._tools.get
        """Return the tool with that name, or None."""
        self.lists_safe_names = False
        """Whether clients see `aw_get_state` for `aw.get_state`; both names can be called."""

    def find(self, name: str) -> Tool | None:
        """Return the tool with that name; if `lists_safe_names` is set, also by its safe name."""
        tool = self._tools.get(name)
        return self._safe_names().get(name) if tool is None and self.lists_safe_names else tool

    def listed_name(self, tool: Tool) -> str:
        """Return the name that clients see: the safe name if `lists_safe_names` is set and no other tool has it."""
        safe = safe_name(tool.name) if self.lists_safe_names else tool.name
        return safe if self.find(safe) is tool else tool.name

    def _safe_names(self) -> dict[str, Tool]:
        if self._tools_by_safe_name is None:
            self._tools_by_safe_name = {safe_name(tool.name): tool for tool in reversed(self._tools.values())}
        return self._tools_by_safe_name

    def register(self, tool: Tool | Callable[..., Any], *, reason: str | None = None) -> None:
        """Add a tool, or a function as a tool; one with the same name is replaced in its place."""
        if not isinstance(tool, Tool):
            tool = Tool(tool)
        is_known = tool.name in self._tools
        if not is_known and len(self._tools) >= bounds.TOOLS:
            raise DefinitionError(f"cannot register tool {tool.name!r}: a server holds at most {bounds.TOOLS} tools")
        self._tools[tool.name] = tool
        self.order.add(tool.name)
        if tool.scopes:
            self.scoped.add(tool.name)
        self._emit("tool_updated" if is_known else "tool_added", tool, reason)

    def unregister(self, name: str, *, reason: str | None = None) -> bool:
        """Remove a tool; return whether there was one."""
        tool = self._tools.pop(name, None)
        if tool is None:
            return False
        self.order.remove(name)
        self._emit("tool_removed", tool, reason)
        return True

    def all(self) -> list[Tool]:
        """Return every tool, in the order of registration."""
        return list(self._tools.values())

    def names(self) -> list[str]:
        """Return every name, in the order of registration."""
        return list(self._tools)

    def has(self, name: str) -> bool:
        return name in self._tools

    def size(self) -> int:
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
        self._tools_by_safe_name = None
        metadata = ToolChangeMetadata(
            description=tool.description or UNSET,
            input_schema=tool.input_schema,
            reason=reason if reason is not None else UNSET,
        )
        change = ToolChange(kind, tool.name, int(time.time() * 1000), metadata)
        self._events.emit("toolChange", change)
