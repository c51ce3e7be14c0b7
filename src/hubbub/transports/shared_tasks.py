"""Runs coroutines that usually end without waiting, several of them in one task.

A task costs 1.3 µs on Python 3.11, a tenth of a short call over HTTP and a third of one on stdio.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from types import coroutine
from typing import Any, Generic, TypeVar

Work = Coroutine[Any, Any, None]
Owner = TypeVar("Owner")


class SharedTasks(Generic[Owner]):
    """Starts coroutines; those that arrive in one iteration of the event loop share a task.

    One that waits keeps the task to itself, and those behind it get tasks of their own. So each runs in a task and in a
    context of its own, in order of arrival, and can be cancelled alone once it waits. None is started at once, whatever
    the loop's task factory does.

    Args:
        assign: Called with the owner of a coroutine and the task that will run it; again if it gets another task.
    """

    __slots__ = ("_arrived", "_assign", "_task")

    def __init__(self, assign: Callable[[Owner, asyncio.Task[Any]], None]) -> None:
        self._assign = assign
        self._arrived: deque[tuple[Owner, Work, Context]] | None = None
        """What `_task` will run; None if it has started, or takes no more."""
        self._task: asyncio.Task[Any] | None = None

    def start(self, owner: Owner, work: Work) -> None:
        """Run a coroutine soon."""
        task = self._task
        if self._arrived is None or task is None:
            self._arrived = deque()
            task = self._task = asyncio.Task(self._run(self._arrived))
        self._arrived.append((owner, work, copy_context()))
        self._assign(owner, task)

    def separate(self) -> None:
        """Run what arrives from now on in another task."""
        self._arrived = self._task = None

    async def _run(self, arrived: deque[tuple[Owner, Work, Context]]) -> None:
        if self._arrived is arrived:
            self.separate()
        task = asyncio.current_task()
        assert task is not None
        try:
            while arrived:
                _, work, context = arrived.popleft()
                try:
                    waits_for = context.run(work.send, None)
                except StopIteration:
                    if task.cancelling():
                        return  # by the coroutine itself: this must not reach the others
                    continue
                self._run_separately(arrived)
                await _continue(work, context, waits_for)
        finally:
            self._run_separately(arrived)

    def _run_separately(self, arrived: deque[tuple[Owner, Work, Context]]) -> None:
        while arrived:
            owner, work, context = arrived.popleft()
            self._assign(owner, asyncio.Task(work, context=context))


@coroutine
def _continue(work: Work, context: Context, waits_for: Any) -> Generator[Any, Any, None]:
    """Await a coroutine that was started in this context and waits for something."""
    step: Callable[[Any], Any]
    argument: Any
    while True:
        try:
            value = yield waits_for
        except BaseException as error:
            step, argument = work.throw, error
        else:
            step, argument = work.send, value
        try:
            waits_for = context.run(step, argument)
        except StopIteration:
            return
