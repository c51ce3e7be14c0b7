"""Streams that can be taken up again: numbered events, kept for a caller that comes back.

A legacy call that streams, and the stream of a session's own messages, are both one
`Stream`. Whoever appends never waits; whoever pumps writes what is new and then waits.
"""

from __future__ import annotations

import asyncio
from collections import deque

from hubbub import bounds
from hubbub.ports import HttpExchange
from hubbub.protocol.sse import encode_event


class Stream:
    """The events of one stream, oldest first, within bounds."""

    __slots__ = ("_bytes", "_events", "_news", "_sequence", "finished", "id")

    def __init__(self, identifier: int) -> None:
        self.id = identifier
        self.finished = False
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
        while len(self._events) > bounds.STORED_EVENTS or (
            self._bytes > bounds.STORED_EVENT_BYTES and len(self._events) > 1
        ):
            self._bytes -= len(self._events.popleft()[1])
        if self._news is not None:
            self._news.set()
        return event

    def finish(self) -> None:
        """Nothing more will come."""
        self.finished = True
        if self._news is not None:
            self._news.set()

    async def pump(self, exchange: HttpExchange, after: int) -> None:
        """Write what came after an event, and what comes from now on, until the stream is finished."""
        self._news = news = asyncio.Event()
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

    def _next_id(self) -> str:
        self._sequence += 1
        return f"{self.id}-{self._sequence}"


def parse_event_id(text: str) -> tuple[int, int] | None:
    """The stream and the event that a `Last-Event-ID` names."""
    stream, _, sequence = text.partition("-")
    if not (stream.isdigit() and sequence.isdigit()) or len(text) > bounds.EVENT_ID_CHARACTERS:
        return None
    return int(stream), int(sequence)
