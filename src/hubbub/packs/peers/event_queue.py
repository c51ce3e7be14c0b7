"""What happened in a session, until somebody asks.

Reading takes events away. Too many, or too large ones, push out the oldest, and how many
is told. Who waits is woken by the first event that fits its filter.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.packs.peers.javascript import stringify

Event: TypeAlias = dict[str, Any]

_USUAL_BYTES: Final = 200
"""About what an event takes that carries nothing of a peer's."""


class Filter(msgspec.Struct, frozen=True):
    """Which events are wanted: by type, `file_*` for all that begin so; none: all."""

    types: tuple[str, ...] = ()

    def wants(self, event: Mapping[str, Any]) -> bool:
        """Whether an event is wanted."""
        return not self.types or any(_is_of(event["type"], wanted) for wanted in self.types)


def _is_of(type: str, wanted: str) -> bool:
    return type.startswith(wanted[:-1]) if wanted.endswith("*") else type == wanted


ANY: Final = Filter()


class EventQueue:
    """The events of one session."""

    def __init__(self, limit: int = bounds.PEER_EVENTS, limit_bytes: int = bounds.PEER_EVENTS_BYTES) -> None:
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._events: deque[tuple[Event, int]] = deque()
        self._bytes = 0
        self._waiting: dict[asyncio.Future[None], Filter] = {}
        self._is_closed = False
        self.dropped = 0
        """Events that were pushed out before anybody read them."""

    def __len__(self) -> int:
        return len(self._events)

    def put(self, type: str, fields: Mapping[str, Any], size: int = _USUAL_BYTES) -> None:
        """Add an event; `size` is what it takes, about."""
        event = {"type": type, "ts": iso_time(), **fields}
        self._events.append((event, size))
        self._bytes += size
        while len(self._events) > self._limit or (self._bytes > self._limit_bytes and len(self._events) > 1):
            self._bytes -= self._events.popleft()[1]
            self.dropped += 1
        self._wake(event)

    async def read(self, count: int, wait_s: float = 0.0, wanted: Filter = ANY) -> list[Event]:
        """Take the oldest events that are wanted; if there are none, wait for one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            found = self._take(count, wanted)
            left = deadline - loop.time()
            if found or left <= 0 or self._is_closed:
                return found
            await self._wait(left, wanted)

    def close(self) -> None:
        """Let nobody wait any longer."""
        self._is_closed = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def _wait(self, wait_s: float, wanted: Filter) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = wanted
        try:
            async with asyncio.timeout(wait_s):
                await future
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if future.done():  # It was woken, and will not read: somebody else should.
                for event, _ in list(self._events):
                    self._wake(event)
            raise
        finally:
            del self._waiting[future]

    def _wake(self, event: Event) -> None:
        for future, wanted in self._waiting.items():
            if not future.done() and wanted.wants(event):
                future.set_result(None)
                return  # One reader takes it; the next event wakes the next.

    def _take(self, count: int, wanted: Filter) -> list[Event]:
        taken: list[Event] = []
        kept: list[tuple[Event, int]] = []
        size = 0
        while self._events and len(taken) < count:
            event, its_size = self._events.popleft()
            if not wanted.wants(event):
                kept.append((event, its_size))
                continue
            if taken and size + its_size > bounds.PEER_EVENTS_ANSWER_BYTES:
                kept.append((event, its_size))
                break
            taken.append(event)
            size += its_size
        self._events.extendleft(reversed(kept))
        self._bytes -= size
        return taken


def size_of(data: object) -> int:
    """What an event takes that carries this."""
    return _USUAL_BYTES + len(stringify(data))


def iso_time(moment: float | None = None) -> str:
    """A time as events have it: ISO 8601 in UTC, with milliseconds."""
    when = datetime.now(UTC) if moment is None else datetime.fromtimestamp(moment, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"
