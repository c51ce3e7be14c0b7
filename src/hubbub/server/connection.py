"""One duplex connection: stdio, a WebSocket, or memory.

The connection is the session. It is plain until the client sends `initialize`; modern
requests are served at any time, because each describes itself. It is also the
`back` of its calls: notifications and requests to the client are sent through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.errors import HubbubError, MessageError, RateLimited
from hubbub.ports import THE_PROCESS, Count
from hubbub.protocol.error_forms import error_response
from hubbub.protocol.jsonrpc import NULL, Envelope, decode_envelope, encode_notification
from hubbub.protocol.ladder import Facts, climb, climb_batch, modern_caller, open_session, refusal_revision
from hubbub.protocol.model import ANONYMOUS, Call, Caller, Meta, Note, Principal, Reply
from hubbub.protocol.params import EMPTY, CancelledParams, decode_params
from hubbub.protocol.revisions import PLAIN, Revision
from hubbub.server.answer import answer
from hubbub.server.audience import RESOURCE_UPDATED
from hubbub.server.batch import Deliver, take_batch
from hubbub.server.questions import Questions, refused_id
from hubbub.server.running_calls import RunningCalls
from hubbub.server.server import Server


async def _never_slow() -> None:
    """Default for `drained`: return at once, for transports without backpressure."""


class Connection:
    """One client on a duplex transport. Also the `ReturnPath` of its calls."""

    def __init__(
        self,
        server: Server,
        send: Deliver,
        drained: Callable[[], Awaitable[None]] = _never_slow,
        *,
        principal: Principal = ANONYMOUS,
        scope: str = THE_PROCESS,
        count: Count | None = None,
        address: str = "",
        has_every_scope: bool = False,
    ) -> None:
        self._server = server
        self._count = count
        self._send = send
        self._drained = drained
        is_alone = scope == THE_PROCESS
        self._exit_notification = server.exit_notification if is_alone else None
        self.has_left = False
        """Whether the client sent the exit notification; its later messages are not read."""
        self._caller = Caller(
            revision=PLAIN,
            principal=principal,
            scope=scope,
            address=address,
            has_every_scope=is_alone or has_every_scope,
        )
        self._session: Revision | None = None
        """The revision agreed on with `initialize`; None before."""
        self._spoke_modern = False
        self._running = RunningCalls()
        self._questions = Questions()
        self._resume: Callable[[], None] | None = None
        server.audience.add(self)

    # -- incoming ------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether reading should pause. Calls that wait for the client do not count, or both sides would wait."""
        return len(self._running) - len(self._questions) >= bounds.IN_FLIGHT

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call `resume` once, when reading may continue."""
        self._resume = resume

    def receive(self, data: bytes, *, is_counted: bool = False) -> None:
        """Take one message or batch."""
        try:
            message = decode_envelope(data)
        except MessageError as error:
            identifier = refused_id(data, error, self._questions)
            self._refuse(self._counted(is_counted) or error, identifier)
            return
        if isinstance(message, Envelope):
            self._take(message, self._send, self._counted(is_counted))
        else:
            self._take_batch(message, is_counted)

    def _counted(self, is_counted: bool) -> RateLimited | None:
        """Count one message, unless it is already counted; return an error if the limit is exceeded."""
        return None if is_counted or self._count is None else self._count()

    def refuse(self, error: MessageError) -> None:
        """Answer input that is not a message or is too large."""
        self._refuse(error, refused_id(b"", error, self._questions))

    def _refuse(self, error: HubbubError, identifier: Raw = NULL) -> None:
        self._send(error_response(identifier, error, self._caller.revision))

    def _take_batch(self, items: list[bytes], is_counted: bool) -> None:
        try:
            revision = climb_batch(Facts(session=self._session))
        except HubbubError as error:
            self._refuse(self._counted(is_counted) or error)
            return
        take_batch(
            items,
            self._take,
            lambda answers: self._send(answers) if answers else None,
            revision=revision,
            questions=self._questions,
            count=self._count,
            is_counted=is_counted,
        )

    def _take(self, message: Envelope, deliver: Deliver, limited: RateLimited | None) -> None:
        # Responses and notifications are counted but never refused, because running calls may wait for them.
        if message.method is UNSET:
            self._questions.take(message)
        elif message.id is UNSET:
            self._take_notification(message.method, EMPTY if message.params is UNSET else message.params)
        elif limited is not None:
            deliver(error_response(message.id, limited, self._caller.revision))
        else:
            self._take_request(message, deliver)

    def _take_notification(self, method: str, raw: Raw) -> None:
        if method != "notifications/cancelled":
            if method == self._exit_notification:
                self.has_left = True
            return
        params, _ = decode_params(method, raw)
        if isinstance(params, CancelledParams) and params.request_id is not UNSET:
            self._running.cancel(params.request_id)

    def _take_request(self, message: Envelope, deliver: Deliver) -> None:
        assert message.method is not UNSET
        assert message.id is not UNSET
        identifier, method = message.id, message.method
        raw = EMPTY if message.params is UNSET else message.params
        params, meta = decode_params(method, raw)
        facts = Facts(method=method, id=identifier, meta=meta, session=self._session)
        try:
            revision = climb(facts)
            key = self._running.reserve(identifier)
            caller = self._caller_of(revision, method, params, meta)
        except HubbubError as error:
            deliver(error_response(identifier, error, refusal_revision(facts)))
            return
        call = Call(id=identifier, method=method, raw=raw, params=params, meta=meta, caller=caller, back=self)
        self._running.start(key, self._serve(key, call, deliver))

    def _caller_of(self, revision: Revision, method: str, params: Any, meta: Meta) -> Caller:
        if revision.stateless:
            self._spoke_modern = True
            caller = modern_caller(meta, revision, self._caller.principal, self._caller.address)
            caller.has_every_scope = self._caller.has_every_scope
            return caller
        if method == "initialize":
            if isinstance(params, HubbubError):
                raise params
            before = self._caller
            opened = open_session(params, before.principal, before.address)
            opened.scope = before.scope
            opened.has_every_scope = before.has_every_scope
            self._caller, self._session = opened, opened.revision
        return self._caller

    async def _serve(self, key: bytes, call: Call, deliver: Deliver) -> None:
        response = b""
        try:
            await self._drained()  # start no call for a client that does not read
            response, _ = await answer(self._server.peer, call, self._server.identity)
        finally:
            self._running.end(key)
            if self._resume is not None and not self.is_busy:
                resume, self._resume = self._resume, None
                resume()
            # A cancelled call is not answered, but its batch must not wait for it.
            if response or deliver is not self._send:
                deliver(response)

    # -- outgoing ------------------------------------------------------------------

    @property
    def scope(self) -> str | None:
        """The scope of the client's state."""
        return self._caller.state_scope

    @property
    def principal(self) -> str:
        """The name of the client's principal."""
        return self._caller.principal.name

    async def request(self, call: Call) -> Reply:
        """Send a request to the client and wait for its response."""
        return await self._questions.ask(call, self._send_and_drain)

    async def notify(self, note: Note) -> None:
        """Send a notification to the client; wait while it does not read."""
        await self._send_and_drain(encode_notification(note.method, note.params))

    def send_nowait(self, note: Note) -> bool:
        """Return False: only `notify` waits for a client that does not read."""
        return False

    async def release(self) -> None:
        """Do nothing: the connection is the only stream."""

    async def _send_and_drain(self, message: bytes) -> None:
        self._send(message)
        await self._drained()

    @property
    def watching(self) -> set[str]:
        """The URIs of the resources that this session is subscribed to."""
        return self._caller.watching

    def hear(self, note: Note) -> None:
        """Send a change to the client; a modern one gets changes only through `subscriptions/listen`."""
        if self._spoke_modern and not self._caller.revision.is_mcp:
            return  # a modern client
        if note.method == RESOURCE_UPDATED and note.params.uri not in self._caller.watching:
            return
        self._send(encode_notification(note.method, note.params))

    # -- closing -------------------------------------------------------------------

    async def finish(self, timeout_s: float | None = None) -> None:
        """Close after the end of input: answer running calls, within a time limit, then close."""
        self._server.audience.remove(self)
        self._questions.close()
        self._server.audience.end_listens(self)
        if self._running:
            limit_s = bounds.DRAIN_S if timeout_s is None else timeout_s
            await asyncio.wait(list(self._running.values()), timeout=limit_s)
        await self.close()

    async def close(self) -> None:
        """Cancel running calls and end the session."""
        self._server.audience.remove(self)
        self._questions.close()
        self._running.cancel_all()
        if self._running:
            await asyncio.wait(list(self._running.values()), timeout=bounds.STOP_S)
        self._server.end_scope(self._caller.state_scope)
