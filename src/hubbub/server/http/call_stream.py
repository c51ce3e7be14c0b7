"""The return path of one HTTP call: a JSON response, or a stream if messages come before the response.

If the handler only answers, the response is one piece of JSON. A notification or request
before that turns it into a stream. In the legacy era the stream belongs to a session,
so its events are numbered and stored, and the call continues after a disconnect.
"""

from __future__ import annotations

from collections.abc import Awaitable

import msgspec

from hubbub.errors import MissingCapability
from hubbub.ports import HttpExchange
from hubbub.protocol.calls import Call, Notification, Reply
from hubbub.protocol.http_headers import HeaderList
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.protocol.revisions import Revision
from hubbub.protocol.sse import encode_message
from hubbub.server.http.post_headers import ResponseMode
from hubbub.server.http.sessions import Session
from hubbub.server.http.streams import Stream

_NO_TRANSFORM = (b"cache-control", b"no-cache, no-transform")


class CallStream(msgspec.Struct, eq=False):
    """Sends the response to one HTTP call, and the messages before it."""

    _exchange: HttpExchange
    _revision: Revision
    _mode: ResponseMode
    _session: Session | None = None
    _headers: HeaderList = ()
    _stream: Stream | None = None
    _is_open: bool = False
    _is_released: bool = False

    async def notify(self, note: Notification) -> None:
        """Stream a notification; a caller that accepts only JSON does not get it."""
        if self._mode != "json":
            await self._send_event(encode_notification(note.method, note.params))

    def send_nowait(self, note: Notification) -> bool:
        """Return False: only `notify` waits for slow readers."""
        return False

    async def request(self, call: Call) -> Reply:
        """Send a request to the caller, on the stream of this call."""
        if self._session is None or self._mode == "json":
            raise MissingCapability({"text/event-stream": {}})
        return await self._session.pending_requests.ask_client(call, self._send_event)

    def respond(self, status: int, response: bytes) -> Awaitable[None]:
        """Send the response and end the stream."""
        if self._is_open:
            return self._finish_stream(response)
        if self._mode == "sse" and status == 200:
            body, headers = self._encode_stream(response), (*self._headers, _NO_TRANSFORM)
            return self._exchange.respond(200, body, headers, content_type=b"text/event-stream")
        return self._exchange.respond(status, response, self._headers)

    async def _finish_stream(self, response: bytes) -> None:
        await self._send_event(response)
        await self._end_stream()

    async def end_cancelled(self) -> None:
        """End without a response, because the call was cancelled."""
        if self._mode == "json":
            await self._exchange.respond(202)
            return
        if not self._is_open:
            await self._open_stream()
        await self._end_stream()

    async def release(self) -> None:
        """End the open stream now; a legacy caller fetches the rest with `Last-Event-ID`."""
        if self._session is None or self._mode == "json":
            return
        if not self._is_open:
            await self._open_stream()
        self._is_released = True
        await self._exchange.end()

    async def _send_event(self, message: bytes) -> None:
        if not self._is_open:
            await self._open_stream()
        event = encode_message(message) if self._stream is None else self._stream.append(message)
        if not self._is_released:
            await self._exchange.write(event)

    def _encode_stream(self, response: bytes) -> bytes:
        """Return a complete stream that contains only the response."""
        if self._session is None:
            return encode_message(response)
        return self._session.store_response(response)

    async def _open_stream(self) -> None:
        if self._session is not None:
            self._stream = self._session.open_stream()
        self._is_open = True
        await self._exchange.start_stream(self._headers)
        if self._stream is not None and self._revision.resumes_streams:
            await self._exchange.write(self._stream.prime())

    async def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.finish()
        await self._exchange.end()
