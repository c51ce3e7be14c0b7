"""What others may know of a run while it goes on: names, sizes and times, never arguments or outputs.

    llm_request_start  llm_request_end  llm_request_error  llm_request_retry
    tools_filtered  policy_error  confirmation_required
    tool_call_start  tool_call_end  tool_call_blocked
    fix_empty_final  final

A handler may be plain or async; what it raises never reaches the run.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from hubbub import bounds

logger = logging.getLogger("hubbub.agent")


class Event(msgspec.Struct, frozen=True):
    """One thing that happened."""

    type: str
    run_id: str
    turn: int
    """Of the model, from 1 on."""
    details: Mapping[str, Any]
    context: Mapping[str, str]
    """What the run was started with, cut to a few bytes each."""


OnEvent: TypeAlias = Callable[[Event], Any]


class Events:
    """Tells a handler of one run's events."""

    def __init__(self, handler: OnEvent | None, run_id: str, context: Mapping[str, str]) -> None:
        self._handler = handler
        self._run_id = run_id
        self._context = MappingProxyType({str(key): shortened(str(value)) for key, value in context.items()})
        self.turn = 0

    async def emit(self, type: str, **details: Any) -> None:
        """Tell of one."""
        if self._handler is None:
            return
        event = Event(type, self._run_id, self.turn, MappingProxyType(details), self._context)
        try:
            outcome = self._handler(event)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception:  # Whoever watches must not be able to stop the run.
            logger.warning("a handler of events failed", exc_info=True)


def shortened(text: str, limit: int = bounds.EVENT_TEXT_BYTES) -> str:
    """The text within so many bytes, cut between characters."""
    encoded = text.encode(errors="replace")
    return text if len(encoded) <= limit else encoded[:limit].decode(errors="ignore")
