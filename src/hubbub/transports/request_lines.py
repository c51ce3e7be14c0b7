"""Splits received data at the ends of requests, and checks what llhttp accepts without reporting it.

These are several spaces in a request line, line ends before it, `RTSP/1.0` as HTTP/1.0, and any number of zeros before
a length or the size of a chunk. A request whose head repeats the last one is compared with it byte by byte instead.
"""

from __future__ import annotations

import re
from typing import Final

from hubbub.errors import HubbubError
from hubbub.protocol.refusal import Refusal

_END: Final = b"\r\n\r\n"
"""The end of a head or of trailers. Splitting elsewhere in a body changes nothing."""
_LINE_END: Final = b"\r\n"
MAX_LENGTH_DIGITS: Final = 20
"""The largest length that llhttp accepts has 20 digits. `int` fails for more than 4,300."""
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"
_CHUNK_SIZE_LINE: Final = re.compile(rb"([%b]{1,%d})(?![%b])[^\n]*\n" % (_HEX_DIGITS, MAX_LENGTH_DIGITS, _HEX_DIGITS))
"""A complete line that begins a chunk."""
WRONG_LINE: Final = Refusal(400, "Malformed request line; send `METHOD target HTTP/1.1` with single spaces")
LEADING_LINE_END: Final = "Malformed request: a line end precedes the request line; send nothing between requests"
LONG_LENGTH: Final = Refusal(
    400, f"Content-Length has more than {MAX_LENGTH_DIGITS} digits; send it without leading zeros"
)
LONG_CHUNK_SIZE: Final = f"The size of a chunk has more than {MAX_LENGTH_DIGITS} digits; send it without leading zeros"


class InvalidLine(HubbubError):
    """A line that llhttp accepts, but this server refuses. The text is sent to the caller."""


class RequestLines:
    """Finds the request lines, and the sizes of chunks, in what one connection receives."""

    __slots__ = ("_body_bytes_left", "_chunk_size_line", "_is_in_chunks", "_is_in_line", "_line", "_tail")

    def __init__(self) -> None:
        self._line = b""
        """The line of the current request, as received so far."""
        self._is_in_line = True
        self._tail = b""
        """The last bytes before this data, which may be the first bytes of `_END`."""
        self._body_bytes_left = 0
        """Bytes left of a body with a length, or of a chunk and the line end after it."""
        self._is_in_chunks = False
        self._chunk_size_line = b""
        """The first bytes of the line that begins a chunk, as received so far."""

    def find_end(self, data: bytes, start: int, max_bytes: int) -> int:
        """Return where the piece that begins at `start` ends: at the end of the request, or before it.

        Raises: InvalidLine.
        """
        size = len(data)
        if self._body_bytes_left and not self._is_in_chunks:
            end = min(start + self._body_bytes_left, size)
            self._body_bytes_left -= end - start
            return end
        if size - start > max_bytes:
            size = start + max_bytes
        if self._is_in_line:
            self._read_line(data, start, size)
        elif self._is_in_chunks:
            start = self._skip_chunks(data, start, size)
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

    def _read_line(self, data: bytes, start: int, size: int) -> None:
        if not self._line and data[start] in _LINE_END:
            # Refused at once: the parser skips it, so that the next request might be one that needs no parser.
            raise InvalidLine(LEADING_LINE_END)
        end = data.find(b"\n", start, size) + 1
        self._line += data[start : end or size]
        self._is_in_line = not end

    def _skip_chunks(self, data: bytes, start: int, size: int) -> int:
        """Return where the trailers begin; `size` if they do not begin before it."""
        start += self._body_bytes_left
        while start < size:
            line = None if self._chunk_size_line else _CHUNK_SIZE_LINE.match(data, start, size)
            if line is not None:
                digits, end = line[1], line.end()
            else:
                end = data.find(b"\n", start, size) + 1
                digits = self._read_chunk_size(data[start : end or size])
                if not end:
                    self._body_bytes_left = 0
                    return size
                self._chunk_size_line = b""
            chunk_bytes = int(digits or b"0", 16)  # llhttp refuses a line without digits
            if not chunk_bytes:
                self._is_in_chunks = False
                self._body_bytes_left = 0
                self._tail = _LINE_END
                return end
            start = end + chunk_bytes + len(_LINE_END)
        self._body_bytes_left = start - size
        return size

    def _read_chunk_size(self, piece: bytes) -> bytes:
        """Keep a piece of the line that begins a chunk; return the digits of its size."""
        self._chunk_size_line = (self._chunk_size_line + piece[: MAX_LENGTH_DIGITS + 1])[: MAX_LENGTH_DIGITS + 1]
        digits = self._chunk_size_line[: len(self._chunk_size_line) - len(self._chunk_size_line.lstrip(_HEX_DIGITS))]
        if len(digits) > MAX_LENGTH_DIGITS:
            raise InvalidLine(LONG_CHUNK_SIZE)
        return digits

    def check(
        self, method: bytes, target: bytes, version: str, length: bytes | None, *, is_chunked: bool
    ) -> Refusal | None:
        """Refuse a head whose line differs from these parts, or whose length is too long for a number."""
        if self._line != b"%b %b HTTP/%b\r\n" % (method, target, version.encode()):
            return WRONG_LINE
        if length is not None:
            if len(length.strip()) > MAX_LENGTH_DIGITS:
                return LONG_LENGTH
            self._body_bytes_left = int(length)
        self._is_in_chunks = is_chunked
        return None

    def end_request(self) -> None:
        """Expect the line of the next request."""
        self._line = self._chunk_size_line = self._tail = b""
        self._is_in_line = True
        self._is_in_chunks = False
        self._body_bytes_left = 0
