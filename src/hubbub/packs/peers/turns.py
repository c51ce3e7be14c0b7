"""Turns: how many connections a process makes at once.

Making one takes milliseconds of computing at both ends. If everybody in a large room
were asked at the same moment, all would be late, all would be given up, and asked again.
Who asks waits for a turn; who is asked answers at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Final
from weakref import WeakKeyDictionary

from hubbub import bounds

_OF_LOOPS: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Turns]] = WeakKeyDictionary()


class Turns:
    """Lets so many begin at once; the others wait, in order."""

    def __init__(self, limit: int = bounds.PEER_TURNS, longest_s: float = bounds.PEER_TURN_S) -> None:
        self._limit = limit
        self._longest_s = longest_s
        self._taken: dict[Hashable, asyncio.TimerHandle] = {}
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._patient: dict[Hashable, Callable[[], None]] = {}
        self._is_calling = False

    def take(self, key: Hashable, begin: Callable[[], None], *, is_patient: bool = False) -> None:
        """Begin when it is this one's turn: at once if one is free, or if it has one already.

        The patient come after all others: whoever should ask them may be waiting here too.
        """
        if key in self._taken:
            begin()
            return
        if not is_patient:
            self._patient.pop(key, None)
            self._waiting.setdefault(key, begin)
        elif key not in self._waiting:
            self._patient.setdefault(key, begin)
        self._next()

    def done(self, key: Hashable) -> None:
        """Give the turn back, or wait for none any longer. Nothing happens if there was none."""
        self._waiting.pop(key, None)
        self._patient.pop(key, None)
        timer = self._taken.pop(key, None)
        if timer is not None:
            timer.cancel()
            self._next()

    def _next(self) -> None:
        if self._is_calling:
            return  # Whoever began gave its turn back at once: the loop below sees that.
        self._is_calling = True
        try:
            while (waiting := self._waiting or self._patient) and len(self._taken) < self._limit:
                key = next(iter(waiting))
                begin = waiting.pop(key)
                # Whoever forgets to give it back keeps nobody waiting for ever.
                self._taken[key] = asyncio.get_running_loop().call_later(self._longest_s, self.done, key)
                begin()
        finally:
            self._is_calling = False


def turns() -> Turns:
    """Those of this loop, which all rooms of a process share."""
    return _OF_LOOPS.setdefault(asyncio.get_running_loop(), Turns())
