"""The writing half of stdio: messages of one turn of the event loop are written together.

`put` never waits. Callers that can wait use `drain` first, and the reading half stops
while the outbox is full, so that a client which does not read costs a bounded amount of
memory. Pipes and sockets are written by the event loop, other files directly.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import stat
from collections import deque
from collections.abc import Awaitable, Callable

from hubbub import bounds

_BATCH_BYTES = 64 * 1024  # the capacity of a pipe
_PIECE_BYTES = 16 * 1024
"""Messages are framed together up to this size. Copied later, large ones would have left the processor's cache."""
FrameMessages = Callable[[list[bytes]], bytes]
"""Joins messages to the bytes to write."""


class Outbox(asyncio.BaseProtocol):
    """Messages to the client, on a pipe or a socket.

    The transport gets no more than it can write at once. The rest waits here, where it is
    counted and need not be copied.
    """

    def __init__(self, frame: FrameMessages, loop: asyncio.AbstractEventLoop, reader_closed: asyncio.Event) -> None:
        self._frame = frame
        self._loop = loop
        self._reader_closed = reader_closed
        self._unframed: list[bytes] = []
        self._unframed_bytes = 0
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_flush_due = False
        self._is_paused = False
        self._transport: asyncio.WriteTransport | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.is_full = False
        """Whether the client leaves so much unread that no more requests should be read."""
        self._resume: Callable[[], None] | None = None
        self._closed = loop.create_future()

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call back once, when there is room again."""
        self._resume = resume

    def put(self, message: bytes) -> None:
        """Queue one message."""
        self._unframed.append(message)
        self._unframed_bytes += len(message)
        if self._unframed_bytes > _PIECE_BYTES:
            self._frame_messages()
            if self._waiting_bytes > bounds.OUTBOX_BYTES:
                self.is_full = True
                self._has_room.clear()
        if not self._is_flush_due:
            self.flush_soon()

    def flush_soon(self) -> None:
        """Write after the callbacks that the event loop has already scheduled."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def drain(self) -> Awaitable[None] | None:
        """Wait while the client does not read; None if there is room."""
        return self._wait_for_room() if self.is_full else None

    async def _wait_for_room(self) -> None:
        while not self._has_room.is_set():  # another waiter may have filled it again
            await self._has_room.wait()

    async def close(self) -> None:
        """Write the remaining messages, within a time limit."""
        while self._waiting or self._unframed:
            self._write(self._next_batch())
        if self._transport is not None:
            self._transport.close()
            _, unread = await asyncio.wait([self._closed], timeout=bounds.SHUTDOWN_TIMEOUT_S)
            if unread:
                self._transport.abort()
                await self._closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.set_write_buffer_limits(high=0)

    def connection_lost(self, error: Exception | None) -> None:
        """Let `serve` stop, because the client has closed its end."""
        self.resume_writing()
        self._reader_closed.set()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._flush()

    def _flush(self) -> None:
        self._is_flush_due = False
        while (self._waiting or self._unframed) and not self._is_paused:
            self._write(self._next_batch())
        if self.is_full and self._waiting_bytes <= bounds.OUTBOX_BYTES // 4:
            self.is_full = False
            self._has_room.set()
            if self._resume is not None:
                resume, self._resume = self._resume, None
                resume()

    def _next_batch(self) -> bytes:
        self._frame_messages()
        pieces, size = [], 0
        while self._waiting and size < _BATCH_BYTES:
            piece = self._waiting.popleft()
            pieces.append(piece)
            size += len(piece)
        self._waiting_bytes -= size
        return b"".join(pieces)

    def _frame_messages(self) -> None:
        if self._unframed:
            piece = self._frame(self._unframed)
            self._waiting.append(piece)
            self._waiting_bytes += len(piece)
            self._unframed, self._unframed_bytes = [], 0

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


class SocketOutbox(Outbox):
    """An outbox on a socket that is also the input, which is read elsewhere."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pause reading, because the transport would read the input too."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


class FileOutbox(Outbox):
    """An outbox on a file, a terminal or a device, where writing hardly ever blocks."""

    def __init__(
        self, sink: int, frame: FrameMessages, loop: asyncio.AbstractEventLoop, reader_closed: asyncio.Event
    ) -> None:
        super().__init__(frame, loop, reader_closed)
        self._sink = sink

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                try:
                    view = view[os.write(self._sink, view) :]
                except BlockingIOError:  # another process that shares the terminal made it non-blocking
                    select.select([], [self._sink], [])
        except OSError:
            self._reader_closed.set()


async def open_outbox(source: int, sink: int, frame: FrameMessages, reader_closed: asyncio.Event) -> Outbox:
    """Open the outbox for this kind of output; `reader_closed` is set when the reader has closed it."""
    loop = asyncio.get_running_loop()
    if not is_watchable(sink):
        return FileOutbox(sink, frame, loop, reader_closed)
    if stat.S_ISSOCK(os.fstat(sink).st_mode) and os.path.samestat(os.fstat(source), os.fstat(sink)):
        # A pipe transport treats its output as closed as soon as it is readable.
        _, shared = await loop.connect_accepted_socket(
            lambda: SocketOutbox(frame, loop, reader_closed), socket.socket(fileno=sink)
        )
        return shared
    _, outbox = await loop.connect_write_pipe(
        lambda: Outbox(frame, loop, reader_closed), os.fdopen(sink, "wb", buffering=0)
    )
    return outbox


def is_watchable(descriptor: int) -> bool:
    """Whether the event loop can watch this for reading and writing."""
    if os.name == "nt":
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
