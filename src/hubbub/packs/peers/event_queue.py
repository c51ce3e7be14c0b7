"""Events of a session, queued until a caller reads them.

Reading removes events. Above the limits of count and size, old events are dropped and counted: the oldest of the source
that holds the most, so that a peer that sends a lot displaces its own messages and not those of others. A waiting
reader is woken by the first event that matches its filter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from hubbub.packs.peers import limits
from hubbub.packs.peers.js_json import stringify

Event: TypeAlias = dict[str, Any]

_DEFAULT_EVENT_BYTES: Final = 200
"""Approximate size of an event without data of a peer."""


class EventFilter(msgspec.Struct, frozen=True):
    """Selects events by type; `file_*` matches a prefix, and no types match every event."""

    types: tuple[str, ...] = ()

    def matches(self, event: Mapping[str, Any]) -> bool:
        return not self.types or any(_type_matches(event["type"], wanted) for wanted in self.types)


def _type_matches(type: str, wanted: str) -> bool:
    return type.startswith(wanted[:-1]) if wanted.endswith("*") else type == wanted


ANY_EVENT: Final = EventFilter()


class _Queued(NamedTuple):
    event: Event
    size: int
    source: str


class _SourceUsage:
    """The numbers and sizes of the queued events of one source."""

    __slots__ = ("bytes", "sizes")

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        """By event number, oldest first."""
        self.bytes = 0


class EventQueue:
    """The events of one session."""

    def __init__(self, limit: int | None = None, limit_bytes: int | None = None) -> None:
        self._limit = limits.PEER_EVENTS if limit is None else limit
        self._limit_bytes = limits.PEER_EVENTS_BYTES if limit_bytes is None else limit_bytes
        self._events: dict[int, _Queued] = {}
        """By event number, oldest first."""
        self._next_number = 0
        self._usage: dict[str, _SourceUsage] = {}
        """By source."""
        self._bytes = 0
        self._readers: dict[asyncio.Future[None], EventFilter] = {}
        self._is_closed = False
        self.dropped = 0
        """Events that were dropped before they were read."""

    def __len__(self) -> int:
        return len(self._events)

    def put(self, type: str, fields: Mapping[str, Any], size: int = _DEFAULT_EVENT_BYTES) -> None:
        """Add an event; `size` is its approximate size in bytes."""
        event = {"type": type, "ts": iso_time(), **fields}
        source, number = _event_source(fields), self._next_number
        self._next_number += 1
        self._events[number] = _Queued(event, size, source)
        usage = self._usage.get(source)
        if usage is None:
            usage = self._usage[source] = _SourceUsage()
        usage.sizes[number] = size
        usage.bytes += size
        self._bytes += size
        while len(self._events) > self._limit:
            self._drop_from(self._source_to_drop(usage, lambda each: len(each.sizes), 1, self._limit))
        while self._bytes > self._limit_bytes and len(self._events) > 1:
            self._drop_from(self._source_to_drop(usage, lambda each: each.bytes, size, self._limit_bytes))
        self._wake(event)

    def _source_to_drop(
        self, newest: _SourceUsage, load: Callable[[_SourceUsage], int], added: int, limit: int
    ) -> _SourceUsage:
        """Return the source to drop events of: the one that just added an event if it had its share, else the largest.

        The first case makes a flood cheap: no search for each event of a source that floods.
        """
        before = load(newest) - added
        if before * len(self._usage) >= limit:
            return newest
        return max(self._usage.values(), key=lambda each: before if each is newest else load(each))

    def _drop_from(self, usage: _SourceUsage) -> None:
        self._remove(next(iter(usage.sizes)))
        self.dropped += 1

    def _remove(self, number: int) -> Event:
        event, size, source = self._events.pop(number)
        usage = self._usage[source]
        del usage.sizes[number]
        usage.bytes -= size
        self._bytes -= size
        if not usage.sizes:
            del self._usage[source]
        return event

    async def read(self, count: int, wait_s: float = 0.0, wanted: EventFilter = ANY_EVENT) -> list[Event]:
        """Remove and return the oldest matching events; if there are none, wait for one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        while True:
            found = self._take(count, wanted)
            left = deadline - loop.time()
            if found or left <= 0 or self._is_closed:
                return found
            await self._wait(left, wanted)

    def close(self) -> None:
        """Wake all readers; later reads do not wait."""
        self._is_closed = True
        for future in self._readers:
            if not future.done():
                future.set_result(None)

    async def _wait(self, wait_s: float, wanted: EventFilter) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers[future] = wanted
        try:
            async with asyncio.timeout(wait_s):
                await future
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if future.done():  # It was woken but will not read, so wake another reader.
                for queued in list(self._events.values()):
                    self._wake(queued.event)
            raise
        finally:
            del self._readers[future]

    def _wake(self, event: Event) -> None:
        for future, wanted in self._readers.items():
            if not future.done() and wanted.matches(event):
                future.set_result(None)
                return  # One reader takes the event; the next event wakes the next reader.

    def _take(self, count: int, wanted: EventFilter) -> list[Event]:
        numbers: list[int] = []
        total = 0
        for number, (event, size, _) in self._events.items():
            if len(numbers) >= count:
                break
            if not wanted.matches(event):
                continue
            if numbers and total + size > limits.PEER_EVENTS_ANSWER_BYTES:
                break
            numbers.append(number)
            total += size
        return [self._remove(number) for number in numbers]


def _event_source(fields: Mapping[str, Any]) -> str:
    """Return the source of an event: the uuid of a peer, `file` for file progress, or empty for our own events."""
    uuid = fields.get("uuid") or fields.get("from_uuid")
    if uuid is None and isinstance(detail := fields.get("detail"), Mapping):
        uuid = detail.get("uuid")
    if isinstance(uuid, str):
        return uuid
    return "file" if "transfer_id" in fields else ""


def event_size(data: object) -> int:
    """Return the approximate size of an event that carries `data`."""
    return _DEFAULT_EVENT_BYTES + len(stringify(data))


def iso_time(moment: float | None = None) -> str:
    """Format a time as events have it: ISO 8601 in UTC, with milliseconds."""
    when = datetime.now(UTC) if moment is None else datetime.fromtimestamp(moment, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"
