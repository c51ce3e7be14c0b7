"""Every route of the HTTP endpoint, behind one gate.

GET /            what this is            POST GET DELETE /mcp    the protocol
GET /health      is it alive             GET /mcp/health         are its backends alive
GET /metrics     figures for Prometheus  GET /sse, POST /messages   the oldest transport
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import msgspec

from hubbub import bounds
from hubbub.errors import (
    ConnectionClosed,
    HubbubError,
    MethodNotAllowed,
    Overloaded,
    SessionNotFound,
    SessionRequired,
    UnsupportedVersion,
)
from hubbub.observe import CONTENT_TYPE, Metrics, log_refusal
from hubbub.ports import Gate, HttpExchange, OldPair, Quotas
from hubbub.protocol.error_forms import INTERNAL_ERROR, INVALID_REQUEST, error_object, http_status
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.jsonrpc import NULL, ErrorObject, encode_error
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.refusal import Refusal
from hubbub.protocol.revisions import LEGACY, NEWEST_LEGACY, SUPPORTED_VERSIONS, is_modern_version
from hubbub.security.quotas import caller_of
from hubbub.server.http.call_stream import ResponseMode
from hubbub.server.http.cookies import Cookies
from hubbub.server.http.legacy import Legacy
from hubbub.server.http.modern import Modern
from hubbub.server.http.plain import Plain
from hubbub.server.http.post import VERSION_HEADER, Post
from hubbub.server.http.sessions import Sessions
from hubbub.server.http.streams import UNNUMBERED, EventStore, Stream
from hubbub.server.server import Server
from hubbub.transports import websocket

logger = logging.getLogger("hubbub.http")

API_VERSION = "1.0.0"
"""Of the plain interface, as contract 001 numbers it."""
API_MAJOR = "1"
READINESS = "/mcp/health"
_POST_ONLY = ((b"allow", b"POST"),)
Route = Callable[[HttpExchange, Principal], Awaitable[None]]


class Endpoint:
    """One server behind HTTP."""

    def __init__(
        self,
        server: Server,
        *,
        gate: Gate | None = None,
        quotas: Quotas | None = None,
        mode: ResponseMode = "auto",
        plain_allowed: bool = True,
        old_pair: OldPair | None = None,
        metrics: Metrics | None = None,
        most_sessions: int = bounds.SESSIONS,
        session_idle_s: float = bounds.SESSION_IDLE_S,
        most_streams: int = bounds.STREAMS,
        store: EventStore | None = None,
    ) -> None:
        self._server = server
        self._gate = gate
        self._quotas = quotas
        self._metrics = metrics
        self._store = EventStore() if store is None else store
        self.sessions = Sessions(server.audience, limit=most_sessions, idle_s=session_idle_s, store=self._store)
        self._most_streams = most_streams
        self._legacy = Legacy(server, self.sessions, mode)
        self._plain = Plain(server, Cookies())
        self._plain_streams: set[Stream] = set()
        self._open_streams = 0
        post = Post(Modern(server, mode), self._legacy, self._plain, plain_allowed=plain_allowed, quotas=quotas)
        self._routes: dict[str, dict[str, Route]] = {
            "/mcp": {"POST": post, "GET": self._listen, "DELETE": self._end_session},
            "/": {"GET": self._about},
            "/health": {"GET": self._health},
            READINESS: {"GET": self._readiness},
        }
        if metrics is not None:
            self._routes["/metrics"] = {"GET": self._figures}
            metrics.gauge("sessions", "Open legacy sessions.", lambda: len(self.sessions))
            metrics.gauge("streams", "Open streams of GET /mcp.", lambda: self._open_streams)
        if old_pair is not None:
            self._routes["/sse"] = {"GET": old_pair.listen}
            self._routes["/messages"] = {"POST": old_pair.post}

    async def __call__(self, exchange: HttpExchange) -> None:
        """Answer one request."""
        name, is_stopping = None, False
        try:
            admitted = await self.admit(exchange.headers, exchange.client, exchange.path)
            if not isinstance(admitted, Principal):
                name = admitted.principal
                await refuse(exchange, admitted)
                return
            name = None if admitted is ANONYMOUS else admitted.name
            route = self._route(exchange)
            if isinstance(route, Refusal):
                await refuse(exchange, route)
                return
            await route(exchange, admitted)
        except ConnectionClosed:
            return
        except HubbubError as error:
            if not exchange.has_answered:
                body = encode_error(NULL, error_object(error, NEWEST_LEGACY))
                headers = _POST_ONLY if isinstance(error, MethodNotAllowed) else ()
                await exchange.reply(http_status(error), body, headers)
        except asyncio.CancelledError:
            # Callers that leave are dealt with where it matters; this is the server, whose patience is over.
            is_stopping = True
            if exchange.has_answered:
                await exchange.end()
            else:
                await refuse(exchange, Refusal(503, "The server stops before this call has ended; call again later"))
        except Exception:
            logger.exception("%s %s failed", exchange.method, exchange.path)
            if not exchange.has_answered:
                await exchange.reply(500, encode_error(NULL, ErrorObject(INTERNAL_ERROR, "Internal error")))
        finally:
            if self._metrics is not None:
                self._metrics.response(exchange.path, exchange.status)
            if exchange.status >= 400 and not is_stopping:
                _log_refusal(exchange, name)

    async def admit(self, headers: Headers, client: str, path: str) -> Principal | Refusal:
        """Who calls, or why they may not: for every route and for WebSockets alike."""
        version = headers.get(b"x-mcp-version")
        if version is not None and version.split(".")[0] != API_MAJOR:
            return Refusal(400, f"This API is version {API_VERSION}; X-MCP-Version asks for {version[:20]!r}")
        principal: Principal | Refusal = ANONYMOUS
        if self._gate is not None:
            principal = await self._gate(headers, client)
        if self._quotas is not None:
            # Whoever is not let in is counted too, by address: guessing keys must not be free.
            known = principal if isinstance(principal, Principal) else ANONYMOUS
            refusal = self._quotas.check(path, caller_of(known, client))
            if refusal is not None:
                return refusal if known is ANONYMOUS else msgspec.structs.replace(refusal, principal=known.name)
        return principal

    def _route(self, exchange: HttpExchange) -> Route | Refusal:
        methods = self._routes.get(exchange.path)
        if methods is None:
            if exchange.path == websocket.PATH:
                return Refusal(426, "This path speaks WebSocket, subprotocol mcp.v1", ((b"upgrade", b"websocket"),))
            known = ", ".join([*self._routes, websocket.PATH])
            return Refusal(404, f"There is nothing at this path; try one of {known}")
        route = methods.get("GET" if exchange.method == "HEAD" and exchange.path != "/mcp" else exchange.method)
        if route is None:
            allowed = ", ".join(methods)
            return Refusal(405, f"This path takes only {allowed}", ((b"allow", allowed.encode()),))
        return route

    # -- about ---------------------------------------------------------------

    async def _about(self, exchange: HttpExchange, principal: Principal) -> None:
        about = {
            "name": self._server.info.name,
            "version": self._server.info.version,
            "transport": "streamable-http",
            "endpoints": {"health": "/health", "mcp": "/mcp"},
            "status": "ready",
        }
        await exchange.reply(200, msgspec.json.encode(about))

    async def _health(self, exchange: HttpExchange, principal: Principal) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        health = {"status": "healthy", "server": self._server.info.name, "timestamp": now}
        await exchange.reply(200, msgspec.json.encode(health))

    async def _readiness(self, exchange: HttpExchange, principal: Principal) -> None:
        problems = await self._server.problems()
        body = {"status": "unavailable" if problems else "ready", "problems": problems}
        await exchange.reply(503 if problems else 200, msgspec.json.encode(body))

    async def _figures(self, exchange: HttpExchange, principal: Principal) -> None:
        assert self._metrics is not None
        body = self._metrics.render()
        await exchange.reply(200, body, kind=CONTENT_TYPE.encode())

    # -- streams and sessions --------------------------------------------------

    async def _listen(self, exchange: HttpExchange, principal: Principal) -> None:
        headers = exchange.headers
        session, names_session = self._legacy.session_of(headers, principal)
        if not _accepts_stream(headers):
            await refuse(exchange, Refusal(406, "GET /mcp is a stream; send `Accept: text/event-stream`"))
            return
        self._refuse_wrong_era(headers, names_session and session is None, session is not None)
        if self._open_streams >= self._most_streams:
            raise Overloaded("open streams", self._most_streams)
        self._open_streams += 1
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
            self._open_streams -= 1

    async def _listen_plainly(self, exchange: HttpExchange, principal: Principal) -> None:
        stream = Stream(UNNUMBERED, self._store)
        self._plain_streams.add(stream)
        try:
            await self._plain.listen(exchange, principal, stream)
        finally:
            self._plain_streams.discard(stream)
            stream.discard()

    async def _end_session(self, exchange: HttpExchange, principal: Principal) -> None:
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

    # -- the end ---------------------------------------------------------------

    def end_streams(self) -> None:
        """Let every open stream end, so that the process can."""
        self._server.audience.end_listens()
        for stream in list(self._plain_streams):
            stream.finish()
        self.sessions.end_streams()


async def refuse(exchange: HttpExchange, refusal: Refusal) -> None:
    """Answer a request that is not let in."""
    body = encode_error(NULL, ErrorObject(INVALID_REQUEST, refusal.message))
    await exchange.reply(refusal.status, body, refusal.headers)


def _log_refusal(exchange: HttpExchange, principal: str | None) -> None:
    is_refusal = exchange.status < 500 or (exchange.status == 503 and exchange.path != READINESS)
    if is_refusal:  # what is broken says so itself
        log_refusal(exchange.path, exchange.status, exchange.client, principal)


def _accepts_stream(headers: Headers) -> bool:
    accept = headers.get(b"accept")
    return accept is None or any(kind in accept for kind in ("text/event-stream", "*/*", "text/*"))
