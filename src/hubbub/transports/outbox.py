"""The writing half of stdio: messages gathered during one turn of the loop, written together.

Putting never waits; whoever can wait asks `drained` first, and the reading half stops
while the outbox is full, so that a client which does not read costs a bounded amount of
memory. Pipes and sockets are written by the event loop, the rest directly.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import stat
from collections import deque
from collections.abc import Callable

from hubbub import bounds

_PORTION_BYTES = 64 * 1024  # what a pipe holds
_ROOM_BYTES = bounds.OUTBOX_BYTES // 4


class Outbox(asyncio.BaseProtocol):
    """Messages to the client, on a pipe or a socket.

    The transport gets no more than it can write at once: what waits for a slow reader
    waits here, where it is counted and need not be copied.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, gone: asyncio.Event) -> None:
        self._loop = loop
        self._gone = gone
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_flush_due = False
        self._is_paused = False
        self._transport: asyncio.WriteTransport | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._resume: Callable[[], None] | None = None
        self._closed = loop.create_future()

    @property
    def is_full(self) -> bool:
        """Whether the client leaves so much unread that nothing more should be done for it."""
        return not self._has_room.is_set()

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call back once, when there is room again."""
        self._resume = resume

    def put(self, message: bytes) -> None:
        """Queue one framed message."""
        self._waiting.append(message)
        self._waiting_bytes += len(message)
        if self._waiting_bytes > bounds.OUTBOX_BYTES:
            self._has_room.clear()
        self.flush_soon()

    def flush_soon(self) -> None:
        """Write as soon as the loop has done what it already has to do."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    async def drained(self) -> None:
        """Wait while the client does not read."""
        while not self._has_room.is_set():  # others that waited may have filled it again
            await self._has_room.wait()

    async def close(self) -> None:
        """Write what is left, within a bound."""
        while self._waiting:
            self._write(self._next_portion())
        if self._transport is not None:
            self._transport.close()
            _, unread = await asyncio.wait([self._closed], timeout=bounds.STOP_S)
            if unread:
                self._transport.abort()
                await self._closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop writes for us."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.set_write_buffer_limits(high=0)

    def connection_lost(self, error: Exception | None) -> None:
        """The client has closed its end."""
        self.resume_writing()
        self._gone.set()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """The pipe is full."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """The pipe has taken everything."""
        self._is_paused = False
        self._flush()

    def _flush(self) -> None:
        self._is_flush_due = False
        while self._waiting and not self._is_paused:
            self._write(self._next_portion())
        if self.is_full and self._waiting_bytes <= _ROOM_BYTES:
            self._has_room.set()
            if self._resume is not None:
                resume, self._resume = self._resume, None
                resume()

    def _next_portion(self) -> bytes:
        messages, size = [], 0
        while self._waiting and size < _PORTION_BYTES:
            message = self._waiting.popleft()
            messages.append(message)
            size += len(message)
        self._waiting_bytes -= size
        return b"".join(messages)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


class SocketOutbox(Outbox):
    """An outbox onto a socket that is also the input, which others read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop would read too."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()


class FileOutbox(Outbox):
    """An outbox onto a file, a terminal or a device: writing there hardly ever waits."""

    def __init__(self, sink: int, loop: asyncio.AbstractEventLoop, gone: asyncio.Event) -> None:
        super().__init__(loop, gone)
        self._sink = sink

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                try:
                    view = view[os.write(self._sink, view) :]
                except BlockingIOError:  # whoever shares the terminal with us made it so
                    select.select([], [self._sink], [])
        except OSError:
            self._gone.set()


async def open_outbox(source: int, sink: int, gone: asyncio.Event) -> Outbox:
    """The outbox for this kind of output; `gone` is set when nobody is there to read."""
    loop = asyncio.get_running_loop()
    if not is_watchable(sink):
        return FileOutbox(sink, loop, gone)
    if stat.S_ISSOCK(os.fstat(sink).st_mode) and os.path.samestat(os.fstat(source), os.fstat(sink)):
        # The loop takes the output of a pipe transport for broken as soon as it can be read.
        _, shared = await loop.connect_accepted_socket(lambda: SocketOutbox(loop, gone), socket.socket(fileno=sink))
        return shared
    _, outbox = await loop.connect_write_pipe(lambda: Outbox(loop, gone), os.fdopen(sink, "wb", buffering=0))
    return outbox


def is_watchable(descriptor: int) -> bool:
    """Whether the event loop can tell when this can be read or written."""
    if os.name == "nt":
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
