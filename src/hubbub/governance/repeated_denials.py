"""Records repetitions of a denied request together, so that a caller who repeats it cannot fill the journal."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from hubbub.governance.audit_events import AuditEvent
from hubbub.governance.call_records import add_facts

INTERVAL_S: Final = 1.0
"""How long repetitions are counted before a record says how many there were."""
MAX_COUNTED_DENIALS: Final = 1024
"""Denials that are counted at the same time; the oldest is recorded early."""


class _DenialCount(msgspec.Struct):
    first: AuditEvent
    timer: asyncio.TimerHandle
    repetitions: int = 0


class RepeatedDenials:
    """Counts the repetitions of denials whose first record was written. All methods belong to one event loop."""

    def __init__(self, record_later: Callable[[AuditEvent], None]) -> None:
        self._record_later = record_later
        self._counted: OrderedDict[Hashable, _DenialCount] = OrderedDict()

    def count(self, key: Hashable) -> bool:
        """Count a denial if it repeats a recent one; otherwise return False, and it has to be recorded."""
        counted = self._counted.get(key)
        if counted is None:
            return False
        counted.repetitions += 1
        return True

    def begin(self, key: Hashable, first: AuditEvent) -> None:
        """Count repetitions of this denial for a while."""
        if len(self._counted) >= MAX_COUNTED_DENIALS:
            self.end(next(iter(self._counted)))
        timer = asyncio.get_running_loop().call_later(INTERVAL_S, self.end, key)
        self._counted[key] = _DenialCount(first, timer)

    def end(self, key: Hashable) -> None:
        """Record how often a denial was repeated, if it was; the next one is a first one again."""
        counted = self._counted.pop(key, None)
        if counted is None:
            return
        counted.timer.cancel()
        if counted.repetitions:
            self._record_later(add_facts(counted.first, repeated=counted.repetitions))

    def end_all(self) -> None:
        """Record all counts."""
        for key in list(self._counted):
            self.end(key)
