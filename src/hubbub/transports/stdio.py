"""The stdio transport: one client on the process's own input and output.

The real streams are moved to other descriptors first, so that only messages reach the client: output
that tools print goes to stderr, and processes that they start cannot read the client's messages. Pipes
and sockets are read by the event loop; files, terminals and devices, which it cannot watch, by one thread.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TextIO

from hubbub import bounds
from hubbub.errors import MessageError
from hubbub.ports import ConnectionFactory, ConnectionHandler
from hubbub.protocol.framing import Framer, encode_frame, encode_lines
from hubbub.transports.outbox import Outbox, is_watchable, open_outbox

_CHUNK_BYTES = 256 * 1024


def claim_streams() -> tuple[int, int]:
    """Reserve the real stdin and stdout for messages; replace them with the null device and stderr."""
    null = os.open(os.devnull, os.O_RDWR)
    errors = null if sys.__stderr__ is None else 2
    source, sink = _claim(sys.__stdin__, 0, null, null), _claim(sys.__stdout__, 1, errors, null)
    os.close(null)
    return source, sink


def _claim(stream: TextIO | None, descriptor: int, replacement: int, null: int) -> int:
    """Duplicate a standard stream and put `replacement` in its place; use the null device for a closed one."""
    if stream is None:
        return os.dup(null)
    if stream.writable():
        stream.flush()
    claimed = os.dup(descriptor)
    os.dup2(replacement, descriptor)
    return claimed


async def serve(connect: ConnectionFactory, source: int, sink: int, stopped: asyncio.Event, *, limit: int) -> None:
    """Serve one client until its input ends or `stopped` is set."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    framer = Framer(limit)
    outbox = await open_outbox(source, sink, partial(_frame_messages, framer), stopped)
    handler = connect(outbox.put, outbox.drain)
    inbox = Inbox(handler, framer, outbox, ended)
    await _start_reading(source, inbox, loop)
    waiters = [asyncio.ensure_future(event.wait()) for event in (ended, stopped)]
    try:
        await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        if not stopped.is_set():
            finishing = asyncio.ensure_future(handler.finish())
            await asyncio.wait([finishing, waiters[1]], return_when=asyncio.FIRST_COMPLETED)
            finishing.cancel()
    finally:
        for waiter in waiters:
            waiter.cancel()
        inbox.close()
        await handler.close()
        await outbox.close()


def _frame_messages(framer: Framer, messages: list[bytes]) -> bytes:
    return b"".join(map(encode_frame, messages)) if framer.uses_frames else encode_lines(messages)


class Inbox(asyncio.Protocol):
    """Splits the client's bytes into messages and hands them to its connection as fast as it can take them."""

    def __init__(self, handler: ConnectionHandler, framer: Framer, outbox: Outbox, ended: asyncio.Event) -> None:
        self._handler = handler
        self._framer = framer
        self._outbox = outbox
        self._ended = ended
        self._messages: deque[bytes | MessageError] = deque()
        self._has_input_ended = self._is_closed = False
        self._transport: asyncio.ReadTransport | None = None
        self.request_data: Callable[[], None] = self._resume_transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.ReadTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take bytes; pause reading while the connection is busy or the outbox is full."""
        if self._has_input_ended:  # the client asked the process to exit
            return
        self._messages.extend(self._framer.feed(data))
        self._deliver()

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the rest of the input, which has ended."""
        if not self._has_input_ended:
            self._messages.extend(self._framer.finish())
            self._end_input()
        self._deliver()

    def close(self) -> None:
        """Stop reading."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.close()

    def _deliver(self) -> None:
        if self._is_closed:
            return
        handler, outbox, messages = self._handler, self._outbox, self._messages
        is_idle, receive = not messages, handler.receive
        while messages and not (handler.is_busy or outbox.is_full):
            message = messages.popleft()
            if isinstance(message, bytes):
                receive(message)
            else:
                handler.refuse(message)
            if handler.exit_requested:
                messages.clear()
                self._end_input()
        if not is_idle:
            outbox.flush_soon()  # after the tasks just started, so that their immediate responses are included
        if handler.is_busy or outbox.is_full:
            self._pause_until_ready()
        elif self._has_input_ended:
            self._ended.set()
        else:
            self.request_data()

    def _end_input(self) -> None:
        self._has_input_ended = True
        asyncio.get_running_loop().call_later(bounds.DRAIN_TIMEOUT_S, self._ended.set)

    def _pause_until_ready(self) -> None:
        """Pause reading until the outbox has room or running calls have finished."""
        if self._transport is not None and not self._has_input_ended:
            self._transport.pause_reading()
        (self._outbox if self._outbox.is_full else self._handler).when_ready(self._deliver)

    def _resume_transport(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


async def _start_reading(source: int, inbox: Inbox, loop: asyncio.AbstractEventLoop) -> None:
    if is_watchable(source):
        await loop.connect_read_pipe(lambda: inbox, os.fdopen(source, "rb", buffering=0))
        return
    may_read = threading.Event()
    inbox.request_data = may_read.set
    threading.Thread(target=_read_in_thread, args=(source, inbox, loop, may_read), daemon=True).start()


def _read_in_thread(source: int, inbox: Inbox, loop: asyncio.AbstractEventLoop, may_read: threading.Event) -> None:
    """Read one chunk at a time; wait until the loop asks for the next."""
    try:
        while data := _read(source):
            may_read.clear()
            loop.call_soon_threadsafe(inbox.data_received, data)
            may_read.wait()
        loop.call_soon_threadsafe(inbox.connection_lost, None)
    except OSError:
        loop.call_soon_threadsafe(inbox.connection_lost, None)
    except RuntimeError:
        return  # the loop is closed: the process is ending


def _read(source: int) -> bytes:
    while True:
        try:
            return os.read(source, _CHUNK_BYTES)
        except BlockingIOError:  # another process that shares the terminal made it non-blocking
            select.select([source], [], [])
