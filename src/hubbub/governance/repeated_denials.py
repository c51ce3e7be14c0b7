"""Records repeated denials together, so that a caller cannot fill the journal with what it is refused.

The first denial of each target is recorded at once. Its repetitions within an interval are one more record with their
number (`facts.repeated`). A caller who is denied many different targets gets a record for the first ones, and one with
the number of the others (`facts.others`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from hubbub.governance.audit_events import AuditEvent
from hubbub.governance.call_records import add_facts

INTERVAL_S: Final = 1.0
"""How long denials are counted before a record says how many there were."""
MAX_COUNTED_DENIALS: Final = 1024
"""Denials, and groups of them, that are counted at the same time; the oldest is recorded early."""
MAX_RECORDED_TARGETS: Final = 32
"""Different targets of one group whose denials are recorded within an interval; the others are counted."""


class _Count(msgspec.Struct):
    """The number of denials like one that was recorded."""

    first: AuditEvent
    timer: asyncio.TimerHandle
    number: int = 0


class _Group(_Count):
    """The number of denials that were not recorded, of the same caller, server and rule."""

    targets: int = 0
    """Those that were recorded."""


class RepeatedDenials:
    """Counts denials that follow recorded ones. All methods belong to one event loop."""

    def __init__(self, record_later: Callable[[AuditEvent], None]) -> None:
        self._record_later = record_later
        self._counted: OrderedDict[Hashable, _Count] = OrderedDict()
        self._groups: OrderedDict[Hashable, _Group] = OrderedDict()

    def count(self, key: Hashable, group: Hashable) -> bool:
        """Count a denial if it repeats a recent one, or its group has too many; otherwise it has to be recorded.

        `group`: what this denial has in common with those of other targets: its caller, server and rule.
        """
        counted = self._counted.get(key)
        if counted is None:
            found = self._groups.get(group)
            if found is None or found.targets < MAX_RECORDED_TARGETS:
                return False
            counted = found
        counted.number += 1
        return True

    def begin(self, key: Hashable, group: Hashable, first: AuditEvent, *, is_remembered: bool = True) -> None:
        """Count denials that follow a recorded one for a while; without `is_remembered`, not its repetitions."""
        loop = asyncio.get_running_loop()
        found = self._groups.get(group)
        if found is None:
            if len(self._groups) >= MAX_COUNTED_DENIALS:
                self._end_group(next(iter(self._groups)))
            found = self._groups[group] = _Group(first, loop.call_later(INTERVAL_S, self._end_group, group))
        found.targets += 1
        if is_remembered:
            if len(self._counted) >= MAX_COUNTED_DENIALS:
                self._end(next(iter(self._counted)))
            self._counted[key] = _Count(first, loop.call_later(INTERVAL_S, self._end, key))

    def cancel(self, key: Hashable, group: Hashable) -> None:
        """Forget a denial that could not be recorded: the next one is a first one again."""
        self._end(key)
        if group in self._groups:
            self._groups[group].targets -= 1

    def end_all(self) -> None:
        """Record all counts."""
        for key in list(self._counted):
            self._end(key)
        for group in list(self._groups):
            self._end_group(group)

    def _end(self, key: Hashable) -> None:
        counted = self._counted.pop(key, None)
        if counted is None:
            return
        counted.timer.cancel()
        if counted.number:
            self._record_later(add_facts(counted.first, repeated=counted.number))

    def _end_group(self, group: Hashable) -> None:
        found = self._groups.pop(group)
        found.timer.cancel()
        if found.number:
            shared = msgspec.structs.replace(found.first, call="", trace="", tool="", shown_as="", args_sha256="")
            self._record_later(msgspec.structs.replace(shared, facts={"others": found.number}))
