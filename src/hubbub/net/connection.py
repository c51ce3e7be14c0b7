"""One connection to an HTTP server: sends one request at a time and parses its response.

httptools parses the responses; a request is written in one piece. A connection that received
anything but exactly one complete response to a request is never reused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, cast

import httptools

from hubbub import bounds
from hubbub.errors import ConnectionFailed, TransportError
from hubbub.net.response import HttpResponse

_KEEP_ALIVE: Final = re.compile(r"(?i)\btimeout\s*=\s*([0-9]{1,6})")


class Connection(asyncio.Protocol):
    """One connection; it calls `freed` when it can be reused and `gone` when it is closed."""

    def __init__(self, freed: Callable[[Connection], None], gone: Callable[[Connection], None]) -> None:
        self._freed = freed
        self._gone = gone
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._overhead_bytes = 0
        """Bytes since the start of the response or the last piece of its body: head, chunk extensions, trailers."""
        self._answer: HttpResponse | None = None
        self._is_paused = False
        self._transport: asyncio.Transport
        self.is_open = False
        """Whether it was opened; stays true after it is closed."""
        self.is_lost = False
        self._unsent = b""
        self._idle_s: float | None = None
        self._heard_at = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self.freed_at = 0.0
        self._closes_at: float | None = None
        """When the server will close it if it stays idle, minus a margin; None if it sends no `Keep-Alive` timeout."""

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        if self._answer is not None or self.is_lost or self._transport.is_closing():
            return False
        return self._closes_at is None or self._loop.time() < self._closes_at

    def send(self, request: bytes, idle_s: float | None) -> HttpResponse:
        """Send a request, now or once the connection is open; it fails if the server is silent for `idle_s`."""
        answer = self._answer = HttpResponse(self._loop, self.drop, self._resume)
        self._overhead_bytes = 0
        self._idle_s = idle_s
        if self.is_open:
            self._write(request)
        else:
            self._unsent = request
        return answer

    def drop(self) -> None:
        """Abort the connection; a pending response fails."""
        if self.is_open:
            self._transport.abort()
        else:
            self.is_lost = True

    # -- called by the event loop --------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the waiting request, if there is one."""
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True
        if self.is_lost:
            self.drop()
        elif self._answer is not None:
            self._write(self._unsent)
            self._unsent = b""

    def data_received(self, data: bytes) -> None:
        """Parse the data; the parser callbacks fill the response."""
        answer = self._answer
        if answer is None:
            self.drop()  # data without a request
            return
        if self._idle_s is not None:
            self._heard_at = self._loop.time()
        self._overhead_bytes += len(data)  # a piece of the body sets it to zero
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._break(type(error).__name__)
            return
        if self._overhead_bytes > bounds.HEADER_BYTES and self._answer is answer:
            part = "chunk extensions or trailers" if answer.status else "the head"
            self._break(f"{part} of its answer came to more than {bounds.HEADER_BYTES} bytes")

    def eof_received(self) -> bool:
        """Let the event loop close the transport."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """End the response: complete if its body has no length, else failed."""
        self.is_lost = True
        answer, self._answer = self._answer, None
        if answer is not None:
            self._watch_no_more()
            if answer.status and error is None and not self._has_length():
                answer.finish()
            else:
                answer.fail(broken(type(error).__name__ if error is not None else "it was closed"))
        self._gone(self)

    # -- called by the parser ------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Reset the headers; drop the connection if no response is expected."""
        self._headers = {}
        if self._answer is None:
            self.drop()  # a second response

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; of duplicates, the first. Trailers are ignored: they come after the checks."""
        if self._answer is not None and self._answer.status:
            return
        self._headers.setdefault(name.decode("latin-1").lower(), value.decode(errors="replace"))

    def on_headers_complete(self) -> None:
        """Pass the head to the response; interim responses (1xx) are skipped."""
        status = self._parser.get_status_code()
        if status >= 200 and self._answer is not None:
            self._overhead_bytes = 0
            self._answer.take_head(status, self._headers)

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body; pause reading while too much of it is unread."""
        answer = self._answer
        self._overhead_bytes = 0
        if answer is not None:
            answer.take(body)
            if answer.waiting_bytes > bounds.BODY_WAITING_BYTES and not self._is_paused:
                self._is_paused = True
                self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Finish the response, and free the connection if it can be reused."""
        answer = self._answer
        if answer is None or not answer.status:
            return
        self._answer = None
        self._watch_no_more()
        self._resume()
        answer.finish()
        # A server that responds before it has read the whole request may never read the rest.
        if self._parser.should_keep_alive() and not self._transport.get_write_buffer_size():
            announced = self._headers.get("keep-alive")
            self._closes_at = None if announced is None else self._closing_time(announced)
            self._freed(self)
        else:  # later, so that the response is delivered without waiting for this
            self._loop.call_later(bounds.FAREWELL_S, self.drop)

    # -- internal ------------------------------------------------------------------------

    def _write(self, request: bytes) -> None:
        if self._idle_s is not None:
            self._heard_at = self._loop.time()
            self._watch = self._loop.call_later(self._idle_s, self._look)
        if request:
            self._transport.write(request)

    def _closing_time(self, announced: str) -> float | None:
        """When the server closes it: a request sent at that moment would be lost, and may not be safe to repeat."""
        found = _KEEP_ALIVE.search(announced)
        return None if found is None else self._loop.time() + int(found[1]) - bounds.KEEP_ALIVE_MARGIN_S

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
        """Fail the response if the server was silent for too long, unless we paused reading."""
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
    """Return the error for a connection that broke while a request was pending."""
    return ConnectionFailed(f"The connection to the server broke: {told}")
