"""Limit on how many connections a server starts at once. Its `Sessions` own it, and all rooms share it.

Making a connection takes milliseconds of CPU time at both ends. If all peers of a large room were asked at the same
moment, all would be late, be given up, and be asked again. The end that asks waits for a turn; the end that is asked
answers immediately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from hubbub.packs.peers import limits


class Turns:
    """Runs a limited number of connection attempts at once; further ones wait in order."""

    def __init__(self, limit: int | None = None, longest_s: float | None = None) -> None:
        self._limit = limits.PEER_TURNS if limit is None else limit
        self._longest_s = limits.PEER_TURN_S if longest_s is None else longest_s
        self._taken: dict[Hashable, asyncio.TimerHandle] = {}
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._patient: dict[Hashable, Callable[[], None]] = {}
        self._is_calling = False

    def take(self, key: Hashable, begin: Callable[[], None], *, is_patient: bool = False) -> None:
        """Call `begin` when a turn is free, or immediately if this key has one already.

        Patient keys come after all others: the peer that should ask them may be waiting here too.
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
        """Release the turn of a key, or remove it from the queue; does nothing if it has neither."""
        self._waiting.pop(key, None)
        self._patient.pop(key, None)
        timer = self._taken.pop(key, None)
        if timer is not None:
            timer.cancel()
            self._next()

    def _next(self) -> None:
        if self._is_calling:
            return  # `begin` released its turn immediately; the loop below handles that.
        self._is_calling = True
        try:
            while (waiting := self._waiting or self._patient) and len(self._taken) < self._limit:
                key = next(iter(waiting))
                begin = waiting.pop(key)
                # A turn that is never released must not block the others.
                self._taken[key] = asyncio.get_running_loop().call_later(self._longest_s, self.done, key)
                begin()
        finally:
            self._is_calling = False
