"""Pauses the timeouts of requests while a person logs in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Final, Protocol


class Timeout(Protocol):
    """What `asyncio.Timeout` and the deadlines of clients have in common."""

    def when(self) -> float | None:
        """The time on the event loop's clock; None: never."""

    def reschedule(self, when: float | None, /) -> None:
        """Move it."""

    def expired(self) -> bool:
        """Whether it has passed."""


class _Pausable:
    """A timeout within its block. Tasks that were started there may outlive it."""

    def __init__(self, timeout: Timeout) -> None:
        self.timeout = timeout
        self.is_active = True

    def left_s(self, now: float) -> float | None:
        """Return the seconds until it passes; None if it cannot pass (any more)."""
        when = self.timeout.when() if self.is_active and not self.timeout.expired() else None
        return None if when is None else when - now


_pausable_timeouts: Final[ContextVar[tuple[_Pausable, ...]]] = ContextVar("hubbub_timeouts", default=())


@contextlib.contextmanager
def pausable(timeout: Timeout | None) -> Iterator[None]:
    """Let `paused_timeouts` pause this timeout within the block."""
    if timeout is None:
        yield
        return
    entry = _Pausable(timeout)
    token = _pausable_timeouts.set((*_pausable_timeouts.get(), entry))
    try:
        yield
    finally:
        entry.is_active = False
        _pausable_timeouts.reset(token)


@contextlib.contextmanager
def paused_timeouts() -> Iterator[None]:
    """Stop the pausable timeouts around this block. They go on afterwards with the time that was left."""
    clock = asyncio.get_running_loop().time
    now = clock()
    paused = [(entry, left_s) for entry in _pausable_timeouts.get() if (left_s := entry.left_s(now)) is not None]
    for entry, _ in paused:
        entry.timeout.reschedule(None)
    try:
        yield
    finally:
        for entry, left_s in paused:
            if entry.is_active and not entry.timeout.expired():
                entry.timeout.reschedule(clock() + left_s)
