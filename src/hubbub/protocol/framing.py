"""Split a byte stream into messages, and frame messages for sending.

Two framings are recognized, message by message: JSON on one line, and a block of
headers with `Content-Length` followed by that many bytes. No JSON text starts
with a letter and a colon, so a line that does starts a header block.

This module does not parse JSON and does no I/O; the stdio transport feeds it. A message
that is too large is skipped and only its first and last bytes are kept, so memory stays near
the limit and the messages after it are still served. It is reported at its end, with these
bytes, because its id is among them; a message that continues for `SKIPPED_BYTES` more is
reported at that point, with its first bytes only, as it may never end.
"""

from __future__ import annotations

import re
from typing import Final

from hubbub import bounds
from hubbub.errors import InvalidRequest, MessageError, MessageTooLarge, ParseError

_HEADER: Final = re.compile(rb"[A-Za-z][A-Za-z0-9-]*[ \t]*:")
_LENGTH_AT_END: Final = re.compile(rb"content-length[ \t]*:[ \t]*[0-9]+[ \t]*\Z", re.IGNORECASE)
_LENGTH_AT_END_BYTES: Final = 64
# More digits than this cannot be a number of bytes, and int() raises above 4300 digits.
_LENGTH_DIGITS: Final = 32

_Output = list[bytes | MessageError]


def encode_line(message: bytes) -> bytes:
    """Frame one JSON text as a line.

    Raw line breaks in JSON are whitespace between tokens, so they can be replaced by spaces.
    """
    if message.find(b"\n") >= 0 or message.find(b"\r") >= 0:  # `in` is slower: it tries an integer first
        message = message.replace(b"\n", b" ").replace(b"\r", b" ")
    return message + b"\n"


def encode_lines(messages: list[bytes]) -> bytes:
    """Frame JSON texts as lines, each as `encode_line` does."""
    text = b"".join(messages)
    if text.find(b"\n") < 0 and text.find(b"\r") < 0:  # in all of them at once: `find` skips fast, `count` does not
        return b"\n".join((*messages, b""))
    return b"".join(map(encode_line, messages))


