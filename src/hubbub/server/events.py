"""Typed events inside one server (the event system of contract 001, docs/decisions/0008).

Listeners are plain functions and run at once, in the order they were added. A
listener that raises is logged and does not stop the others or the change itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal, Self

import msgspec
from msgspec import UNSET, UnsetType

logger = logging.getLogger("hubbub.events")

ChangeType = Literal["tool_added", "tool_removed", "tool_updated"]


class ToolChangeMetadata(msgspec.Struct, rename="camel"):
    """Further information about a changed tool."""

    description: str | UnsetType = UNSET
    input_schema: Any = UNSET
    reason: str | UnsetType = UNSET


class ToolChange(msgspec.Struct, rename="camel"):
    """A tool was added, replaced or removed. `timestamp` is in milliseconds."""

    type: ChangeType
    tool_name: str
    timestamp: int
    metadata: ToolChangeMetadata | UnsetType = UNSET


EventName = Literal["toolChange"]
Listener = Callable[[ToolChange], object]


class Events:
    """The listeners of one server, by event."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Listener]] = {"toolChange": []}

    def on(self, event: EventName, listener: Listener) -> Self:
        """Call `listener` at each event."""
        self._listeners_for(event).append(listener)
        return self

    def off(self, event: EventName, listener: Listener) -> Self:
        """Stop calling `listener`; does nothing if it was never added."""
        if listener in self._listeners_for(event):
            self._listeners_for(event).remove(listener)
        return self

    def emit(self, event: EventName, data: ToolChange) -> bool:
        """Call every listener; return whether there was one."""
        listeners = list(self._listeners_for(event))
        for listener in listeners:
            try:
                listener(data)
            except Exception:
                logger.exception("a listener of %s failed", event)
        return bool(listeners)

    def _listeners_for(self, event: str) -> list[Listener]:
        try:
            return self._listeners[event]
        except KeyError:
            raise ValueError(f"unknown event {event!r}; use one of {', '.join(self._listeners)}") from None
