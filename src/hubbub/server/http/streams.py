"""Resumable streams: numbered events, stored for a caller that reconnects.

The stream of a legacy call and the GET stream of a session are both a `Stream`. `append`
never waits; `pump` writes new events and waits for more.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from hubbub import bounds
from hubbub.ports import HttpExchange
from hubbub.protocol.sse import encode_event
from hubbub.shares import Shares

UNNUMBERED = 0
"""The id of a stream that cannot be resumed; its events have no ids."""


class EventStore:
    """Limits the stored events of all streams of an endpoint, in total and by each owner's share."""

    def __init__(self, *, most_events: int | None = None, most_bytes: int | None = None) -> None:
        self._events = Shares(bounds.STORED_EVENTS_IN_ALL if most_events is None else most_events)
        self._bytes = Shares(bounds.STORED_BYTES_IN_ALL if most_bytes is None else most_bytes)
        self._kept: dict[str, OrderedDict[tuple[Stream, int], int]] = {}

    def add(self, stream: Stream, sequence: int, size: int) -> None:
        """Count one more event; drop the oldest of the same owner if there are too many."""
        owner = stream.owner
        kept = self._kept.setdefault(owner, OrderedDict())
        while kept and not (self._events.has_room(owner) and self._bytes.has_room(owner, size)):
            next(iter(kept))[0].forget_oldest()
        self._kept[owner] = kept  # it was removed when all of it was dropped
        kept[stream, sequence] = size
        self._events.take(owner)
        self._bytes.take(owner, size)

    def remove(self, stream: Stream, sequence: int) -> None:
        """Stop counting an event."""
        owner = stream.owner
        size = self._kept[owner].pop((stream, sequence))
        if not self._kept[owner]:
            del self._kept[owner]
        self._events.give_back(owner)
        self._bytes.give_back(owner, size)


class Stream:
    """The stored events of one stream, oldest first, within limits."""

    __slots__ = ("_bytes", "_events", "_news", "_sequence", "_store", "finished", "id", "is_read", "owner")

    def __init__(self, identifier: int, store: EventStore, owner: str = "") -> None:
        self.id = identifier
        self.owner = owner
        self._store = store
        self.finished = False
        self.is_read = False
        """Whether a caller is reading it."""
        self._sequence = 0
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._news: asyncio.Event | None = None

    def prime(self) -> bytes:
        """Return the first event: empty, but with an id to resume from and the retry time."""
        return encode_event(b"", id=self._next_id(), retry_ms=bounds.RETRY_MS)

    def append(self, message: bytes) -> bytes:
        """Store a message as an event; return the encoded event."""
        event = encode_event(message, event="message", id=self._next_id())
        self._events.append((self._sequence, event))
        self._bytes += len(event)
        self._store.add(self, self._sequence, len(event))
        while len(self._events) > bounds.STORED_EVENTS or (
            self._bytes > bounds.STORED_EVENT_BYTES and len(self._events) > 1
        ):
            self.forget_oldest()
        if self._news is not None:
            self._news.set()
        return event

    def forget_oldest(self) -> None:
        """Drop the oldest event, if any."""
        if self._events:
            sequence, event = self._events.popleft()
            self._bytes -= len(event)
            self._store.remove(self, sequence)

    def discard(self) -> None:
        """Drop all events, because the stream can no longer be resumed."""
        while self._events:
            self.forget_oldest()
        self.finish()

    def finish(self) -> None:
        """Mark the stream as complete."""
        self.finished = True
        if self._news is not None:
            self._news.set()

    async def pump(self, exchange: HttpExchange, after: int) -> None:
        """Write the events after the given one, and new events until the stream is complete."""
        if self._news is not None:
            self._news.set()  # stop the previous reader; this caller takes over the stream
        self._news = news = asyncio.Event()
        self.is_read = True
        try:
            await self._write_news(exchange, after, news)
        finally:
            if self._news is news:
                self._news = None
                self.is_read = False

    async def _write_news(self, exchange: HttpExchange, after: int, news: asyncio.Event) -> None:
        written = after
        while self._news is news:
            for sequence, event in [item for item in self._events if item[0] > written]:
                await exchange.write(event)
                written = sequence
            if self.finished:
                return
            if self._events and self._events[-1][0] > written:
                continue
            news.clear()
            await news.wait()

    @property
    def position(self) -> int:
        """The number of the newest event."""
        return self._sequence

    def _next_id(self) -> str | None:
        self._sequence += 1
        return None if self.id == UNNUMBERED else f"{self.id}-{self._sequence}"


def parse_event_id(text: str) -> tuple[int, int] | None:
    """Parse a `Last-Event-ID` into the ids of the stream and the event; None if it is invalid."""
    stream, _, sequence = text.partition("-")
    if not (text.isascii() and stream.isdigit() and sequence.isdigit()) or len(text) > bounds.EVENT_ID_CHARACTERS:
        return None
    return int(stream), int(sequence)
