"""A bounded thread pool for synchronous handlers, so that they do not block the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from hubbub import bounds
from hubbub.shares import SharedSlots

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


class Threads:
    """A pool that starts with the first synchronous call and ends with its server."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit = bounds.TOOL_THREADS if limit is None else limit
        self._pool: ThreadPoolExecutor | None = None
        self._slots = SharedSlots(limit)
        self._running_count = 0
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether a function has not returned; the interpreter would wait for it before it exits."""
        return self._running_count > 0

    async def run(self, function: Callable[[], Any], owner: str) -> Any:
        """Run a function in a thread; calls above their owner's share wait until other calls of that owner end."""
        if not owner:
            return await asyncio.wrap_future(self._submit(function))
        loop = asyncio.get_running_loop()
        await self._slots.take(owner)
        job = self._submit(function)
        # Not when its caller stops waiting, because the function runs until it returns.
        job.add_done_callback(lambda _: _call_in_loop(loop, partial(self._slots.give_back, owner)))
        return await asyncio.wrap_future(job)

    def _submit(self, function: Callable[[], Any]) -> Future[Any]:
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._limit, thread_name_prefix="hubbub-tool")
        return self._pool.submit(self._run, function)

    def close(self) -> None:
        """Accept no more work. A function that never returns is abandoned: threads cannot be stopped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _run(self, function: Callable[[], Any]) -> Any:
        with self._lock:
            self._running_count += 1
        try:
            return function()
        finally:
            with self._lock:
                self._running_count -= 1


def _call_in_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Schedule a callback from a thread that may outlive the loop."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)


def is_being_cancelled() -> bool:
    """Whether the running task was cancelled; if not, a `CancelledError` was raised by the handler itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def run_in_thread(
    threads: Threads, function: Callable[..., Any], arguments: dict[str, Any], owner: str = ""
) -> Any:
    """Call a synchronous function with these arguments in a thread, in the caller's context and its owner's share."""
    context = contextvars.copy_context()

    def job() -> Any:
        try:
            return context.run(lambda: function(**arguments))
        except StopIteration as error:
            # Before Python 3.12 a future cannot carry it: the call would never end.
            raise RuntimeError("StopIteration") from error

    return await threads.run(job, owner)
