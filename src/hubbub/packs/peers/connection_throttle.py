"""Limit on how many connections a server starts at once. Its `Sessions` own it, and all rooms share it.

Making a connection takes milliseconds of CPU time at both ends. If all peers of a large room were offered one at the
same moment, all attempts would time out and be repeated. The end that offers waits for a free slot; the other end
answers immediately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

from hubbub.packs.peers import limits


class ConnectionThrottle:
    """Runs a limited number of connection attempts at once; further ones wait in order."""

    def __init__(self, limit: int | None = None, max_hold_s: float | None = None) -> None:
        self._limit = limits.PEER_CONCURRENT_CONNECTS if limit is None else limit
        self._max_hold_s = limits.PEER_CONNECT_SLOT_S if max_hold_s is None else max_hold_s
        self._active: dict[Hashable, asyncio.TimerHandle] = {}
        self._queue: dict[Hashable, Callable[[], None]] = {}
        self._low_priority_queue: dict[Hashable, Callable[[], None]] = {}
        self._is_starting = False

    def acquire(self, key: Hashable, start: Callable[[], None], *, is_low_priority: bool = False) -> None:
        """Call `start` when a slot is free, or immediately if this key has one already.

        Low-priority keys come after all others: the peer that offers them a connection may be waiting here too.
        """
        if key in self._active:
            start()
            return
        if not is_low_priority:
            self._low_priority_queue.pop(key, None)
            self._queue.setdefault(key, start)
        elif key not in self._queue:
            self._low_priority_queue.setdefault(key, start)
        self._start_next()

    def release(self, key: Hashable) -> None:
        """Release the slot of a key, or remove it from the queue; does nothing if it has neither."""
        self._queue.pop(key, None)
        self._low_priority_queue.pop(key, None)
        timer = self._active.pop(key, None)
        if timer is not None:
            timer.cancel()
            self._start_next()

    def _start_next(self) -> None:
        if self._is_starting:
            return  # `start` released its slot immediately; the loop below handles that.
        self._is_starting = True
        try:
            while (queue := self._queue or self._low_priority_queue) and len(self._active) < self._limit:
                key = next(iter(queue))
                start = queue.pop(key)
                # A slot that is never released must not block the others.
                self._active[key] = asyncio.get_running_loop().call_later(self._max_hold_s, self.release, key)
                start()
        finally:
            self._is_starting = False
