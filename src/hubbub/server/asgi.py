"""The HTTP side of a server as one ASGI app.

The one place that combines authentication, rate limits, CORS, endpoint, WebSockets and HTTP+SSE. `Server.asgi`
returns it, to be served by any ASGI server or mounted in another app; `hubbub.app` serves it with our own
HTTP server. Imports no HTTP server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypedDict

from hubbub import bounds
from hubbub.errors import DefinitionError, SettingsError
from hubbub.observe import Metrics, log_cut_off, log_refusal
from hubbub.protocol.calls import ANONYMOUS
from hubbub.protocol.host_origin import is_loopback, share_owner
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.refusal import Refusal
from hubbub.security.gate import Authenticator, EdgeSettings, Gate
from hubbub.security.quotas import Quotas, effective_limits
from hubbub.security.sealer import Sealer, load_or_create_key, read_key
from hubbub.server.call_recording import RecordingPeer, record_calls
from hubbub.server.connection import Connection
from hubbub.server.http.endpoint import API_VERSION, Endpoint
from hubbub.server.http.streams import EventStore
from hubbub.server.responses import respond_refusal
from hubbub.server.server import Server
from hubbub.settings import ServeSettings, Sources, format_suggestion, read_settings
from hubbub.shares import Shares
from hubbub.transports import http, http_sse, websocket
from hubbub.transports.cors import Cors
from hubbub.transports.http import Message, Receive, Scope, Send
from hubbub.transports.signals import observe_stop_signals

logger = logging.getLogger("hubbub.asgi")

VERSION_HEADER: Final = ("x-mcp-version", API_VERSION)
"""Sent with every response."""
_VERSION_HEADER_BYTES: Final = (VERSION_HEADER[0].encode(), VERSION_HEADER[1].encode())
_RESPONSE_START_TYPES: Final = frozenset(("http.response.start", "websocket.accept", "websocket.http.response.start"))
_NOT_RUNNING: Final = (
    "This app has not been started, because its lifespan is not running. Frameworks do not run the lifespans of "
    "mounted apps: write `FastAPI(lifespan=tools.lifespan)`, where `tools` is what server.asgi() returned, or "
    "`async with tools.lifespan():` in your own lifespan"
)
_NOT_LOCAL: Final = (
    "This server does not authenticate callers, so it answers only at loopback addresses and Unix sockets; the "
    "operator can pass key_file or jwt_keys to server.asgi(), or accept the risk with insecure=True"
)
_TOO_MANY_REQUESTS: Final = Refusal(503, "Too many requests at once; try again later", ((b"retry-after", b"1"),))


class AsgiOptions(TypedDict, total=False):
    """The options of `Server.asgi`; each has the meaning of the setting of the same name. None means the default."""

    key_file: str | None
    jwt_keys: str | None
    jwt_issuer: str | None
    jwt_audience: Sequence[str] | None
    allowed_hosts: Sequence[str] | None
    allowed_origins: Sequence[str] | None
    limits: Sequence[str] | None
    insecure: bool | None
    response: Literal["auto", "json", "sse"] | None
    max_message_bytes: int | None
    max_connections: int | None
    max_sessions: int | None
    session_idle_s: float | None
    max_streams: int | None
    max_queue_bytes: int | None
    max_stored_events: int | None
    max_stored_bytes: int | None
    body_s: float | None
    slow_reader_s: float | None
    drain_s: float | None
    sealing_key_file: str | None


class AsgiApp:
    """A server as an ASGI app; made by `Server.asgi`.

    It serves while its lifespan runs. An ASGI server runs it for the app that it serves, but Starlette and
    FastAPI do not for apps that are mounted in them, so pass it on:

        tools = server.asgi()
        app = FastAPI(lifespan=tools.lifespan)
        app.mount("/tools", tools)
    """

    def __init__(self, server: Server, settings: ServeSettings) -> None:
        self._server = server
        self._settings = settings
        self._gate = gate = _make_gate(settings)
        self._metrics = metrics = Metrics()
        self._is_running = self._is_recorded = False
        self._requests = Shares(settings.max_connections)
        self._tasks: set[asyncio.Task[Any]] = set()
        limits = effective_limits(settings.address[0], () if settings.limits == ("off",) else settings.limits or None)
        quotas = Quotas(limits) if limits else None
        count_for = None if quotas is None else quotas.count_for
        limit = settings.max_message_bytes or server.message_bytes
        connect = partial(Connection, server)
        self._sse_server = sse_server = http_sse.HttpSseServer(
            connect,
            limit=settings.max_streams,
            queue_bytes=settings.max_queue_bytes,
            count_for=count_for,
            cut_off=self.cut_off,
        )
        self._endpoint = endpoint = Endpoint(
            server,
            gate=gate,
            quotas=quotas,
            mode=settings.response,
            http_sse=sse_server,
            metrics=metrics,
            max_sessions=settings.max_sessions,
            session_idle_s=settings.session_idle_s,
            max_streams=settings.max_streams,
            max_requests=settings.max_connections,
            store=EventStore(max_events=settings.max_stored_events, max_bytes=settings.max_stored_bytes),
        )
        self._sockets = sockets = websocket.WebSocketServer(
            connect,
            endpoint.admit,
            limit=limit,
            max_connections=settings.max_streams,
            queue_bytes=settings.max_queue_bytes,
            count_for=count_for,
            cut_off=self.cut_off,
            metrics=metrics,
            register_connection=endpoint.register_connection,
        )
        for metric in server.metrics:
            metrics.add(metric)
        metrics.gauge("websockets", "Open WebSockets.", lambda: len(sockets))
        metrics.gauge("old_streams", "Open streams of GET /sse.", lambda: len(sse_server))
        inner_app = http.application(endpoint.serve, limit=limit)
        pages = Cors(inner_app, settings.allowed_origins, check=gate.check, on_response=metrics.response)
        self._http_app = http.application(endpoint.serve, limit=limit, cors_app=pages)
        server.offer_sealer(_make_sealer(settings))

    def serve(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve one request or WebSocket of our own HTTP server, which limits its connections itself."""
        serve = self._http_app if scope["type"] == "http" else self._sockets
        return serve(scope, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, WebSocket or lifespan of any ASGI server."""
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
            return
        if not self._is_running:
            raise DefinitionError(_NOT_RUNNING)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve_limited({**scope, "path": _path_below_mount(scope)}, receive, send)
        finally:
            self._tasks.discard(task)

    async def _serve_limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope["client"][0] if scope.get("client") else ""
        owner = share_owner(ANONYMOUS, client)
        limited_request = _LimitedRequest(self, self._settings, scope, receive, send)
        if self._is_local_only and not _is_local(scope):
            await self._refuse(Refusal(403, _NOT_LOCAL), scope, limited_request, client)
            return
        if not self._requests.has_room(owner):
            await self._refuse(_TOO_MANY_REQUESTS, scope, limited_request, client)
            return
        self._requests.take(owner)
        try:
            await self.serve(scope, limited_request.receive, limited_request.send)
            if limited_request.is_body_late and not limited_request.has_answered:
                await self._refuse(
                    Refusal(408, "The request body did not arrive in time", _CONNECTION_CLOSE),
                    scope,
                    limited_request,
                    client,
                )
        finally:
            self._requests.give_back(owner)

    async def _refuse(self, refusal: Refusal, scope: Scope, limited_request: _LimitedRequest, client: str) -> None:
        """Refuse a request before it reaches the endpoint."""
        self._metrics.response(scope["path"], refusal.status)
        log_refusal(scope["path"], refusal.status, client)
        if scope["type"] == "http":
            await respond_refusal(
                http.AsgiExchange(scope, limited_request.receive, limited_request.send, Headers(), 0), refusal
            )
        else:
            await limited_request.receive()  # websocket.connect
            await websocket.deny_handshake(limited_request.send, scope, refusal)

    @property
    def _is_local_only(self) -> bool:
        return not (self._gate.requires_authentication or self._settings.insecure)

    # -- lifespan --------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Run the server while the block runs, within the lifespan of a parent app; `app` is not used.

        Streams end at SIGINT or SIGTERM already: ASGI servers wait for them before they end the lifespan.

        Raises: DefinitionError, if it is already running.
        """
        async with self.running():
            with observe_stop_signals(self.end_streams):
                yield

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the server without watching signals; for our own HTTP server, which ends streams itself."""
        if self._is_running:
            raise DefinitionError("This app is already running; enter its lifespan only once")
        self._warn_about_unusable_scopes()
        record_calls(self._server)
        if not self._is_recorded:
            self._is_recorded = True
            self._server.wrap(lambda peer: RecordingPeer(peer, self._metrics.call))
        async with self._server.running():
            sweep_task = asyncio.ensure_future(self._sweep())
            self._is_running = True
            try:
                yield
            finally:
                self._is_running = False
                sweep_task.cancel()
                await self._end_requests()

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        """Serve the lifespan of an ASGI server."""
        phase = "startup"
        await receive()
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()
        except Exception as error:
            await send({"type": f"lifespan.{phase}.failed", "message": f"{type(error).__name__}: {error}"})
            raise
        await send({"type": "lifespan.shutdown.complete"})

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(bounds.SWEEP_INTERVAL_S)
            try:
                self._endpoint.sweep()
            except Exception:
                logger.exception("ending idle sessions failed")

    async def _end_requests(self) -> None:
        """End streams and wait for running calls; cancel those that take longer than `drain_s`."""
        self.end_streams()
        if not self._tasks:
            return
        _, running = await asyncio.wait(self._tasks, timeout=self._settings.drain_s)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=bounds.SHUTDOWN_TIMEOUT_S)

    def end_streams(self) -> None:
        """End streams and WebSockets, which would otherwise stay open."""
        self._endpoint.end_streams()
        self._sse_server.end_streams()
        self._sockets.end()

    def cut_off(self, reason: str, address: str) -> None:
        """Count and log a connection that was closed because a limit was exceeded."""
        self._metrics.cut_off(reason)
        log_cut_off(reason, address)

    def _warn_about_unusable_scopes(self) -> None:
        """Warn the operator if callers are not authenticated, so that none can use what requires scopes."""
        names = [] if self._gate.requires_authentication else self._server.scoped_names()
        if names:
            logger.warning(
                "no caller can use %s: they require scopes, and callers are not authenticated; "
                "create keys with scopes (hubbub key add --scope, --key-file) or accept tokens (--jwt-keys)",
                ", ".join(names),
            )


def make_app(server: Server, options: AsgiOptions) -> AsgiApp:
    """Make the app of a server from the options of `Server.asgi`.

    Raises: SettingsError.
    """
    for name in options.keys() - AsgiOptions.__annotations__.keys():
        raise SettingsError(f"Server.asgi has no option {name!r}{format_suggestion(name, AsgiOptions.__annotations__)}")
    set_options: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    settings = read_settings(ServeSettings, Sources(arguments=set_options))
    if settings.key_file is not None or settings.jwt_keys is not None or settings.insecure:
        # It may be served to the network: `Host` may be any IP address, and default rate limits apply.
        settings = read_settings(ServeSettings, Sources(arguments={**set_options, "host": "0.0.0.0"}))
    return AsgiApp(server, settings)


class _LimitedRequest:
    """`receive` and `send` of one request, with limits that ASGI servers do not enforce."""

    def __init__(self, app: AsgiApp, settings: ServeSettings, scope: Scope, receive: Receive, send: Send) -> None:
        self._app = app
        self._receive = receive
        self._send = send
        self._client: str = scope["client"][0] if scope.get("client") else ""
        self._slow_reader_s = settings.slow_reader_s
        self._deadline = asyncio.get_running_loop().time() + settings.body_s
        self._is_body_complete = scope["type"] != "http"
        self._is_reader_stalled = False
        self.is_body_late = False
        """Whether the body did not arrive in time."""
        self.has_answered = False

    async def receive(self) -> Message:
        """Receive a message; a body that takes too long is treated as a disconnect."""
        if self._is_body_complete:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self._app.cut_off("slow_sender", self._client)
            self._is_body_complete = self.is_body_late = True
            return {"type": "http.disconnect"}
        self._is_body_complete = not message.get("more_body")
        return message

    async def send(self, message: Message) -> None:
        """Send a message, within `slow_reader_s`.

        Raises: OSError, if the client disconnected or does not read.
        """
        if message["type"] in _RESPONSE_START_TYPES:
            self.has_answered = True
            message = {**message, "headers": [*message.get("headers", ()), _VERSION_HEADER_BYTES]}
        if self._is_reader_stalled:
            raise TimeoutError
        timer = asyncio.timeout(self._slow_reader_s)
        try:
            async with timer:
                await self._send(message)
        except TimeoutError:
            if timer.expired():
                self._is_reader_stalled = True
                self._app.cut_off("slow_reader", self._client)
            raise


_CONNECTION_CLOSE: Final = ((b"connection", b"close"),)


def _path_below_mount(scope: Scope) -> str:
    """The path relative to the mount: Starlette leaves the mount in `path` and repeats it in `root_path`.

    Behind a proxy that strips a prefix, `root_path` may begin with a part that is not in `path`, as with the
    `--root-path` of hypercorn, but not of uvicorn. Starlette names that part in `app_root_path`.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    for prefix in (root, root.removeprefix(scope.get("app_root_path", ""))):
        relative_path = path[len(prefix) :]
        if path.startswith(prefix) and relative_path[:1] in ("", "/"):
            return relative_path or "/"
    return path


def _is_local(scope: Scope) -> bool:
    """Whether a request came to a loopback address or a Unix socket, as far as the ASGI server says."""
    server: Any = scope.get("server")
    return bool(server) and (is_loopback(server[0]) or server[0].startswith("/"))


def _make_sealer(settings: ServeSettings) -> Sealer:
    """Make a sealer whose key outlives the process, so that cursors survive a restart."""
    if settings.sealing_key_file is None:
        return Sealer(load=load_or_create_key)
    return Sealer([read_key(Path(settings.sealing_key_file))])


def _make_gate(settings: ServeSettings) -> Gate:
    """Raises: SettingsError, if unauthenticated callers on the network could call."""
    authenticators: list[Authenticator] = []
    if settings.key_file is not None:
        from hubbub.security.api_keys import ApiKeys

        authenticators.append(ApiKeys(Path(settings.key_file)))
    if settings.jwt_keys is not None:
        from hubbub.net.fetch import fetch
        from hubbub.security.jwt import JwtSettings, make_token_authenticator

        jwt = JwtSettings(keys=settings.jwt_keys, issuer=settings.jwt_issuer, audience=settings.jwt_audience)
        authenticators.append(make_token_authenticator(jwt, fetch))
    edge = EdgeSettings(
        bind_host=settings.address[0],
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        insecure=settings.insecure,
    )
    return Gate(edge, authenticators)
