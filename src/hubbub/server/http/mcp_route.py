"""MCP at one path: `POST`, `GET` and `DELETE` of one server.

An endpoint has one route for `/mcp`, and one for each view of a hub. Each has the sessions of
its own callers; the limits on open streams and stored events are shared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hubbub import bounds
from hubbub.errors import Overloaded, SessionRequired
from hubbub.ports import HttpExchange, RateLimits
from hubbub.protocol.calls import Principal
from hubbub.protocol.dialect import AllowsPlain, allow_plain_for_all, classify
from hubbub.protocol.host_origin import share_owner
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.server.client_sessions import Matches
from hubbub.server.http.cookies import Cookies
from hubbub.server.http.legacy import LegacyDialect
from hubbub.server.http.modern import ModernDialect
from hubbub.server.http.plain import PlainDialect
from hubbub.server.http.post import ChallengeScopes, PostRoute, read_request_facts
from hubbub.server.http.post_headers import ResponseMode
from hubbub.server.http.sessions import Session, Sessions
from hubbub.server.http.streams import UNNUMBERED, EventStore, Stream
from hubbub.server.responses import respond_refusal
from hubbub.server.server import Server
from hubbub.shares import Shares


class RouteOptions:
    """Options and limits that all routes of one endpoint share."""

    def __init__(
        self,
        *,
        mode: ResponseMode = "auto",
        allows_plain: AllowsPlain = allow_plain_for_all,
        rate_limits: RateLimits | None = None,
        max_sessions: int | None = None,
        session_idle_s: float | None = None,
        max_streams: int | None = None,
        store: EventStore | None = None,
        challenge_scopes: ChallengeScopes | None = None,
    ) -> None:
        self.challenge_scopes = challenge_scopes
        self.mode = mode
        self.allows_plain = allows_plain
        self.rate_limits = rate_limits
        self.max_sessions = max_sessions
        self.session_idle_s = session_idle_s
        self.store = EventStore() if store is None else store
        self.cookies = Cookies()
        self.streams = Shares(bounds.STREAMS if max_streams is None else max_streams)


class McpRoute:
    """One server at one path."""

    def __init__(self, server: Server, options: RouteOptions) -> None:
        self.server = server
        self._options = options
        self.sessions = Sessions(
            server.broadcaster,
            limit=options.max_sessions,
            idle_s=options.session_idle_s,
            store=options.store,
            on_end=server.end_scope,
        )
        self._legacy = LegacyDialect(server, self.sessions, options.mode)
        self._plain = PlainDialect(server, options.cookies)
        self._plain_streams: set[Stream] = set()
        self.post = PostRoute(
            server,
            self.sessions,
            ModernDialect(server, options.mode),
            self._legacy,
            self._plain,
            allows_plain=options.allows_plain,
            rate_limits=options.rate_limits,
            challenge_scopes=options.challenge_scopes,
        )

    async def listen(self, exchange: HttpExchange, principal: Principal) -> None:
        """Stream messages that belong to no call: `GET`."""
        options = self._options
        if not _accepts_stream(exchange.headers):
            await respond_refusal(
                exchange, Refusal(406, "GET /mcp opens an event stream; send the header `Accept: text/event-stream`")
            )
            return
        session = self._find_session(exchange, principal)
        owner = share_owner(principal, exchange.client)
        if not options.streams.has_room(owner):
            raise Overloaded("open streams", options.streams.limit, setting="max_streams")
        options.streams.take(owner)
        exchange.watch(cancel=True)
        try:
            if session is not None:
                await self._legacy.listen(exchange, session)
            else:
                await self._listen_plain(exchange, principal, owner)
            await exchange.end()
        except asyncio.CancelledError:
            if not exchange.is_disconnected:
                raise
        finally:
            exchange.unwatch()
            options.streams.give_back(owner)

    async def _listen_plain(self, exchange: HttpExchange, principal: Principal, owner: str) -> None:
        stream = Stream(UNNUMBERED, self._options.store, owner)
        self._plain_streams.add(stream)
        try:
            await self._plain.listen(exchange, principal, stream)
        finally:
            self._plain_streams.discard(stream)
            stream.discard()

    async def end_session(self, exchange: HttpExchange, principal: Principal) -> None:
        """End a session because its client asked for it: `DELETE`."""
        session = self._find_session(exchange, principal)
        if session is None:
            raise SessionRequired("DELETE ends a session; send its id in the header Mcp-Session-Id")
        self._legacy.end_session(session)
        await exchange.respond(204)

    def _find_session(self, exchange: HttpExchange, principal: Principal) -> Session | None:
        """Return the session of a request without a body; None for a plain caller."""
        plain_allowed = self._options.allows_plain(principal)
        facts, session = read_request_facts(exchange, principal, self.sessions, plain_allowed=plain_allowed)
        classify(facts)
        return session

    def end_revoked_callers(self, is_revoked: Callable[[str], bool]) -> None:
        """End the sessions and suspended calls of revoked callers."""
        for owner in filter(is_revoked, {*self.sessions.owners} - {""}):
            self.sessions.end_owner(owner)
        self.server.end_revoked(is_revoked)

    def end_callers(self, matches: Matches) -> list[Session]:
        """End the sessions, streams and suspended calls of these principals; return sessions that may have calls."""
        self.server.broadcaster.end_callers(matches)
        self.server.rounds.end_callers(matches)
        return self.sessions.retire(matches)

    def end_streams(self) -> None:
        """End every open stream, so that the process can exit."""
        self.server.broadcaster.end_subscriptions()
        for stream in list(self._plain_streams):
            stream.finish()
        self.sessions.end_streams()


def _accepts_stream(headers: Headers) -> bool:
    accept = headers.get(b"accept")
    return accept is None or any(kind in accept for kind in ("text/event-stream", "*/*", "text/*"))
