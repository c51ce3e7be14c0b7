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

from hubbub.protocol.http_headers import HeaderList
from hubbub.transports.http import App, Message, Receive, Scope, Send

_LENGTH: Final = b"content-length"
_STATUS_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus if status >= 200
}
_LARGE_BYTES: Final = 64 * 1024
"""A body that is not worth copying once more."""
_LINE_END: Final = b"\r\n"
_TEXT: Final = bytes(byte for byte in range(256) if byte == 9 or (byte >= 32 and byte != 127))
"""What a header may hold."""


class Answer(msgspec.Struct, eq=False):
    """The app for one request and its `send`, with shorter ways in and out that `Exchange` takes if it can."""

    _app: App
    _cycle: Any
    _start: Message | None = None

    def serve(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve the request."""
        return self._app(scope, receive, self)

    def body(self) -> bytes | None:
        """The body of the request, if all of it has come and nobody has read any of it."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.waiting_for_100_continue or not cycle.message_event.is_set():
            return None
        cycle.flow.resume_reading()
        cycle.message_event.clear()
        body, cycle.body = bytes(cycle.body), bytearray()
        return body

    def whole(self, status: int, headers: HeaderList, body: bytes) -> bool:
        """Send an answer in one piece, unless something about it is unusual."""
        if self._start is not None or not self._is_usual():
            return False
        self._write(status, headers, body)
        return True

    async def __call__(self, message: Message) -> None:
        """Send, as ASGI has it."""
        start, self._start = self._start, None
        if start is None:
            headers = message.get("headers")
            if headers and headers[0][0] == _LENGTH:  # where `Exchange.reply` has it
                self._start = message
                return
        elif self._is_whole(start, message) and self._is_usual():
            self._write(start["status"], start["headers"], message["body"])
            return
        else:
            await self._cycle.send(start)
        await self._cycle.send(message)

    def _is_whole(self, start: Message, message: Message) -> bool:
        return not message.get("more_body") and int(start["headers"][0][1]) == len(message.get("body", b""))

    def _is_usual(self) -> bool:
        """Whether the caller is there, reads, wants a body and stays."""
        cycle = self._cycle
        return (
            cycle.keep_alive
            and not cycle.disconnected
            and not cycle.flow.write_paused
            and cycle.scope["method"] != "HEAD"
        )

    def _write(self, status: int, headers: HeaderList, body: bytes) -> None:
        cycle = self._cycle
        fields = [*cycle.default_headers, *headers]
        head = b"".join([b"%b: %b\r\n" % field for field in fields])
        if head.translate(None, _TEXT) != _LINE_END * len(fields):
            raise ValueError("a header of an answer holds what no header may")
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        if len(body) < _LARGE_BYTES:
            cycle.transport.write(b"%b%b\r\n%b" % (_STATUS_LINES[status], head, body))
        else:
            cycle.transport.writelines((b"%b%b\r\n" % (_STATUS_LINES[status], head), body))
        cycle.message_event.set()
        cycle.on_response()
