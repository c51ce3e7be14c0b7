"""JSON-RPC requests to a server and their responses, over any transport.

Numbers requests from 1, keeps the pending ones, limits their time, and cancels those that
are no longer waited for. Requests of the server go to `answer`, its notifications to
`on_notification`. The meaning of methods is left to the client.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.client.config import check_seconds
from hubbub.client.requests import NO_HEADERS, Deadlines, Progress, Request, start_clocks, stop_clocks
from hubbub.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    HubbubError,
    InvalidParams,
    InvalidResponse,
    MessageError,
    MessageTooLarge,
    MethodNotFound,
    ParseError,
    TransportError,
)
from hubbub.net.timeouts import pausable
from hubbub.observe import rate_limit_logger
from hubbub.ports import ClientTransport, OutgoingRequest, ReturnPath
from hubbub.protocol.error_codes import error_response, remote_error
from hubbub.protocol.jsonrpc import (
    Envelope,
    decode_envelope,
    encode_notification,
    encode_request,
    encode_result,
)
from hubbub.protocol.params import CancelledParams, decode_params
from hubbub.protocol.response_salvage import replace_nan, salvage_request_id, salvage_response_id
from hubbub.protocol.results import ProgressParams
from hubbub.protocol.revisions import NEWEST_LEGACY

logger = logging.getLogger("hubbub.client")
rate_limit_logger(logger.name)  # most of its lines report single messages of servers

_NEVER_CANCELLED = ("initialize", "server/discover")
_decode_progress = msgspec.json.Decoder(ProgressParams).decode

Answer = Callable[[str, Raw, "Request | None"], Awaitable[Any]]
OnNotification = Callable[[str, Raw, "Request | None"], Any]


class JsonRpcClient:
    """The JSON-RPC connection to one server."""

    def __init__(
        self,
        transport: ClientTransport,
        *,
        timeout_s: float,
        answer: Answer | None = None,
        on_notification: OnNotification | None = None,
        on_lost: Callable[[HubbubError], Any] | None = None,
        on_line: Callable[[str], Any] | None = None,
        correlates: bool = True,
    ) -> None:
        self.transport = transport
        self._correlates = correlates
        """Whether a server request that names no call is about the only pending one; False if callers differ."""
        self._timeout_s = check_seconds("timeout_s", timeout_s)
        self._answer = answer
        self._on_notification = on_notification
        self._on_lost = on_lost
        self._on_line = on_line
        self._pending: dict[bytes, Request] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._client_requests: dict[bytes, asyncio.Task[Any]] = {}
        self._deadlines = Deadlines()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_id = 0
        self._failure: HubbubError | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_started = self._is_closed = self._has_received = False
        self.problem = ""

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def failure(self) -> HubbubError | None:
        """Why no more requests can be sent; None while they can."""
        return self._failure

    async def start(self) -> None:
        """Start the transport, once.

        Raises:
            ConnectionClosed: it was closed before.
            DeadlineExceeded: the server did not respond in time.
            TransportError: the transport cannot start.
        """
        if self._is_closed:
            raise ConnectionClosed("The client is closed")
        try:
            async with asyncio.timeout(_seconds_or_none(self._timeout_s)) as timeout:
                with pausable(timeout):
                    starting = self._start_transport()
                    await asyncio.wait([starting])
        except TimeoutError:
            self._start_transport().cancel()
            raise DeadlineExceeded("The connection to the server", self._timeout_s) from None
        if starting.cancelled():  # by `close`, not by our own caller
            raise ConnectionClosed("The client was closed while it started")
        starting.result()
        self._is_started = True

    def _start_transport(self) -> asyncio.Future[None]:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self.transport.start(self))
            self._starting.add_done_callback(mark_retrieved)
        return self._starting

    async def request(
        self,
        method: str,
        params: Any = UNSET,
        *,
        timeout_s: float | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        is_stateless: bool = False,
        progress: Progress | None = None,
        back: ReturnPath | None = None,
        token: Raw | None = None,
        prepare: Callable[[int], Any] | None = None,
    ) -> Raw:
        """Send a request and return its raw result. `prepare` makes parameters that depend on the request's id.

        Raises:
            RemoteError: the server responded with an error.
            DeadlineExceeded: it did not respond in time.
            ConnectionClosed, TransportError: the connection failed.
        """
        seconds = self._timeout_s if timeout_s is None else check_seconds("timeout_s", timeout_s)
        if not method.strip():
            raise InvalidParams("The method of the request is empty")
        self._check_open()
        identifier = self.next_id()
        if prepare is not None:
            params = prepare(identifier)
        try:
            body = encode_request(identifier, method, params)
        except UnicodeEncodeError as error:
            raise InvalidParams(
                f"{method}: a string contains a lone surrogate ({error.reason}); send valid Unicode"
            ) from None
        request = Request(
            identifier, method, body, self.new_response_future(), headers, is_stateless, progress, back, token
        )
        return await self.exchange(request, seconds)

    def next_id(self) -> int:
        """Return the id for the next request."""
        self._last_id += 1
        return self._last_id

    def new_response_future(self) -> asyncio.Future[Raw]:
        """Make the future for the response to a request."""
        return self._running_loop().create_future()

    async def exchange(self, request: Request, seconds: float) -> Raw:
        """Send an encoded request and wait for its response; raises as `request` does."""
        self._check_open()
        key = b"%d" % request.id
        self._pending[key] = request
        try:
            # Most requests can be written without waiting; then only the response is awaited.
            if self.transport.send_nowait(request):
                deadline = self._deadlines.add(request.answer, self._running_loop().time() + seconds)
                request.clock = deadline
                try:
                    return await request.answer
                except BaseException:
                    if request.on_abandoned is not None:
                        request.on_abandoned()
                    raise
                finally:
                    self._deadlines.remove(deadline)
            async with asyncio.timeout(_seconds_or_none(seconds)) as request.clock:
                with pausable(request.clock):
                    await self.transport.send_request(request)
                return await request.answer
        except TimeoutError:
            self._cancel_request(request, "timeout")
            raise DeadlineExceeded(f"The answer to {request.method}", seconds) from None
        except asyncio.CancelledError:
            self._cancel_request(request, "cancelled")
            raise
        except HubbubError:
            # A response that has arrived takes precedence over an error of its stream.
            if request.answer.done() and not request.answer.cancelled():
                return request.answer.result()
            raise
        finally:
            del self._pending[key]
            if not request.answer.done():
                request.answer.cancel()
            elif not request.answer.cancelled():
                request.answer.exception()  # already raised, or no longer awaited

    async def notify(
        self,
        method: str,
        params: Any = UNSET,
        *,
        is_stateless: bool = False,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """Send a notification."""
        if not method.strip():
            raise InvalidParams("The method of the notification is empty")
        self._check_open()
        await self._post(encode_notification(method, params), is_stateless=is_stateless, headers=headers)

    async def _post(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.transport.send_message(message, is_stateless=is_stateless, headers=headers)
        except TimeoutError:
            raise DeadlineExceeded("The server to accept a message", self._timeout_s) from None

    async def close(self) -> None:
        """Fail pending requests and close the transport; may be called again, from any task."""
        if not self._is_closed:
            self._is_closed = True
            self._fail_all(ConnectionClosed("The client was closed"))
            self._deadlines.close()
            if self._starting is not None and not self._starting.done():
                self._starting.cancel()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await self.transport.close()
        waiting = [*tasks, *([self._starting] if self._starting is not None else [])]
        if waiting:
            await asyncio.wait(waiting, timeout=bounds.CLOSE_TIMEOUT_S)

    # -- callbacks of the transport ---------------------------------------------------

    def receive(self, message: bytes, outgoing: OutgoingRequest | None = None) -> bool:
        """Take one message from the server."""
        try:
            envelope = decode_envelope(message)
        except MessageError as error:
            if (repaired := replace_nan(message)) is not None:
                return self.receive(repaired, outgoing)
            logger.debug("a server sent a message that cannot be read: %s", error.message)
            self._call_line_hook(message)
            self.problem = error.message
            if outgoing is None:  # otherwise the transport reports the failure of the request
                self._fail_unreadable(salvage_response_id(message), error)
            if (raw_id := salvage_request_id(message)) is not None and len(self._tasks) < bounds.PENDING_REQUESTS:
                refusal = error_response(Raw(raw_id), ParseError(error.message), NEWEST_LEGACY)
                self.spawn(self._send_answer(refusal))
            return False
        request = outgoing if isinstance(outgoing, Request) else None
        if isinstance(envelope, list):
            readable = [self.receive(item, outgoing) for item in envelope]
            return all(readable)
        if envelope.method is UNSET:
            self._handle_response(envelope, request)
        elif envelope.id is UNSET:
            self._handle_notification(envelope.method, envelope.params, request)
        else:
            self._handle_client_request(envelope, request)
        if self._on_line is not None:
            self._call_line_hook(message)
        return True

    def receive_invalid(self, error: MessageError) -> None:
        """Handle input that is not a message; if only one request is pending, it was its response."""
        logger.debug("a server sent input that is not a message: %s", error.message)
        if isinstance(error, MessageTooLarge):
            identifier = salvage_response_id(error.start) if error.start else b""
            if identifier is not None:
                self._fail_unreadable(identifier, error)
                return
        self._fail_sole_request(InvalidResponse(f"The server sent input that is not a message: {error.message}"))

    def transport_interrupted(self, error: HubbubError) -> None:
        """Fail pending requests, because the transport lost them."""
        for request in self._pending.values():
            if not request.answer.done():
                self._has_received = True
                request.answer.set_exception(error)

    def transport_lost(self, error: HubbubError) -> None:
        """Fail pending requests and report that the transport is lost."""
        self._fail_all(error)
        if self._on_lost is not None:
            self._on_lost(error)

    def _handle_response(self, envelope: Envelope, request: Request | None) -> None:
        key = b"null" if envelope.id is UNSET else bytes(envelope.id)
        found = self._pending.get(key)
        if found is None and key != b"null":
            found = self._pending.get(key.strip(b'"'))
        elif found is None and envelope.error is not UNSET:
            # Servers reject a request that they cannot parse without its id; a result always has one.
            found = request or self._sole_request()
        if found is None or found.answer.done():
            return  # too late, or not a response to one of our requests
        self._has_received = True
        if envelope.error is not UNSET:
            found.answer.set_exception(remote_error(envelope.error, "server", self.transport.hide))
        elif envelope.result is not UNSET:
            found.answer.set_result(envelope.result)

    def _handle_notification(self, method: str, params: Raw | msgspec.UnsetType, request: Request | None) -> None:
        raw = Raw(b"{}") if params is UNSET else params
        if method == "notifications/progress":
            self._handle_progress(raw)
        elif method == "notifications/cancelled":
            self._handle_cancellation(raw)
        elif self._on_notification is not None and method.startswith("notifications/"):
            self.run_callback(self._on_notification, method, raw, request)

    def _handle_progress(self, raw: Raw) -> None:
        try:
            progress = _decode_progress(raw)
        except msgspec.DecodeError:
            return
        request = self._pending.get(bytes(progress.progress_token).strip(b'"'))
        if request is not None and request.progress is not None:
            if request.token is not None:
                progress.progress_token = request.token
            self.run_callback(request.progress, progress)

    def _handle_cancellation(self, raw: Raw) -> None:
        """Cancel the answer to a request that the server has cancelled."""
        params, _ = decode_params("notifications/cancelled", raw)
        if isinstance(params, CancelledParams) and params.request_id is not UNSET:
            task = self._client_requests.get(bytes(params.request_id))
            if task is not None:
                task.cancel()

    def _handle_client_request(self, envelope: Envelope, request: Request | None) -> None:
        if request is None and self._correlates:
            request = self._sole_forwarded_request()
        if len(self._tasks) >= bounds.PENDING_REQUESTS:
            logger.warning("a request of a server was dropped, because %d are pending", len(self._tasks))
            return
        assert envelope.id is not UNSET
        key = bytes(envelope.id)
        task = self._client_requests[key] = self.spawn(self._answer_client_request(envelope, request))
        task.add_done_callback(lambda _: self._client_requests.pop(key, None))

    async def _answer_client_request(self, envelope: Envelope, request: Request | None) -> None:
        assert envelope.id is not UNSET
        assert envelope.method is not UNSET
        params = Raw(b"{}") if envelope.params is UNSET else envelope.params
        stopped_requests = (
            [] if envelope.method == "ping" else stop_clocks([request] if request else self._pending.values())
        )
        try:
            if envelope.method == "ping":
                message = encode_result(envelope.id, {})
            elif self._answer is None:
                raise MethodNotFound(envelope.method)
            else:
                message = encode_result(envelope.id, await self._answer(envelope.method, params, request))
        except HubbubError as error:
            message = error_response(envelope.id, error, NEWEST_LEGACY)
        except Exception:  # a user's handler may raise anything
            logger.exception("a handler failed to answer %s", envelope.method)
            message = error_response(envelope.id, HubbubError("The client failed to answer"), NEWEST_LEGACY)
        finally:
            start_clocks(stopped_requests)
        await self._send_answer(message)

    async def _send_answer(self, message: bytes) -> None:
        try:
            await self._post(message)
        except HubbubError as error:
            logger.debug("an answer could not be sent: %s", error.message)

    # -- helpers -----------------------------------------------------------------

    def spawn(self, awaitable: Awaitable[Any]) -> asyncio.Task[Any]:
        """Run a task that is cancelled when this connection is closed."""
        task = asyncio.ensure_future(awaitable)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._discard_task)
        return task

    def _discard_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("a callback failed", exc_info=error)

    def run_callback(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Call a user's callback; log its exceptions, and await its result in a task."""
        try:
            outcome = callback(*arguments)
        except Exception:  # a user's callback may raise anything
            logger.warning("a callback failed", exc_info=True)
            return
        if isinstance(outcome, Awaitable):
            if len(self._tasks) < bounds.IN_FLIGHT:
                self.spawn(outcome)
                return
            logger.warning("a callback was dropped, because %d are still running", len(self._tasks))
            if inspect.iscoroutine(outcome):
                outcome.close()

    def _call_line_hook(self, message: bytes) -> None:
        if self._on_line is not None:
            try:
                self._on_line(message.decode(errors="replace"))
            except Exception:  # a user's hook must not stop the reading
                logger.warning("the hook on_stdout_line failed", exc_info=True)

    def _cancel_request(self, request: Request, reason: str) -> None:
        is_answered = request.answer.done() and not request.answer.cancelled()
        if request.method not in _NEVER_CANCELLED and (not is_answered or reason == "timeout"):
            try:
                self.transport.cancel_request(request, reason)
            except HubbubError:
                return  # the connection is gone

    def _sole_request(self) -> Request | None:
        return next(iter(self._pending.values())) if len(self._pending) == 1 else None

    def _sole_forwarded_request(self) -> Request | None:
        """Return the only pending request, if it is forwarded: on a shared stream a server request must be about it."""
        found = [request for request in self._pending.values() if request.back is not None]
        return found[0] if len(found) == 1 and len(self._pending) == 1 else None

    def _fail_sole_request(self, error: HubbubError) -> None:
        request = self._sole_request()
        if request is not None and not request.answer.done():
            request.answer.set_exception(error)

    def _fail_unreadable(self, identifier: bytes | None, error: MessageError) -> None:
        """Fail the request whose response cannot be read: all if the id is unknown (empty), none if it is None.

        The requests are not repeated, because the server may have run them.
        """
        if identifier is None:
            return
        failure = InvalidResponse(f"The server's response cannot be read: {error.message}")
        request = self._pending.get(identifier)
        if not identifier:
            self.transport_interrupted(failure)
        elif request is not None and not request.answer.done():
            self._has_received = True
            request.answer.set_exception(failure)

    def _fail_all(self, error: HubbubError) -> None:
        self._failure = self._failure or error
        self.transport_interrupted(error)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Look up the loop only once, because in Python 3.11 that is a system call."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosed("The client is closed")
        if self._failure is not None:
            if not self._has_received:  # the start failed, so its caller gets the original error
                raise self._failure
            raise ConnectionClosed(f"The connection has ended: {self._failure.message}")
        if not self._is_started:
            raise TransportError(
                "The client was not started; use `async with`, or call `start`", may_have_executed=False
            )


def mark_retrieved(task: asyncio.Future[Any]) -> None:
    """Done callback for a task that others await: if none is left, asyncio must not log its exception as lost."""
    if not task.cancelled():
        task.exception()


def _seconds_or_none(seconds: float) -> float | None:
    return None if seconds == math.inf else seconds
