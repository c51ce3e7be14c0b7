"""MCP at one path: `POST`, `GET` and `DELETE` of one server.

An endpoint has one route for `/mcp`, and one for each view of a hub. Each has the sessions of
its own callers; the limits on open streams and stored events are shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hubbub import bounds
from hubbub.errors import Overloaded, SessionRequired
from hubbub.ports import HttpExchange, Quotas
from hubbub.protocol.authority import owner_of
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.ladder import climb
from hubbub.protocol.model import Principal
from hubbub.protocol.refusal import Refusal
from hubbub.server.answer import refuse
from hubbub.server.http.call_stream import ResponseMode
from hubbub.server.http.cookies import Cookies
from hubbub.server.http.legacy import Legacy
from hubbub.server.http.modern import Modern
from hubbub.server.http.plain import Plain
from hubbub.server.http.post import Post, request_facts
from hubbub.server.http.sessions import Session, Sessions
from hubbub.server.http.streams import UNNUMBERED, EventStore, Stream
from hubbub.server.server import Server
from hubbub.shares import Shares


class RouteOptions:
    """Options and limits that all routes of one endpoint share."""

    def __init__(
        self,
        *,
        mode: ResponseMode = "auto",
        plain_allowed: bool = True,
        quotas: Quotas | None = None,
        most_sessions: int | None = None,
        session_idle_s: float | None = None,
        most_streams: int | None = None,
        store: EventStore | None = None,
    ) -> None:
        self.mode = mode
        self.plain_allowed = plain_allowed
        self.quotas = quotas
        self.most_sessions = most_sessions
        self.session_idle_s = session_idle_s
        self.store = EventStore() if store is None else store
        self.cookies = Cookies()
        self.streams = Shares(bounds.STREAMS if most_streams is None else most_streams)


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
            server,
            self.sessions,
            Modern(server, options.mode),
            self._legacy,
            self._plain,
            plain_allowed=options.plain_allowed,
            quotas=options.quotas,
        )

    async def listen(self, exchange: HttpExchange, principal: Principal) -> None:
        """Stream messages that belong to no call: `GET`."""
        options = self._options
        if not _accepts_stream(exchange.headers):
            await refuse(exchange, Refusal(406, "GET /mcp is a stream; send `Accept: text/event-stream`"))
            return
        session = self._session_of(exchange, principal)
        owner = owner_of(principal, exchange.client)
        if not options.streams.has_room(owner):
            raise Overloaded("open streams", options.streams.limit)
        options.streams.take(owner)
        exchange.watch(cancel=True)
        try:
            if session is not None:
                await self._legacy.listen(exchange, session)
            else:
                await self._listen_plainly(exchange, principal, owner)
            await exchange.end()
        except asyncio.CancelledError:
            if not exchange.has_left:
                raise
        finally:
            exchange.unwatch()
            options.streams.give_back(owner)

    async def _listen_plainly(self, exchange: HttpExchange, principal: Principal, owner: str) -> None:
        stream = Stream(UNNUMBERED, self._options.store, owner)
        self._plain_streams.add(stream)
        try:
            await self._plain.listen(exchange, principal, stream)
        finally:
            self._plain_streams.discard(stream)
            stream.discard()

    async def end_session(self, exchange: HttpExchange, principal: Principal) -> None:
        """End a session because its client asked for it: `DELETE`."""
        session = self._session_of(exchange, principal)
        if session is None:
            raise SessionRequired("There is no session to end; name it in the header Mcp-Session-Id")
        self._legacy.end(session)
        await exchange.reply(204)

    def _session_of(self, exchange: HttpExchange, principal: Principal) -> Session | None:
        """Return the session of a request without a body; None for a plain caller."""
        plain_allowed = self._options.plain_allowed
        facts, session = request_facts(exchange, principal, self.sessions, plain_allowed=plain_allowed)
        climb(facts)
        return session

    def end_revoked_callers(self, is_revoked: Callable[[str], bool]) -> None:
        """End the sessions and suspended calls of revoked callers."""
        for owner in filter(is_revoked, {*self.sessions.owners} - {""}):
            self.sessions.end_owner(owner)
        self.server.end_revoked(is_revoked)

    def end_streams(self) -> None:
        """End every open stream, so that the process can exit."""
        self.server.audience.end_listens()
        for stream in list(self._plain_streams):
            stream.finish()
        self.sessions.end_streams()


def _accepts_stream(headers: Headers) -> bool:
    accept = headers.get(b"accept")
    return accept is None or any(kind in accept for kind in ("text/event-stream", "*/*", "text/*"))
