"""`POST /mcp`: one message or a batch, in any dialect.

Reads the message, lets the era ladder decide its dialect, and passes it on as an `Incoming`. Errors
before that are answered here, in the form of the era that the message claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from hubbub import bounds
from hubbub.errors import HubbubError, InvalidRequest, MessageError, RateLimited, SessionNotFound
from hubbub.ports import HttpExchange, Quotas, ReturnPath
from hubbub.protocol.error_forms import error_response
from hubbub.protocol.http_headers import HeaderList
from hubbub.protocol.jsonrpc import NULL, Envelope, decode_envelope
from hubbub.protocol.ladder import Facts, claims_modern, climb, climb_batch, refusal_revision
from hubbub.protocol.model import Call, Caller, Meta, Principal
from hubbub.protocol.params import EMPTY, decode_params
from hubbub.protocol.revisions import Revision
from hubbub.server.answer import answer, respond_error
from hubbub.server.batch import Deliver, take_batch
from hubbub.server.http.call_stream import CallStream
from hubbub.server.http.cookies import drop_cookie
from hubbub.server.http.legacy import Legacy
from hubbub.server.http.modern import Modern
from hubbub.server.http.plain import Plain
from hubbub.server.http.sessions import SESSION_HEADER, Session, Sessions
from hubbub.server.questions import refused_id
from hubbub.server.running_calls import RunningCalls
from hubbub.server.server import Server

_JSON = b"application/json"
_VERSION_HEADER = b"mcp-protocol-version"
_ROUTE = "/mcp"
"""The route that its messages are counted under, at any path."""


class Incoming(msgspec.Struct):
    """A message with everything that is known about it from its request and headers."""

    exchange: HttpExchange
    principal: Principal
    message: Envelope
    id: Raw
    """Null if the message has no id."""
    method: str
    raw: Raw
    params: Any
    meta: Meta
    session: Session | None
    is_request: bool
    """Whether it expects a response."""

    def call(self, caller: Caller, back: ReturnPath) -> Call:
        """Make a call of the message."""
        return Call(
            id=self.id, method=self.method, raw=self.raw, params=self.params, meta=self.meta, caller=caller, back=back
        )


def request_facts(
    exchange: HttpExchange, principal: Principal, sessions: Sessions, *, plain_allowed: bool
) -> tuple[Facts, Session | None]:
    """Read the facts in the headers of a request, and find its session; modern requests have none."""
    headers = exchange.headers
    facts = Facts(
        version_header=headers.get(_VERSION_HEADER),
        over_http=True,
        http_method=exchange.method,
        plain_allowed=plain_allowed,
    )
    if claims_modern(facts):
        return facts, None
    session, facts.names_session = sessions.named_in(headers, principal)
    if session is not None:
        facts.session = session.caller.revision
    return facts, session


def read_message(
    exchange: HttpExchange, principal: Principal, message: Envelope, session: Session | None, facts: Facts
) -> Incoming:
    """Decode the parameters of a message, and add its method, id and `_meta` to the facts."""
    method = "" if message.method is UNSET else message.method
    raw = EMPTY if message.params is UNSET else message.params
    params, meta = decode_params(method, raw)
    is_request = message.id is not UNSET and message.method is not UNSET
    identifier = NULL if message.id is UNSET else message.id
    facts.method, facts.meta, facts.is_request = method, meta, is_request
    facts.id = identifier if is_request else UNSET
    return Incoming(exchange, principal, message, identifier, method, raw, params, meta, session, is_request)


class Post:
    """Reads POST requests and passes them to the handler of their dialect."""

    def __init__(
        self,
        server: Server,
        sessions: Sessions,
        modern: Modern,
        legacy: Legacy,
        plain: Plain,
        *,
        plain_allowed: bool = True,
        quotas: Quotas | None = None,
    ) -> None:
        self._server = server
        self._sessions = sessions
        self._modern = modern
        self._legacy = legacy
        self._plain = plain
        self._plain_allowed = plain_allowed
        self._quotas = quotas

    async def serve(self, exchange: HttpExchange, principal: Principal) -> None:
        if not _is_json(exchange.headers.raw(b"content-type")):
            wrong = InvalidRequest("Send JSON, with the header `Content-Type: application/json`")
            await respond_error(exchange, wrong, status=415)
            return
        data = await exchange.body()
        facts, session = request_facts(exchange, principal, self._sessions, plain_allowed=self._plain_allowed)
        try:
            message = decode_envelope(data)
        except MessageError as error:
            identifier = refused_id(data, error, None if session is None else session.questions)
            await respond_error(exchange, error, identifier=identifier)
            return
        if not isinstance(message, Envelope):
            await self._batch(exchange, principal, message, session, facts)
            return
        incoming = read_message(exchange, principal, message, session, facts)
        try:
            if isinstance(incoming.params, InvalidRequest) and (session is not None or not self._may_be_tool(facts)):
                raise incoming.params
            revision = climb(facts)
        except HubbubError as error:
            headers = _without_cookie(exchange, error)
            await respond_error(exchange, error, refusal_revision(facts), incoming.id, headers=headers)
            return
        await self._dispatch(incoming, revision)

    def _may_be_tool(self, facts: Facts) -> bool:
        """Whether the method may be a tool called by its name, which checks its params itself."""
        return not claims_modern(facts) and not self._server.has_method(facts.method)

    def _dispatch(self, incoming: Incoming, revision: Revision) -> Awaitable[None]:
        if not incoming.is_request:
            if incoming.session is not None:
                self._legacy.take(incoming)
            return incoming.exchange.reply(202)
        if revision.stateless:
            return self._modern.call(incoming, revision)
        if incoming.method == "initialize":
            return self._legacy.initialize(incoming)
        if incoming.session is not None:
            return self._legacy.call(incoming)
        return self._plain.call(incoming)

    async def _batch(
        self,
        exchange: HttpExchange,
        principal: Principal,
        items: list[bytes],
        session: Session | None,
        facts: Facts,
    ) -> None:
        try:
            revision = climb_batch(facts)
        except HubbubError as error:
            await respond_error(exchange, error, headers=_without_cookie(exchange, error))
            return
        caller, headers = self._plain.caller(exchange, principal) if session is None else (session.caller, ())
        batch = _Batch(self._server, self._legacy, exchange, caller, session, facts)
        count = None if self._quotas is None else self._quotas.count_for(_ROUTE, principal, exchange.client)
        exchange.watch(cancel=session is None)
        try:
            take_batch(items, batch.take, batch.send, revision=revision, questions=batch.questions, count=count)
            await asyncio.gather(*batch.tasks)
        except asyncio.CancelledError:
            if exchange.has_left:
                return
            raise
        finally:
            exchange.unwatch()
        await exchange.reply(200 if batch.answers else 202, batch.answers, headers)


class _Batch:
    """The messages and responses of one batch, which cannot be streamed."""

    def __init__(
        self,
        server: Server,
        legacy: Legacy,
        exchange: HttpExchange,
        caller: Caller,
        session: Session | None,
        facts: Facts,
    ) -> None:
        self._server = server
        self._legacy = legacy
        self._exchange = exchange
        self._caller = caller
        self._session = session
        self._facts = facts
        self._running = RunningCalls() if session is None else session.running
        self.questions = None if session is None else session.questions
        self.tasks: list[asyncio.Task[object]] = []
        self.answers = b""

    def send(self, answers: bytes) -> None:
        """Keep the responses until the request is answered."""
        self.answers = answers

    def take(self, message: Envelope, deliver: Deliver, limited: RateLimited | None) -> None:
        """Take one message; a request is served in its own task."""
        incoming = read_message(self._exchange, self._caller.principal, message, self._session, self._facts)
        if not incoming.is_request:
            if self._session is not None:
                self._legacy.take(incoming)
            return
        try:
            if limited is not None:
                raise limited
            revision = climb_batch(self._facts)
            key = self._running.reserve(incoming.id, bounds.IN_FLIGHT)
        except HubbubError as error:
            deliver(error_response(incoming.id, error, refusal_revision(self._facts)))
            return
        call = incoming.call(self._caller, CallStream(self._exchange, revision, "json"))
        self.tasks.append(self._running.start(key, self._serve(key, call, deliver)))

    async def _serve(self, key: bytes, call: Call, deliver: Deliver) -> None:
        response = b""
        try:
            response, _ = await answer(self._server.peer, call, self._server.identity)
        except asyncio.CancelledError:
            if not self._running.is_cancelled(key):
                raise
        finally:
            self._running.end(key)
            deliver(response)


def _without_cookie(exchange: HttpExchange, error: HubbubError) -> HeaderList:
    """Remove the cookie of a session that has ended, so that the next call of this client is a plain one."""
    if isinstance(error, SessionNotFound) and exchange.headers.raw(SESSION_HEADER) is None:
        return (drop_cookie(exchange.root_path),)
    return ()


def _is_json(content_type: bytes | None) -> bool:
    if content_type == _JSON:
        return True
    return content_type is not None and content_type.partition(b";")[0].strip().lower() == _JSON
