"""Resumable streams: numbered events, stored for a caller that reconnects.

The stream of a legacy call and the GET stream of a session are both a `Stream`. `append`
never waits; `pump` writes new events and waits for more.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from hubbub import bounds
from hubbub.ports import HttpExchange
from hubbub.protocol.sse import encode_first_event, encode_message
from hubbub.shares import Shares

UNNUMBERED = 0
"""The id of a stream that cannot be resumed; its events have no ids."""


class EventStore:
    """Limits the stored events of all streams of an endpoint, in total and by each owner's share."""

    def __init__(self, *, max_events: int | None = None, max_bytes: int | None = None) -> None:
        self._events = Shares(bounds.TOTAL_STORED_EVENTS if max_events is None else max_events)
        self._bytes = Shares(bounds.TOTAL_STORED_BYTES if max_bytes is None else max_bytes)
        self._stored: dict[str, OrderedDict[tuple[Stream, int], int]] = {}

    def add(self, stream: Stream, sequence: int, size: int) -> None:
        """Count one more event; drop the oldest of the same owner if there are too many."""
        owner = stream.owner
        stored = self._stored.get(owner)
        while stored and not (self._events.has_room(owner) and self._bytes.has_room(owner, size)):
            next(iter(stored))[0].drop_oldest()
        if not stored:  # `remove` forgets an owner whose last event was dropped
            stored = self._stored[owner] = OrderedDict()
        stored[stream, sequence] = size
        self._events.take(owner)
        self._bytes.take(owner, size)

    def remove(self, stream: Stream, sequence: int) -> None:
        """Stop counting an event."""
        owner = stream.owner
        stored = self._stored[owner]
        size = stored.pop((stream, sequence))
        if not stored:
            del self._stored[owner]
        self._events.give_back(owner)
        self._bytes.give_back(owner, size)


class Stream:
    """The stored events of one stream, oldest first, within limits."""

    __slots__ = ("_bytes", "_events", "_sequence", "_store", "_wakeup", "has_reader", "id", "is_finished", "owner")

    def __init__(self, identifier: int, store: EventStore, owner: str = "") -> None:
        self.id = identifier
        self.owner = owner
        self._store = store
        self.is_finished = False
        self.has_reader = False
        """Whether a caller is reading it."""
        self._sequence = 0
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._wakeup: asyncio.Event | None = None

    def prime(self) -> bytes:
        """Return the first event: empty, but with an id to resume from and the retry time."""
        self._sequence += 1
        return encode_first_event(self.id, self._sequence, bounds.RETRY_MS)

    def append(self, message: bytes) -> bytes:
        """Store a message as an event; return the encoded event."""
        self._sequence = sequence = self._sequence + 1
        event = encode_message(message, self.id, sequence)
        events, size = self._events, len(event)
        events.append((sequence, event))
        self._bytes += size
        self._store.add(self, sequence, size)
        while len(events) > 1 and (
            len(events) > bounds.STORED_EVENTS_PER_STREAM or self._bytes > bounds.STORED_BYTES_PER_STREAM
        ):
            self.drop_oldest()
        if self._wakeup is not None:
            self._wakeup.set()
        return event

    def drop_oldest(self) -> None:
        """Drop the oldest event, if any."""
        if self._events:
            sequence, event = self._events.popleft()
            self._bytes -= len(event)
            self._store.remove(self, sequence)

    def discard(self) -> None:
        """Drop all events, because the stream can no longer be resumed."""
        while self._events:
            self.drop_oldest()
        self.finish()

    def finish(self) -> None:
        """Mark the stream as complete."""
        self.is_finished = True
        if self._wakeup is not None:
            self._wakeup.set()

    async def pump(self, exchange: HttpExchange, after: int) -> None:
        """Write the events after the given one, and new events until the stream is complete."""
        if self._wakeup is not None:
            self._wakeup.set()  # stop the previous reader; this caller takes over the stream
        self._wakeup = wakeup = asyncio.Event()
        self.has_reader = True
        try:
            await self._write_new_events(exchange, after, wakeup)
        finally:
            if self._wakeup is wakeup:
                self._wakeup = None
                self.has_reader = False

    async def _write_new_events(self, exchange: HttpExchange, after: int, wakeup: asyncio.Event) -> None:
        last_written = after
        while self._wakeup is wakeup:
            for sequence, event in [item for item in self._events if item[0] > last_written]:
                await exchange.write(event)
                last_written = sequence
            if self.is_finished:
                return
            if self._events and self._events[-1][0] > last_written:
                continue
            wakeup.clear()
            await wakeup.wait()

    @property
    def position(self) -> int:
        """The number of the newest event."""
        return self._sequence


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Parse a `Last-Event-ID` into the ids of the stream and the event; None if it is invalid."""
    stream, _, sequence = text.partition("-")
    if not (text.isascii() and stream.isdigit() and sequence.isdigit()) or len(text) > bounds.EVENT_ID_CHARACTERS:
        return None
    return int(stream), int(sequence)
