"""A bound in time for what one task waits for, which can stand still meanwhile.

What `asyncio.timeout` does, for a fraction of its cost: every request has one. Also
unlike there, the one whose time is up asks `has_struck` instead of catching an error.
"""

from __future__ import annotations

import asyncio


class Clock:
    """Runs from when it is made; cancels the task that made it once the time is up."""

    __slots__ = ("_cancelling", "_handle", "_has_struck", "_loop", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float | None) -> None:
        task = asyncio.current_task(loop)
        assert task is not None
        self._loop = loop
        self._task = task
        self._cancelling = task.cancelling()
        self._has_struck = False
        self._handle = None if seconds is None else loop.call_later(seconds, self._strike)

    @property
    def left_s(self) -> float | None:
        """How much time is left; None if it does not run."""
        return None if self._handle is None else self._handle.when() - self._loop.time()

    def stop(self) -> None:
        """Let the task wait as long as it likes."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def go_on(self, seconds: float) -> None:
        """Run again."""
        self.stop()
        if not self._has_struck:
            self._handle = self._loop.call_later(seconds, self._strike)

    def has_struck(self) -> bool:
        """Whether it was the clock that cancelled the task, and nobody else besides; asked once, when cancelled."""
        return self._has_struck and self._task.uncancel() <= self._cancelling

    def _strike(self) -> None:
        self._handle = None
        self._has_struck = True
        self._task.cancel()