def encode_frame(message: bytes) -> bytes:
    """Frame one JSON text with a `Content-Length` header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(message), message)


class Framer:
    """Splits a stream into messages; input that cannot be a message yields an error in its place."""

    __slots__ = (
        "_block",
        "_body_left",
        "_is_recovering",
        "_is_skipping",
        "_limit",
        "_line_limit",
        "_oversized",
        "_pending",
        "_skip_left",
        "_skipped_bytes",
        "uses_frames",
    )

    def __init__(self, limit: int | None = None) -> None:
        limit = bounds.MESSAGE_BYTES if limit is None else limit
        self.uses_frames = False
        """Whether a `Content-Length` was ever seen; responses are framed from then on."""
        self._limit = limit
        # A header line may be longer than a small limit, and the kind of a line is known only when
        # it is complete: allow the larger of both limits, and a CR.
        self._line_limit = max(limit, bounds.HEADER_BYTES) + 1
        self._pending = bytearray()
        self._block: _HeaderBlock | None = None
        self._body_left = 0  # bytes of the frame's body still to come
        self._skip_left = 0  # bytes of a refused frame still to skip
        self._is_skipping = False  # inside a line that was already refused
        self._oversized: MessageTooLarge | None = None  # the error for the message being skipped, reported at its end
        self._skipped_bytes = 0  # bytes of it that were skipped
        self._is_recovering = False  # after a header block without a usable length

    def feed(self, data: bytes) -> list[bytes | MessageError]:
        """Take the next bytes; return the messages they complete, in order."""
        output: _Output = []
        position = 0
        if self._pending and not self._body_left:
            position = self._take_line(data, position, output)
        if self._is_between_messages():
            position = self._take_plain_lines(data, position, output)
        size = len(data)
        while position < size:
            if self._body_left:
                position = self._take_body(data, position, output)
            elif self._skip_left:
                position = self._skip_body(data, position, output)
            else:
                position = self._take_line(data, position, output)
        return output

    def finish(self) -> list[bytes | MessageError]:
        """End the input; return what its last bytes complete."""
        output: _Output = []
        if self._pending and not self._body_left:
            line = bytes(self._pending)
            self._pending.clear()
            self._handle_line(line, output)
        if self._body_left:
            received = len(self._pending)
            size = received + self._body_left
            output.append(ParseError(f"The input ended inside a frame, after {received} of {size} bytes"))
        if self._block and not self._block.is_refused:
            output.append(ParseError("The input ended inside the header block of a frame"))
        if self._oversized:
            if self._skip_left:
                self._oversized.end = b""  # the end did not arrive
            self._report_skipped(output)
        self._pending.clear()
        self._block = None
        self._body_left = self._skip_left = 0
        self._is_skipping = self._is_recovering = False
        return output

    def _is_between_messages(self) -> bool:
        return not (
            self._pending
            or self._block
            or self._body_left
            or self._skip_left
            or self._is_skipping
            or self._is_recovering
        )

    def _take_plain_lines(self, data: bytes, position: int, output: _Output) -> int:
        """Take lines in bulk, up to the first that does not start an object or array."""
        if position == 0 and len(data) <= self._limit and data.find(b"\r") < 0:
            *lines, rest = data.split(b"\n")
            for line in lines:
                if not line or line[0] not in b"{[":
                    break
            else:
                output += lines
                return len(data) - len(rest)
        while (end := data.find(b"\n", position)) >= 0:
            if data[position] not in b"{[" or end - position > self._limit:
                break
            line = data[position:end]
            output.append(line[:-1] if line.endswith(b"\r") else line)
            position = end + 1
        return position

    def _take_line(self, data: bytes, position: int, output: _Output) -> int:
        end = data.find(b"\n", position)
        stop = len(data) if end < 0 else end
        if self._is_skipping:
            self._keep_tail(data, position, stop, output)
        elif end < 0 or (self._pending and end - position > self._line_limit):
            self._buffer_line(data, position, stop, output)
        else:
            line = data[position:end]
            if self._pending:
                line = bytes(self._pending) + line
                self._pending.clear()
            self._handle_line(line, output)
        if self._is_skipping and end >= 0:
            self._is_skipping = False
            self._report_skipped(output)
        return len(data) if end < 0 else end + 1

    def _buffer_line(self, data: bytes, position: int, stop: int, output: _Output) -> None:
        """Keep the start of a line, up to one byte above the limit, which is enough to detect that it is too long."""
        room = self._line_limit + 1 - len(self._pending)
        self._pending += data[position : min(stop, position + room)]
        if len(self._pending) > self._line_limit:
            # The start is enough to classify the whole line.
            start = bytes(self._pending)
            self._pending.clear()
            self._is_skipping = True
            self._handle_line(start, output)
            self._keep_tail(data, min(stop, position + room), stop, output)

    def _handle_line(self, line: bytes, output: _Output) -> None:
        content = line[:-1] if line.endswith(b"\r") else line
        if self._block and not content:
            self._end_block(self._block, output)
        elif _HEADER.match(content):
            self._handle_header(content, len(line) + 1, output)
        else:
            self._abandon_block(output)
            self._handle_message(content, output)

    def _handle_message(self, content: bytes, output: _Output) -> None:
        if not content or content.isspace():
            if len(content) > self._limit:
                output.append(MessageTooLarge("A blank line", self._limit))
            return
        if self._is_recovering:
            self._is_recovering = False
            found = _LENGTH_AT_END.search(content, max(0, len(content) - _LENGTH_AT_END_BYTES))
            if found and len(content) < self._line_limit:
                # A body of unknown length, followed directly by the next frame.
                self._handle_header(found[0], len(found[0]) + 1, output)
                return
        if len(content) <= self._limit:
            output.append(content)
            return
        self._oversized, self._skipped_bytes = (
            MessageTooLarge("A line", self._limit, content[: bounds.SALVAGE_BYTES]),
            0,
        )
        self._oversized.end = content[-bounds.SALVAGE_TAIL_BYTES :]
        if not self._is_skipping:
            self._report_skipped(output)

    def _keep_tail(self, data: bytes, start: int, end: int, output: _Output) -> None:
        """Keep the last bytes of a skipped message, unless it is so long that it may never end."""
        if not self._oversized:
            return
        self._skipped_bytes += end - start
        if self._skipped_bytes > bounds.SKIPPED_BYTES:
            self._oversized.end = b""
            self._report_skipped(output)
            return
        tail_bytes = bounds.SALVAGE_TAIL_BYTES
        self._oversized.end = (self._oversized.end + data[max(start, end - tail_bytes) : end])[-tail_bytes:]

    def _report_skipped(self, output: _Output) -> None:
        if self._oversized:
            output.append(self._oversized)
            self._oversized = None

    def _handle_header(self, content: bytes, size: int, output: _Output) -> None:
        self._is_recovering = False
        if self._block is None:
            self._block = _HeaderBlock()
        block = self._block
        block.add(content, size)
        self.uses_frames = self.uses_frames or block.length_count > 0
        if block.size > bounds.HEADER_BYTES and not block.is_refused:
            block.is_refused = True
            output.append(MessageTooLarge("The header block of a frame", bounds.HEADER_BYTES))

    def _end_block(self, block: _HeaderBlock, output: _Output) -> None:
        self._block = None
        length = block.length
        if not block.is_refused:
            error = block.error()
            if error is None and length is not None and length <= self._limit:
                self._body_left = length
                if length == 0:
                    output.append(b"")
                return
            if error is None:
                self._oversized, self._skipped_bytes = MessageTooLarge("A frame", self._limit), 0
            else:
                output.append(error)
        # The length can still be used to find the next message.
        self._skip_left = length or 0
        self._is_recovering = length is None

    def _abandon_block(self, output: _Output) -> None:
        if self._block and not self._block.is_refused:
            output.append(InvalidRequest("A header block must end with an empty line before the message"))
        self._block = None

    def _take_body(self, data: bytes, position: int, output: _Output) -> int:
        part = data[position : position + self._body_left]
        self._body_left -= len(part)
        if self._body_left:
            self._pending += part
        elif self._pending:
            self._pending += part
            output.append(bytes(self._pending))
            self._pending.clear()
        else:
            output.append(part)
        return position + len(part)

    def _skip_body(self, data: bytes, position: int, output: _Output) -> int:
        end = position + min(self._skip_left, len(data) - position)
        if self._oversized:
            room = bounds.SALVAGE_BYTES - len(self._oversized.start)
            self._oversized.start += data[position : min(end, position + room)]
            self._keep_tail(data, position, end, output)
        self._skip_left -= end - position
        if not self._skip_left:
            self._report_skipped(output)
        return end


class _HeaderBlock:
    """The headers of one frame that were read so far."""

    __slots__ = ("is_refused", "length", "length_count", "size")

    def __init__(self) -> None:
        self.size = 0
        self.length_count = 0
        self.length: int | None = None  # None also when the mentions disagree
        self.is_refused = False

    def add(self, line: bytes, size: int) -> None:
        self.size += size
        name, _, value = line.partition(b":")
        if name.rstrip().lower() != b"content-length":
            return
        self.length_count += 1
        length = _parse_length(value.strip())
        self.length = length if self.length_count == 1 or length == self.length else None

    def error(self) -> MessageError | None:
        if not self.length_count:
            return InvalidRequest("A header block must have a Content-Length, the number of bytes that follow it")
        if self.length_count > 1:
            return InvalidRequest("A header block must have only one Content-Length")
        if self.length is None:
            return InvalidRequest("Content-Length must be a number of bytes, in digits")
        return None


def _parse_length(value: bytes) -> int | None:
    return int(value) if value.isdigit() and len(value) <= _LENGTH_DIGITS else None
