"""The session era over HTTP: `initialize` opens a session, a header or cookie names it.

Calls run to their end even if the caller leaves, because it may come back for the
answer. What a call says before its answer is on the call's own stream; what belongs to no
call is on the stream that the client opens with GET.
"""

from __future__ import annotations

import asyncio

from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import HubbubError, IdInUse, InvalidParams, MessageTooLarge, Overloaded
from hubbub.ports import HttpExchange
from hubbub.protocol.error_forms import error_object, http_status
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.jsonrpc import NULL, encode_error, id_key
from hubbub.protocol.model import Principal
from hubbub.protocol.params import CancelledParams
from hubbub.protocol.revisions import NEWEST_LEGACY
from hubbub.server.answer import answer
from hubbub.server.connection import open_session
from hubbub.server.http.call_stream import CallStream, ResponseMode, mode_for
from hubbub.server.http.cookies import read_cookie, set_cookie
from hubbub.server.http.incoming import Incoming
from hubbub.server.http.sessions import Session, Sessions
from hubbub.server.http.streams import Stream, parse_event_id
from hubbub.server.server import Server

SESSION_HEADER = b"mcp-session-id"


class Legacy:
    """Serves calls that belong to a session."""

    def __init__(self, server: Server, sessions: Sessions, mode: ResponseMode) -> None:
        self._server = server
        self._sessions = sessions
        self._mode = mode

    def session_of(self, headers: Headers, principal: Principal) -> tuple[Session | None, bool]:
        """The session that a request belongs to, and whether it names one in the header."""
        named = headers.raw(SESSION_HEADER)
        if named is not None:
            return self._sessions.find(named.decode("latin-1"), principal.name), True
        cookie = None if headers.raw(b"cookie") is None else read_cookie(headers.get(b"cookie"))
        return (None if cookie is None else self._sessions.find(cookie, principal.name)), False

    async def initialize(self, incoming: Incoming) -> None:
        """Open a session, if the handshake is valid."""
        exchange = incoming.exchange
        try:
            if isinstance(incoming.params, InvalidParams):
                raise incoming.params
            if len(incoming.raw) > bounds.CLIENT_BYTES:
                raise MessageTooLarge("The description of the client", bounds.CLIENT_BYTES)
            caller = open_session(incoming.params, incoming.principal, None)
            back = CallStream(exchange, caller.revision, "json")
            response, failure = await answer(self._server.peer, incoming.call(caller, back), self._server.identity)
            if failure is not None:
                raise failure
            session = self._sessions.open(caller)
        except HubbubError as error:
            body = encode_error(incoming.id, error_object(error, NEWEST_LEGACY))
            await exchange.reply(http_status(error), body)
            return
        headers = ((SESSION_HEADER, session.id.encode()), set_cookie(session.id, exchange.scheme))
        mode = mode_for(exchange.headers, self._mode)
        await CallStream(exchange, caller.revision, mode, session, headers).answer(200, response)

    async def call(self, incoming: Incoming) -> None:
        """Answer one call; it goes on even if the caller leaves."""
        session, exchange = incoming.session, incoming.exchange
        assert session is not None
        stream = CallStream(exchange, session.caller.revision, mode_for(exchange.headers, self._mode), session)
        try:
            running, key = _start(session, incoming)
        except IdInUse as doubled:
            await exchange.reply(400, encode_error(NULL, error_object(doubled, session.caller.revision)))
            return
        exchange.watch(cancel=False)
        try:
            response, _ = await answer(self._server.peer, incoming.call(session.caller, stream), self._server.identity)
        except asyncio.CancelledError:
            if key in running:
                raise
            await stream.abandon()  # the client itself cancelled it
            return
        finally:
            running.pop(key, None)
            exchange.unwatch()
        await stream.answer(200, response)

    async def answer_alone(self, incoming: Incoming) -> bytes:
        """The answer to a call of a batch, which nothing can be streamed for; empty if the client cancelled it."""
        session = incoming.session
        assert session is not None
        revision = session.caller.revision
        try:
            running, key = _start(session, incoming)
        except HubbubError as error:
            told = NULL if isinstance(error, IdInUse) else incoming.id
            return encode_error(told, error_object(error, revision))
        call = incoming.call(session.caller, CallStream(incoming.exchange, revision, "json"))
        try:
            return (await answer(self._server.peer, call, self._server.identity))[0]
        except asyncio.CancelledError:
            if key in running:
                raise
            return b""
        finally:
            running.pop(key, None)

    def take(self, incoming: Incoming) -> None:
        """Take a notification or an answer to one of our questions."""
        session = incoming.session
        assert session is not None
        if not incoming.method:
            session.questions.take(incoming.message)
        elif incoming.method == "notifications/cancelled" and isinstance(incoming.params, CancelledParams):
            self._cancel(session, incoming.params)

    def _cancel(self, session: Session, params: CancelledParams) -> None:
        if params.request_id is UNSET or session.running is None:
            return
        task = session.running.pop(id_key(params.request_id), None)
        if task is not None:
            task.cancel()

    async def listen(self, exchange: HttpExchange, session: Session) -> None:
        """Stream what belongs to no call, or take up a stream that was broken off."""
        last = exchange.headers.get(b"last-event-id")
        stream, after = self._stream_to_resume(session, last) if last is not None else (None, 0)
        is_new = stream is None
        if stream is None:
            stream = session.open_own_stream()
            after = stream.position
        await exchange.start_stream()
        if is_new and session.caller.revision.resumes_streams:
            first = stream.prime()
            after = stream.position
            await exchange.write(first)
        await stream.pump(exchange, after)

    def _stream_to_resume(self, session: Session, last: str) -> tuple[Stream | None, int]:
        event = parse_event_id(last)
        stream = None if event is None else session.find_stream(event[0])
        if event is None or stream is None:
            return None, 0
        return stream, event[1]

    def end(self, session: Session) -> None:
        """End a session at its client's wish."""
        self._sessions.close(session)


def _start(session: Session, incoming: Incoming) -> tuple[dict[bytes, asyncio.Task[object] | None], bytes]:
    """Note that the current task serves a call, so that the client can cancel it; all running calls, and its key.

    Raises:
        IdInUse: an earlier call has the same id.
        Overloaded: too many calls are running.
    """
    if session.running is None:
        session.running = {}
    running, key = session.running, id_key(incoming.id)
    if key in running:
        raise IdInUse(key.decode())
    if len(running) >= bounds.IN_FLIGHT:
        raise Overloaded("calls in this session", bounds.IN_FLIGHT)
    running[key] = asyncio.current_task()
    return running, key
