"""One duplex connection: stdio, a WebSocket, or memory.

The connection is the session. It is plain until the client sends `initialize`; modern
requests are served at any time, because each describes itself. It is also the
`back` of its calls: notifications and requests to the client are sent through it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from hubbub import bounds
from hubbub.errors import HubbubError, MessageError, RateLimited
from hubbub.ports import PROCESS_SCOPE, MessageCounter
from hubbub.protocol.calls import ANONYMOUS, NO_META, Call, Caller, Meta, Notification, Principal, Reply
from hubbub.protocol.dialect import (
    AllowsPlain,
    MessageFacts,
    allow_plain_for_all,
    classify,
    classify_batch,
    classify_fast,
    legacy_caller,
    modern_caller,
    refusal_revision,
)
from hubbub.protocol.error_codes import error_response
from hubbub.protocol.jsonrpc import NULL, Envelope, decode_envelope, encode_notification, encode_result
from hubbub.protocol.params import EMPTY_PARAMS, CancelledParams, decode_params
from hubbub.protocol.revisions import PLAIN, Revision
from hubbub.protocol.shape import shape
from hubbub.server.batch import SendResponse, handle_batch
from hubbub.server.pending_requests import PendingRequests, refusal_id
from hubbub.server.responses import respond_to_error
from hubbub.server.running_calls import RunningCalls
from hubbub.server.server import Server
from hubbub.server.subscriptions import RESOURCE_UPDATED


def _no_backpressure() -> None:
    """Default for `drain`: never wait, for transports without backpressure."""


class Connection:
    """One client on a duplex transport. Also the `ReturnPath` of its calls."""

    def __init__(
        self,
        server: Server,
        send: SendResponse,
        drain: Callable[[], Awaitable[None] | None] = _no_backpressure,
        *,
        principal: Principal = ANONYMOUS,
        scope: str = PROCESS_SCOPE,
        count: MessageCounter | None = None,
        address: str = "",
        has_every_scope: bool = False,
        allows_plain: AllowsPlain = allow_plain_for_all,
    ) -> None:
        self._server = server
        self._allows_plain = allows_plain
        self._count = count
        self._send = send
        self._wait_drained = drain
        is_only_client = scope == PROCESS_SCOPE
        self._exit_notification = server.exit_notification if is_only_client else None
        self.is_busy = False
        """Whether reading should pause. Calls that wait for the client do not count, or both sides would wait."""
        self.exit_requested = False
        """Whether the client sent the exit notification; its later messages are not read."""
        self._caller = Caller(
            revision=PLAIN,
            principal=principal,
            scope=scope,
            address=address,
            has_every_scope=is_only_client or has_every_scope,
        )
        self._session_revision: Revision | None = None
        """The revision agreed on with `initialize`; None before."""
        self._has_sent_modern = False
        self._running_calls = RunningCalls()
        self._pending_requests = PendingRequests()
        self._resume: Callable[[], None] | None = None
        server.broadcaster.add(self)

    # -- incoming ------------------------------------------------------------------

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when reading may continue."""
        self._resume = resume

    def _update_busy(self) -> None:
        self.is_busy = len(self._running_calls) - len(self._pending_requests) >= bounds.IN_FLIGHT
        if not self.is_busy and self._resume is not None:
            resume, self._resume = self._resume, None
            resume()

    def receive(self, data: bytes, *, is_counted: bool = False) -> None:
        """Take one message or batch."""
        try:
            message = decode_envelope(data)
        except MessageError as error:
            identifier = refusal_id(data, error, self._pending_requests)
            self._refuse(self._count_message(is_counted) or error, identifier)
            return
        if isinstance(message, Envelope):
            rate_error = None if self._count is None else self._count_message(is_counted)
            if rate_error is None and message.id is not UNSET and message.method is not UNSET:
                self._handle_request(message.id, message.method, message.params, self._send)
            else:
                self._handle_message(message, self._send, rate_error)
        else:
            self._handle_batch(message, is_counted)

    def _count_message(self, is_counted: bool) -> RateLimited | None:
        """Count one message, unless it is already counted; return an error if the limit is exceeded."""
        return None if is_counted or self._count is None else self._count()

    def refuse(self, error: MessageError) -> None:
        """Answer input that is not a message or is too large."""
        self._refuse(error, refusal_id(b"", error, self._pending_requests))

    def _refuse(self, error: HubbubError, identifier: Raw = NULL) -> None:
        self._send(error_response(identifier, error, self._caller.revision))

    def _handle_batch(self, items: list[bytes], is_counted: bool) -> None:
        try:
            revision = classify_batch(self._gather_facts())
        except HubbubError as error:
            self._refuse(self._count_message(is_counted) or error)
            return
        handle_batch(
            items,
            self._handle_message,
            lambda responses: self._send(responses) if responses else None,
            revision=revision,
            pending_requests=self._pending_requests,
            count=self._count,
            is_counted=is_counted,
        )

    def _handle_message(self, message: Envelope, send_response: SendResponse, rate_error: RateLimited | None) -> None:
        # Responses and notifications are counted but never refused, because running calls may wait for them.
        if message.method is UNSET:
            self._pending_requests.resolve(message)
        elif message.id is UNSET:
            self._handle_notification(message.method, EMPTY_PARAMS if message.params is UNSET else message.params)
        elif rate_error is not None:
            send_response(error_response(message.id, rate_error, self._caller.revision))
        else:
            self._handle_request(message.id, message.method, message.params, send_response)

    def _handle_notification(self, method: str, raw: Raw) -> None:
        if method != "notifications/cancelled":
            if method == self._exit_notification:
                self.exit_requested = True
            return
        params, _ = decode_params(method, raw)
        if isinstance(params, CancelledParams) and params.request_id is not UNSET:
            self._running_calls.cancel(params.request_id)

    def _handle_request(self, identifier: Raw, method: str, raw: Raw | UnsetType, send_response: SendResponse) -> None:
        if raw is UNSET:
            raw = EMPTY_PARAMS
        params, meta = decode_params(method, raw)
        key, revision = bytes(identifier), None
        if key.isdigit() and key not in self._running_calls:
            if meta is NO_META and method != "initialize":  # as `classify_fast` decides, for most requests in a session
                revision = self._session_revision
            else:
                revision = classify_fast(method, meta, self._session_revision)
        try:
            if revision is None:
                revision = classify(self._gather_facts(method, identifier, meta))
                key = self._running_calls.reserve(identifier)
            if revision.stateless or method == "initialize":
                caller = self._identify_caller(revision, params, meta)
            else:
                caller = self._caller
        except HubbubError as error:
            facts = self._gather_facts(method, identifier, meta)
            send_response(error_response(identifier, error, refusal_revision(facts)))
            return
        call = Call(id=identifier, method=method, raw=raw, params=params, meta=meta, caller=caller, back=self)
        running_calls = self._running_calls
        start_soon = running_calls.start_soon
        running_calls[key] = start_soon(key, self._serve(key, call, send_response))
        if len(running_calls) >= bounds.IN_FLIGHT:
            self._update_busy()

    def _gather_facts(
        self, method: str = "", identifier: Raw | UnsetType = UNSET, meta: Meta = NO_META
    ) -> MessageFacts:
        return MessageFacts(
            method=method,
            id=identifier,
            meta=meta,
            session=self._session_revision,
            plain_allowed=self._allows_plain(self._caller.principal),
        )

    def _identify_caller(self, revision: Revision, params: Any, meta: Meta) -> Caller:
        """Return the caller that a modern request or an `initialize` describes."""
        if revision.stateless:
            self._has_sent_modern = True
            caller = modern_caller(meta, revision, self._caller.principal, self._caller.address)
            caller.has_every_scope = self._caller.has_every_scope
            return caller
        if isinstance(params, HubbubError):
            raise params
        previous = self._caller
        new_caller = legacy_caller(params, previous.principal, previous.address)
        new_caller.scope = previous.scope
        new_caller.has_every_scope = previous.has_every_scope
        self._caller, self._session_revision = new_caller, new_caller.revision
        return new_caller

    async def _serve(self, key: bytes, call: Call, send_response: SendResponse) -> None:
        response, server = b"", self._server
        try:
            wait_drained = self._wait_drained
            draining = wait_drained()
            if draining is not None:
                await draining  # start no call for a client that does not read
            try:
                reply = await server.peer.request(call)
                response = encode_result(call.id, shape(reply, call.caller.revision, server.identity))
            except BaseException as error:
                response, _ = respond_to_error(call, error, server.identity)
        finally:
            self._running_calls.end(key)
            if self.is_busy:
                self._update_busy()
            # A cancelled call is not answered, but its batch must not wait for it.
            if response or send_response is not self._send:
                send_response(response)

    # -- outgoing ------------------------------------------------------------------

    @property
    def scope(self) -> str | None:
        """The scope of the client's state."""
        return self._caller.state_scope

    @property
    def caller(self) -> Caller:
        """The client, as it is in the legacy era."""
        return self._caller

    @property
    def principal(self) -> str:
        """The name of the client's principal."""
        return self._caller.principal.name

    async def request(self, call: Call) -> Reply:
        """Send a request to the client and wait for its response."""
        return await self._pending_requests.ask_client(call, self._send_and_drain)

    async def notify(self, note: Notification) -> None:
        """Send a notification to the client; wait while it does not read."""
        await self._send_and_drain(encode_notification(note.method, note.params))

    def send_nowait(self, note: Notification) -> bool:
        """Return False: only `notify` waits for a client that does not read."""
        return False

    async def release(self) -> None:
        """Do nothing: the connection is the only stream."""

    async def _send_and_drain(self, message: bytes) -> None:
        if self.is_busy:
            self._update_busy()  # the call that sends may be waiting for the client from now on
        self._send(message)
        draining = self._wait_drained()
        if draining is not None:
            await draining

    @property
    def watching(self) -> set[str]:
        """The URIs of the resources that this session is subscribed to."""
        return self._caller.watching

    def handle_change(self, note: Notification) -> None:
        """Send a change to the client; a modern one gets changes only through `subscriptions/listen`."""
        if self._has_sent_modern and not self._caller.revision.is_mcp:
            return  # a modern client
        if note.method == RESOURCE_UPDATED and note.params.uri not in self._caller.watching:
            return
        self._send(encode_notification(note.method, note.params))

    # -- closing -------------------------------------------------------------------

    async def finish(self, timeout_s: float | None = None) -> None:
        """Close after the end of input: answer running calls, within a time limit, then close."""
        self._server.broadcaster.remove(self)
        self._pending_requests.close()
        self._server.broadcaster.end_subscriptions(self)
        if self._running_calls:
            await self._running_calls.wait(bounds.DRAIN_TIMEOUT_S if timeout_s is None else timeout_s)
        await self.close()

    async def close(self) -> None:
        """Cancel running calls and end the session."""
        self._server.broadcaster.remove(self)
        self._pending_requests.close()
        self._running_calls.cancel_all()
        if self._running_calls:
            await self._running_calls.wait(bounds.SHUTDOWN_TIMEOUT_S)
        self._server.end_scope(self._caller.state_scope)
