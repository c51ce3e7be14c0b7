"""Streams that can be taken up again: numbered events, kept for a caller that comes back.

A legacy call that streams, and the stream of a session's own messages, are both one
`Stream`. Whoever appends never waits; whoever pumps writes what is new and then waits.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque

from hubbub import bounds
from hubbub.ports import HttpExchange
from hubbub.protocol.sse import encode_event

UNNUMBERED = 0
"""The id of a stream that nobody can come back to; its events have no ids."""


class EventStore:
    """What all streams of an endpoint keep, so that together they stay within bounds."""

    def __init__(
        self, *, most_events: int = bounds.STORED_EVENTS_IN_ALL, most_bytes: int = bounds.STORED_BYTES_IN_ALL
    ) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[Stream, int], int] = OrderedDict()
        self._bytes = 0

    def add(self, stream: Stream, sequence: int, size: int) -> None:
        """Count one more event; the oldest of all are forgotten when there are too many."""
        self._kept[stream, sequence] = size
        self._bytes += size
        while len(self._kept) > self._most_events or (self._bytes > self._most_bytes and len(self._kept) > 1):
            next(iter(self._kept))[0].forget_oldest()

    def remove(self, stream: Stream, sequence: int) -> None:
        """Count an event no longer."""
        self._bytes -= self._kept.pop((stream, sequence), 0)


class Stream:
    """The events of one stream, oldest first, within bounds."""

    __slots__ = ("_bytes", "_events", "_news", "_sequence", "_store", "finished", "id", "is_read")

    def __init__(self, identifier: int, store: EventStore) -> None:
        self.id = identifier
        self._store = store
        self.finished = False
        self.is_read = False
        """Whether a caller reads it now."""
        self._sequence = 0
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._news: asyncio.Event | None = None

    def prime(self) -> bytes:
        """The first event: empty, but with an id to come back to and the time to wait before."""
        return encode_event(b"", id=self._next_id(), retry_ms=bounds.RETRY_MS)

    def append(self, message: bytes) -> bytes:
        """Keep a message as an event; the encoded event."""
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
        """Give up the oldest event, if there still is one."""
        if self._events:
            sequence, event = self._events.popleft()
            self._bytes -= len(event)
            self._store.remove(self, sequence)

    def discard(self) -> None:
        """Nobody can come back any more."""
        while self._events:
            self.forget_oldest()
        self.finish()

    def finish(self) -> None:
        """Nothing more will come."""
        self.finished = True
        if self._news is not None:
            self._news.set()

    async def pump(self, exchange: HttpExchange, after: int) -> None:
        """Write what came after an event, and what comes from now on, until the stream is finished."""
        if self._news is not None:
            self._news.set()  # whoever read it before has lost it to this caller
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
    """The stream and the event that a `Last-Event-ID` names."""
    stream, _, sequence = text.partition("-")
    if not (text.isascii() and stream.isdigit() and sequence.isdigit()) or len(text) > bounds.EVENT_ID_CHARACTERS:
        return None
    return int(stream), int(sequence)
