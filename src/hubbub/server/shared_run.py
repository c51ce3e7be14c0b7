"""One run of a server or hub, shared by everything that uses it: the first user opens it, the last one closes it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from hubbub.errors import DefinitionError


class SharedRun:
    """One run of a context manager, shared by its concurrent users in one event loop.

    A separate task enters and exits it, because task groups and timeouts must be exited by the task that entered them.
    """

    def __init__(self, name: str, context: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """`name` is what errors call it, such as `server 'shop'`."""
        self._name = name
        self._make_context = context
        self._run: _Run | None = None
        self._lock = threading.Lock()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        """Keep the context open while the block runs; it may be entered and exited by different tasks.

        Raises what entering the context raises; the last user gets what exiting it raises.

        Raises:
            DefinitionError: it is open in another event loop.
        """
        async with self._enter_run() as run:
            yield
        if not run.users and run.error is not None:
            raise run.error

    @asynccontextmanager
    async def use_in_task(self) -> AsyncIterator[None]:
        """As `use`; but if the context ends by itself, the block is cancelled and raises the error of the context.

        A task group in a lifespan does that when one of its tasks fails: then nothing is left to serve.
        """
        task = asyncio.current_task()
        assert task is not None
        async with self._enter_run() as run:
            run.dependent_tasks.add(task)
            try:
                yield
            except asyncio.CancelledError:
                is_own_cancellation = task not in run.dependent_tasks and not task.uncancel()
                if not is_own_cancellation or run.error is None:
                    raise
            finally:
                has_ended = task not in run.dependent_tasks
                run.dependent_tasks.discard(task)
        if run.error is not None and (has_ended or not run.users):
            raise run.error

    @asynccontextmanager
    async def _enter_run(self) -> AsyncIterator[_Run]:
        while (run := self._get_or_start_run()).stop.is_set():
            await asyncio.wait([run.task])
        run.users += 1
        try:
            await asyncio.shield(run.opened)
            yield run
        finally:
            run.users -= 1
            if not run.users:
                run.stop.set()
                if not run.opened.done():
                    run.task.cancel()
                await asyncio.wait([run.task])

    def _get_or_start_run(self) -> _Run:
        with self._lock:
            run = self._run
            if run is not None and run.loop is not asyncio.get_running_loop() and not run.loop.is_closed():
                raise DefinitionError(
                    f"The {self._name} is in use in another event loop. It runs in one at a time: close the clients "
                    "and apps there first, or build another one for this loop"
                )
            if run is None or run.loop.is_closed():
                run = self._run = _Run(self._make_context())
                run.task.add_done_callback(self._clear_run)
            return run

    def _clear_run(self, task: asyncio.Task[None]) -> None:
        # Only now, and not when its last user has left: a user may be cancelled while the context is being exited.
        if self._run is not None and self._run.task is task:
            self._run = None


class _Run:
    def __init__(self, context: AbstractAsyncContextManager[None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.users = 0
        self.dependent_tasks: set[asyncio.Task[Any]] = set()
        """Tasks to cancel if the context ends by itself."""
        self.stop = asyncio.Event()
        self.opened: asyncio.Future[None] = self.loop.create_future()
        self.task = self.loop.create_task(self._hold_open(context))
        self.task.add_done_callback(self._cancel_dependents)

    @property
    def error(self) -> BaseException | None:
        """The exception that the context raised after it was entered; asyncio logs it if this is never read."""
        return self.task.exception() if self.task.done() and not self.task.cancelled() else None

    async def _hold_open(self, context: AbstractAsyncContextManager[None]) -> None:
        try:
            async with context:
                self.opened.set_result(None)
                await self.stop.wait()
        except BaseException as error:
            if self.opened.done():
                raise
            self.opened.set_exception(error)
            self.opened.exception()  # retrieved here, in case every user was cancelled meanwhile

    def _cancel_dependents(self, task: asyncio.Task[None]) -> None:
        while self.dependent_tasks:
            self.dependent_tasks.pop().cancel()
