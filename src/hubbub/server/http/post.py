"""`POST /mcp`: one message or a batch, in any dialect.

Reads the message, has `hubbub.protocol.dialect` classify it, and passes it on as an `IncomingMessage`. Errors
before that are answered here, in the form of the era that the message claims.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import HubbubError, InsufficientScope, InvalidRequest, MessageError, RateLimited, SessionNotFound
from hubbub.ports import HttpExchange, RateLimits, ReturnPath
from hubbub.protocol.calls import Call, Caller, Principal
from hubbub.protocol.dialect import (
    AllowsPlain,
    MessageFacts,
    allow_plain_for_all,
    claims_modern,
    classify,
    classify_batch,
    classify_fast_http,
    modern_caller,
    refusal_revision,
)
from hubbub.protocol.error_codes import error_response
from hubbub.protocol.http_headers import HeaderList, Headers
from hubbub.protocol.jsonrpc import NULL, Envelope, decode_envelope
from hubbub.protocol.params import EMPTY_PARAMS, decode_params
from hubbub.protocol.revisions import LEGACY, Revision
from hubbub.server.batch import SendResponse, handle_batch
from hubbub.server.http.call_stream import CallStream
from hubbub.server.http.cookies import delete_cookie
from hubbub.server.http.legacy import LegacyDialect
from hubbub.server.http.modern import ModernDialect
from hubbub.server.http.plain import PlainDialect
from hubbub.server.http.post_headers import VERSION_HEADER, PostHeaders, read_post_headers
from hubbub.server.http.sessions import SESSION_HEADER, Session, Sessions
from hubbub.server.pending_requests import refusal_id
from hubbub.server.responses import respond_error, respond_to_call
from hubbub.server.running_calls import RunningCalls
from hubbub.server.server import Server

_RATE_LIMITED_ROUTE = "/mcp"
"""The route that its messages are counted under, at any path."""


ChallengeScopes = Callable[[Headers, str, Principal, frozenset[str]], HeaderList]
"""Makes the headers of a refused request from its headers, path, caller, and the scopes that it needs."""


class IncomingMessage:
    """A message with everything that is known about it from its request and headers."""

    __slots__ = ("exchange", "id", "is_request", "message", "meta", "method", "params", "principal", "raw", "session")

    def __init__(
        self, exchange: HttpExchange, principal: Principal, message: Envelope, session: Session | None = None
    ) -> None:
        """Decode the parameters of a message."""
        self.exchange = exchange
        self.principal = principal
        self.message = message
        self.session = session
        method, identifier, raw = message.method, message.id, message.params
        self.is_request = identifier is not UNSET and method is not UNSET
        """Whether it expects a response."""
        self.id = NULL if identifier is UNSET else identifier
        """Null if the message has no id."""
        self.method = method = "" if method is UNSET else method
        self.raw = raw = EMPTY_PARAMS if raw is UNSET else raw
        self.params, self.meta = decode_params(method, raw)

    def add_facts(self, facts: MessageFacts) -> None:
        """Add what the message itself says to the facts of its request."""
        facts.method, facts.meta, facts.is_request = self.method, self.meta, self.is_request
        facts.id = self.id if self.is_request else UNSET

    def call(self, caller: Caller, back: ReturnPath) -> Call:
        """Make a call of the message."""
        return Call(
            id=self.id, method=self.method, raw=self.raw, params=self.params, meta=self.meta, caller=caller, back=back
        )


def read_request_facts(
    exchange: HttpExchange, principal: Principal, sessions: Sessions, *, plain_allowed: bool
) -> tuple[MessageFacts, Session | None]:
    """Read the facts in the headers of a request, and find its session; modern requests have none."""
    headers = exchange.headers
    facts = MessageFacts(
        version_header=headers.get(VERSION_HEADER),
        over_http=True,
        http_method=exchange.method,
        plain_allowed=plain_allowed,
    )
    if claims_modern(facts):
        return facts, None
    session, facts.names_session = sessions.find_by_headers(headers, principal)
    if session is not None:
        facts.session = session.caller.revision
    return facts, session


class PostRoute:
    """Reads POST requests and passes them to the handler of their dialect."""

    def __init__(
        self,
        server: Server,
        sessions: Sessions,
        modern: ModernDialect,
        legacy: LegacyDialect,
        plain: PlainDialect,
        *,
        allows_plain: AllowsPlain = allow_plain_for_all,
        rate_limits: RateLimits | None = None,
        challenge_scopes: ChallengeScopes | None = None,
    ) -> None:
        """`challenge_scopes` makes the headers that name scopes which a caller lacks."""
        self._challenge_scopes = challenge_scopes
        self._server = server
        self._sessions = sessions
        self._modern = modern
        self._legacy = legacy
        self._plain = plain
        self._allows_plain = allows_plain
        self._rate_limits = rate_limits

    def serve(self, exchange: HttpExchange, principal: Principal) -> Awaitable[None]:
        """Answer a POST request."""
        declared = read_post_headers(exchange.headers)
        if not declared.is_json:
            content_type_error = InvalidRequest("Send JSON, with the header `Content-Type: application/json`")
            return respond_error(exchange, content_type_error, status=415)
        data = exchange.body_nowait()
        if data is None:
            return self._wait_and_serve(exchange, principal, declared)
        return self._serve(exchange, principal, declared, data)

    async def _wait_and_serve(self, exchange: HttpExchange, principal: Principal, declared: PostHeaders) -> None:
        await self._serve(exchange, principal, declared, await exchange.body())

    def _serve(
        self, exchange: HttpExchange, principal: Principal, declared: PostHeaders, data: bytes
    ) -> Awaitable[None]:
        try:
            message = decode_envelope(data)
        except MessageError as error:
            _, session = self._read_request(exchange, principal)
            identifier = refusal_id(data, error, None if session is None else session.pending_requests)
            return respond_error(exchange, error, identifier=identifier)
        if not isinstance(message, Envelope):
            facts, session = self._read_request(exchange, principal)
            return self._serve_batch(exchange, principal, message, session, facts)
        serving = None if declared.version is None else self._serve_fast(exchange, principal, message, declared)
        return self._serve_message(IncomingMessage(exchange, principal, message)) if serving is None else serving

    def _serve_fast(
        self, exchange: HttpExchange, principal: Principal, message: Envelope, declared: PostHeaders
    ) -> Awaitable[None] | None:
        """Serve a modern or legacy request with all required members in fewer steps; return None for other messages."""
        method, identifier, raw = message.method, message.id, message.params
        if method is UNSET or identifier is UNSET or raw is UNSET or not bytes(identifier).isdigit():
            return None
        params, meta = decode_params(method, raw)
        if principal.step_up_scopes:
            return None  # its scopes are checked in `_dispatch_message`
        version = declared.version
        revision = classify_fast_http(meta, version)
        if revision is not None:
            caller = modern_caller(meta, revision, principal, exchange.client)
            stream = self._modern.make_stream(exchange, declared, method, revision)
            call = Call(id=identifier, method=method, raw=raw, params=params, meta=meta, caller=caller, back=stream)
            return self._modern.serve(exchange, call, stream)
        if meta.version is not UNSET or version not in LEGACY or method == "initialize":
            return None
        session, _ = self._sessions.find_by_headers(exchange.headers, principal)
        if session is None or isinstance(params, InvalidRequest):
            return None
        stream, caller = self._legacy.make_stream(exchange, declared, session), session.caller
        call = Call(id=identifier, method=method, raw=raw, params=params, meta=meta, caller=caller, back=stream)
        return self._legacy.serve(exchange, call, stream, session)

    def _serve_message(self, incoming: IncomingMessage) -> Awaitable[None]:
        exchange = incoming.exchange
        facts, incoming.session = self._read_request(exchange, incoming.principal)
        incoming.add_facts(facts)
        try:
            if isinstance(incoming.params, InvalidRequest) and (
                incoming.session is not None or not self._may_be_tool(facts)
            ):
                raise incoming.params
            revision = classify(facts)
        except HubbubError as error:
            removal = _cookie_removal(exchange, error)
            return respond_error(exchange, error, refusal_revision(facts), incoming.id, headers=removal)
        return self._dispatch_message(incoming, revision)

    def _read_request(self, exchange: HttpExchange, principal: Principal) -> tuple[MessageFacts, Session | None]:
        plain_allowed = self._allows_plain(principal)
        return read_request_facts(exchange, principal, self._sessions, plain_allowed=plain_allowed)

    def _may_be_tool(self, facts: MessageFacts) -> bool:
        """Whether the method may be a tool called by its name, which checks its params itself."""
        return not claims_modern(facts) and not self._server.has_method(facts.method)

    def _dispatch_message(self, incoming: IncomingMessage, revision: Revision) -> Awaitable[None]:
        if not incoming.is_request:
            if incoming.session is not None:
                self._legacy.handle_message(incoming)
            return incoming.exchange.respond(202)
        exchange, session = incoming.exchange, incoming.session
        if incoming.principal.step_up_scopes and (missing := self._find_missing_scopes(incoming, revision)):
            challenge = self._challenge_scopes
            headers: HeaderList = ()
            if challenge is not None:
                headers = challenge(exchange.headers, exchange.path, incoming.principal, missing)
            return respond_error(exchange, InsufficientScope(missing), revision, incoming.id, headers=headers)
        if revision.stateless:
            caller = modern_caller(incoming.meta, revision, incoming.principal, exchange.client)
            stream = self._modern.make_stream(exchange, read_post_headers(exchange.headers), incoming.method, revision)
            return self._modern.serve(exchange, incoming.call(caller, stream), stream)
        if incoming.method == "initialize":
            return self._legacy.initialize(incoming)
        if session is not None:
            stream = self._legacy.make_stream(exchange, read_post_headers(exchange.headers), session)
            return self._legacy.serve(exchange, incoming.call(session.caller, stream), stream, session)
        return self._plain.call(incoming)

    def _find_missing_scopes(self, incoming: IncomingMessage, revision: Revision) -> frozenset[str]:
        """Return the scopes of a tool that the caller sees and must ask for more scopes to call; else none."""
        if incoming.method == "tools/call":
            name = "" if isinstance(incoming.params, HubbubError) else incoming.params.name
        else:
            name = "" if revision.is_mcp or self._server.has_method(incoming.method) else incoming.method
        caller = Caller(revision=revision, principal=incoming.principal)
        scopes = self._server.tool_scopes(name, caller) if name else frozenset()
        return frozenset() if caller.holds(scopes) else scopes

    async def _serve_batch(
        self,
        exchange: HttpExchange,
        principal: Principal,
        items: list[bytes],
        session: Session | None,
        facts: MessageFacts,
    ) -> None:
        try:
            revision = classify_batch(facts)
        except HubbubError as error:
            await respond_error(exchange, error, headers=_cookie_removal(exchange, error))
            return
        caller, headers = self._plain.identify_caller(exchange, principal) if session is None else (session.caller, ())
        batch = _HttpBatch(self._server, self._legacy, exchange, caller, session, facts)
        count = (
            None
            if self._rate_limits is None
            else self._rate_limits.count_for(_RATE_LIMITED_ROUTE, principal, exchange.client)
        )
        exchange.watch(cancel=session is None)
        try:
            handle_batch(
                items,
                batch.handle_message,
                batch.send,
                revision=revision,
                pending_requests=batch.pending_requests,
                count=count,
            )
            await asyncio.gather(*batch.tasks)
        except asyncio.CancelledError:
            if exchange.is_disconnected:
                return
            raise
        finally:
            exchange.unwatch()
        await exchange.respond(200 if batch.responses else 202, batch.responses, headers)


class _HttpBatch:
    """The messages and responses of one batch, which cannot be streamed."""

    def __init__(
        self,
        server: Server,
        legacy: LegacyDialect,
        exchange: HttpExchange,
        caller: Caller,
        session: Session | None,
        facts: MessageFacts,
    ) -> None:
        self._server = server
        self._legacy = legacy
        self._exchange = exchange
        self._caller = caller
        self._session = session
        self._facts = facts
        self._running_calls = RunningCalls() if session is None else session.running_calls
        self.pending_requests = None if session is None else session.pending_requests
        self.tasks: list[asyncio.Task[object]] = []
        self.responses = b""

    def send(self, answers: bytes) -> None:
        """Keep the responses until the request is answered."""
        self.responses = answers

    def handle_message(self, message: Envelope, send_response: SendResponse, rate_error: RateLimited | None) -> None:
        """Take one message; a request is served in its own task."""
        incoming = IncomingMessage(self._exchange, self._caller.principal, message, self._session)
        incoming.add_facts(self._facts)
        if not incoming.is_request:
            if self._session is not None:
                self._legacy.handle_message(incoming)
            return
        try:
            if rate_error is not None:
                raise rate_error
            revision = classify_batch(self._facts)
            key = self._running_calls.reserve(incoming.id, bounds.IN_FLIGHT)
        except HubbubError as error:
            send_response(error_response(incoming.id, error, refusal_revision(self._facts)))
            return
        call = incoming.call(self._caller, CallStream(self._exchange, revision, "json"))
        self.tasks.append(self._running_calls.start(key, self._serve(key, call, send_response)))

    async def _serve(self, key: bytes, call: Call, send_response: SendResponse) -> None:
        response = b""
        try:
            response, _ = await respond_to_call(self._server.peer, call, self._server.identity)
        except asyncio.CancelledError:
            if not self._running_calls.is_cancelled(key):
                raise
        finally:
            self._running_calls.end(key)
            send_response(response)


def _cookie_removal(exchange: HttpExchange, error: HubbubError) -> HeaderList:
    """Remove the cookie of a session that has ended, so that the next call of this client is a plain one."""
    if isinstance(error, SessionNotFound) and exchange.headers.raw(SESSION_HEADER) is None:
        return (delete_cookie(exchange.root_path),)
    return ()
