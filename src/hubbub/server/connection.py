"""One duplex connection: stdio, a WebSocket, a pair of memory ends.

The connection is the session. It is plain until the client sends `initialize`;
modern requests are served at any time, each by what it says of itself. It is also the
`back` of its calls: notifications and questions to the client go out through it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.errors import HubbubError, IdInUse, InvalidParams, InvalidRequest, MessageError, RateLimited
from hubbub.ports import THE_PROCESS, Count
from hubbub.protocol.error_forms import error_object
from hubbub.protocol.jsonrpc import (
    NULL,
    Envelope,
    decode_envelope,
    encode_error,
    encode_notification,
    id_key,
    salvage_id,
)
from hubbub.protocol.ladder import Facts, claims_modern, climb, modern_caller
from hubbub.protocol.model import ANONYMOUS, Call, Caller, Meta, Note, Principal, Reply
from hubbub.protocol.params import EMPTY, CancelledParams, InitializeParams, decode_params
from hubbub.protocol.revisions import NEWEST_MODERN, PLAIN, Revision, negotiate
from hubbub.server.answer import answer
from hubbub.server.audience import RESOURCE_UPDATED
from hubbub.server.batch import Batch
from hubbub.server.questions import Questions
from hubbub.server.server import Server

Deliver = Callable[[bytes], None]


async def _never_slow() -> None:
    """The other end takes everything at once."""


class Connection:
    """A client at the other end of two byte streams. Also its own way back (`Peer`)."""

    def __init__(
        self,
        server: Server,
        send: Deliver,
        drained: Callable[[], Awaitable[None]] = _never_slow,
        *,
        principal: Principal = ANONYMOUS,
        scope: str = THE_PROCESS,
        count: Count | None = None,
    ) -> None:
        self._server = server
        self._count = count
        self._send = send
        self._drained = drained
        self._caller = Caller(revision=PLAIN, principal=principal, scope=scope)
        self._spoke_modern = False
        self._running: dict[bytes, asyncio.Task[None] | None] = {}
        self._questions = Questions()
        self._loop = asyncio.get_running_loop()
        self._resume: Callable[[], None] | None = None
        server.audience.add(self)

    # -- what comes in ---------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether no more should be read for now. Calls that wait for the client do not count, or both would wait."""
        return len(self._running) - len(self._questions) >= bounds.IN_FLIGHT

    def when_ready(self, resume: Callable[[], None]) -> None:
        """Call back once, when more may be read."""
        self._resume = resume

    def receive(self, data: bytes, *, is_counted: bool = False) -> None:
        """Take one message or batch."""
        try:
            message = decode_envelope(data)
        except MessageError as error:
            self.refuse(self._counted(is_counted) or error, salvage_id(data))
            return
        if isinstance(message, Envelope):
            self._take(message, self._send, self._counted(is_counted))
        else:
            self._take_batch(message, is_counted)

    def _counted(self, is_counted: bool) -> RateLimited | None:
        """Count one message, unless something else has; an error if it is one too many."""
        return None if is_counted or self._count is None else self._count()

    def refuse(self, error: HubbubError, identifier: Raw = NULL) -> None:
        """Answer something that could not be read."""
        self._send(encode_error(identifier, error_object(error, self._caller.revision)))

    def _take_batch(self, items: list[bytes], is_counted: bool) -> None:
        if not self._caller.revision.batches:
            wrong = InvalidRequest("Batches are not part of this protocol revision; send one message at a time")
            self.refuse(self._counted(is_counted) or wrong)
            return
        batch = Batch(self._send)
        for number, item in enumerate(items):
            limited = self._counted(is_counted and number == 0)
            try:
                message = decode_item(item)
            except MessageError as error:
                batch.expect()(encode_error(salvage_id(item), error_object(limited or error, self._caller.revision)))
                continue
            is_request = message.method is not UNSET and message.id is not UNSET
            self._take(message, batch.expect() if is_request else self._send, limited)
        batch.close()

    def _take(self, message: Envelope, deliver: Deliver, limited: RateLimited | None) -> None:
        # Answers and notifications are counted but never refused: work that waits for them would wait in vain.
        if message.method is UNSET:
            self._questions.take(message)
        elif message.id is UNSET:
            self._take_notification(message.method, EMPTY if message.params is UNSET else message.params)
        elif limited is not None:
            deliver(encode_error(message.id, error_object(limited, self._caller.revision)))
        else:
            self._take_request(message, deliver)

    def _take_notification(self, method: str, raw: Raw) -> None:
        if method != "notifications/cancelled":
            return
        params, _ = decode_params(method, raw)
        if isinstance(params, CancelledParams) and params.request_id is not UNSET:
            task = self._running.get(id_key(params.request_id))
            if task is not None:
                # Not before its first step: a task that never started would never clean up.
                self._loop.call_soon(task.cancel)

    def _take_request(self, message: Envelope, deliver: Deliver) -> None:
        assert message.method is not UNSET
        assert message.id is not UNSET
        identifier, method = message.id, message.method
        raw = EMPTY if message.params is UNSET else message.params
        params, meta = decode_params(method, raw)
        session = self._caller.revision
        facts = Facts(method=method, meta=meta, session=session if session.is_mcp else None)
        try:
            revision = climb(facts)
            check_id(identifier, is_mcp=revision.is_mcp or method == "initialize")
            key = self._free_key(identifier)
            caller = self._caller_of(revision, method, params, meta)
        except HubbubError as error:
            spoken = NEWEST_MODERN if claims_modern(facts) else session
            # With the id of another request the client could not tell this answer from the other.
            told = NULL if isinstance(error, IdInUse) else identifier
            deliver(encode_error(told, error_object(error, spoken)))
            return
        call = Call(id=identifier, method=method, raw=raw, params=params, meta=meta, caller=caller, back=self)
        self._running[key] = None
        task = _start(self._serve(key, call, deliver), self._loop)
        if key in self._running:
            self._running[key] = task

    def _free_key(self, identifier: Raw) -> bytes:
        key = id_key(identifier)
        if key in self._running:
            raise IdInUse(key.decode())
        return key

    def _caller_of(self, revision: Revision, method: str, params: Any, meta: Meta) -> Caller:
        if revision.stateless:
            self._spoke_modern = True
            return modern_caller(meta, revision, self._caller.principal)
        if method == "initialize":
            if isinstance(params, InvalidParams):
                raise params
            self._caller = open_session(params, self._caller.principal, self._caller.scope)
        return self._caller

    async def _serve(self, key: bytes, call: Call, deliver: Deliver) -> None:
        response = b""
        try:
            await self._drained()  # nothing is begun for a client that does not read
            response, _ = await answer(self._server.peer, call, self._server.identity)
        finally:
            del self._running[key]
            if self._resume is not None and not self.is_busy:
                resume, self._resume = self._resume, None
                resume()
            # A cancelled call is not answered, but its batch must not wait for it.
            if response or deliver is not self._send:
                deliver(response)

    # -- what goes out ---------------------------------------------------------

    @property
    def scope(self) -> str | None:
        """Where the client's state lives."""
        return self._caller.state_scope

    async def request(self, call: Call) -> Reply:
        """Ask the client something."""
        return await self._questions.ask(call, self._send_and_drain)

    async def notify(self, note: Note) -> None:
        """Tell the client something; wait while it does not read."""
        await self._send_and_drain(encode_notification(note.method, note.params))

    async def _send_and_drain(self, message: bytes) -> None:
        self._send(message)
        await self._drained()

    @property
    def watching(self) -> set[str]:
        """The resources that this session is told of."""
        return self._caller.watching

    def hear(self, note: Note) -> None:
        """Pass a change on, if this session is of the kind that is told unasked."""
        if self._spoke_modern and not self._caller.revision.is_mcp:
            return  # a modern client hears only what it listens to
        if note.method == RESOURCE_UPDATED and note.params.uri not in self._caller.watching:
            return
        self._send(encode_notification(note.method, note.params))

    # -- the end ---------------------------------------------------------------

    async def finish(self, timeout_s: float = bounds.DRAIN_S) -> None:
        """The client sends nothing more: answer what runs, within a bound, then close."""
        self._server.audience.remove(self)
        self._questions.close()
        self._server.audience.end_listens(self)
        running = [task for task in self._running.values() if task is not None]
        if running:
            await asyncio.wait(running, timeout=timeout_s)
        await self.close()

    async def close(self) -> None:
        """Cancel what runs and forget the client."""
        self._server.audience.remove(self)
        self._questions.close()
        running = [task for task in self._running.values() if task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=bounds.STOP_S)
        self._server.end_scope(self._caller.state_scope)


def open_session(params: InitializeParams, principal: Principal, scope: str | None) -> Caller:
    """The caller that an `initialize` describes."""
    return Caller(
        revision=negotiate(params.protocol_version),
        principal=principal,
        capabilities=params.capabilities,
        info=None if params.client_info is UNSET else params.client_info,
        scope=scope,
    )


def decode_item(item: bytes) -> Envelope:
    """One message of a batch."""
    message = decode_envelope(item)
    if not isinstance(message, Envelope):
        raise InvalidRequest("A batch holds messages, not batches")
    if message.method == "initialize":
        raise InvalidRequest("`initialize` cannot be part of a batch")
    return message


def check_id(identifier: Raw, *, is_mcp: bool) -> None:
    """MCP narrows JSON-RPC: an id is a string or a whole number, never null."""
    text = bytes(identifier)
    if is_mcp and text[:1] != b'"' and not text.lstrip(b"-").isdigit():
        raise InvalidRequest("`id` must be a string or a whole number")


def _start(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
    """A task that has already run up to its first wait where Python can do that (3.12)."""
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    return loop.create_task(work)
