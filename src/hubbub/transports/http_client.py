"""The client side of Streamable HTTP: each request is a POST; its response is JSON or a stream.

Requests do not wait for each other. A broken stream is resumed after its last event if the server
numbers its events; otherwise the stream and its response are lost. The legacy era also has a session,
a GET stream for messages that belong to no request, and a DELETE at the end; the modern era has none of
these. Tokens are added by `AuthorizedHttpClient`.

A redirect is an error, except one 307 or 308 to the same origin: servers on the Python SDK 1.8 and 1.9
redirect `/mcp` to `/mcp/`. The new address is then used for the lifetime of the transport.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final

from hubbub import bounds
from hubbub.errors import (
    ConnectionClosed,
    ConnectionFailed,
    HttpError,
    HubbubError,
    InvalidEvent,
    InvalidResponse,
    ReconnectsExceeded,
    SessionLost,
    TransportError,
)
from hubbub.net.client import HttpClient
from hubbub.net.redirects import same_origin_target
from hubbub.net.response import HttpResponse
from hubbub.net.timeouts import pausable
from hubbub.ports import OutgoingRequest, Receiver, hide_nothing
from hubbub.protocol.jsonrpc import encode_notification
from hubbub.protocol.sse import Event
from hubbub.transports.authorized_http_client import REFUSALS, AuthorizedHttpClient
from hubbub.transports.http_client_heads import SESSION_HEADER, EncodedHead, EncodedHeads, parse_session_id
from hubbub.transports.http_errors import error_from_response
from hubbub.transports.http_stream_position import StreamPosition, event_too_large

EVENT_STREAM: Final = "text/event-stream"
_VERSION_HEADER: Final = "MCP-Protocol-Version"
_POST_HEADERS: Final = {"Accept": f"application/json, {EVENT_STREAM}", "Content-Type": "application/json"}
_GET_HEADERS: Final = {"Accept": EVENT_STREAM}
_METHOD_PRESERVING_REDIRECTS: Final = (307, 308)
_ACCEPTED_BODY: Final = re.compile(rb'\s*\{\s*"accepted"\s*:\s*true\s*\}\s*')
_HANDSHAKE_METHODS: Final = frozenset({"initialize", "server/discover"})
_CLIENT_REQUEST_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})

HeadersProvider = Callable[[], Awaitable[dict[str, str]]]


class HttpTransport:
    """Streamable HTTP transport to one server at one URL."""

    is_http = True
    is_legacy = False

    def __init__(
        self,
        make_http_client: Callable[[], HttpClient],
        url: str,
        headers: HeadersProvider,
        *,
        has_fixed_headers: bool = False,
        limit: int,
        max_reconnects: int,
        on_diagnostic: Callable[[str], Any] | None = None,
        mask: Callable[[str], str] = str,
        hide: Callable[[Any], Any] = hide_nothing,
    ) -> None:
        """`has_fixed_headers`: whether `headers` always returns the same headers."""
        self.address = url
        self.hide = hide
        self._mask = mask
        self._make_http_client = make_http_client
        self._http_client = client = make_http_client()
        self._authorized = client if isinstance(client, AuthorizedHttpClient) else None
        self._token_headers: Mapping[str, str] = {}
        """The headers of the authorizer in the encoded heads."""
        self._url = self._configured_url = url
        self._headers = headers
        self._has_fixed_headers = has_fixed_headers
        self._fixed_headers: dict[str, str] | None = None
        self._heads = EncodedHeads()
        self._limit = limit
        self._max_reconnects = max_reconnects
        self._on_diagnostic = on_diagnostic
        self._session_id: str | None = None
        self._pending_session_id: str | None = None
        """Id of a session that is being opened. The previous id is kept until the new session is agreed on."""
        self._version: str | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._get_stream_task: asyncio.Task[None] | None = None
        self._is_get_stream_ready = asyncio.Event()
        """Set when the server has accepted or refused the GET stream."""
        self._is_closed = False

    async def start(self, receiver: Receiver) -> None:
        """Keep the receiver. Nothing is sent yet; each request opens a connection if none is free."""
        self._receiver = receiver

    # -- requests ----------------------------------------------------------------------

    def send_nowait(self, outgoing: OutgoingRequest) -> bool:
        """Send over a free connection; a response in one piece goes to the receiver as soon as it arrives."""
        if self._is_closed or self._fixed_headers is None or outgoing.method in _HANDSHAKE_METHODS:
            return False
        if (
            self._get_stream_task is not None
            and outgoing.method in _CLIENT_REQUEST_METHODS
            and not self._is_get_stream_ready.is_set()
        ):
            return False
        if self._authorized is not None and not self._use_current_token(self._authorized):
            return False
        head = self._heads.find(outgoing)
        if head is None:
            try:
                headers = {**self._post_headers(outgoing, self._fixed_headers), **self._token_headers}
                head = self._heads.encode(outgoing, self._url, headers, self._http_client.encode_head)
            except ValueError:
                return False  # `send_request` reports it
        on_ready = partial(self._handle_response, outgoing, head, self._token_headers)
        response = self._http_client.send_nowait(head.url, head.data, outgoing.body, on_ready)
        if response is None:
            return False
        outgoing.on_abandoned = response.close
        return True

    def _use_current_token(self, client: AuthorizedHttpClient) -> bool:
        headers = client.current_headers()
        if headers is not None and headers is not self._token_headers:
            self._token_headers = headers
            self._heads.clear()
        return headers is not None

    async def send_request(self, outgoing: OutgoingRequest) -> None:
        """POST a request and read until its response has arrived.

        Raises: TransportError and RemoteError, from the server or the network.
        """
        is_initialize = outgoing.method == "initialize"
        if is_initialize:
            self._pending_session_id = None
        elif self._get_stream_task is not None and outgoing.method in _CLIENT_REQUEST_METHODS:
            await self._wait_for_get_stream()
        headers = await self._request_headers(
            _POST_HEADERS, in_session=not (is_initialize or outgoing.is_stateless), include_pending=False
        )
        headers.update(outgoing.headers)
        response = await self._send("POST", headers, outgoing.body)
        await self._read_response(response, outgoing, has_session=SESSION_HEADER in headers)

    async def send_message(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] | None = None
    ) -> None:
        """POST a notification or a response.

        Raises: TransportError. If the server refuses the message, that is only a diagnostic.
        """
        all_headers = await self._request_headers(_POST_HEADERS, in_session=not is_stateless)
        all_headers.update(headers or {})
        response = await self._send("POST", all_headers, message)
        try:
            if not response.is_success:
                self._report_diagnostic(f"the server refused a notification or response with status {response.status}")
            await response.read(self._limit)  # so that the connection can be reused
        finally:
            response.close()

    def cancel_request(self, outgoing: OutgoingRequest, reason: str) -> None:
        """Cancel a request: a modern server notices the closed stream; a legacy one gets a notification."""
        if outgoing.is_stateless or self._version is None or self._is_closed:
            return
        params = {"requestId": outgoing.id, "reason": reason}
        self._spawn(self._send_cancellation(encode_notification("notifications/cancelled", params)))

    def finish_handshake(self, version: str) -> None:
        """Send the version with each request from now on, and open the GET stream of the session."""
        self._version = version
        self._heads.clear()
        self._session_id, self._pending_session_id = self._pending_session_id, None
        if self._get_stream_task is not None:
            self._get_stream_task.cancel()
        self._is_get_stream_ready = asyncio.Event()
        self._get_stream_task = self._spawn(self._keep_get_stream_open(self._is_get_stream_ready))

    async def close(self) -> None:
        """End the session with a DELETE, within a time limit, and close all connections."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        try:
            await self._http_client.close()  # first, so that pending requests fail at once
            if self._session_id is not None and self._version is not None:
                await self._end_session()
        finally:  # also when closing is cancelled
            await self._http_client.close()
        if tasks:
            await asyncio.wait(tasks, timeout=bounds.CLOSE_TIMEOUT_S)

    # -- one response ------------------------------------------------------------------

    def _handle_response(
        self, outgoing: OutgoingRequest, head: EncodedHead, token: Mapping[str, str], response: HttpResponse
    ) -> None:
        """Deliver the response to a request of `send_nowait`; read it in a task if it has not completely arrived."""
        if not response.status:
            outgoing.fail(response.error or ConnectionFailed("The server did not respond"))
            return
        is_plain = response.is_success and response.media_type != EVENT_STREAM
        body = response.read_nowait(self._limit) if is_plain else None
        if body is None:
            reading = self._spawn(self._finish_request(outgoing, head, token, response))
            reading.add_done_callback(lambda _: response.close())  # also if it is cancelled before it starts
            outgoing.on_abandoned = reading.cancel
            return
        try:
            self._deliver_body(body, response.status, outgoing)
        except HubbubError as error:
            outgoing.fail(error)

    async def _finish_request(
        self, outgoing: OutgoingRequest, head: EncodedHead, token: Mapping[str, str], response: HttpResponse
    ) -> None:
        try:
            if self._authorized is not None and response.status in REFUSALS:
                headers = self._post_headers(outgoing, await self._headers())
                with pausable(outgoing.clock):
                    response = await self._authorized.resend(response, token, "POST", head.url, headers, outgoing.body)
            if response.status in _METHOD_PRESERVING_REDIRECTS:
                headers = self._post_headers(outgoing, await self._headers())
                response = await self._follow_redirect(response, head.url, "POST", headers, outgoing.body)
            await self._read_response(response, outgoing, has_session=head.has_session)
        except Exception as error:  # reported to the caller
            outgoing.fail(error)

    async def _read_response(self, response: HttpResponse, outgoing: OutgoingRequest, *, has_session: bool) -> None:
        try:
            if not response.is_success:
                raise await self._error_from_response(response, has_session=has_session)
            if outgoing.method == "initialize":
                self._pending_session_id = parse_session_id(response)
            if response.media_type == EVENT_STREAM:
                await self._read_response_stream(response, outgoing)
            else:
                self._deliver_body(await response.read(self._limit), response.status, outgoing)
        finally:
            response.close()

    def _deliver_body(self, body: bytes, status: int, outgoing: OutgoingRequest) -> None:
        if not body or body.isspace():
            raise InvalidResponse(f"The server sent an empty response (status {status})")
        if self._get_stream_task is not None and b'"accepted"' in body and _ACCEPTED_BODY.fullmatch(body):
            return  # the response will come on the GET stream
        if not self._receiver.receive(body, outgoing):
            raise InvalidResponse(f"The server's response cannot be read: {self._receiver.problem}")
        if not outgoing.is_answered:
            raise InvalidResponse("The server's response does not belong to the request")

    async def _read_response_stream(self, response: HttpResponse, outgoing: OutgoingRequest) -> None:
        """Read the stream of one request; resume it when it breaks, up to a limit."""
        position = StreamPosition(self._limit)
        while True:
            try:
                await self._read_events(response, position, outgoing)
                failure: ConnectionFailed | None = None
            except ConnectionFailed as error:
                failure = error
            finally:
                response.close()
            if outgoing.is_answered:
                return
            if outgoing.is_stateless or not position.last_id or self._is_closed:
                raise failure or ConnectionFailed("The server's stream ended before the response")
            response = await self._reconnect(position, outgoing)

    async def _read_events(self, response: HttpResponse, position: StreamPosition, outgoing: OutgoingRequest) -> None:
        async for chunk in response.chunks():
            for event in position.feed(chunk):
                self._deliver(event, outgoing)
                if event.data:
                    position.reconnects = 0
            if outgoing.is_answered:
                return
        # Some servers omit the empty line after their last event.
        for event in position.feed(b"\n\n"):
            self._receiver.receive(event.data, outgoing)

    def _deliver(self, event: Event, outgoing: OutgoingRequest) -> None:
        if len(event.data) > self._limit:
            raise event_too_large(self._limit)
        if event.data and not self._receiver.receive(event.data, outgoing):
            raise InvalidEvent(f"The server sent an event that cannot be read: {self._receiver.problem}")

    async def _reconnect(self, position: StreamPosition, outgoing: OutgoingRequest) -> HttpResponse:
        """Resume a stream after its last event."""
        while True:
            position.reconnects += 1
            if position.reconnects > self._max_reconnects:
                raise ReconnectsExceeded(
                    f"The server's stream broke {position.reconnects} times without a new event",
                    {"reconnects": position.reconnects - 1},
                )
            self._report_diagnostic(f"{outgoing.method} {outgoing.id}: resuming the stream")
            await asyncio.sleep(position.wait_s())
            try:
                response = await self._open_get_stream(position.last_id)
            except ConnectionFailed as error:
                if not error.may_have_executed and self._is_closed:
                    raise
                continue
            position.resume()
            return response

    async def _open_get_stream(self, last_id: str) -> HttpResponse:
        headers = await self._request_headers(_GET_HEADERS, in_session=True)
        if last_id:
            headers["Last-Event-ID"] = last_id
        response = await self._send("GET", headers, is_stream=True)
        if response.is_success and response.media_type == EVENT_STREAM:
            return response
        try:
            if not response.is_success:
                raise await self._error_from_response(response, has_session=SESSION_HEADER in headers)
            data = {"content_type": response.media_type}
            raise HttpError("The server did not answer with an event stream (text/event-stream)", response.status, data)
        finally:
            response.close()

    # -- the GET stream of a legacy session ----------------------------------------------

    async def _wait_for_get_stream(self) -> None:
        """Wait for the GET stream: many servers send requests only there, and those sent before it is open are lost.

        The wait is short, because a few servers send the response head only with their first event.
        """
        is_ready = self._is_get_stream_ready
        if is_ready.is_set():
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(bounds.SERVER_STREAM_WAIT_S):
                await is_ready.wait()
        is_ready.set()

    async def _keep_get_stream_open(self, is_ready: asyncio.Event) -> None:
        """Keep the GET stream of a legacy session open; return if the server does not offer one."""
        position = StreamPosition(self._limit)
        while position.reconnects < bounds.EMPTY_STREAMS:
            try:
                response = await self._open_get_stream(position.last_id)
            except HttpError:
                return
            except SessionLost:
                return  # the next request opens a new session and a new stream
            except ConnectionClosed:
                return
            except TransportError:
                response = None
            finally:
                is_ready.set()
            if response is not None:
                position.resume()
                await self._read_get_stream(response, position)
            position.reconnects += 1
            await asyncio.sleep(position.wait_s())
        attempts = position.reconnects
        self._report_diagnostic(f"the GET stream ended {attempts} times in a row and is not opened again")

    async def _read_get_stream(self, response: HttpResponse, position: StreamPosition) -> None:
        clock = asyncio.get_running_loop().time
        opened_at = clock()
        try:
            async for chunk in response.chunks():
                for event in position.feed(chunk):
                    if event.data:
                        position.reconnects = 0
                        self._receiver.receive(event.data)
        except TransportError as error:
            self._report_diagnostic(f"the GET stream broke: {error.message}")
        finally:
            response.close()
        if clock() - opened_at > bounds.STABLE_AFTER_S:
            position.reconnects = 0

    # -- sending -------------------------------------------------------------------------

    async def _request_headers(
        self, base_headers: dict[str, str], *, in_session: bool, include_pending: bool = True
    ) -> dict[str, str]:
        """Make the headers of one request. `include_pending` also names a session that is being opened."""
        if self._is_closed:
            raise ConnectionClosed("The client is closed")
        headers = await self._headers()
        if self._has_fixed_headers and self._fixed_headers is None:
            self._fixed_headers = dict(headers)
        headers.update(base_headers)
        if in_session:
            session_id = (self._pending_session_id if include_pending else None) or self._session_id
            headers.update(self._session_headers(session_id))
        return headers

    def _session_headers(self, session_id: str | None) -> dict[str, str]:
        headers = {} if self._version is None else {_VERSION_HEADER: self._version}
        if session_id is not None:
            headers[SESSION_HEADER] = session_id
        return headers

    def _post_headers(self, outgoing: OutgoingRequest, configured: Mapping[str, str]) -> dict[str, str]:
        """Make the headers of a request outside of the handshake."""
        in_session = {} if outgoing.is_stateless else self._session_headers(self._session_id)
        return {**configured, **_POST_HEADERS, **in_session, **outgoing.headers}

    async def _send(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, *, is_stream: bool = False
    ) -> HttpResponse:
        """Send to the endpoint; follow one redirect of the given URL that keeps method, body and origin."""
        sent_url = self._url
        response = await self._http_client.send(method, sent_url, headers=headers, body=body, is_stream=is_stream)
        if response.status not in _METHOD_PRESERVING_REDIRECTS:
            return response
        return await self._follow_redirect(response, sent_url, method, headers, body, is_stream=is_stream)

    async def _follow_redirect(
        self,
        response: HttpResponse,
        sent_url: str,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        is_stream: bool = False,
    ) -> HttpResponse:
        if sent_url != self._configured_url:
            return response
        target = same_origin_target(sent_url, response.header("Location"))
        if target is None or target == sent_url:
            return response
        response.close()
        self._url = target
        self._heads.clear()
        return await self._http_client.send(method, target, headers=headers, body=body, is_stream=is_stream)

    async def _error_from_response(self, response: HttpResponse, *, has_session: bool) -> HubbubError:
        return await error_from_response(
            response,
            self._url,
            self._limit,
            has_session=has_session,
            mask=self._mask,
            hide=self.hide,
            has_authorizer=self._authorized is not None,
        )

    async def _send_cancellation(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(bounds.CLOSE_TIMEOUT_S):
                await self.send_message(message)
        except (TransportError, ConnectionClosed, TimeoutError):
            self._report_diagnostic("a cancellation could not be sent")

    async def _end_session(self) -> None:
        http_client = self._make_http_client()
        try:
            async with asyncio.timeout(bounds.CLOSE_TIMEOUT_S):
                headers = await self._headers()
                headers.update(
                    {**_GET_HEADERS, _VERSION_HEADER: str(self._version), SESSION_HEADER: str(self._session_id)}
                )
                response = await http_client.send("DELETE", self._url, headers=headers)
                response.close()
        except (TransportError, TimeoutError):
            self._report_diagnostic("the session could not be ended")
        finally:
            self._session_id = None
            self._heads.clear()
            await http_client.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _report_diagnostic(self, line: str) -> None:
        if self._on_diagnostic is not None:
            try:
                self._on_diagnostic(line)
            except Exception:  # a user's hook must not break the transport
                return
