"""Encodes the heads of HTTP responses."""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from hubbub.protocol.http_headers import HeaderList

_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}
_CACHED_FIELDS: Final = 8  # most responses have no headers of their own, or the same
_HEADER_TEXT: Final = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))
"""The bytes that a header may contain."""
_RETRY_STATUSES: Final = (429, 503)
NO_CONTENT: Final = (204, 304)
"""Statuses of responses that have no content and no Content-Length (RFC 9110, section 8.6)."""
RETRY_SOON: Final = ((b"retry-after", b"1"),)
"""What overloaded servers answer with."""
STREAM_HEADERS: Final = (
    b"content-type: text/event-stream\r\ncache-control: no-cache, no-transform\r\nx-accel-buffering: no\r\n"
)


class ResponseHeads(dict[int, bytes]):
    """By status, the first lines of a response: status line, `date` and the server's own headers.

    They are made when they are first looked up, and again when the date has changed.
    """

    def __init__(self, headers: HeaderList = ()) -> None:
        super().__init__()
        self._fields = encode_fields(tuple(headers))
        self._date = b""
        self.update_date()

    def __missing__(self, status: int) -> bytes:
        start = self[status] = b"%b%b%b" % (_STATUS_LINES[status], self._date, self._fields)
        return start

    def update_date(self) -> None:
        """Set the header `date` to the current time; called every second."""
        date = b"date: %b\r\n" % formatdate(time.time(), usegmt=True).encode()
        if date != self._date:
            self._date = date
            self.clear()

    def refusal(self, status: int, message: str) -> bytes:
        """Encode a whole response after which the connection is closed."""
        body = message.encode()
        fields = b"connection: close\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d" % len(body)
        if status in _RETRY_STATUSES:
            fields = encode_fields(RETRY_SOON) + fields
        return b"%b%b\r\n\r\n%b" % (self[status], fields, body)


@lru_cache(_CACHED_FIELDS)
def encode_fields(fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Encode header lines.

    Raises: ValueError, if a field contains a control character, which could inject other headers.
    """
    lines = [b"%b: %b\r\n" % field for field in fields]
    encoded = b"".join(lines)
    if encoded.translate(None, _HEADER_TEXT) != b"\r\n" * len(lines):
        raise ValueError("a response header contains a control character")
    return encoded
