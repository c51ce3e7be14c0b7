"""Encode and decode server-sent events by the rules of the WHATWG HTML standard.

The data of an event stays bytes: it holds a JSON-RPC message, whose decoder checks
UTF-8 itself. The HTTP server encodes and the HTTP client decodes; they also open,
resume and pace the streams.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.errors import DefinitionError, MessageTooLarge

KEEP_ALIVE: Final = b": keep-alive\n\n"
"""A comment that keeps proxies from closing a quiet stream."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_UNSAFE: Final = re.compile("[\r\n\0]")
_RETRY_DIGITS: Final = 15


class Event(msgspec.Struct, frozen=True):
    """One event as it was dispatched."""

    event: str = "message"
    data: bytes = b""
    id: str | None = None
    """The id of this event itself; `EventDecoder.last_id` keeps the last id of the stream."""
    retry: int | None = None
    """Reconnection time in milliseconds, if this event contains one."""


def encode_event(data: bytes, *, event: str | None = None, id: str | None = None, retry_ms: int | None = None) -> bytes:
    """Encode one event; an id with empty data primes a stream for resuming."""
    head = b""
    if event is not None:
        head = b"event: %b\n" % _field_value("event name", event)
    if id is not None:
        head += b"id: %b\n" % _field_value("event id", id)
    if retry_ms is not None:
        if retry_ms < 0:
            raise DefinitionError(f"The retry time of an event must not be negative: {retry_ms}")
        head += b"retry: %d\n" % retry_ms
    return b"%bdata: %b\n\n" % (head, _split_lines(data))


def encode_message(message: bytes, stream: int = 0, sequence: int = 0) -> bytes:
    """Encode an event that is a JSON-RPC message, with an id if the stream has a number."""
    if message.find(b"\n") >= 0 or message.find(b"\r") >= 0:  # `in` is slower: it tries an integer first
        message = _split_lines(message)
    if stream > 0:
        return b"event: message\nid: %d-%d\ndata: %b\n\n" % (stream, sequence, message)
    return b"event: message\ndata: %b\n\n" % message


def encode_first_event(stream: int, sequence: int, retry_ms: int) -> bytes:
    """Encode an event without data, but with an id to resume from and the retry time."""
    return b"id: %d-%d\nretry: %d\ndata: \n\n" % (stream, sequence, retry_ms)


def _split_lines(data: bytes) -> bytes:
    return b"\ndata: ".join(_LINE_END.split(data))


def _field_value(what: str, value: str) -> bytes:
    if not value.isprintable() and _UNSAFE.search(value):
        raise DefinitionError(f"An {what} must not contain line breaks or NUL: {value!r}")
    return value.encode()


class EventDecoder:
    """Decodes the chunks of a stream, cut anywhere, into events."""

    __slots__ = (
        "_after_carriage_return",
        "_data",
        "_event",
        "_failure",
        "_id",
        "_limit",
        "_pending",
        "_retry",
        "_size",
        "_start",
        "last_id",
        "retry_ms",
    )

    def __init__(self, limit: int | None = None) -> None:
        self.last_id = ""
        """What to send as `Last-Event-ID` when the stream is opened again."""
        self.retry_ms: int | None = None
        """How long the server asks to wait before that, if it ever did."""
        self._limit = bounds.EVENT_BYTES if limit is None else limit
        self._start: bytes | None = b""  # held back until it cannot be a byte order mark
        self._after_carriage_return = False
        self._failure: MessageTooLarge | None = None
        self._pending = bytearray()
        self._data: list[bytes]
        self._event: str
        self._id: str | None
        self._retry: int | None
        self._size: int  # of the fields of this event so far
        self._clear()

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes; return the events they complete.

        Raises: MessageTooLarge, from the first event over the limit on, once the
        events before it have been returned. The stream cannot be read further.
        """
        if self._failure:
            raise self._failure
        events: list[Event] = []
        try:
            self._feed_lines(self._strip_byte_order_mark(chunk), events)
        except MessageTooLarge as failure:
            self._failure = failure
            self._pending.clear()
            self._clear()
            if not events:
                raise
        return events

    def _strip_byte_order_mark(self, chunk: bytes) -> bytes:
        if self._start is None:
            return chunk
        start = self._start + chunk
        if len(start) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_BYTE_ORDER_MARK)

    def _feed_lines(self, chunk: bytes, events: list[Event]) -> None:
        if not chunk:
            return
        if self._after_carriage_return and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_carriage_return = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            buffered = bytes(self._pending)
            self._pending.clear()
            self._handle_line(buffered + line, events)
        self._pending += rest
        if len(self._pending) > self._limit:
            raise MessageTooLarge("A server-sent event", self._limit)

    def _handle_line(self, line: bytes, events: list[Event]) -> None:
        if not line:
            self._dispatch(events)
            return
        is_comment = line.startswith(b":")
        self._size += 0 if is_comment else len(line)
        if max(self._size, len(line)) > self._limit:
            raise MessageTooLarge("A server-sent event", self._limit)
        if not is_comment:
            name, _, value = line.partition(b":")
            self._handle_field(name, value.removeprefix(b" "))

    def _handle_field(self, name: bytes, value: bytes) -> None:
        match name:
            case b"data":
                self._data.append(value)
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit() and len(value) <= _RETRY_DIGITS:
                self._retry = self.retry_ms = int(value)

    def _dispatch(self, events: list[Event]) -> None:
        if self._id is not None:
            self.last_id = self._id
        if self._data:
            data = b"\n".join(self._data)
            events.append(Event(event=self._event or "message", data=data, id=self._id, retry=self._retry))
        self._clear()

    def _clear(self) -> None:
        self._data = []
        self._event = ""
        self._id = None
        self._retry = None
        self._size = 0
