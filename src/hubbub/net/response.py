"""The response to one HTTP request, while it arrives: its head, then its body in chunks or complete.

Filled by `hubbub.net.connection`, read by the sender of the request. Compressed bodies are
decompressed in bounded pieces, so that the size limit applies to the decompressed data.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Final

from hubbub import bounds
from hubbub.errors import ConnectionFailed, ResponseTooLarge, TransportError

_COMMON_MEDIA_TYPES: Final = ("application/json", "text/event-stream")
_NO_HEADERS: Final[Mapping[str, str]] = {}


class HttpResponse:
    """Status, headers and body, each available as soon as it has arrived."""

    __slots__ = (
        "_chunks",
        "_drop",
        "_error",
        "_headers",
        "_is_complete",
        "_loop",
        "_on_ready",
        "_on_room",
        "_waiter",
        "status",
        "waiting_bytes",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        drop: Callable[[], None],
        on_room: Callable[[], None],
        on_ready: Callable[[HttpResponse], None] | None = None,
    ) -> None:
        """`on_ready` is called once: with the data that completes the head, or when the response failed before."""
        self.status = 0
        self.waiting_bytes = 0
        """Bytes that were received and not read yet."""
        self._loop = loop
        self._drop = drop
        self._on_room = on_room
        self._on_ready = on_ready
        self._headers = _NO_HEADERS
        self._chunks: deque[bytes] = deque()
        self._is_complete = False
        self._error: TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def is_success(self) -> bool:
        """Whether the status is a 2xx."""
        return 200 <= self.status < 300

    @property
    def error(self) -> TransportError | None:
        """Why it failed, if it did."""
        return self._error

    @property
    def media_type(self) -> str:
        """The content type without parameters, in lower case."""
        value = self._headers.get("content-type", "")
        return value if value in _COMMON_MEDIA_TYPES else value.partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """The value of a header; empty if it is missing."""
        return self._headers.get(name.lower(), "")

    # -- filled as it arrives ----------------------------------------------------------

    def take_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the status and headers that were received."""
        self.status = status
        self._headers = headers
        self._wake()

    def take(self, chunk: bytes) -> None:
        """Take a part of the body that was received."""
        self._chunks.append(chunk)
        self.waiting_bytes += len(chunk)
        self._wake()

    def finish(self) -> None:
        """Mark the body as complete."""
        self._is_complete = True
        self._wake()

    def fail(self, error: TransportError) -> None:
        """Mark the response as failed."""
        self._error = error
        self._wake()
        self.notify_ready()

    def notify_ready(self) -> None:
        """Call `on_ready`, unless that was done before."""
        if self._on_ready is not None:
            on_ready, self._on_ready = self._on_ready, None
            on_ready(self)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- read --------------------------------------------------------------------------

    async def head(self) -> None:
        """Wait for the status and the headers.

        Raises:
            TransportError: the connection ended before them.
        """
        while not self.status:
            if self._error is not None:
                raise self._error
            await self._wait()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Iterate over the decompressed body as it arrives.

        Raises:
            TransportError: the body is incomplete.
        """
        encoding = self.header("Content-Encoding").lower()
        decompressor = None if encoding in ("", "identity") else _Decompressor(encoding)
        while chunk := await self._next_chunk():
            if decompressor is None:
                yield chunk
            else:
                for piece in decompressor.feed(chunk):
                    yield piece
        if decompressor is not None:
            decompressor.end()

    async def read(self, limit: int) -> bytes:
        """Read the whole body, decompressed.

        Raises:
            ResponseTooLarge: it is larger than `limit` bytes.
            TransportError: the body is incomplete.
        """
        content_length = self.header("Content-Length")
        if content_length.isdecimal() and int(content_length) > limit:
            raise self._too_large(limit)
        if self._is_complete and not self.header("Content-Encoding") and self.waiting_bytes <= limit:
            return self._read_rest()
        chunks, size = [], 0
        async for chunk in self.chunks():
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise self._too_large(limit)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def read_nowait(self, limit: int) -> bytes | None:
        """The whole body, if it has arrived, is not compressed and has at most `limit` bytes; otherwise use `read`."""
        if not self._is_complete or self.waiting_bytes > limit or "content-encoding" in self._headers:
            return None
        return self._read_rest()

    def close(self) -> None:
        """Stop reading; the connection is dropped if the body is incomplete."""
        if not self._is_complete:
            self._drop()

    async def _next_chunk(self) -> bytes:
        """Wait for the next chunk; empty at the end."""
        while not self._chunks:
            if self._is_complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._wait()
        chunk = self._chunks.popleft()
        self.waiting_bytes -= len(chunk)
        if not self._is_complete:
            self._on_room()
        return chunk

    def _read_rest(self) -> bytes:
        rest = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self.waiting_bytes = 0
        return rest

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _too_large(self, limit: int) -> TransportError:
        data = {"max_bytes": limit, "status": self.status, "content_type": self.media_type}
        return ResponseTooLarge(f"The server's response is larger than {limit} bytes", data)


class _Decompressor:
    """Decompresses a body in bounded pieces."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate"):
            raise _unreadable_error(f"the Content-Encoding {encoding!r} is not supported")
        self._is_deflate = encoding == "deflate"
        self._inflater = zlib.decompressobj(zlib.MAX_WBITS if self._is_deflate else zlib.MAX_WBITS | 16)
        self._has_started = False
        self._ignored_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        if not self._has_started and self._is_deflate and chunk[0] & 0x0F != zlib.DEFLATED:
            self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers send it without the zlib header
        self._has_started = True
        if self._inflater.eof:  # zlib would buffer everything that follows
            self._ignored_bytes += len(chunk)
            if self._ignored_bytes > bounds.DECOMPRESS_PIECE_BYTES:
                raise _unreadable_error(f"more than {bounds.DECOMPRESS_PIECE_BYTES} bytes follow the compressed body")
            return
        try:
            while chunk:
                if piece := self._inflater.decompress(chunk, bounds.DECOMPRESS_PIECE_BYTES):
                    yield piece
                chunk = self._inflater.unconsumed_tail
        except zlib.error:
            raise _unreadable_error("the body cannot be decompressed") from None

    def end(self) -> None:
        if self._has_started and not self._inflater.eof:
            raise _unreadable_error("the compressed body is incomplete")


def _unreadable_error(reason: str) -> TransportError:
    return ConnectionFailed(f"The server's response cannot be read: {reason}")
