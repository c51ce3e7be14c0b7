"""Requests to a server and their answers, over any link.

Numbers requests from 1, keeps those that wait, bounds each in time, and withdraws the
ones that nobody waits for any more. What the server sends unasked is told apart here:
questions go to `answer`, notifications to `notified`. What methods mean is the client's matter.
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
from hubbub.client.config import positive_seconds
from hubbub.client.deadlines import Deadlines
from hubbub.client.requests import NO_HEADERS, Progress, Request, start_clocks, stop_clocks
from hubbub.errors import (
    ConnectionClosed,
    DeadlineExceeded,
    HubbubError,
    InvalidParams,
    MessageError,
    RemoteError,
    TransportError,
)
from hubbub.ports import Link, Outgoing, Peer
from hubbub.protocol.error_forms import INTERNAL_ERROR, METHOD_NOT_FOUND, error_object
from hubbub.protocol.jsonrpc import (
    Envelope,
    ErrorObject,
    decode_envelope,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)
from hubbub.protocol.params import CancelledParams, decode_params
from hubbub.protocol.revisions import NEWEST_LEGACY
from hubbub.protocol.wire import ProgressParams

logger = logging.getLogger("hubbub.client")

_NEVER_WITHDRAWN = ("initialize", "server/discover")
_decode_error = msgspec.json.Decoder(ErrorObject).decode
_decode_progress = msgspec.json.Decoder(ProgressParams).decode

Answer = Callable[[str, Raw, "Request | None"], Awaitable[Any]]
Notified = Callable[[str, Raw, "Request | None"], Any]


class JsonRpcClient:
    """One conversation with one server."""

    def __init__(
        self,
        link: Link,
        *,
        timeout_s: float = bounds.REQUEST_S,
        answer: Answer | None = None,
        notified: Notified | None = None,
        lost: Callable[[HubbubError], Any] | None = None,
        on_line: Callable[[str], Any] | None = None,
        guesses: bool = True,
    ) -> None:
        self.link = link
        self._guesses = guesses
        """Whether a question that names no call is about the only one that waits; not where calls are of strangers."""
        self._timeout_s = positive_seconds("timeout_s", timeout_s)
        self._answer = answer
        self._notified = notified
        self._on_lost = lost
        self._on_line = on_line
        self._pending: dict[bytes, Request] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._questions: dict[bytes, asyncio.Task[Any]] = {}
        self._deadlines = Deadlines()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._last_id = 0
        self._failure: HubbubError | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_started = self._is_closed = self._has_heard = False

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def failure(self) -> HubbubError | None:
        """Why nothing can be asked any more."""
        return self._failure

    async def start(self) -> None:
        """Start the link, once.

        Raises:
            ConnectionClosed: it was closed before.
            DeadlineExceeded: the server is silent.
            TransportError: the link cannot start.
        """
        if self._is_closed:
            raise ConnectionClosed("The client is closed")
        if self._starting is None:
            self._starting = asyncio.ensure_future(self.link.start(self))
        starting = self._starting
        try:
            async with asyncio.timeout(_seconds_or_none(self._timeout_s)):
                await asyncio.shield(starting)
        except TimeoutError:
            starting.cancel()
            raise DeadlineExceeded("The connection to the server", self._timeout_s) from None
        except asyncio.CancelledError:
            if starting.cancelled():  # by `close`; our own caller was not
                raise ConnectionClosed("The client was closed while it started") from None
            raise
        self._is_started = True

    async def request(
        self,
        method: str,
        params: Any = UNSET,
        *,
        timeout_s: float | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        is_stateless: bool = False,
        progress: Progress | None = None,
        back: Peer | None = None,
        token: Raw | None = None,
        prepare: Callable[[int], Any] | None = None,
    ) -> Raw:
        """The raw result of a request. `prepare` makes the parameters when they depend on the request's id.

        Raises:
            RemoteError: the server answered with an error.
            DeadlineExceeded: it did not answer in time.
            ConnectionClosed, TransportError: it cannot answer.
        """
        seconds = self._timeout_s if timeout_s is None else positive_seconds("timeout_s", timeout_s)
        if not method.strip():
            raise InvalidParams("A request needs a method")
        self._check_open()
        identifier = self.next_id()
        if prepare is not None:
            params = prepare(identifier)
        body = encode_request(identifier, method, params)
        request = Request(identifier, method, body, self.new_answer(), headers, is_stateless, progress, back, token)
        return await self.exchange(request, seconds)

    def next_id(self) -> int:
        """The number of the next request."""
        self._last_id += 1
        return self._last_id

    def new_answer(self) -> asyncio.Future[Raw]:
        """Where the answer to a request will be."""
        return self._running_loop().create_future()

    async def exchange(self, request: Request, seconds: float) -> Raw:
        """Send a request that is already written, and wait for its answer; raises as `request` does."""
        self._check_open()
        key = b"%d" % request.id
        self._pending[key] = request
        try:
            # Most often it can just be written, and then nothing but the answer is waited for.
            if self.link.send_now(request):
                deadline = self._deadlines.add(request.answer, self._running_loop().time() + seconds)
                request.clock = deadline
                try:
                    return await request.answer
                finally:
                    self._deadlines.remove(deadline)
            async with asyncio.timeout(_seconds_or_none(seconds)) as request.clock:
                await self.link.exchange(request)
                return await request.answer
        except TimeoutError:
            self._withdraw(request, "timeout")
            raise DeadlineExceeded(f"The answer to {request.method}", seconds) from None
        except asyncio.CancelledError:
            self._withdraw(request, "cancelled")
            raise
        except HubbubError:
            # An answer that has arrived counts for more than how its stream ended.
            if request.answer.done() and not request.answer.cancelled():
                return request.answer.result()
            raise
        finally:
            del self._pending[key]
            if not request.answer.done():
                request.answer.cancel()
            elif not request.answer.cancelled():
                request.answer.exception()  # It was told, or nobody waits.

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
            raise InvalidParams("A notification needs a method")
        self._check_open()
        await self._post(encode_notification(method, params), is_stateless=is_stateless, headers=headers)

    async def _post(
        self, message: bytes, *, is_stateless: bool = False, headers: Mapping[str, str] = NO_HEADERS
    ) -> None:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.link.post(message, is_stateless=is_stateless, headers=headers)
        except TimeoutError:
            raise DeadlineExceeded("The end of sending a message", self._timeout_s) from None

    async def close(self) -> None:
        """Fail what waits and close the link; may be called again, from any task."""
        if not self._is_closed:
            self._is_closed = True
            self._fail_all(ConnectionClosed("The client was closed"))
            self._deadlines.close()
            if self._starting is not None and not self._starting.done():
                self._starting.cancel()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await self.link.close()
        waiting = [*tasks, *([self._starting] if self._starting is not None else [])]
        if waiting:
            await asyncio.wait(waiting, timeout=bounds.CLOSE_S)

    # -- what the link brings ----------------------------------------------------

    def receive(self, message: bytes, outgoing: Outgoing | None = None) -> bool:
        """Take one message from the server."""
        try:
            envelope = decode_envelope(message)
        except MessageError as error:
            logger.debug("a server sent something unreadable: %s", error.message)
            self._tell_hook(message)
            return False
        request = outgoing if isinstance(outgoing, Request) else None
        if isinstance(envelope, list):
            readable = [self.receive(item, outgoing) for item in envelope]
            return all(readable)
        if envelope.method is UNSET:
            self._take_answer(envelope, request)
        elif envelope.id is UNSET:
            self._take_note(envelope.method, envelope.params, request)
        else:
            self._take_question(envelope, request)
        if self._on_line is not None:
            self._tell_hook(message)
        return True

    def garbled(self, error: MessageError) -> None:
        """Something came that is no message; if only one request waits, it was its answer."""
        logger.debug("a server sent no message: %s", error.message)
        self._fail_only(TransportError("INVALID_RESPONSE", f"The server sent no message: {error.message}"))

    def interrupted(self, error: HubbubError) -> None:
        """The link lost what is open."""
        for request in self._pending.values():
            if not request.answer.done():
                self._has_heard = True
                request.answer.set_exception(error)

    def lost(self, error: HubbubError) -> None:
        """The link is gone."""
        self._fail_all(error)
        if self._on_lost is not None:
            self._on_lost(error)

    def _take_answer(self, envelope: Envelope, request: Request | None) -> None:
        key = b"null" if envelope.id is UNSET else bytes(envelope.id)
        found = self._pending.get(key)
        if found is None and key != b"null":
            found = self._pending.get(key.strip(b'"'))
        elif found is None and envelope.error is not UNSET:
            # Servers refuse what they cannot read without an id; a result always has one.
            found = request or self._only()
        if found is None or found.answer.done():
            return  # too late, or an answer to nothing
        self._has_heard = True
        if envelope.error is not UNSET:
            found.answer.set_exception(remote_error(envelope.error, self.link.hide))
        elif envelope.result is not UNSET:
            found.answer.set_result(envelope.result)

    def _take_note(self, method: str, params: Raw | msgspec.UnsetType, request: Request | None) -> None:
        raw = Raw(b"{}") if params is UNSET else params
        if method == "notifications/progress":
            self._take_progress(raw)
        elif method == "notifications/cancelled":
            self._take_withdrawal(raw)
        elif self._notified is not None and method.startswith("notifications/"):
            self._call_back(self._notified, method, raw, request)

    def _take_progress(self, raw: Raw) -> None:
        try:
            progress = _decode_progress(raw)
        except msgspec.DecodeError:
            return
        request = self._pending.get(bytes(progress.progress_token).strip(b'"'))
        if request is not None and request.progress is not None:
            if request.token is not None:
                progress.progress_token = request.token
            self._call_back(request.progress, progress)

    def _take_withdrawal(self, raw: Raw) -> None:
        """The server no longer wants to know."""
        params, _ = decode_params("notifications/cancelled", raw)
        if isinstance(params, CancelledParams) and params.request_id is not UNSET:
            task = self._questions.get(bytes(params.request_id))
            if task is not None:
                task.cancel()

    def _take_question(self, envelope: Envelope, request: Request | None) -> None:
        if request is None and self._guesses:
            request = self._only_with_a_way_back()
        if len(self._tasks) >= bounds.PENDING_REQUESTS:
            logger.warning("a server asks too much at once; a question was dropped")
            return
        assert envelope.id is not UNSET
        key = bytes(envelope.id)
        task = self._questions[key] = self.spawn(self._reply(envelope, request))
        task.add_done_callback(lambda _: self._questions.pop(key, None))

    async def _reply(self, envelope: Envelope, request: Request | None) -> None:
        assert envelope.id is not UNSET
        assert envelope.method is not UNSET
        params = Raw(b"{}") if envelope.params is UNSET else envelope.params
        stopped = [] if envelope.method == "ping" else stop_clocks([request] if request else self._pending.values())
        try:
            if envelope.method == "ping":
                message = encode_result(envelope.id, {})
            elif self._answer is None:
                message = encode_error(envelope.id, ErrorObject(METHOD_NOT_FOUND, "Method not found"))
            else:
                message = encode_result(envelope.id, await self._answer(envelope.method, params, request))
        except HubbubError as error:
            message = encode_error(envelope.id, error_object(error, NEWEST_LEGACY))
        except Exception:  # A handler of the user's may raise anything.
            logger.exception("a handler failed to answer %s", envelope.method)
            message = encode_error(envelope.id, ErrorObject(INTERNAL_ERROR, "The client failed to answer"))
        finally:
            start_clocks(stopped)
        try:
            await self._post(message)
        except HubbubError as error:
            logger.debug("an answer could not be sent: %s", error.message)

    # -- the rest ----------------------------------------------------------------

    def spawn(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        """Run something that ends with this conversation at the latest."""
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("a callback failed", exc_info=error)

    def _call_back(self, callback: Callable[..., Any], *arguments: Any) -> None:
        try:
            outcome = callback(*arguments)
        except Exception:  # A callback of the user's may raise anything.
            logger.warning("a callback failed", exc_info=True)
            return
        if isinstance(outcome, Awaitable):
            if len(self._tasks) < bounds.IN_FLIGHT:
                self.spawn(outcome)
                return
            logger.warning("callbacks are too slow for what a server sends; one was dropped")
            if inspect.iscoroutine(outcome):
                outcome.close()

    def _tell_hook(self, message: bytes) -> None:
        if self._on_line is not None:
            try:
                self._on_line(message.decode(errors="replace"))
            except Exception:  # A hook of the user's must not stop the reading.
                logger.warning("the hook on_stdout_line failed", exc_info=True)

    def _withdraw(self, request: Request, reason: str) -> None:
        is_answered = request.answer.done() and not request.answer.cancelled()
        if request.method not in _NEVER_WITHDRAWN and (not is_answered or reason == "timeout"):
            try:
                self.link.withdraw(request, reason)
            except HubbubError:
                return  # there is nobody left to tell

    def _only(self) -> Request | None:
        return next(iter(self._pending.values())) if len(self._pending) == 1 else None

    def _only_with_a_way_back(self) -> Request | None:
        """Where streams are shared, a question can be told to belong to a call only if there is one such call."""
        found = [request for request in self._pending.values() if request.back is not None]
        return found[0] if len(found) == 1 and len(self._pending) == 1 else None

    def _fail_only(self, error: HubbubError) -> None:
        request = self._only()
        if request is not None and not request.answer.done():
            request.answer.set_exception(error)

    def _fail_all(self, error: HubbubError) -> None:
        self._failure = self._failure or error
        self.interrupted(error)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Looked up once: in Python 3.11 that is a system call."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop

    def _check_open(self) -> None:
        if self._is_closed:
            raise ConnectionClosed("The client is closed")
        if self._failure is not None:
            if not self._has_heard:  # It never really started, and who starts it is to learn all about it.
                raise self._failure
            raise ConnectionClosed(f"The connection has ended: {self._failure.message}")
        if not self._is_started:
            raise TransportError("TRANSPORT_ERROR", "The client was not started", may_have_executed=False)


def _seconds_or_none(seconds: float) -> float | None:
    return None if seconds == math.inf else seconds


def remote_error(raw: Raw | bytes, hide: Callable[[Any], Any]) -> RemoteError:
    """The error that a server answered with, without what it was given in confidence."""
    try:
        error = _decode_error(raw)
    except (msgspec.DecodeError, RecursionError):
        return RemoteError(INTERNAL_ERROR, "The server answered with an error that cannot be read")
    return RemoteError(error.code, hide(error.message), None if error.data is UNSET else hide(error.data))
