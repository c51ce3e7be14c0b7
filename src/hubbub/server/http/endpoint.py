"""Every route of the HTTP endpoint, behind one gate.

GET /            name and endpoints      POST GET DELETE /mcp    the protocol
GET /health      liveness                GET /mcp/health         readiness of the backends
GET /metrics     Prometheus metrics      GET /sse, POST /messages   HTTP+SSE, the transport of 2024-11-05
                                         POST GET DELETE /mcp/{view}   a view of the server
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial

import msgspec

from hubbub import bounds
from hubbub.errors import ConnectionClosed, HubbubError, MethodNotAllowed, Overloaded
from hubbub.observe import Metrics, log_refusal
from hubbub.ports import Gate, HttpExchange, HttpSseEndpoint, RateLimits
from hubbub.protocol.calls import ANONYMOUS, Principal
from hubbub.protocol.dialect import AllowsPlain, allow_plain_for_all
from hubbub.protocol.http_headers import Headers, RequestTarget
from hubbub.protocol.refusal import Refusal
from hubbub.protocol.scopes import ADMIN_SCOPE
from hubbub.security.open_connections import OpenConnection, OpenConnections
from hubbub.security.rate_limits import caller_key
from hubbub.server.client_sessions import ClientSessionInfo, EndedSessions, Matches
from hubbub.server.http.mcp_route import McpRoute, RouteOptions
from hubbub.server.http.post import ChallengeScopes
from hubbub.server.http.post_headers import ResponseMode
from hubbub.server.http.sessions import Sessions
from hubbub.server.http.streams import EventStore
from hubbub.server.public_routes import PublicRoute, PublicRoutes
from hubbub.server.responses import respond_error, respond_refusal
from hubbub.server.server import Server
from hubbub.server.views import RESTRICTED_VIEWS
from hubbub.shares import Shares
from hubbub.transports import websocket
from hubbub.transports.shared_tasks import RETURNED, resume

logger = logging.getLogger("hubbub.http")

API_VERSION = "1.0.0"
"""Version of the plain interface, as numbered by contract 001."""
API_MAJOR = "1"
MCP_PATH = "/mcp"
READINESS_PATH = "/mcp/health"
_VIEW_PREFIX = "/mcp/"
_VIEW_PATTERN = "/mcp/{view}"
_ALLOW_POST = ((b"allow", b"POST"),)
Route = Callable[[HttpExchange, Principal], Awaitable[None]]


class Endpoint:
    """Serves one server over HTTP."""

    def __init__(
        self,
        server: Server,
        *,
        gate: Gate | None = None,
        rate_limits: RateLimits | None = None,
        mode: ResponseMode = "auto",
        allows_plain: AllowsPlain = allow_plain_for_all,
        shows_operation: Callable[[Principal], bool] = lambda principal: True,
        http_sse: HttpSseEndpoint | None = None,
        public_routes: Mapping[str, PublicRoute] | None = None,
        metrics: Metrics | None = None,
        max_sessions: int | None = None,
        session_idle_s: float | None = None,
        max_streams: int | None = None,
        max_requests: int | None = None,
        store: EventStore | None = None,
        challenge_scopes: ChallengeScopes | None = None,
    ) -> None:
        self._server = server
        self._gate = gate
        self._open_connections = None if gate is None else OpenConnections(gate.recheck)
        self._public_routes = PublicRoutes({} if public_routes is None else public_routes)
        self._requests = Shares(bounds.CONNECTIONS if max_requests is None else max_requests)
        """Requests of authenticated callers that wait for something."""
        self._rate_limits = rate_limits
        self._metrics = metrics
        self._shows_operation = shows_operation
        """Whether a caller may see metrics and the problems of servers."""
        self._options = options = RouteOptions(
            mode=mode,
            allows_plain=allows_plain,
            rate_limits=rate_limits,
            max_sessions=max_sessions,
            session_idle_s=session_idle_s,
            max_streams=max_streams,
            store=store,
            challenge_scopes=challenge_scopes,
        )
        self._main_route = McpRoute(server, options)
        self._view_routes: dict[str, McpRoute] = {}
        self._routes: dict[str, dict[str, Route]] = {
            MCP_PATH: _route_methods(self._main_route),
            "/": {"GET": self._serve_info},
            "/health": {"GET": self._serve_health},
            READINESS_PATH: {"GET": self._serve_readiness},
        }
        # One lookup finds the routes of most requests.
        self._fast_routes = {(method, MCP_PATH): route for method, route in self._routes[MCP_PATH].items()}
        if metrics is not None:
            self._routes["/metrics"] = {"GET": self._serve_metrics}
            metrics.gauge("sessions", "Open legacy sessions.", lambda: sum(map(len, self._all_sessions())))
            metrics.gauge("streams", "Open streams of GET /mcp.", lambda: len(options.streams))
        if http_sse is not None:
            self._routes["/sse"] = {"GET": http_sse.listen}
            self._routes["/messages"] = {"POST": http_sse.post}

    async def serve(self, exchange: HttpExchange) -> None:
        """Answer one request."""
        name, is_stopping = None, False
        headers, client, path = exchange.headers, exchange.client, exchange.path
        try:
            if path != MCP_PATH and (public := self._public_routes.find(path)) is not None:
                await self._serve_public(exchange, public)
                return
            admitted = self._admit_nowait(headers, client, path)
            if admitted is None:
                admitted = await self._authenticate(headers, client, RequestTarget(exchange.method, path, client))
            if isinstance(admitted, Refusal):
                name = admitted.principal
                await respond_refusal(exchange, admitted)
                return
            route = self._fast_routes.get((exchange.method, path)) or self._find_route(exchange, admitted)
            name = None if admitted is ANONYMOUS else admitted.name
            if isinstance(route, Refusal):
                await respond_refusal(exchange, route)
            elif admitted is ANONYMOUS:
                await route(exchange, admitted)
            else:
                # A call that does not wait needs no share, and nothing can end it.
                if self._requests.total and not self._requests.has_room(admitted.name):
                    raise Overloaded("concurrent requests", self._requests.limit, setting="max_connections")
                work = route(exchange, admitted).__await__()
                waits_for = next(work, RETURNED)
                if waits_for is not RETURNED:
                    await self._continue(exchange, admitted, resume(work, waits_for))
        except ConnectionClosed:
            return
        except asyncio.CancelledError:
            # Disconnects are handled elsewhere; this is the server, which stops waiting for running calls.
            is_stopping = True
            await _respond_to_shutdown(exchange)
        except Exception as error:
            await _respond_to_failure(exchange, error)
        finally:
            status = exchange.status
            if self._metrics is not None:
                self._metrics.response(path if path == MCP_PATH else self._route_pattern(path), status)
            if status >= 400 and not is_stopping:
                _log_refusal(exchange, self._route_pattern(path), name)

    async def _serve_public(self, exchange: HttpExchange, route: PublicRoute) -> None:
        """Serve a caller of a route that needs no authentication."""
        refusal = None
        if self._gate is not None:
            refusal = self._gate.check(exchange.headers, route.any_origin)
        admitted = self._count(ANONYMOUS if refusal is None else refusal, exchange.client, exchange.path)
        handler = route.handlers.get("GET" if exchange.method == "HEAD" else exchange.method)
        if isinstance(admitted, Refusal):
            await respond_refusal(exchange, admitted)
        elif handler is None:
            await respond_refusal(exchange, _refuse_method(exchange.method, route.handlers))
        else:
            await handler(exchange)

    async def _continue(self, exchange: HttpExchange, principal: Principal, work: Awaitable[None]) -> None:
        """Wait for a request of an authenticated caller, which takes a share and ends with its credential."""
        assert self._open_connections is not None
        connection = self._open_connections.add(
            exchange.headers, principal, exchange.cancel, path=exchange.path, is_stream=exchange.method == "GET"
        )
        self._requests.take(principal.name)
        try:
            await work
        except asyncio.CancelledError:
            if connection.refusal is None:
                raise
            if exchange.has_responded:
                await exchange.end()
            else:
                await respond_refusal(exchange, connection.refusal)
        finally:
            self._requests.give_back(principal.name)
            self._open_connections.remove(connection)

    def register_connection(
        self, headers: Headers, principal: Principal, end: Callable[[], object]
    ) -> Callable[[], None]:
        """Call `end` when the credential of an open WebSocket is revoked; call the returned function to stop that."""
        if self._open_connections is None or principal is ANONYMOUS:
            return lambda: None
        connection = self._open_connections.add(headers, principal, end, path=websocket.PATH, is_stream=True)
        return partial(self._open_connections.remove, connection)

    async def admit(self, headers: Headers, client: str, path: str) -> Principal | Refusal:
        """Return the principal of a WebSocket's caller, or a refusal."""
        principal = self._admit_nowait(headers, client, path)
        if principal is not None:
            return principal
        return await self._authenticate(headers, client, RequestTarget("GET", path, client))

    async def _authenticate(self, headers: Headers, client: str, target: RequestTarget) -> Principal | Refusal:
        assert self._gate is not None
        return self._count(await self._gate(headers, client, target), client, target.path)

    def _admit_nowait(self, headers: Headers, client: str, path: str) -> Principal | Refusal | None:
        """Like `admit`, but without waiting: None if the caller must be authenticated."""
        principal: Principal | Refusal | None = ANONYMOUS
        find = headers.raw
        if find(b"x-mcp-version") is not None and (version_refusal := _refuse_version(headers)) is not None:
            principal = version_refusal
        elif self._gate is not None:
            principal = self._gate.admit_nowait(headers, path)
        return principal if principal is None or self._rate_limits is None else self._count(principal, client, path)

    def _count(self, principal: Principal | Refusal, client: str, path: str) -> Principal | Refusal:
        """Count a request, and refuse it if there are too many."""
        if self._rate_limits is None:
            return principal
        # Refused callers are counted too, by address, so that guessing keys is limited.
        known = principal if isinstance(principal, Principal) else ANONYMOUS
        # A view gives access to the same tools, so it counts as `/mcp`, whether it exists or not.
        if path != MCP_PATH and path.startswith(_VIEW_PREFIX) and path != READINESS_PATH:
            path = MCP_PATH
        refusal = self._rate_limits.check(path, caller_key(known, client))
        if refusal is None:
            return principal
        return refusal if known is ANONYMOUS else msgspec.structs.replace(refusal, principal=known.name)

    def _find_route(self, exchange: HttpExchange, principal: Principal) -> Route | Refusal:
        path = exchange.path
        methods = self._routes.get(path)
        if methods is None and path.startswith(_VIEW_PREFIX):
            methods = self._find_view(path, principal)
        if methods is None:
            return self._refuse_unknown_path(path, exchange.root_path, principal)
        is_mcp = path == MCP_PATH or (path.startswith(_VIEW_PREFIX) and path != READINESS_PATH)
        route = methods.get("GET" if exchange.method == "HEAD" and not is_mcp else exchange.method)
        if route is None:
            return _refuse_method(exchange.method, methods)
        return route

    def _find_view(self, path: str, principal: Principal) -> dict[str, Route] | None:
        name = path.removeprefix(_VIEW_PREFIX)
        if not _may_use_view(name, principal):
            return None
        server = self._server.views.get(name)
        known = self._view_routes.get(name)
        if known is not None and known.server is not server:
            known.end_streams()  # the view was removed or replaced
            del self._view_routes[name]
            known = None
        if server is None:
            return None
        if known is None:
            known = self._view_routes[name] = McpRoute(server, self._options)
        return _route_methods(known)

    def _refuse_unknown_path(self, path: str, root: str, principal: Principal) -> Refusal:
        if path == websocket.PATH:
            return Refusal(
                426,
                "This path accepts only WebSocket connections, with the subprotocol mcp.v1",
                ((b"upgrade", b"websocket"),),
            )
        views = [name for name in self._server.views if _may_use_view(name, principal)]
        if views and path.startswith(_VIEW_PREFIX):
            return Refusal(
                404, f"Unknown view {path.removeprefix(_VIEW_PREFIX)[:100]!r}; use one of {', '.join(views)}"
            )
        known = ", ".join(
            root + route for route in [*self._routes, *(_VIEW_PREFIX + view for view in views), websocket.PATH]
        )
        return Refusal(404, f"Unknown path {(root + path)[:100]!r}; use one of {known}")

    def _route_pattern(self, path: str) -> str:
        """Return the route of a path, for metrics and logs."""
        if not self._view_routes or not path.startswith(_VIEW_PREFIX):
            return path
        return _VIEW_PATTERN if path.removeprefix(_VIEW_PREFIX) in self._view_routes else path

    # -- about ---------------------------------------------------------------

    async def _serve_info(self, exchange: HttpExchange, principal: Principal) -> None:
        info = self._server.info
        about = {
            "name": info.name if info.title is msgspec.UNSET else info.title,
            "version": info.version,
            "transport": "streamable-http",
            "endpoints": {"health": f"{exchange.root_path}/health", "mcp": f"{exchange.root_path}/mcp"},
            "status": "ready",
        }
        await exchange.respond(200, msgspec.json.encode(about))

    async def _serve_health(self, exchange: HttpExchange, principal: Principal) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        health = {"status": "healthy", "server": self._server.info.name, "timestamp": now}
        await exchange.respond(200, msgspec.json.encode(health))

    async def _serve_readiness(self, exchange: HttpExchange, principal: Principal) -> None:
        problems = await self._server.problems()
        status, code = ("unavailable", 503) if problems else ("ready", 200)
        if not problems and (problems := await self._server.degradations()):
            status = "degraded"
        problems = problems if self._shows_operation(principal) else []
        await exchange.respond(code, msgspec.json.encode({"status": status, "problems": problems}))

    async def _serve_metrics(self, exchange: HttpExchange, principal: Principal) -> None:
        assert self._metrics is not None
        if not self._shows_operation(principal):
            reason = f"Metrics concern all callers; use a key with the scope {ADMIN_SCOPE!r} and without a tenant"
            await respond_refusal(exchange, Refusal(403, reason))
            return
        body = self._metrics.render()
        await exchange.respond(200, body, content_type=Metrics.content_type.encode())

    # -- sessions and shutdown ---------------------------------------------------

    def _all_sessions(self) -> list[Sessions]:
        return [route.sessions for route in (self._main_route, *self._view_routes.values())]

    def sweep(self) -> None:
        """End sessions that have been idle for too long, and sessions of revoked callers."""
        for sessions in self._all_sessions():
            sessions.sweep()
        if self._gate is not None and self._open_connections is not None:
            self._open_connections.sweep()
            for route in (self._main_route, *self._view_routes.values()):
                route.end_revoked_callers(self._gate.is_revoked)

    def client_sessions(self) -> list[ClientSessionInfo]:
        """List the sessions and open streams of authenticated callers."""
        found = self._main_route.sessions.infos(MCP_PATH)
        for name, route in self._view_routes.items():
            found += route.sessions.infos(_VIEW_PREFIX + name)
        return found + [
            ClientSessionInfo(
                principal=connection.principal, kind="stream", path=connection.path, started_at=connection.opened_at
            )
            for connection in self._find_connections(lambda principal: True)
            if connection.is_stream
        ]

    def end_clients(self, matches: Matches) -> EndedSessions:
        """End the sessions and streams of these principals at once; their calls in flight may finish first.

        Requests to restricted views continue, because the request that ends these sessions may be one of them.
        """
        ended = EndedSessions()
        for name, route in (("", self._main_route), *self._view_routes.items()):
            for session in route.end_callers(matches):
                close = partial(route.sessions.close, session, "logged out")
                if name in RESTRICTED_VIEWS:
                    ended.count += 1
                    asyncio.get_running_loop().call_later(bounds.DRAIN_TIMEOUT_S, close)
                else:
                    ended.add(partial(session.running_calls.wait, bounds.INPUT_TIMEOUT_S), close)
        for connection in self._find_connections(matches):
            if connection.is_stream:
                ended.count += 1
                connection.log_out()
            elif connection.path.removeprefix(_VIEW_PREFIX) not in RESTRICTED_VIEWS:
                ended.add(connection.wait_closed, connection.log_out, is_session=False)
        return ended

    def _find_connections(self, matches: Matches) -> list[OpenConnection]:
        return [] if self._open_connections is None else self._open_connections.find(matches)

    def end_streams(self) -> None:
        """End every open stream, so that the process can exit."""
        for route in (self._main_route, *self._view_routes.values()):
            route.end_streams()


