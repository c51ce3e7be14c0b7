"""One connection to an HTTP server: sends one request at a time and parses its response.

httptools parses the responses; a request is written in one piece. A connection that received
anything but exactly one complete response to a request is never reused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import httptools

from hubbub import bounds
from hubbub.errors import ConnectionFailed, TransportError
from hubbub.net.response import HttpResponse

_COMMON_NAMES: Final = {
    spelling.encode(): name
    for name in ("connection", "content-length", "content-type", "date", "keep-alive", "server", "transfer-encoding")
    for spelling in (name, name.title())
}
"""Names of frequent headers in their usual spellings, so that they need not be decoded."""
_TLS_ALERT: Final = b"\x15\x03"
"""The start of a TLS record with an alert, which some servers send to clients that do not speak TLS."""
_KEEP_ALIVE_TIMEOUT: Final = re.compile(r"(?i)\btimeout\s*=\s*([0-9]{1,6})")


class Connection(asyncio.Protocol):
    """One connection; it calls `on_idle` when it can be reused and `on_closed` when it is closed."""

    def __init__(self, on_idle: Callable[[Connection], None], on_closed: Callable[[Connection], None]) -> None:
        self._on_idle = on_idle
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._overhead_bytes = 0
        """Bytes since the start of the response or the last piece of its body: head, chunk extensions, trailers."""
        self._response: HttpResponse | None = None
        self._is_paused = False
        self._transport: asyncio.Transport
        self.was_opened = False
        """Whether it was opened; stays true after it is closed."""
        self.is_closed = False
        self._pending_request = b""
        self._idle_s: float | None = None
        self._last_data_at = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0
        self._may_need_tls = False
        """Whether nothing was received yet over a connection without TLS."""
        self._closes_at: float | None = None
        """When the server will close it if it stays idle, minus a margin; None if it sends no `Keep-Alive` timeout."""

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        if self._response is not None or self.is_closed or self._transport.is_closing():
            return False
        return self._closes_at is None or self._loop.time() < self._closes_at

    def send(
        self, request: bytes, idle_s: float | None, on_ready: Callable[[HttpResponse], None] | None = None
    ) -> HttpResponse:
        """Send a request, now or once the connection is open; it fails if the server is silent for `idle_s`."""
        response = self._response = HttpResponse(self._loop, self.abort, self._resume, on_ready)
        self._overhead_bytes = 0
        self._idle_s = idle_s
        if self.was_opened:
            self._write(request)
        else:
            self._pending_request = request
        return response

    def abort(self) -> None:
        """Abort the connection; a pending response fails."""
        if self.was_opened:
            self._transport.abort()
        else:
            self.is_closed = True

    # -- called by the event loop --------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the waiting request, if there is one."""
        self._transport = cast("asyncio.Transport", transport)
        self._may_need_tls = transport.get_extra_info("sslcontext") is None
        self.was_opened = True
        if self.is_closed:
            self.abort()
        elif self._response is not None:
            self._write(self._pending_request)
            self._pending_request = b""

    def data_received(self, data: bytes) -> None:
        """Parse the data; the parser callbacks fill the response."""
        response = self._response
        if response is None:
            self.abort()  # data without a request
            return
        if self._may_need_tls:
            self._may_need_tls = False
            if data.startswith(_TLS_ALERT):
                self._fail("this port needs TLS; use https://", {"tls": "required"})
                return
        if self._idle_s is not None:
            self._last_data_at = self._loop.time()
        self._overhead_bytes += len(data)  # a piece of the body sets it to zero
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(type(error).__name__)
            return
        if self._overhead_bytes > bounds.HEADER_BYTES and self._response is response:
            part = "chunk extensions or trailers" if response.status else "head"
            self._fail(f"the {part} of the response exceeded {bounds.HEADER_BYTES} bytes")
        elif response.status:  # not in a callback of the parser, which would hide exceptions
            response.notify_ready()

    def eof_received(self) -> bool:
        """Let the event loop close the transport."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """End the response: complete if its body has no length, else failed."""
        self.is_closed = True
        response, self._response = self._response, None
        if response is not None:
            self._stop_idle_timer()
            if response.status and error is None and not self._has_length():
                response.finish()
            else:
                response.fail(self._describe_loss(error))
        self._on_closed(self)

    # -- called by the parser ------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Reset the headers; drop the connection if no response is expected."""
        self._headers = {}
        if self._response is None:
            self.abort()  # a second response

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; of duplicates, the first, but every challenge. Trailers are ignored: they come too late."""
        if self._response is not None and self._response.status:
            return
        known = _COMMON_NAMES.get(name) or name.decode("latin-1").lower()
        text = value.decode(errors="replace")
        first = self._headers.setdefault(known, text)
        if first is not text and known == "www-authenticate":
            self._headers[known] = f"{first}, {text}"

    def on_headers_complete(self) -> None:
        """Pass the head to the response; interim responses (1xx) are skipped."""
        status = self._parser.get_status_code()
        if status >= 200 and self._response is not None:
            self._overhead_bytes = 0
            self._response.take_head(status, self._headers)

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body; pause reading while too much of it is unread."""
        response = self._response
        self._overhead_bytes = 0
        if response is not None:
            response.take(body)
            if response.waiting_bytes > bounds.UNREAD_BODY_BYTES and not self._is_paused:
                self._is_paused = True
                self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Finish the response, and free the connection if it can be reused."""
        response = self._response
        if response is None or not response.status:
            return
        self._response = None
        if self._idle_timer is not None:
            self._stop_idle_timer()
        if self._is_paused:
            self._resume()
        response.finish()
        # A server that responds before it has read the whole request may never read the rest.
        if self._parser.should_keep_alive() and not self._transport.get_write_buffer_size():
            keep_alive = self._headers.get("keep-alive")
            self._closes_at = None if keep_alive is None else self._parse_close_time(keep_alive)
            self.idle_since = self._loop.time()
            self._on_idle(self)
        else:  # later, so that the response is delivered without waiting for this
            self._loop.call_later(bounds.SERVER_CLOSE_WAIT_S, self.abort)

    # -- internal ------------------------------------------------------------------------

    def _write(self, request: bytes) -> None:
        if self._idle_s is not None:
            self._last_data_at = self._loop.time()
            self._idle_timer = self._loop.call_later(self._idle_s, self._check_idle)
        if request:
            self._transport.write(request)

    def _parse_close_time(self, keep_alive: str) -> float | None:
        """When the server closes it: a request sent at that moment would be lost, and may not be safe to repeat."""
        found = _KEEP_ALIVE_TIMEOUT.search(keep_alive)
        return None if found is None else self._loop.time() + int(found[1]) - bounds.KEEP_ALIVE_MARGIN_S

    def _has_length(self) -> bool:
        return "content-length" in self._headers or "transfer-encoding" in self._headers

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _describe_loss(self, error: Exception | None) -> TransportError:
        reason = type(error).__name__ if error is not None else "it was closed before the response was complete"
        if self._may_need_tls:
            return broken_error(f"{reason}; the port may need https://", {"tls": "maybe"})
        return broken_error(reason)

    def _fail(self, reason: str, data: Mapping[str, str] | None = None) -> None:
        response, self._response = self._response, None
        if response is not None:
            self._stop_idle_timer()
            response.fail(broken_error(reason, data))
        self.abort()

    def _check_idle(self) -> None:
        """Fail the response if the server was silent for too long, unless we paused reading."""
        assert self._idle_s is not None
        remaining_s = self._last_data_at + self._idle_s - self._loop.time()
        if self._is_paused or remaining_s > 0:
            self._idle_timer = self._loop.call_later(max(remaining_s, self._idle_s / 4), self._check_idle)
        else:
            self._fail(f"the server sent nothing for {self._idle_s:g} s")

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None


def broken_error(reason: str, data: Mapping[str, str] | None = None) -> TransportError:
    """Return the error for a connection that broke while a request was pending."""
    return ConnectionFailed(f"The connection to the server broke: {reason}", data)
