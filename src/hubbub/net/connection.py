"""One connection to an HTTP server: a request goes out, its answer comes in, then the next.

httptools reads the answers; the writing is one piece of bytes. A connection that has
brought anything but one whole answer for one request is never used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools

from hubbub import bounds
from hubbub.errors import TransportError
from hubbub.net.answer import Answer


class Connection(asyncio.Protocol):
    """One connection; its pool is told when it is free again, and when it is gone."""

    def __init__(self, freed: Callable[[Connection], None], gone: Callable[[Connection], None]) -> None:
        self._freed = freed
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._head_bytes = 0
        self._answer: Answer | None = None
        self._is_paused = False
        self._transport: asyncio.Transport
        self.is_open = False
        """Whether it ever was."""
        self.is_lost = False
        self._unsent = b""
        self._idle_s: float | None = None
        self._heard_at = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self.freed_at = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        return self._answer is None and not self.is_lost and not self._transport.is_closing()

    def send(self, request: bytes, idle_s: float | None) -> Answer:
        """Send a request, head and body, now or when the connection is open; the server may be silent for so long."""
        answer = self._answer = Answer(self._loop, self.drop, self._resume)
        self._head_bytes = 0
        self._idle_s = idle_s
        if self.is_open:
            self._write(request)
        else:
            self._unsent = request
        return answer

    def drop(self) -> None:
        """End it at once; who waits for an answer is told."""
        if self.is_open:
            self._transport.abort()
        else:
            self.is_lost = True

    # -- what the loop tells -------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True
        if self.is_lost:
            self.drop()
        elif self._answer is not None:
            self._write(self._unsent)
            self._unsent = b""

    def data_received(self, data: bytes) -> None:
        """Parse; the answer is filled from within."""
        answer = self._answer
        if answer is None:
            self.drop()  # nobody asked
            return
        if self._idle_s is not None:
            self._heard_at = self._loop.time()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._break(type(error).__name__)
            return
        if not answer.status:
            self._head_bytes += len(data)
            if self._head_bytes > bounds.HEADER_BYTES:
                self._break("the head of its answer is too large")

    def eof_received(self) -> bool:
        """The server has said all."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone; a body without a length of its own ends with it."""
        self.is_lost = True
        answer, self._answer = self._answer, None
        if answer is not None:
            self._watch_no_more()
            if answer.status and error is None and not self._has_length():
                answer.finish()
            else:
                answer.fail(broken(type(error).__name__ if error is not None else "it was closed"))
        self._gone(self)

    # -- what the parser finds -----------------------------------------------------------

    def on_message_begin(self) -> None:
        """An answer begins."""
        self._headers = {}
        if self._answer is None:
            self.drop()  # a second one

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; of those that come twice, the first counts."""
        self._headers.setdefault(name.decode("latin-1").lower(), value.decode("utf-8", "surrogateescape"))

    def on_headers_complete(self) -> None:
        """The head is there; what only announces it is passed over."""
        status = self._parser.get_status_code()
        if status >= 200 and self._answer is not None:
            self._answer.take_head(status, self._headers)

    def on_body(self, body: bytes) -> None:
        """A piece of the body; the server has to wait if nobody takes them."""
        answer = self._answer
        if answer is not None:
            answer.take(body)
            if answer.waiting_bytes > bounds.BODY_WAITING_BYTES and not self._is_paused:
                self._is_paused = True
                self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The answer is there."""
        answer = self._answer
        if answer is None or not answer.status:
            return
        self._answer = None
        self._watch_no_more()
        self._resume()
        answer.finish()
        # A server that has not heard all that it answers may never listen again.
        if self._parser.should_keep_alive() and not self._transport.get_write_buffer_size():
            self._freed(self)
        else:  # later, for whoever waits for the answer does not wait for this
            self._loop.call_later(bounds.FAREWELL_S, self.drop)

    # -- inside --------------------------------------------------------------------------

    def _write(self, request: bytes) -> None:
        if self._idle_s is not None:
            self._heard_at = self._loop.time()
            self._watch = self._loop.call_later(self._idle_s, self._look)
        if request:
            self._transport.write(request)

    def _has_length(self) -> bool:
        return "content-length" in self._headers or "transfer-encoding" in self._headers

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _break(self, told: str) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self._watch_no_more()
            answer.fail(broken(told))
        self.drop()

    def _look(self) -> None:
        """Whether the server has been silent for too long; if we do not read, it is not its fault."""
        assert self._idle_s is not None
        left_s = self._heard_at + self._idle_s - self._loop.time()
        if self._is_paused or left_s > 0:
            self._watch = self._loop.call_later(max(left_s, self._idle_s / 4), self._look)
        else:
            self._break("the server was silent for too long")

    def _watch_no_more(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None


def broken(told: str) -> TransportError:
    """The way to the server broke while something was asked."""
    return TransportError("TRANSPORT_ERROR", f"The connection to the server broke: {told}")
