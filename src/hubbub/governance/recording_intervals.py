"""Limits how often the same refusal is recorded: a flood of refused calls must not fill the journal."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

MAX_REMEMBERED: Final = 1024
"""Refusals that are remembered; the oldest is forgotten, and recorded again when it is repeated."""
REFUSAL_INTERVAL_S: Final = 60.0
"""How often the same refusal is recorded."""


class RecordingIntervals:
    """Says which refusals are recorded: the first of its kind, and one in a while after that."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._due_at: OrderedDict[Hashable, float] = OrderedDict()

    def is_due(self, key: Hashable) -> bool:
        """Whether a refusal is recorded now; if so, the next one of this key is not for a while."""
        now = self._clock()
        if now < self._due_at.get(key, now):
            return False
        self._due_at[key] = now + REFUSAL_INTERVAL_S
        self._due_at.move_to_end(key)
        if len(self._due_at) > MAX_REMEMBERED:
            self._due_at.popitem(last=False)
        return True
