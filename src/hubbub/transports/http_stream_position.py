"""The reading position of one event stream: what was read, and after how long and where to resume it."""

from __future__ import annotations

from hubbub import bounds
from hubbub.errors import EventTooLarge, MessageTooLarge, TransportError
from hubbub.net.backoff import Backoff
from hubbub.protocol.sse import Event, EventDecoder


class StreamPosition:
    """Reading position of one stream, across reconnects."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._decoder = EventDecoder(limit + bounds.EVENT_FIELD_BYTES)
        self._backoff = Backoff(bounds.STREAM_RETRY_PAUSES_S, jitter=0)
        self._retry_ms: int | None = None
        self._last_id = ""
        self.reconnects = 0

    @property
    def last_id(self) -> str:
        """The event id to resume after."""
        return self._decoder.last_id or self._last_id

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that these bytes complete."""
        try:
            return self._decoder.feed(chunk)
        except MessageTooLarge:
            raise event_too_large(self._limit) from None

    def resume(self) -> None:
        """Continue on a new connection."""
        self._last_id = self.last_id
        self._retry_ms = self._current_retry_ms if self._decoder.retry_ms is None else self._decoder.retry_ms
        self._decoder = EventDecoder(self._limit + bounds.EVENT_FIELD_BYTES)

    def wait_s(self) -> float:
        """How long to wait before reconnecting: exactly what the server asked for, or longer each time."""
        retry_ms = self._current_retry_ms
        if retry_ms is not None:
            return min(retry_ms / 1000, bounds.RETRY_MAX_S)
        self._backoff.failures = max(self.reconnects - 1, 0)
        return self._backoff.next_s()

    @property
    def _current_retry_ms(self) -> int | None:
        return self._retry_ms if self._decoder.retry_ms is None else self._decoder.retry_ms


def event_too_large(limit: int) -> TransportError:
    """Return the error for an event that is larger than a response may be."""
    return EventTooLarge(f"The server sent an event of more than {limit} bytes", {"max_bytes": limit})
