"""An answer in one packet: what is sent in one piece is written in one piece.

uvicorn writes the head of every answer at once and its body after it, though ASGI tells
servers to wait for the body: two system calls and two packets, and a look at each header
with two patterns. Here the start of a whole answer waits for its body, and both are written
together; streams and everything unusual are still uvicorn's. The HTTP server puts one
around the app for each request.
"""

from __future__ import annotations

from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any, Final

from hubbub.transports.http import App, Message, Receive, Scope, Send

_LENGTH: Final = b"content-length"
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}


class Answer:
    """The app for one request, with a shorter way out."""

    __slots__ = ("_app", "_cycle", "_start")

    def __init__(self, app: App, cycle: Any) -> None:
        self._app = app
        self._cycle = cycle
        self._start: Message | None = None

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve the request."""
        return self._app(scope, receive, self._send)

    async def _send(self, message: Message) -> None:
        start, self._start = self._start, None
        if start is None:
            headers = message.get("headers")
            if headers and headers[0][0] == _LENGTH:  # where `Exchange.reply` has it
                self._start = message
                return
        elif self._is_usual(message):
            self._write(start, message["body"])
            return
        else:
            await self._cycle.send(start)
        await self._cycle.send(message)

    def _is_usual(self, message: Message) -> bool:
        """Whether this is the whole body, for a caller who is there, reads and stays."""
        cycle = self._cycle
        return not (
            message.get("more_body")
            or cycle.disconnected
            or cycle.flow.write_paused
            or not cycle.keep_alive
            or cycle.scope["method"] == "HEAD"
        )

    def _write(self, start: Message, body: bytes) -> None:
        cycle = self._cycle
        headers = [*cycle.default_headers, *start["headers"]]
        head = b"".join([b"%b: %b\r\n" % header for header in headers])
        if head.count(b"\n") != len(headers):
            raise ValueError("a header of an answer has more than one line")
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(b"%b%b\r\n%b" % (_STATUS_LINES[start["status"]], head, body))
        cycle.message_event.set()
        cycle.on_response()
