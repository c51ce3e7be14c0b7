"""Splits received data at the ends of requests, and compares each request line with the one that llhttp parsed.

Without reporting them, llhttp accepts several spaces in a request line, CR or LF alone before it, and `RTSP/1.0` as
HTTP/1.0. A request whose head repeats the last one is compared with it byte by byte instead.
"""

from __future__ import annotations

from typing import Final

from hubbub.protocol.refusal import Refusal

_LINE_END: Final = b"\r\n"
_END: Final = b"\r\n\r\n"
"""The end of a head or a chunked body. Splitting elsewhere in a body changes nothing."""
MAX_LENGTH_DIGITS: Final = 20
"""The largest length that llhttp accepts has 20 digits. `int` fails for more than 4,300."""
WRONG_LINE: Final = Refusal(400, "Malformed request line; send `METHOD target HTTP/1.1` with single spaces")
LONG_LENGTH: Final = Refusal(
    400, f"Content-Length has more than {MAX_LENGTH_DIGITS} digits; send it without leading zeros"
)


class RequestLines:
    """Finds the request lines in what one connection receives."""

    __slots__ = ("_body_bytes_left", "_is_in_line", "_line", "_tail")

    def __init__(self) -> None:
        self._line = b""
        """The line of the current request, as received so far."""
        self._is_in_line = True
        self._tail = b""
        """The last bytes before this data, which may be the first bytes of `_END`."""
        self._body_bytes_left = 0

    def find_end(self, data: bytes, start: int, max_bytes: int) -> int:
        """Return where the piece that begins at `start` ends: at the end of the request, or before it."""
        size = len(data)
        if self._body_bytes_left:
            end = min(start + self._body_bytes_left, size)
            self._body_bytes_left -= end - start
            return end
        if size - start > max_bytes:
            size = start + max_bytes
        if self._is_in_line:
            start = self._read_line(data, start, size)
        if self._tail:
            joined = self._tail + data[start : min(start + len(_END) - 1, size)]
            found = joined.find(_END)
            if found >= 0:
                end = start + found + len(_END) - len(self._tail)
                self._tail = b""
                return end
        found = data.find(_END, start, size)
        if found >= 0:
            self._tail = b""
            return found + len(_END)
        self._tail = (self._tail + data[max(start, size - len(_END) + 1) : size])[1 - len(_END) :]
        return size

    def _read_line(self, data: bytes, start: int, size: int) -> int:
        """Keep the request line; return where it begins, after empty lines (RFC 9112, section 2.2)."""
        while start < size:
            end = data.find(b"\n", start, size) + 1
            self._line += data[start : end or size]
            if self._line != _LINE_END:
                self._is_in_line = not end
                break
            self._line = self._tail = b""
            start = end
        return start

    def check(self, method: bytes, target: bytes, version: str, length: bytes | None) -> Refusal | None:
        """Refuse a head whose line differs from these parts, or whose length is too long for a number."""
        if self._line != b"%b %b HTTP/%b\r\n" % (method, target, version.encode()):
            return WRONG_LINE
        if length is not None:
            if len(length.strip()) > MAX_LENGTH_DIGITS:
                return LONG_LENGTH
            self._body_bytes_left = int(length)
        return None

    def end_request(self) -> None:
        """Expect the line of the next request."""
        self._line = self._tail = b""
        self._is_in_line = True
        self._body_bytes_left = 0
