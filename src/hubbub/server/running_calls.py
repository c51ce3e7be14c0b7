"""The running calls of one client, by request id.

One table for a connection, for a session over HTTP, and for a batch without a session. An id
stays in use until its call has ended, even if the client cancelled it.
"""

from __future__ import annotations

import asyncio

from msgspec import Raw

from hubbub.errors import IdInUse, Overloaded
from hubbub.protocol.jsonrpc import id_key
from hubbub.transports.shared_tasks import SharedTasks, Work

CallTask = asyncio.Task[object]


class RunningCalls(dict[bytes, CallTask]):
    """The task of each running call."""

    __slots__ = ("_cancelled", "_tasks", "start_soon")

    def __init__(self) -> None:
        super().__init__()
        self._cancelled: set[bytes] | None = None
        self._tasks: SharedTasks[bytes] = SharedTasks(self.__setitem__)
        self.start_soon = self._tasks.start
        """Serve a call in a task that it shares with calls that end without waiting; its coroutine must call `end`.

        The caller must keep the task that it returns here, under the key of the call.
        """

    def reserve(self, identifier: Raw, limit: int | None = None) -> bytes:
        """Return the key for a new call with this id.

        Raises:
            IdInUse: a running call has the same id.
            Overloaded: `limit` calls are already running.
        """
        key = id_key(identifier)
        if key in self:
            raise IdInUse(key.decode())
        if limit is not None and len(self) >= limit:
            raise Overloaded("calls in this session", limit)
        return key

    def start(self, key: bytes, work: Work) -> CallTask:
        """Serve a call in a new task; `work` must call `end`."""
        # Never eager, whatever the loop's task factory does: calls, changes and cancellations take effect in order of
        # arrival on every Python. Eager tasks (3.12) saved 5 % of CPU per call on stdio, which is noise.
        task: CallTask = asyncio.Task(work)
        self[key] = task
        return task

    async def wait(self, timeout_s: float) -> None:
        """Wait until all calls have ended, or the time is over."""
        clock = asyncio.get_running_loop().time
        end = clock() + timeout_s
        # Repeated, because calls can get another task while this waits.
        while (tasks := {task for task in self.values() if not task.done()}) and (left_s := end - clock()) > 0:
            await asyncio.wait(tasks, timeout=left_s)

    def end(self, key: bytes) -> None:
        """Remove a call that was answered or cancelled."""
        del self[key]
        if self._cancelled is not None:
            self._cancelled.discard(key)

    def is_cancelled(self, key: bytes) -> bool:
        """Whether the client cancelled this call or ended its session."""
        return self._cancelled is not None and key in self._cancelled

    def cancel(self, identifier: Raw) -> None:
        """Cancel a call because its client asked for it; does nothing if it is not running."""
        self._cancel(id_key(identifier))

    def cancel_all(self) -> None:
        """Cancel every call, because the client ended its session or disconnected."""
        for key in list(self):
            self._cancel(key)

    def _cancel(self, key: bytes) -> None:
        task = self.get(key)
        if task is None:
            return
        self._cancelled = self._cancelled or set()
        self._cancelled.add(key)
        self._tasks.close_batch()  # so that calls which arrive later start after the cancellation
        # Only after its first step: a task that never started would never clean up.
        asyncio.get_running_loop().call_soon(self._cancel_started, key, task)

    def _cancel_started(self, key: bytes, task: CallTask) -> None:
        current = self.get(key)
        if current is task:
            task.cancel()
        elif current is not None and self.is_cancelled(key):  # it got another task, which has not started
            asyncio.get_running_loop().call_soon(self._cancel_started, key, current)
        # Otherwise the call has been answered, and its task may serve another one.
