"""Synchronous handlers, run in a bounded pool of threads so that they block nobody else."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hubbub import bounds

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class Threads:
    """A pool that starts with the first synchronous call and ends with its server."""

    def __init__(self, limit: int = bounds.TOOL_THREADS) -> None:
        self._limit = limit
        self._pool: ThreadPoolExecutor | None = None
        self._running = 0
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether a function has not returned; the interpreter would wait for it before it exits."""
        return self._running > 0

    def submit(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run a function in a thread; the future belongs to the running loop."""
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(self._limit, thread_name_prefix="hubbub-tool")
        return asyncio.get_running_loop().run_in_executor(self._pool, self._run, function)

    def close(self) -> None:
        """Take no more work. A function that never returns is left behind: threads cannot be stopped."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _run(self, function: Callable[[], Any]) -> Any:
        with self._lock:
            self._running += 1
        try:
            return function()
        finally:
            with self._lock:
                self._running -= 1


def is_being_cancelled() -> bool:
    """Whether somebody wants the running task to stop; if not, a cancellation came out of the handler itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def run_in_thread(threads: Threads, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Call a synchronous function with these arguments in a thread, in the caller's context."""
    context = contextvars.copy_context()

    def work() -> Any:
        try:
            return context.run(lambda: function(**arguments))
        except StopIteration as error:
            # A future cannot carry it before Python 3.12: the call would wait for ever.
            raise RuntimeError("StopIteration") from error

    return await threads.submit(work)
