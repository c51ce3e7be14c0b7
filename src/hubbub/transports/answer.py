"""An answer in one piece: its head waits for its body, and both are written together.

uvicorn writes the head of every answer at once and the body after it, and looks at each
header with two patterns. Here the start of a whole answer is kept until its body is
there, which ASGI allows servers to do; streams and everything unusual are still
uvicorn's. The HTTP server puts one around the app for each request.
"""

from __future__ import annotations

from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any, Final

import msgspec

from hubbub.transports.http import App, Message, Receive, Scope, Send

_LENGTH: Final = b"content-length"
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}
_LINE_END: Final = b"\r\n"
_TEXT: Final = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))
"""What a header may hold."""


class Answer(msgspec.Struct, eq=False):
    """The app for one request, with a shorter way out."""

    _app: App
    _cycle: Any
    _start: Message | None = None

    def serve(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve the request."""
        return self._app(scope, receive, self._send)

    async def _send(self, message: Message) -> None:
        start, self._start = self._start, None
        if start is None:
            headers = message.get("headers")
            if headers and headers[0][0] == _LENGTH:  # where `Exchange.reply` has it
                self._start = message
                return
        elif self._is_usual(start, message):
            self._write(start, message["body"])
            return
        else:
            await self._cycle.send(start)
        await self._cycle.send(message)

    def _is_usual(self, start: Message, message: Message) -> bool:
        """Whether this is the whole body, for a caller who is there, reads, wants it and stays."""
        cycle = self._cycle
        return (
            not message.get("more_body")
            and int(start["headers"][0][1]) == len(message.get("body", b""))
            and cycle.keep_alive
            and not cycle.disconnected
            and not cycle.flow.write_paused
            and cycle.scope["method"] != "HEAD"
        )

    def _write(self, start: Message, body: bytes) -> None:
        cycle = self._cycle
        headers = [*cycle.default_headers, *start["headers"]]
        head = b"".join([b"%b: %b\r\n" % header for header in headers])
        if head.translate(None, _TEXT) != _LINE_END * len(headers):
            raise ValueError("a header of an answer holds what no header may")
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"%b%b\r\n%b" % (_STATUS_LINES[start["status"]], head, body))
        cycle.message_event.set()
        cycle.on_response()
