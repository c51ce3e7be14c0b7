"""The client's end of Streamable HTTP: every request a POST of its own, answered by JSON or a stream.

Requests do not wait for each other. A stream that breaks is taken up again where it
stopped, if the server numbers its events; one that cannot be is lost, and so is the answer.
In the legacy era there is a session, a stream for what the server says unasked, and a
DELETE at the end; in the modern era there is none of that. OAuth is not here.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from hubbub import bounds
from hubbub.errors import ConnectionClosed, HttpError, MessageTooLarge, SessionLost, TransportError
from hubbub.net.answer import Answer
from hubbub.net.backoff import STREAM, Backoff
from hubbub.net.door import Door
from hubbub.ports import Outgoing, Receiver, as_it_is
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.protocol.sse import Event, EventDecoder
from hubbub.transports.http_refusals import refusal

EVENT_STREAM: Final = "text/event-stream"
_SESSION: Final = "Mcp-Session-Id"
_VERSION: Final = "MCP-Protocol-Version"
_POST: Final = {"Accept": f"application/json, {EVENT_STREAM}", "Content-Type": "application/json"}
_GET: Final = {"Accept": EVENT_STREAM}
_SESSION_ID: Final = re.compile(r"[!-~]{1,1024}")
_ACCEPTED: Final = re.compile(rb'\s*\{\s*"accepted"\s*:\s*true\s*\}\s*')
_FIELD_BYTES: Final = 64 * 1024
"""What an event may hold besides its data: names of fields, ids."""
_SKIPPED: Final = 20
"""Short streams in a row that bring nothing before we listen no more."""
_MAY_BE_ASKED_BACK: Final = frozenset({"tools/call", "prompts/get", "resources/read"})

Headers = Callable[[], Awaitable[dict[str, str]]]


class HttpLink:
    """One server at one URL."""

    is_http = True
    is_legacy = False

    def __init__(
        self,
        make_door: Callable[[], Door],
        url: str,
        headers: Headers,
        *,
        limit: int = bounds.RESPONSE_BYTES,
        most_reconnects: int = bounds.RECONNECTS,
        on_diagnostic: Callable[[str], Any] | None = None,
        mask: Callable[[str], str] = str,
        hide: Callable[[Any], Any] = as_it_is,
    ) -> None:
        self.address = url
        self.hide = hide
        self._mask = mask
        self._make_door = make_door
        self._door = make_door()
        self._url = url
        self._headers = headers
        self._limit = limit
        self._most_reconnects = most_reconnects
        self._on_diagnostic = on_diagnostic
        self._session_id: str | None = None
        self._offered_id: str | None = None
        """Of a session that is being opened; until it is, the one before is kept, lost or not."""
        self._version: str | None = None
        self._in_flight = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._is_heard = asyncio.Event()
        """Set when the server has answered whether it lets us listen."""
        self._is_closed = False

    async def start(self, receiver: Receiver) -> None:
        """Nothing is sent yet; each request opens its own connection if none is free."""
        self._receiver = receiver

    # -- requests ----------------------------------------------------------------------

    def send_now(self, outgoing: Outgoing) -> bool:
        """Never: sending may take a while."""
        return False

    async def exchange(self, outgoing: Outgoing) -> None:
        """POST a request and read until its answer has come.

        Raises: TransportError and RemoteError, as the server or the network has it.
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
            answer = await self._door.send("POST", self._url, headers=headers, body=outgoing.body)
            if not answer.is_success:
                raise await refusal(answer, self._limit, has_session=has_session, mask=self._mask, hide=self.hide)
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
        """POST a notification or an answer.

        Raises: TransportError; a refusal by the server is only a diagnostic.
        """
        all_headers = await self._all_headers(_POST, in_session=not is_stateless)
        all_headers.update(headers or {})
        answer = await self._door.send("POST", self._url, headers=all_headers, body=message)
        try:
            if not answer.is_success:
                self._say(f"a notification was answered with status {answer.status}")
            await answer.read(self._limit)  # so that the connection can be used again
        finally:
            answer.close()

    def withdraw(self, outgoing: Outgoing, reason: str) -> None:
        """Its stream is already closed, which is all that a modern server needs; a legacy one is told."""
        if outgoing.is_stateless or self._version is None or self._is_closed:
            return
        params = {"requestId": outgoing.id, "reason": reason}
        self._spawn(self._tell(encode_notification("notifications/cancelled", params)))

    def settle(self, version: str) -> None:
        """From now on each request names the version; listen to what the server says unasked."""
        self._version = version
        self._session_id, self._offered_id = self._offered_id, None
        if self._listening is not None:
            self._listening.cancel()
        self._is_heard = asyncio.Event()
        self._listening = self._spawn(self._listen(self._is_heard))

    async def close(self) -> None:
        """End the session with the server, briefly, and drop all connections."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if self._in_flight:
            await self._door.close()  # so that those who wait are told at once
        if self._session_id is not None and self._version is not None:
            await self._end_session()
        await self._door.close()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.CLOSE_S)

    # -- one answer --------------------------------------------------------------------

    async def _take_body(self, answer: Answer, outgoing: Outgoing) -> None:
        body = await answer.read(self._limit)
        if not body.strip():
            raise _invalid(f"The server answered a request with nothing (status {answer.status})")
        if _ACCEPTED.fullmatch(body) and self._listening is not None:
            return  # it will come on the other stream
        if not self._receiver.receive(body, outgoing):
            raise _invalid("The server's answer is no JSON-RPC message")
        if not outgoing.is_answered:
            raise _invalid("The server answered something that was not asked here")

    async def _follow(self, answer: Answer, outgoing: Outgoing) -> None:
        """Read the stream of one request, and take it up again as often as it breaks, within bounds."""
        reading = _Reading(self._limit)
        while True:
            try:
                await self._read(answer, reading, outgoing)
                broken: TransportError | None = None
            except TransportError as error:
                if error.code != "TRANSPORT_ERROR":
                    raise
                broken = error
            finally:
                answer.close()
            if outgoing.is_answered:
                return
            if outgoing.is_stateless or not reading.last_id or self._is_closed:
                raise broken or TransportError("TRANSPORT_ERROR", "The server's stream ended before its answer")
            answer = await self._reconnect(reading, outgoing)

    async def _read(self, answer: Answer, reading: _Reading, outgoing: Outgoing) -> None:
        async for chunk in answer.chunks():
            for event in reading.feed(chunk):
                self._deliver(event, outgoing)
                if event.data:
                    reading.reconnects = 0
            if outgoing.is_answered:
                return
        # Some servers forget the empty line behind their last event.
        for event in reading.feed(b"\n\n"):
            self._receiver.receive(event.data, outgoing)

    def _deliver(self, event: Event, outgoing: Outgoing) -> None:
        if len(event.data) > self._limit:
            raise _event_too_large(self._limit)
        if event.data and not self._receiver.receive(event.data, outgoing):
            raise TransportError("INVALID_SSE_EVENT_DATA", "The server sent an event that is no JSON-RPC message")

    async def _reconnect(self, reading: _Reading, outgoing: Outgoing) -> Answer:
        """Take the stream up behind its last event."""
        while True:
            reading.reconnects += 1
            if reading.reconnects > self._most_reconnects:
                raise TransportError(
                    "SSE_RECONNECTS_EXCEEDED",
                    f"The server's stream broke {reading.reconnects} times and brought nothing new",
                    {"reconnects": reading.reconnects - 1},
                )
            self._say(f"{outgoing.method} {outgoing.id}: taking up the stream again")
            await asyncio.sleep(reading.wait_s())
            try:
                answer = await self._get(reading.last_id)
            except TransportError as error:
                if error.code != "TRANSPORT_ERROR" or (not error.may_have_executed and self._is_closed):
                    raise
                continue
            reading.begin()
            return answer

    async def _get(self, last_id: str) -> Answer:
        headers = await self._all_headers(_GET, in_session=True)
        if last_id:
            headers["Last-Event-ID"] = last_id
        answer = await self._door.send("GET", self._url, headers=headers, is_stream=True)
        if answer.is_success and answer.media_type == EVENT_STREAM:
            return answer
        try:
            if not answer.is_success:
                raise await refusal(
                    answer, self._limit, has_session=_SESSION in headers, mask=self._mask, hide=self.hide
                )
            data = {"content_type": answer.media_type}
            raise HttpError("The server did not answer with a stream of events", answer.status, data)
        finally:
            answer.close()

    # -- what the server says unasked --------------------------------------------------

    async def _until_heard(self) -> None:
        """Many servers ask back on the stream of their own messages only, and what they say before it is open is lost.

        A few send the head of that stream with its first event, so nobody waits for long.
        """
        is_heard = self._is_heard
        if is_heard.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(bounds.LISTENING_S):
                await is_heard.wait()
        is_heard.set()

    async def _listen(self, is_heard: asyncio.Event) -> None:
        """Hold the stream of a legacy session open; a server that has none says so."""
        reading = _Reading(self._limit)
        while reading.reconnects < _SKIPPED:
            try:
                answer = await self._get(reading.last_id)
            except HttpError:
                return
            except SessionLost:
                return  # whoever asks next starts a new one, and listens again
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
        self._say(f"the stream of the server's own messages ended {_SKIPPED} times in a row and is given up")

    async def _hear(self, answer: Answer, reading: _Reading) -> None:
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
        if clock() - since > bounds.STEADY_STREAM_S:
            reading.reconnects = 0

    # -- the rest ------------------------------------------------------------------------

    async def _all_headers(self, fixed: dict[str, str], *, in_session: bool, may_be_new: bool = True) -> dict[str, str]:
        """The headers of one request. What belongs to an opening, as the rest of its stream does, names the new id."""
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
            except Exception:  # A hook of the user's must not stop anything.
                return


class _Reading:
    """Where one stream stands, over all the connections that bring it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._decoder = EventDecoder(limit + _FIELD_BYTES)
        self._backoff = Backoff(STREAM, jitter=0)
        self._retry_ms: int | None = None
        self._last_id = ""
        self.reconnects = 0

    @property
    def last_id(self) -> str:
        """Behind which event to go on."""
        return self._decoder.last_id or self._last_id

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that these bytes complete."""
        try:
            return self._decoder.feed(chunk)
        except MessageTooLarge:
            raise _event_too_large(self._limit) from None

    def begin(self) -> None:
        """A new connection brings the rest."""
        self._last_id = self.last_id
        self._retry_ms = self._retry if self._decoder.retry_ms is None else self._decoder.retry_ms
        self._decoder = EventDecoder(self._limit + _FIELD_BYTES)

    def wait_s(self) -> float:
        """How long to wait first: what the server asked for, exactly, or longer each time."""
        retry_ms = self._retry
        if retry_ms is not None:
            return min(retry_ms / 1000, bounds.LONGEST_RETRY_S)
        self._backoff.failures = max(self.reconnects - 1, 0)
        return self._backoff.next_s()

    @property
    def _retry(self) -> int | None:
        return self._retry_ms if self._decoder.retry_ms is None else self._decoder.retry_ms


def _session_id(answer: Answer) -> str | None:
    found = answer.header(_SESSION).strip()
    if not found:
        return None
    if not _SESSION_ID.fullmatch(found):
        raise _invalid("The server's session id has characters that no id may have")
    return found


def _invalid(message: str) -> TransportError:
    return TransportError("INVALID_RESPONSE", message)


def _event_too_large(limit: int) -> TransportError:
    return TransportError(
        "SSE_EVENT_DATA_TOO_LARGE", f"The server sent an event of more than {limit} bytes", {"max_bytes": limit}
    )
