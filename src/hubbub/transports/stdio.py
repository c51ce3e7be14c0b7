"""The stdio transport: one client on the process's own input and output.

The real streams are taken away from the rest of the process first, so that nothing
but messages ever reaches the client: what tools print goes to stderr, and what they
start cannot read the client's messages. Pipes and sockets are read by the event loop;
files, terminals and devices, which an event loop cannot watch, by one thread.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable

from hubbub import bounds
from hubbub.errors import MessageError
from hubbub.ports import Connect, Duplex
from hubbub.protocol.framing import Framer, encode_frame, encode_line

_CHUNK_BYTES = 256 * 1024


def claim_streams() -> tuple[int, int]:
    """Take the real stdin and stdout for messages; put the null device and stderr in their place."""
    sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return source, sink


async def serve(connect: Connect, source: int, sink: int, *, limit: int = bounds.MESSAGE_BYTES) -> None:
    """Serve one client until its input ends or the process is told to stop."""
    loop = asyncio.get_running_loop()
    ended, stopped = asyncio.Event(), asyncio.Event()
    _stop_on_signals(loop, stopped)
    outbox = await _open_outbox(sink, loop, stopped)
    framer = Framer(limit)
    duplex = connect(lambda message: outbox.put(_framed(message, framer)), outbox.drained)
    inbox = Inbox(duplex, framer, ended)
    await _open_source(source, inbox, loop)
    first = [asyncio.ensure_future(event.wait()) for event in (ended, stopped)]
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.is_set():
            finishing = asyncio.ensure_future(duplex.finish())
            await asyncio.wait([finishing, first[1]], return_when=asyncio.FIRST_COMPLETED)
            finishing.cancel()
    finally:
        for waiter in first:
            waiter.cancel()
        inbox.close()
        await duplex.close()
        await outbox.close()


def _framed(message: bytes, framer: Framer) -> bytes:
    return encode_frame(message) if framer.framed else encode_line(message)


def _stop_on_signals(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stopped.set)
        except (NotImplementedError, RuntimeError):  # Windows, or not the main thread
            return


class Inbox(asyncio.Protocol):
    """Bytes from the client, cut into messages and handed to its connection."""

    def __init__(self, duplex: Duplex, framer: Framer, ended: asyncio.Event) -> None:
        self._duplex = duplex
        self._framer = framer
        self._ended = ended
        self._transport: asyncio.ReadTransport | None = None
        self.resume: Callable[[], None] = self._resume_transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop reads for us."""
        assert isinstance(transport, asyncio.ReadTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take bytes; stop reading while too much is going on."""
        self._hand_over(self._framer.feed(data))
        if self._duplex.is_busy:
            if self._transport is not None:
                self._transport.pause_reading()
            self._duplex.when_ready(self.resume)
        elif self._transport is None:
            self.resume()

    def connection_lost(self, error: Exception | None) -> None:
        """The input has ended."""
        self._hand_over(self._framer.finish())
        self._ended.set()

    def close(self) -> None:
        """Read no more."""
        if self._transport is not None:
            self._transport.close()

    def _hand_over(self, messages: list[bytes | MessageError]) -> None:
        for message in messages:
            if isinstance(message, bytes):
                self._duplex.receive(message)
            else:
                self._duplex.refuse(message)

    def _resume_transport(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


async def _open_source(source: int, inbox: Inbox, loop: asyncio.AbstractEventLoop) -> None:
    if _is_watchable(source):
        await loop.connect_read_pipe(lambda: inbox, os.fdopen(source, "rb", buffering=0))
        return
    go = threading.Event()
    inbox.resume = go.set
    threading.Thread(target=_read_in_thread, args=(source, inbox, loop, go), daemon=True).start()


def _read_in_thread(source: int, inbox: Inbox, loop: asyncio.AbstractEventLoop, go: threading.Event) -> None:
    """Read one chunk at a time; the loop says when it wants the next."""
    try:
        while data := os.read(source, _CHUNK_BYTES):
            go.clear()
            loop.call_soon_threadsafe(inbox.data_received, data)
            go.wait()
        loop.call_soon_threadsafe(inbox.connection_lost, None)
    except OSError:
        loop.call_soon_threadsafe(inbox.connection_lost, None)
    except RuntimeError:
        return  # the loop is closed: the process is ending


def _is_watchable(descriptor: int) -> bool:
    if os.name == "nt":
        return False
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class Outbox(asyncio.BaseProtocol):
    """Messages to the client: gathered during one turn of the loop, written at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, gone: asyncio.Event) -> None:
        self._loop = loop
        self._gone = gone
        self._waiting: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._closed = loop.create_future()

    def put(self, message: bytes) -> None:
        """Queue one framed message."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(message)

    async def drained(self) -> None:
        """Wait while the client does not read."""
        await self._may_write.wait()

    async def close(self) -> None:
        """Write what is left, within a bound."""
        self._flush()
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait([self._closed], timeout=bounds.STOP_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The loop writes for us."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.set_write_buffer_limits(high=bounds.OUTBOX_BYTES)

    def connection_lost(self, error: Exception | None) -> None:
        """The client has closed its end."""
        self._may_write.set()
        self._gone.set()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._may_write.set()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._write(b"".join(waiting) if len(waiting) > 1 else waiting[0])

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


class FileOutbox(Outbox):
    """An outbox onto a file, a terminal or a device: writing there hardly ever waits."""

    def __init__(self, sink: int, loop: asyncio.AbstractEventLoop, gone: asyncio.Event) -> None:
        super().__init__(loop, gone)
        self._sink = sink

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._sink, view) :]
        except OSError:
            self._gone.set()


async def _open_outbox(sink: int, loop: asyncio.AbstractEventLoop, gone: asyncio.Event) -> Outbox:
    if not _is_watchable(sink):
        return FileOutbox(sink, loop, gone)
    outbox = Outbox(loop, gone)
    await loop.connect_write_pipe(lambda: outbox, os.fdopen(sink, "wb", buffering=0))
    return outbox
