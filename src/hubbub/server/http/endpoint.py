"""Every route of the HTTP endpoint, behind one gate.

GET /            what this is            POST GET DELETE /mcp    the protocol
GET /health      is it alive             GET /mcp/health         are its backends alive
GET /metrics     figures for Prometheus  GET /sse, POST /messages   the oldest transport
                                         POST GET DELETE /mcp/{view}   less of it, where there are views
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
)
from hubbub.observe import CONTENT_TYPE, Metrics, log_refusal
from hubbub.ports import Gate, HttpExchange, OldPair, Quotas
from hubbub.protocol.error_forms import INTERNAL_ERROR, error_object, http_status
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.jsonrpc import NULL, ErrorObject, encode_error
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.refusal import Refusal
from hubbub.protocol.revisions import NEWEST_LEGACY
from hubbub.security.quotas import caller_of
from hubbub.server.http.call_stream import ResponseMode
from hubbub.server.http.mcp_route import McpRoute, RouteOptions, refuse
from hubbub.server.http.sessions import Sessions
from hubbub.server.http.streams import EventStore
from hubbub.server.server import Server
from hubbub.transports import websocket

logger = logging.getLogger("hubbub.http")

API_VERSION = "1.0.0"
"""Of the plain interface, as contract 001 numbers it."""
API_MAJOR = "1"
MCP = "/mcp"
READINESS = "/mcp/health"
_VIEWS = "/mcp/"
_VIEW_PATTERN = "/mcp/{view}"
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
        self._options = options = RouteOptions(
            mode=mode,
            plain_allowed=plain_allowed,
            quotas=quotas,
            most_sessions=most_sessions,
            session_idle_s=session_idle_s,
            most_streams=most_streams,
            store=store,
        )
        self._main = McpRoute(server, options)
        self._views: dict[str, McpRoute] = {}
        self._routes: dict[str, dict[str, Route]] = {
            MCP: _methods_of(self._main),
            "/": {"GET": self._about},
            "/health": {"GET": self._health},
            READINESS: {"GET": self._readiness},
        }
        if metrics is not None:
            self._routes["/metrics"] = {"GET": self._figures}
            metrics.gauge("sessions", "Open legacy sessions.", lambda: sum(map(len, self._all_sessions())))
            metrics.gauge("streams", "Open streams of GET /mcp.", lambda: options.open_streams)
        if old_pair is not None:
            self._routes["/sse"] = {"GET": old_pair.listen}
            self._routes["/messages"] = {"POST": old_pair.post}

    async def serve(self, exchange: HttpExchange) -> None:
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
                self._metrics.response(self._pattern(exchange.path), exchange.status)
            if exchange.status >= 400 and not is_stopping:
                _log_refusal(exchange, self._pattern(exchange.path), name)

    async def admit(self, headers: Headers, client: str, path: str) -> Principal | Refusal:
        """Who calls, or why they may not: for every route and for WebSockets alike."""
        if headers.raw(b"x-mcp-version") is not None and (refusal := _refuse_version(headers)) is not None:
            return refusal
        principal: Principal | Refusal = ANONYMOUS
        if self._gate is not None:
            principal = self._gate.at_once(headers) or await self._gate(headers, client)
        if self._quotas is not None:
            # Whoever is not let in is counted too, by address: guessing keys must not be free.
            known = principal if isinstance(principal, Principal) else ANONYMOUS
            # A view is another way to the same tools, whether there is one of that name or not.
            counted = MCP if path.startswith(_VIEWS) and path != READINESS else path
            refusal = self._quotas.check(counted, caller_of(known, client))
            if refusal is not None:
                return refusal if known is ANONYMOUS else msgspec.structs.replace(refusal, principal=known.name)
        return principal

    def _route(self, exchange: HttpExchange) -> Route | Refusal:
        path = exchange.path
        methods = self._routes.get(path)
        if methods is None and path.startswith(_VIEWS):
            methods = self._view_at(path)
        if methods is None:
            return self._nothing_at(path)
        is_mcp = path == MCP or (path.startswith(_VIEWS) and path != READINESS)
        route = methods.get("GET" if exchange.method == "HEAD" and not is_mcp else exchange.method)
        if route is None:
            allowed = ", ".join(methods)
            return Refusal(405, f"This path takes only {allowed}", ((b"allow", allowed.encode()),))
        return route

    def _view_at(self, path: str) -> dict[str, Route] | None:
        name = path.removeprefix(_VIEWS)
        server = self._server.views.get(name)
        known = self._views.get(name)
        if known is not None and known.server is not server:
            known.end_streams()  # the view is gone, or another one now
            del self._views[name]
            known = None
        if server is None:
            return None
        if known is None:
            known = self._views[name] = McpRoute(server, self._options)
        return _methods_of(known)

    def _nothing_at(self, path: str) -> Refusal:
        if path == websocket.PATH:
            return Refusal(426, "This path speaks WebSocket, subprotocol mcp.v1", ((b"upgrade", b"websocket"),))
        views = self._server.views
        if views and path.startswith(_VIEWS):
            return Refusal(404, f"There is no view of this name; there are: {', '.join(views)}")
        known = ", ".join([*self._routes, *(_VIEWS + view for view in views), websocket.PATH])
        return Refusal(404, f"There is nothing at this path; try one of {known}")

    def _pattern(self, path: str) -> str:
        """The route of a path, for figures and logs."""
        if not self._views or not path.startswith(_VIEWS):
            return path
        return _VIEW_PATTERN if path.removeprefix(_VIEWS) in self._views else path

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

    # -- sessions and the end ----------------------------------------------------

    def _all_sessions(self) -> list[Sessions]:
        return [route.sessions for route in (self._main, *self._views.values())]

    def sweep(self) -> None:
        """End sessions that have been idle for too long."""
        for sessions in self._all_sessions():
            sessions.sweep()

    def end_streams(self) -> None:
        """Let every open stream end, so that the process can."""
        for route in (self._main, *self._views.values()):
            route.end_streams()


def _methods_of(route: McpRoute) -> dict[str, Route]:
    return {"POST": route.post.serve, "GET": route.listen, "DELETE": route.end_session}


def _refuse_version(headers: Headers) -> Refusal | None:
    version = headers.get(b"x-mcp-version") or ""
    if version.split(".")[0] == API_MAJOR:
        return None
    return Refusal(400, f"This API is version {API_VERSION}; X-MCP-Version asks for {version[:20]!r}")


def _log_refusal(exchange: HttpExchange, pattern: str, principal: str | None) -> None:
    is_refusal = exchange.status < 500 or (exchange.status == 503 and exchange.path != READINESS)
    if is_refusal:  # what is broken says so itself
        log_refusal(pattern, exchange.status, exchange.client, principal)
