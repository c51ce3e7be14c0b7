"""Every route of the HTTP endpoint, behind one gate.

GET /            name and endpoints      POST GET DELETE /mcp    the protocol
GET /health      liveness                GET /mcp/health         readiness of the backends
GET /metrics     Prometheus metrics      GET /sse, POST /messages   HTTP+SSE, the transport of 2024-11-05
                                         POST GET DELETE /mcp/{view}   a view of the server
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial

import msgspec

from hubbub import bounds
from hubbub.errors import ConnectionClosed, HubbubError, MethodNotAllowed, Overloaded
from hubbub.observe import Metrics, log_refusal
from hubbub.ports import Gate, HttpExchange, OldPair, Quotas
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.model import ANONYMOUS, Principal
from hubbub.protocol.refusal import Refusal
from hubbub.security.open_connections import OpenConnections
from hubbub.security.quotas import caller_of
from hubbub.server.answer import refuse, respond_error
from hubbub.server.http.call_stream import ResponseMode
from hubbub.server.http.mcp_route import McpRoute, RouteOptions
from hubbub.server.http.sessions import Sessions
from hubbub.server.http.streams import EventStore
from hubbub.server.server import Server
from hubbub.shares import Shares
from hubbub.transports import websocket

logger = logging.getLogger("hubbub.http")

API_VERSION = "1.0.0"
"""Version of the plain interface, as numbered by contract 001."""
API_MAJOR = "1"
MCP = "/mcp"
READINESS = "/mcp/health"
_VIEWS = "/mcp/"
_VIEW_PATTERN = "/mcp/{view}"
_POST_ONLY = ((b"allow", b"POST"),)
Route = Callable[[HttpExchange, Principal], Awaitable[None]]


class Endpoint:
    """Serves one server over HTTP."""

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
        most_sessions: int | None = None,
        session_idle_s: float | None = None,
        most_streams: int | None = None,
        most_requests: int | None = None,
        store: EventStore | None = None,
    ) -> None:
        self._server = server
        self._gate = gate
        self._open = None if gate is None else OpenConnections(gate.authenticate)
        self._requests = Shares(bounds.CONNECTIONS if most_requests is None else most_requests)
        """Running requests of authenticated callers."""
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
            metrics.gauge("streams", "Open streams of GET /mcp.", lambda: len(options.streams))
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
            is_known = admitted is not ANONYMOUS
            await (self._serve_known(route, exchange, admitted) if is_known else route(exchange, admitted))
        except ConnectionClosed:
            return
        except HubbubError as error:
            if not exchange.has_answered:
                headers = _POST_ONLY if isinstance(error, MethodNotAllowed) else ()
                await respond_error(exchange, error, headers=headers)
        except asyncio.CancelledError:
            # Disconnects are handled elsewhere; this is the server, which stops waiting for running calls.
            is_stopping = True
            if exchange.has_answered:
                await exchange.end()
            else:
                await refuse(exchange, Refusal(503, "The server stops before this call has ended; call again later"))
        except Exception:
            logger.exception("%s %s failed", exchange.method, exchange.path)
            if not exchange.has_answered:
                await respond_error(exchange, HubbubError("Internal error"), status=500)
        finally:
            if self._metrics is not None:
                self._metrics.response(self._pattern(exchange.path), exchange.status)
            if exchange.status >= 400 and not is_stopping:
                _log_refusal(exchange, self._pattern(exchange.path), name)

    async def _serve_known(self, route: Route, exchange: HttpExchange, principal: Principal) -> None:
        """Serve an authenticated caller, within its share and while its credential is valid."""
        if not self._requests.has_room(principal.name):
            raise Overloaded("requests at once", self._requests.limit)
        task = asyncio.current_task()
        assert self._open is not None
        assert task is not None
        connection = self._open.add(exchange.headers, principal, task.cancel)
        self._requests.take(principal.name)
        try:
            await route(exchange, principal)
        except asyncio.CancelledError:
            if connection.refusal is None:
                raise
            if exchange.has_answered:
                await exchange.end()
            else:
                await refuse(exchange, connection.refusal)
        finally:
            self._requests.give_back(principal.name)
            self._open.remove(connection)

    def hold(self, headers: Headers, principal: Principal, end: Callable[[], object]) -> Callable[[], None]:
        """Call `end` when the credential of an open WebSocket is revoked; call the returned function to stop that."""
        if self._open is None or principal is ANONYMOUS:
            return lambda: None
        return partial(self._open.remove, self._open.add(headers, principal, end))

    async def admit(self, headers: Headers, client: str, path: str) -> Principal | Refusal:
        """Return the caller's principal, or a refusal; used by every route and by WebSockets."""
        principal: Principal | Refusal = ANONYMOUS
        if headers.raw(b"x-mcp-version") is not None and (wrong := _refuse_version(headers)) is not None:
            principal = wrong
        elif self._gate is not None:
            principal = self._gate.at_once(headers) or await self._gate(headers, client)
        if self._quotas is not None:
            # Refused callers are counted too, by address, so that guessing keys is limited.
            known = principal if isinstance(principal, Principal) else ANONYMOUS
            # A view gives access to the same tools, so it counts as `/mcp`, whether it exists or not.
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
            return self._nothing_at(path, exchange.root_path)
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
            known.end_streams()  # the view was removed or replaced
            del self._views[name]
            known = None
        if server is None:
            return None
        if known is None:
            known = self._views[name] = McpRoute(server, self._options)
        return _methods_of(known)

    def _nothing_at(self, path: str, root: str) -> Refusal:
        if path == websocket.PATH:
            return Refusal(426, "This path speaks WebSocket, subprotocol mcp.v1", ((b"upgrade", b"websocket"),))
        views = self._server.views
        if views and path.startswith(_VIEWS):
            return Refusal(404, f"There is no view of this name; there are: {', '.join(views)}")
        known = ", ".join(root + route for route in [*self._routes, *(_VIEWS + view for view in views), websocket.PATH])
        return Refusal(404, f"There is nothing at this path; try one of {known}")

    def _pattern(self, path: str) -> str:
        """Return the route of a path, for metrics and logs."""
        if not self._views or not path.startswith(_VIEWS):
            return path
        return _VIEW_PATTERN if path.removeprefix(_VIEWS) in self._views else path

    # -- about ---------------------------------------------------------------

    async def _about(self, exchange: HttpExchange, principal: Principal) -> None:
        info = self._server.info
        about = {
            "name": info.name if info.title is msgspec.UNSET else info.title,
            "version": info.version,
            "transport": "streamable-http",
            "endpoints": {"health": f"{exchange.root_path}/health", "mcp": f"{exchange.root_path}/mcp"},
            "status": "ready",
        }
        await exchange.reply(200, msgspec.json.encode(about))

    async def _health(self, exchange: HttpExchange, principal: Principal) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        health = {"status": "healthy", "server": self._server.info.name, "timestamp": now}
        await exchange.reply(200, msgspec.json.encode(health))

    async def _readiness(self, exchange: HttpExchange, principal: Principal) -> None:
        problems = await self._server.problems()
        status, code = ("unavailable", 503) if problems else ("ready", 200)
        if not problems and (problems := await self._server.degradations()):
            status = "degraded"
        await exchange.reply(code, msgspec.json.encode({"status": status, "problems": problems}))

    async def _figures(self, exchange: HttpExchange, principal: Principal) -> None:
        assert self._metrics is not None
        body = self._metrics.render()
        await exchange.reply(200, body, kind=Metrics.content_type.encode())

    # -- sessions and shutdown ---------------------------------------------------

    def _all_sessions(self) -> list[Sessions]:
        return [route.sessions for route in (self._main, *self._views.values())]

    def sweep(self) -> None:
        """End sessions that have been idle for too long, and sessions of revoked callers."""
        for sessions in self._all_sessions():
            sessions.sweep()
        if self._gate is not None and self._open is not None:
            self._open.sweep()
            for route in (self._main, *self._views.values()):
                route.end_revoked_callers(self._gate.is_revoked)

    def end_streams(self) -> None:
        """End every open stream, so that the process can exit."""
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
    if is_refusal:  # failures are logged where they happen
        log_refusal(pattern, exchange.status, exchange.client, principal)
