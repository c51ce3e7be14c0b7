"""The protocol at one path: `POST`, `GET` and `DELETE` of one server.

An endpoint has one for `/mcp`, and one for each view of a hub. Each keeps the sessions of
its own callers; what all of them together may hold open is counted in one place.
"""

from __future__ import annotations

import asyncio

from hubbub import bounds
from hubbub.errors import MethodNotAllowed, Overloaded, SessionNotFound, SessionRequired, UnsupportedVersion
from hubbub.ports import HttpExchange, Quotas
from hubbub.protocol.error_forms import INVALID_REQUEST
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.jsonrpc import NULL, ErrorObject, encode_error
from hubbub.protocol.model import Principal
from hubbub.protocol.refusal import Refusal
from hubbub.protocol.revisions import LEGACY, SUPPORTED_VERSIONS, is_modern_version
from hubbub.server.http.call_stream import ResponseMode
from hubbub.server.http.cookies import Cookies
from hubbub.server.http.legacy import Legacy
from hubbub.server.http.modern import Modern
from hubbub.server.http.plain import Plain
from hubbub.server.http.post import VERSION_HEADER, Post
from hubbub.server.http.sessions import Sessions
from hubbub.server.http.streams import UNNUMBERED, EventStore, Stream
from hubbub.server.server import Server


class RouteOptions:
    """What all routes of one endpoint have in common."""

    def __init__(
        self,
        *,
        mode: ResponseMode = "auto",
        plain_allowed: bool = True,
        quotas: Quotas | None = None,
        most_sessions: int = bounds.SESSIONS,
        session_idle_s: float = bounds.SESSION_IDLE_S,
        most_streams: int = bounds.STREAMS,
        store: EventStore | None = None,
    ) -> None:
        self.mode = mode
        self.plain_allowed = plain_allowed
        self.quotas = quotas
        self.most_sessions = most_sessions
        self.session_idle_s = session_idle_s
        self.most_streams = most_streams
        self.store = EventStore() if store is None else store
        self.cookies = Cookies()
        self.open_streams = 0


class McpRoute:
    """One server at one path."""

    def __init__(self, server: Server, options: RouteOptions) -> None:
        self.server = server
        self._options = options
        self.sessions = Sessions(
            server.audience,
            limit=options.most_sessions,
            idle_s=options.session_idle_s,
            store=options.store,
            ended=server.end_scope,
        )
        self._legacy = Legacy(server, self.sessions, options.mode)
        self._plain = Plain(server, options.cookies)
        self._plain_streams: set[Stream] = set()
        self.post = Post(
            Modern(server, options.mode),
            self._legacy,
            self._plain,
            plain_allowed=options.plain_allowed,
            quotas=options.quotas,
        )

    async def listen(self, exchange: HttpExchange, principal: Principal) -> None:
        """Stream what belongs to no call: `GET`."""
        headers, options = exchange.headers, self._options
        session, names_session = self._legacy.session_of(headers, principal)
        if not _accepts_stream(headers):
            await refuse(exchange, Refusal(406, "GET /mcp is a stream; send `Accept: text/event-stream`"))
            return
        self._refuse_wrong_era(headers, names_session and session is None, session is not None)
        if options.open_streams >= options.most_streams:
            raise Overloaded("open streams", options.most_streams)
        options.open_streams += 1
        exchange.watch(cancel=True)
        try:
            if session is not None:
                await self._legacy.listen(exchange, session)
            else:
                await self._listen_plainly(exchange, principal)
            await exchange.end()
        except asyncio.CancelledError:
            if not exchange.has_left:
                raise
        finally:
            exchange.unwatch()
            options.open_streams -= 1

    async def _listen_plainly(self, exchange: HttpExchange, principal: Principal) -> None:
        stream = Stream(UNNUMBERED, self._options.store)
        self._plain_streams.add(stream)
        try:
            await self._plain.listen(exchange, principal, stream)
        finally:
            self._plain_streams.discard(stream)
            stream.discard()

    async def end_session(self, exchange: HttpExchange, principal: Principal) -> None:
        """End a session at its client's wish: `DELETE`."""
        session, names_session = self._legacy.session_of(exchange.headers, principal)
        self._refuse_wrong_era(exchange.headers, names_session and session is None, session is not None)
        if session is None:
            raise SessionRequired("There is no session to end; name it in the header Mcp-Session-Id")
        self._legacy.end(session)
        await exchange.reply(204)

    def _refuse_wrong_era(self, headers: Headers, is_unknown: bool, has_session: bool) -> None:
        version = headers.get(VERSION_HEADER)
        if version is not None and is_modern_version(version):
            raise MethodNotAllowed("This protocol revision only has POST")
        if version is not None and version not in LEGACY:
            raise UnsupportedVersion(version, SUPPORTED_VERSIONS)
        if is_unknown:
            raise SessionNotFound("This session has ended or never existed; send `initialize` again")
        if version is not None and not has_session:
            raise SessionRequired("This request belongs to no session; send `initialize` first")

    def end_streams(self) -> None:
        """Let every open stream end, so that the process can."""
        self.server.audience.end_listens()
        for stream in list(self._plain_streams):
            stream.finish()
        self.sessions.end_streams()


async def refuse(exchange: HttpExchange, refusal: Refusal) -> None:
    """Answer a request that is not let in."""
    body = encode_error(NULL, ErrorObject(INVALID_REQUEST, refusal.message))
    await exchange.reply(refusal.status, body, refusal.headers)


def _accepts_stream(headers: Headers) -> bool:
    accept = headers.get(b"accept")
    return accept is None or any(kind in accept for kind in ("text/event-stream", "*/*", "text/*"))
