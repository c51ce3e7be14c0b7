"""The writing half of stdio: messages gathered during one turn of the loop, written at once.

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
from collections.abc import Callable

from hubbub import bounds

_GATHERED_BYTES = 256 * 1024


class Outbox(asyncio.BaseProtocol):
    """Messages to the client, on a pipe or a socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, gone: asyncio.Event) -> None:
        self._loop = loop
        self._gone = gone
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._transport: asyncio.WriteTransport | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._resume: Callable[[], None] | None = None
        self._closed = loop.create_future()

    @property
    def is_full(self) -> bool:
        """Whether the client leaves so much unread that nothing more should be done for it."""
        return not self._may_write.is_set()

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call back once, when there is room again."""
        self._resume = resume

    def put(self, message: bytes) -> None:
        """Queue one framed message."""
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(message)
        self._gathered_bytes += len(message)
        if self._gathered_bytes >= _GATHERED_BYTES:
            self._flush()  # now, because only the transport knows when it is too much

    async def drained(self) -> None:
        """Wait while the client does not read."""
        while not self._may_write.is_set():  # others that waited may have filled it again
            await self._may_write.wait()

    async def close(self) -> None:
        """Write what is left, within a bound."""
        self._flush()
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
        transport.set_write_buffer_limits(high=bounds.OUTBOX_BYTES)

    def connection_lost(self, error: Exception | None) -> None:
        """The client has closed its end."""
        self.resume_writing()
        self._gone.set()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._may_write.set()
        if self._resume is not None:
            resume, self._resume = self._resume, None
            resume()

    def _flush(self) -> None:
        gathered, self._gathered, self._gathered_bytes = self._gathered, [], 0
        if gathered:
            self._write(b"".join(gathered) if len(gathered) > 1 else gathered[0])

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
