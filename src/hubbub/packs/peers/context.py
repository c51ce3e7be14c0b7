"""State that the parts of one mesh share: its options, peers and tasks, and the listener for events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any

from hubbub.packs.peers.engine import Engine, load_engine
from hubbub.packs.peers.link import Link
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.room import Listener, RoomOptions, RoomState
from hubbub.packs.peers.roster import Roster
from hubbub.packs.peers.trust import Trust


class MeshContext:
    """Created by `Mesh` and passed to each of its parts."""

    def __init__(
        self, options: RoomOptions, listener: Listener, engine: Engine | None, clock: Callable[[], float]
    ) -> None:
        self.options = options
        self.listener = listener
        self.clock = clock
        self.state: RoomState = "idle"
        self.names = WireNames(options.password)
        self.roster = Roster(options.max_peers, clock)
        self.trust = Trust(options)
        self._given_engine = engine
        self._tasks: set[asyncio.Task[None]] = set()

    @cached_property
    def engine(self) -> Engine:
        """The WebRTC library, imported when it is first needed.

        Raises: EngineMissing.
        """
        return self._given_engine or load_engine(self.options.engine)

    def emit(self, type: str, **fields: Any) -> None:
        """Report an event to the upper half."""
        self.listener.on_event(type, fields)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task that ends with the mesh; a failure becomes an event."""
        if self.state == "stopped":
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._handle_task_end)

    def _handle_task_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.emit("sdk_error", detail={"message": type(error).__name__})

    async def cancel_tasks(self) -> None:
        """Cancel every task that `spawn` started, and wait for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def end_link(self, link: Link, reason: str) -> None:
        """End a connection; while we leave the room, only stop waiting for its other end.

        Synchronous: if the other end's `bye` and the close of its channel arrive in one turn of the event loop,
        `bye` must be recorded as the reason.
        """
        if self.state == "stopped":
            link.stop_waiting()
        else:
            link.end(reason)
