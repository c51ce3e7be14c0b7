"""The legacy era over HTTP: `initialize` opens a session, which a header or cookie names.

Calls continue after a disconnect, because the caller may reconnect for the response. Messages
about a call are sent on its own stream; messages that belong to no call are sent on the
stream that the client opens with GET.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import HubbubError
from hubbub.ports import HttpExchange
from hubbub.protocol.calls import Call
from hubbub.protocol.dialect import legacy_caller
from hubbub.protocol.jsonrpc import encode_result
from hubbub.protocol.params import CancelledParams
from hubbub.protocol.shape import shape
from hubbub.server.http.call_stream import CallStream
from hubbub.server.http.cookies import set_cookie
from hubbub.server.http.post_headers import PostHeaders, ResponseMode, read_post_headers
from hubbub.server.http.sessions import SESSION_HEADER, Session, Sessions
from hubbub.server.http.streams import Stream, parse_event_id
from hubbub.server.responses import respond_error, respond_to_call, respond_to_error
from hubbub.server.server import Server

if TYPE_CHECKING:
    from hubbub.server.http.post import IncomingMessage


class LegacyDialect:
    """Serves calls that belong to a session."""

    def __init__(self, server: Server, sessions: Sessions, mode: ResponseMode) -> None:
        self._server = server
        self._sessions = sessions
        self._mode = mode

    async def initialize(self, incoming: IncomingMessage) -> None:
        """Open a session, if the handshake is valid."""
        exchange = incoming.exchange
        try:
            if isinstance(incoming.params, HubbubError):
                raise incoming.params
            caller = legacy_caller(incoming.params, incoming.principal, exchange.client)
            back = CallStream(exchange, caller.revision, "json")
            response, failure = await respond_to_call(
                self._server.peer, incoming.call(caller, back), self._server.identity
            )
            if failure is not None:
                raise failure
            session = self._sessions.open(caller)
        except HubbubError as error:
            await respond_error(exchange, error, identifier=incoming.id)
            return
        headers = ((SESSION_HEADER, session.id.encode()), set_cookie(session.id, exchange))
        mode = read_post_headers(exchange.headers).choose_mode(self._mode)
        await CallStream(exchange, caller.revision, mode, session, headers).respond(200, response)

    def make_stream(self, exchange: HttpExchange, declared: PostHeaders, session: Session) -> CallStream:
        """Make the return path of a call in a session."""
        mode = self._mode if declared.accepts == "auto" else declared.choose_mode(self._mode)
        return CallStream(exchange, session.caller.revision, mode, session)

    async def serve(self, exchange: HttpExchange, call: Call, stream: CallStream, session: Session) -> None:
        """Answer one call; it continues even if the caller disconnects."""
        server, running = self._server, session.running_calls
        key = running.reserve(call.id, bounds.IN_FLIGHT)
        running[key] = exchange.task
        exchange.watch(cancel=False)
        try:
            try:
                reply = await server.peer.request(call)
                response = encode_result(call.id, shape(reply, call.caller.revision, server.identity))
            except BaseException as error:
                response, _ = respond_to_error(call, error, server.identity)
        except asyncio.CancelledError:
            if not running.is_cancelled(key):
                raise
            await stream.end_cancelled()
            return
        finally:
            running.end(key)
            exchange.unwatch()
        await stream.respond(200, response)

    def handle_message(self, incoming: IncomingMessage) -> None:
        """Take a notification, or a response to one of our requests."""
        session = incoming.session
        assert session is not None
        if incoming.message.method is UNSET:
            session.pending_requests.resolve(incoming.message)
        elif isinstance(incoming.params, CancelledParams) and incoming.params.request_id is not UNSET:
            session.running_calls.cancel(incoming.params.request_id)

    async def listen(self, exchange: HttpExchange, session: Session) -> None:
        """Stream messages that belong to no call, or resume a broken stream."""
        last_event_id = exchange.headers.get(b"last-event-id")
        stream, after = self._find_stream_to_resume(session, last_event_id) if last_event_id is not None else (None, 0)
        is_new = stream is None
        if stream is None:
            stream = session.open_get_stream()
            after = stream.position
        await exchange.start_stream()
        if is_new and session.caller.revision.resumes_streams:
            first = stream.prime()
            after = stream.position
            await exchange.write(first)
        await stream.pump(exchange, after)

    def _find_stream_to_resume(self, session: Session, last_event_id: str) -> tuple[Stream | None, int]:
        event = parse_event_id(last_event_id)
        stream = None if event is None else session.find_stream(event[0])
        if event is None or stream is None:
            return None, 0
        return stream, event[1]

    def end_session(self, session: Session) -> None:
        """End a session because its client asked for it."""
        self._sessions.close(session)
