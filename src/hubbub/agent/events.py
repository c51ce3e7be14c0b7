"""Events of a run for observers: names, sizes and times, never arguments or outputs.

    llm_request_start  llm_request_end  llm_request_error  llm_request_retry
    tools_filtered  policy_error  confirmation_required
    tool_call_start  tool_call_end  tool_call_blocked
    fix_empty_final  final

A handler may be sync or async; its exceptions never reach the run.
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


class RunEvent(msgspec.Struct, frozen=True):
    """One event of a run."""

    type: str
    run_id: str
    turn: int
    """The turn of the model, starting at 1."""
    details: Mapping[str, Any]
    context: Mapping[str, str]
    """The context that the run was started with; long values are truncated."""


OnEvent: TypeAlias = Callable[[RunEvent], Any]


class Events:
    """Sends the events of one run to a handler."""

    def __init__(self, handler: OnEvent | None, run_id: str, context: Mapping[str, str]) -> None:
        self._handler = handler
        self._run_id = run_id
        self._context = MappingProxyType({str(key): shorten(str(value)) for key, value in context.items()})
        self.turn = 0

    async def emit(self, type: str, **details: Any) -> None:
        """Send one event."""
        if self._handler is None:
            return
        event = RunEvent(type, self._run_id, self.turn, MappingProxyType(details), self._context)
        try:
            outcome = self._handler(event)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception:  # An observer must not be able to stop the run.
            logger.warning("an event handler failed", exc_info=True)


def shorten(text: str) -> str:
    """Cut a text to `EVENT_TEXT_BYTES`, between characters."""
    encoded, limit = text.encode(errors="replace"), bounds.EVENT_TEXT_BYTES
    return text if len(encoded) <= limit else encoded[:limit].decode(errors="ignore")
