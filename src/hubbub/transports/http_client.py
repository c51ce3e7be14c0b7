"""The client side of Streamable HTTP: each request is a POST, answered with JSON or a stream.

Requests do not wait for each other. A broken stream is resumed after its last event if the server
numbers its events; otherwise the stream and its response are lost. The legacy era also has a session,
a GET stream for messages that belong to no request, and a DELETE at the end; the modern era has none of
these. OAuth is not implemented here.

A redirect is an error, except one 307 or 308 to the same origin: servers on the Python SDK 1.8 and 1.9
redirect `/mcp` to `/mcp/`. The new address is then used for the lifetime of the link.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from hubbub import bounds
from hubbub.errors import (
    ConnectionClosed,
    ConnectionFailed,
    EventTooLarge,
    HttpError,
    HubbubError,
    InvalidEvent,
    InvalidResponse,
    MessageTooLarge,
    ReconnectsExceeded,
    SessionLost,
    TransportError,
)
from hubbub.net.backoff import Backoff
from hubbub.net.client import HttpClient
from hubbub.net.redirects import same_origin_target
from hubbub.net.response import HttpResponse
from hubbub.ports import Outgoing, Receiver, as_it_is
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.protocol.sse import Event, EventDecoder
from hubbub.transports.http_refusals import refusal

EVENT_STREAM: Final = "text/event-stream"
_SESSION: Final = "Mcp-Session-Id"
_VERSION: Final = "MCP-Protocol-Version"
_POST: Final = {"Accept": f"application/json, {EVENT_STREAM}", "Content-Type": "application/json"}
_GET: Final = {"Accept": EVENT_STREAM}
_METHOD_KEEPING_REDIRECTS: Final = (307, 308)
_SESSION_ID: Final = re.compile(r"[!-~]{1,1024}")
_ACCEPTED: Final = re.compile(rb'\s*\{\s*"accepted"\s*:\s*true\s*\}\s*')
_MAY_BE_ASKED_BACK: Final = frozenset({"tools/call", "prompts/get", "resources/read"})

Headers = Callable[[], Awaitable[dict[str, str]]]


class HttpLink:
    """Streamable HTTP transport to one server at one URL."""

    is_http = True
    is_legacy = False

    def __init__(
        self,
        make_door: Callable[[], HttpClient],
        url: str,
        headers: Headers,
        *,
        limit: int,
        most_reconnects: int,
        on_diagnostic: Callable[[str], Any] | None = None,
        mask: Callable[[str], str] = str,
        hide: Callable[[Any], Any] = as_it_is,
    ) -> None:
        self.address = url
        self.hide = hide
        self._mask = mask
        self._make_door = make_door
        self._door = make_door()
        self._url = self._given_url = url
        self._headers = headers
        self._limit = limit
        self._most_reconnects = most_reconnects
        self._on_diagnostic = on_diagnostic
        self._session_id: str | None = None
        self._offered_id: str | None = None
        """Id of a session that is being opened. The previous id is kept until the new session is agreed on."""
        self._version: str | None = None
        self._in_flight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._is_heard = asyncio.Event()
        """Set when the server has accepted or refused the GET stream."""
        self._is_closed = False

    async def start(self, receiver: Receiver) -> None:
        """Keep the receiver. Nothing is sent yet; each request opens a connection if none is free."""
        self._receiver = receiver

    # -- requests ----------------------------------------------------------------------

    def send_now(self, outgoing: Outgoing) -> bool:
        """Return False: sending may have to wait."""
        return False

    async def exchange(self, outgoing: Outgoing) -> None:
        """POST a request and read until its response has arrived.

        Raises: TransportError and RemoteError, from the server or the network.
        """
        is_opening = outgoing.method == "initialize"
        if is_opening:
            self._offered_id = None
        elif self._listening is not None and outgoing.method in _MAY_BE_ASKED_BACK:
            await self._until_heard()
        headers = await self._all_headers(_POST, in_session=not (is_opening or outgoing.is_stateless), may_be_new=False)
        headers.update(outgoing.headers)
        has_session = _SESSION in headers
        self._in_flight += 1
        answer = None
        try:
            answer = await self._send("POST", headers, outgoing.body)
            if not answer.is_success:
                raise await self._refusal(answer, has_session=has_session)
            if is_opening:
                self._offered_id = _session_id(answer)
            if answer.media_type == EVENT_STREAM:
                await self._follow(answer, outgoing)
            else:
                await self._take_body(answer, outgoing)
        finally:
            self._in_flight -= 1
            if answer is not None:
                answer.close()

    async def post(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """POST a notification or a response.

        Raises: TransportError. If the server refuses the message, that is only a diagnostic.
        """
        all_headers = await self._all_headers(_POST, in_session=not is_stateless)
        all_headers.update(headers or {})
        answer = await self._send("POST", all_headers, message)
        try:
            if not answer.is_success:
                self._say(f"a notification was answered with status {answer.status}")
            await answer.read(self._limit)  # so that the connection can be reused
        finally:
            answer.close()

    def withdraw(self, outgoing: Outgoing, reason: str) -> None:
        """Cancel a request: a modern server notices the closed stream; a legacy one gets a notification."""
        if outgoing.is_stateless or self._version is None or self._is_closed:
            return
        params = {"requestId": outgoing.id, "reason": reason}
        self._spawn(self._tell(encode_notification("notifications/cancelled", params)))

    def settle(self, version: str) -> None:
        """Send the version with each request from now on, and open the GET stream of the session."""
        self._version = version
        self._session_id, self._offered_id = self._offered_id, None
        if self._listening is not None:
            self._listening.cancel()
        self._is_heard = asyncio.Event()
        self._listening = self._spawn(self._listen(self._is_heard))

    async def close(self) -> None:
        """End the session with a DELETE, within a time limit, and close all connections."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if self._in_flight:
            await self._door.close()  # so that pending requests fail at once
        try:
            if self._session_id is not None and self._version is not None:
                await self._end_session()
        finally:  # also when closing is cancelled
            await self._door.close()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.CLOSE_S)

    # -- one answer --------------------------------------------------------------------

    async def _take_body(self, answer: HttpResponse, outgoing: Outgoing) -> None:
        body = await answer.read(self._limit)
        if not body.strip():
            raise _invalid(f"The server answered a request with nothing (status {answer.status})")
        if _ACCEPTED.fullmatch(body) and self._listening is not None:
            return  # the response will come on the GET stream
        if not self._receiver.receive(body, outgoing):
            raise _invalid(f"The server's answer cannot be read: {self._receiver.problem}")
        if not outgoing.is_answered:
            raise _invalid("The server answered something that was not asked here")

    async def _follow(self, answer: HttpResponse, outgoing: Outgoing) -> None:
        """Read the stream of one request; resume it when it breaks, up to a limit."""
        reading = _Reading(self._limit)
        while True:
            try:
                await self._read(answer, reading, outgoing)
                broken: ConnectionFailed | None = None
            except ConnectionFailed as error:
                broken = error
            finally:
                answer.close()
            if outgoing.is_answered:
                return
            if outgoing.is_stateless or not reading.last_id or self._is_closed:
                raise broken or ConnectionFailed("The server's stream ended before its answer")
            answer = await self._reconnect(reading, outgoing)

    async def _read(self, answer: HttpResponse, reading: _Reading, outgoing: Outgoing) -> None:
        async for chunk in answer.chunks():
            for event in reading.feed(chunk):
                self._deliver(event, outgoing)
                if event.data:
                    reading.reconnects = 0
            if outgoing.is_answered:
                return
        # Some servers omit the empty line after their last event.
        for event in reading.feed(b"\n\n"):
            self._receiver.receive(event.data, outgoing)

    def _deliver(self, event: Event, outgoing: Outgoing) -> None:
        if len(event.data) > self._limit:
            raise _event_too_large(self._limit)
        if event.data and not self._receiver.receive(event.data, outgoing):
            raise InvalidEvent(f"The server sent an event that cannot be read: {self._receiver.problem}")

    async def _reconnect(self, reading: _Reading, outgoing: Outgoing) -> HttpResponse:
        """Resume a stream after its last event."""
        while True:
            reading.reconnects += 1
            if reading.reconnects > self._most_reconnects:
                raise ReconnectsExceeded(
                    f"The server's stream broke {reading.reconnects} times and brought nothing new",
                    {"reconnects": reading.reconnects - 1},
                )
            self._say(f"{outgoing.method} {outgoing.id}: taking up the stream again")
            await asyncio.sleep(reading.wait_s())
            try:
                answer = await self._get(reading.last_id)
            except ConnectionFailed as error:
                if not error.may_have_executed and self._is_closed:
                    raise
                continue
            reading.begin()
            return answer

    async def _get(self, last_id: str) -> HttpResponse:
        headers = await self._all_headers(_GET, in_session=True)
        if last_id:
            headers["Last-Event-ID"] = last_id
        answer = await self._send("GET", headers, is_stream=True)
        if answer.is_success and answer.media_type == EVENT_STREAM:
            return answer
        try:
            if not answer.is_success:
                raise await self._refusal(answer, has_session=_SESSION in headers)
            data = {"content_type": answer.media_type}
            raise HttpError("The server did not answer with a stream of events", answer.status, data)
        finally:
            answer.close()

    # -- the GET stream of a legacy session ----------------------------------------------

    async def _until_heard(self) -> None:
        """Wait for the GET stream: many servers send requests only there, and those sent before it is open are lost.

        The wait is short, because a few servers send the response head only with their first event.
        """
        is_heard = self._is_heard
        if is_heard.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(bounds.LISTENING_S):
                await is_heard.wait()
        is_heard.set()

    async def _listen(self, is_heard: asyncio.Event) -> None:
        """Keep the GET stream of a legacy session open; return if the server does not offer one."""
        reading = _Reading(self._limit)
        while reading.reconnects < bounds.EMPTY_STREAMS:
            try:
                answer = await self._get(reading.last_id)
            except HttpError:
                return
            except SessionLost:
                return  # the next request opens a new session and a new stream
            except ConnectionClosed:
                return
            except TransportError:
                answer = None
            finally:
                is_heard.set()
            if answer is not None:
                reading.begin()
                await self._hear(answer, reading)
            reading.reconnects += 1
            await asyncio.sleep(reading.wait_s())
        times = reading.reconnects
        self._say(f"the stream of the server's own messages ended {times} times in a row and is given up")

    async def _hear(self, answer: HttpResponse, reading: _Reading) -> None:
        clock = asyncio.get_running_loop().time
        since = clock()
        try:
            async for chunk in answer.chunks():
                for event in reading.feed(chunk):
                    if event.data:
                        reading.reconnects = 0
                        self._receiver.receive(event.data)
        except TransportError as error:
            self._say(f"the stream of the server's own messages broke: {error.message}")
        finally:
            answer.close()
        if clock() - since > bounds.STEADY_S:
            reading.reconnects = 0

    # -- the rest ------------------------------------------------------------------------

    async def _all_headers(self, fixed: dict[str, str], *, in_session: bool, may_be_new: bool = True) -> dict[str, str]:
        """Make the headers of one request. With `may_be_new`, a session that is still being opened is named too."""
        if self._is_closed:
            raise ConnectionClosed("The client is closed")
        headers = await self._headers()
        headers.update(fixed)
        if in_session:
            if self._version is not None:
                headers[_VERSION] = self._version
            session_id = (self._offered_id if may_be_new else None) or self._session_id
            if session_id is not None:
                headers[_SESSION] = session_id
        return headers

    async def _send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, *, is_stream: bool = False
    ) -> HttpResponse:
        """Send to the endpoint; follow one redirect of the given URL that keeps method, body and origin."""
        asked = self._url
        answer = await self._door.send(method, asked, headers=headers, body=body, is_stream=is_stream)
        if answer.status not in _METHOD_KEEPING_REDIRECTS or asked != self._given_url:
            return answer
        target = same_origin_target(asked, answer.header("Location"))
        if target is None or target == asked:
            return answer
        answer.close()
        self._url = target
        return await self._door.send(method, target, headers=headers, body=body, is_stream=is_stream)

    async def _refusal(self, answer: HttpResponse, *, has_session: bool) -> HubbubError:
        return await refusal(answer, self._url, self._limit, has_session=has_session, mask=self._mask, hide=self.hide)

    async def _tell(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(bounds.CLOSE_S):
                await self.post(message)
        except (TransportError, ConnectionClosed, TimeoutError):
            self._say("a cancellation could not be sent")

    async def _end_session(self) -> None:
        door = self._make_door()
        try:
            async with asyncio.timeout(bounds.CLOSE_S):
                headers = await self._headers()
                headers.update({**_GET, _VERSION: str(self._version), _SESSION: str(self._session_id)})
                answer = await door.send("DELETE", self._url, headers=headers)
                answer.close()
        except (TransportError, TimeoutError):
            self._say("the session could not be ended")
        finally:
            self._session_id = None
            await door.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _say(self, line: str) -> None:
        if self._on_diagnostic is not None:
            try:
                self._on_diagnostic(line)
            except Exception:  # a user's hook must not break the transport
                return


class _Reading:
    """Reading position of one stream, across reconnects."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._decoder = EventDecoder(limit + bounds.EVENT_FIELD_BYTES)
        self._backoff = Backoff(bounds.STREAM_RETRY_PAUSES_S, jitter=0)
        self._retry_ms: int | None = None
        self._last_id = ""
        self.reconnects = 0

    @property
    def last_id(self) -> str:
        """The event id to resume after."""
        return self._decoder.last_id or self._last_id

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that these bytes complete."""
        try:
            return self._decoder.feed(chunk)
        except MessageTooLarge:
            raise _event_too_large(self._limit) from None

    def begin(self) -> None:
        """Continue on a new connection."""
        self._last_id = self.last_id
        self._retry_ms = self._retry if self._decoder.retry_ms is None else self._decoder.retry_ms
        self._decoder = EventDecoder(self._limit + bounds.EVENT_FIELD_BYTES)

    def wait_s(self) -> float:
        """How long to wait before reconnecting: exactly what the server asked for, or longer each time."""
        retry_ms = self._retry
        if retry_ms is not None:
            return min(retry_ms / 1000, bounds.LONGEST_RETRY_S)
        self._backoff.failures = max(self.reconnects - 1, 0)
        return self._backoff.next_s()

    @property
    def _retry(self) -> int | None:
        return self._retry_ms if self._decoder.retry_ms is None else self._decoder.retry_ms


def _session_id(answer: HttpResponse) -> str | None:
    found = answer.header(_SESSION).strip()
    if not found:
        return None
    if not _SESSION_ID.fullmatch(found):
        raise _invalid("The server's session id has characters that no id may have")
    return found


def _invalid(message: str) -> TransportError:
    return InvalidResponse(message)


def _event_too_large(limit: int) -> TransportError:
    return EventTooLarge(f"The server sent an event of more than {limit} bytes", {"max_bytes": limit})
