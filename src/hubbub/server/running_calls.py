"""The running calls of one client, by request id.

One table for a connection, for a session over HTTP, and for a batch without a session. An id
stays in use until its call has ended, even if the client cancelled it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from msgspec import Raw

from hubbub.errors import IdInUse, Overloaded
from hubbub.protocol.jsonrpc import id_key

CallTask = asyncio.Task[object]


class RunningCalls(dict[bytes, CallTask]):
    """The task of each running call."""

    __slots__ = ("_cancelled",)

    def __init__(self) -> None:
        super().__init__()
        self._cancelled: set[bytes] | None = None

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

    def start(self, key: bytes, work: Coroutine[object, object, None]) -> CallTask:
        """Serve a call in a new task; `work` must call `end`."""
        # Never eager, whatever the loop's task factory does: calls, changes and cancellations take effect in order of
        # arrival on every Python. Eager tasks (3.12) saved 5 % of CPU per call on stdio, which is noise.
        task: CallTask = asyncio.Task(work)
        self[key] = task
        return task

    def start_in_current_task(self, key: bytes) -> None:
        """Serve a call in the current task, which must call `end`."""
        task = asyncio.current_task()
        assert task is not None
        self[key] = task

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
        # Only after its first step: a task that never started would never clean up.
        asyncio.get_running_loop().call_soon(self._cancel_started, key, task)

    def _cancel_started(self, key: bytes, task: CallTask) -> None:
        if self.get(key) is task:  # otherwise the task has already answered and does something else
            task.cancel()