def _may_use_view(name: str, principal: Principal) -> bool:
    scopes = RESTRICTED_VIEWS.get(name)
    return scopes is None or scopes <= principal.scopes


def _route_methods(route: McpRoute) -> dict[str, Route]:
    return {"POST": route.post.serve, "GET": route.listen, "DELETE": route.end_session}


def _refuse_method(method: str, methods: Iterable[str]) -> Refusal:
    allowed = ", ".join(methods)
    reason = f"{method[:20]!r} is not allowed at this path; use {allowed}"
    return Refusal(405, reason, ((b"allow", allowed.encode()),))


def _refuse_version(headers: Headers) -> Refusal | None:
    version = headers.get(b"x-mcp-version") or ""
    if version.split(".")[0] == API_MAJOR:
        return None
    return Refusal(400, f"Unsupported X-MCP-Version {version[:20]!r}; this server has version {API_VERSION}")


async def _respond_to_shutdown(exchange: HttpExchange) -> None:
    if exchange.has_responded:
        await exchange.end()
    else:
        await respond_refusal(
            exchange, Refusal(503, "The server is shutting down and cancelled this call; call again later")
        )


async def _respond_to_failure(exchange: HttpExchange, error: Exception) -> None:
    if isinstance(error, HubbubError):
        if not exchange.has_responded:
            headers = _ALLOW_POST if isinstance(error, MethodNotAllowed) else ()
            await respond_error(exchange, error, headers=headers)
        return
    logger.error("%s %s failed", exchange.method, exchange.path, exc_info=error)
    if not exchange.has_responded:
        await respond_error(exchange, HubbubError("Internal error"), status=500)


def _log_refusal(exchange: HttpExchange, pattern: str, principal: str | None) -> None:
    is_refusal = exchange.status < 500 or (exchange.status == 503 and exchange.path != READINESS_PATH)
    if is_refusal:  # failures are logged where they happen
        log_refusal(pattern, exchange.status, exchange.client, principal)
