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
from hubbub.protocol.authority import is_loopback, owner_of
from hubbub.protocol.http_headers import Headers
from hubbub.protocol.model import ANONYMOUS
from hubbub.protocol.refusal import Refusal
from hubbub.security.gate import Authenticator, EdgeSettings, Gate
from hubbub.security.quotas import Quotas, limits_for
from hubbub.security.sealed import Sealer, kept_key, read_key
from hubbub.server.answer import refuse
from hubbub.server.connection import Connection
from hubbub.server.http.endpoint import API_VERSION, Endpoint
from hubbub.server.http.streams import EventStore
from hubbub.server.measured import Measured, watch_calls
from hubbub.server.server import Server
from hubbub.settings import ServeSettings, Sources, nearest, read_settings
from hubbub.shares import Shares
from hubbub.transports import http, old_pair, websocket
from hubbub.transports.cors import Cors
from hubbub.transports.http import Message, Receive, Scope, Send
from hubbub.transports.signals import notice_stop_signals

logger = logging.getLogger("hubbub.asgi")

VERSION_HEADER: Final = ("x-mcp-version", API_VERSION)
"""Sent with every response."""
_VERSION_FIELD: Final = (VERSION_HEADER[0].encode(), VERSION_HEADER[1].encode())
_STARTS: Final = frozenset(("http.response.start", "websocket.accept", "websocket.http.response.start"))
_NOT_RUNNING: Final = (
    "This app has not been started: its lifespan does not run. Apps do not run the lifespans of apps that are "
    "mounted in them; write `FastAPI(lifespan=tools.lifespan)`, where `tools` is what server.asgi() returned, or "
    "`async with tools.lifespan():` in the lifespan of your own"
)
_NOT_LOCAL: Final = (
    "This server does not authenticate callers, so it answers only at loopback addresses and Unix sockets; the "
    "operator can pass key_file or jwt_keys to server.asgi(), or accept the risk with insecure=True"
)
_TOO_MANY: Final = Refusal(503, "Too many requests at once; try again later", ((b"retry-after", b"1"),))


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
        self._is_running = self._is_measured = False
        self._requests = Shares(settings.max_connections)
        self._tasks: set[asyncio.Task[Any]] = set()
        limits = limits_for(settings.address[0], () if settings.limits == ("off",) else settings.limits or None)
        quotas = Quotas(limits) if limits else None
        count_for = None if quotas is None else quotas.count_for
        limit = settings.max_message_bytes or server.message_bytes
        connect = partial(Connection, server)
        self._pair = pair = old_pair.OldPair(
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
            old_pair=pair,
            metrics=metrics,
            most_sessions=settings.max_sessions,
            session_idle_s=settings.session_idle_s,
            most_streams=settings.max_streams,
            most_requests=settings.max_connections,
            store=EventStore(most_events=settings.max_stored_events, most_bytes=settings.max_stored_bytes),
        )
        self._sockets = sockets = websocket.WebSockets(
            connect,
            endpoint.admit,
            limit=limit,
            most_connections=settings.max_streams,
            queue_bytes=settings.max_queue_bytes,
            count_for=count_for,
            cut_off=self.cut_off,
            metrics=metrics,
            hold=endpoint.hold,
        )
        for metric in server.metrics:
            metrics.add(metric)
        metrics.gauge("websockets", "Open WebSockets.", lambda: len(sockets))
        metrics.gauge("old_streams", "Open streams of GET /sse.", lambda: len(pair))
        within_cors = http.application(endpoint.serve, limit=limit)
        pages = Cors(within_cors, settings.allowed_origins, check=gate.check, answered=metrics.response)
        self._over_http = http.application(endpoint.serve, limit=limit, pages=pages)
        server.offer_sealer(_make_sealer(settings))

    def serve(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve one request or WebSocket of our own HTTP server, which bounds its connections itself."""
        serve = self._over_http if scope["type"] == "http" else self._sockets
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
            await self._serve_bounded({**scope, "path": _path_below_mount(scope)}, receive, send)
        finally:
            self._tasks.discard(task)

    async def _serve_bounded(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope["client"][0] if scope.get("client") else ""
        owner = owner_of(ANONYMOUS, client)
        bounded = _BoundedRequest(self, self._settings, scope, receive, send)
        if self._is_local_only and not _is_local(scope):
            await self._refuse(Refusal(403, _NOT_LOCAL), scope, bounded, client)
            return
        if not self._requests.has_room(owner):
            await self._refuse(_TOO_MANY, scope, bounded, client)
            return
        self._requests.take(owner)
        try:
            await self.serve(scope, bounded.receive, bounded.send)
            if bounded.is_late and not bounded.has_answered:
                await self._refuse(Refusal(408, "The body did not arrive in time", _CLOSE), scope, bounded, client)
        finally:
            self._requests.give_back(owner)

    async def _refuse(self, refusal: Refusal, scope: Scope, bounded: _BoundedRequest, client: str) -> None:
        """Refuse a request before it reaches the endpoint."""
        self._metrics.response(scope["path"], refusal.status)
        log_refusal(scope["path"], refusal.status, client)
        if scope["type"] == "http":
            await refuse(http.Exchange(scope, bounded.receive, bounded.send, Headers(), 0), refusal)
        else:
            await bounded.receive()  # websocket.connect
            await websocket.deny(bounded.send, scope, refusal)

    @property
    def _is_local_only(self) -> bool:
        return not (self._gate.knows_callers or self._settings.insecure)

    # -- lifespan --------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Run the server while the block runs, within the lifespan of a parent app; `app` is not used.

        Streams end at SIGINT or SIGTERM already: ASGI servers wait for them before they end the lifespan.

        Raises: DefinitionError, if it runs already.
        """
        async with self.running():
            with notice_stop_signals(self.end_streams):
                yield

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the server without watching signals; for our own HTTP server, which ends streams itself."""
        if self._is_running:
            raise DefinitionError("This app runs already; enter its lifespan once")
        self._warn_about_unusable_scopes()
        watch_calls(self._server)
        if not self._is_measured:
            self._is_measured = True
            self._server.wrap(lambda peer: Measured(peer, self._metrics.call))
        async with self._server.running():
            sweeper = asyncio.ensure_future(self._sweep())
            self._is_running = True
            try:
                yield
            finally:
                self._is_running = False
                sweeper.cancel()
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
            await asyncio.sleep(bounds.SWEEP_S)
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
            await asyncio.wait(running, timeout=bounds.STOP_S)

    def end_streams(self) -> None:
        """End streams and WebSockets, which would otherwise stay open."""
        self._endpoint.end_streams()
        self._pair.end_streams()
        self._sockets.end()

    def cut_off(self, reason: str, address: str) -> None:
        """Count and log a connection that was closed because a limit was exceeded."""
        self._metrics.cut_off(reason)
        log_cut_off(reason, address)

    def _warn_about_unusable_scopes(self) -> None:
        """Warn the operator if callers are not authenticated, so that none can use what requires scopes."""
        names = [] if self._gate.knows_callers else self._server.scoped_names()
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
        raise SettingsError(f"Server.asgi has no option {name!r}{nearest(name, AsgiOptions.__annotations__)}")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    settings = read_settings(ServeSettings, Sources(arguments=given))
    if settings.key_file is not None or settings.jwt_keys is not None or settings.insecure:
        # It may be served to the network: `Host` may be any IP address, and default rate limits apply.
        settings = read_settings(ServeSettings, Sources(arguments={**given, "host": "0.0.0.0"}))
    return AsgiApp(server, settings)


class _BoundedRequest:
    """`receive` and `send` of one request, with limits that ASGI servers do not enforce."""

    def __init__(self, app: AsgiApp, settings: ServeSettings, scope: Scope, receive: Receive, send: Send) -> None:
        self._app = app
        self._receive = receive
        self._send = send
        self._client: str = scope["client"][0] if scope.get("client") else ""
        self._slow_reader_s = settings.slow_reader_s
        self._deadline = asyncio.get_running_loop().time() + settings.body_s
        self._is_whole = scope["type"] != "http"
        self._is_stuck = False
        self.is_late = False
        """Whether the body did not arrive in time."""
        self.has_answered = False

    async def receive(self) -> Message:
        """Receive a message; a body that takes too long is treated as a disconnect."""
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            self._app.cut_off("slow_sender", self._client)
            self._is_whole = self.is_late = True
            return {"type": "http.disconnect"}
        self._is_whole = not message.get("more_body")
        return message

    async def send(self, message: Message) -> None:
        """Send a message, within `slow_reader_s`.

        Raises: OSError, if the client disconnected or does not read.
        """
        if message["type"] in _STARTS:
            self.has_answered = True
            message = {**message, "headers": [*message.get("headers", ()), _VERSION_FIELD]}
        if self._is_stuck:
            raise TimeoutError
        timer = asyncio.timeout(self._slow_reader_s)
        try:
            async with timer:
                await self._send(message)
        except TimeoutError:
            if timer.expired():
                self._is_stuck = True
                self._app.cut_off("slow_reader", self._client)
            raise


_CLOSE: Final = ((b"connection", b"close"),)


def _path_below_mount(scope: Scope) -> str:
    """The path relative to the mount: Starlette leaves the mount in `path` and repeats it in `root_path`.

    Behind a proxy that strips a prefix, `root_path` may begin with a part that is not in `path`, as with the
    `--root-path` of hypercorn, but not of uvicorn. Starlette names that part in `app_root_path`.
    """
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    for prefix in (root, root.removeprefix(scope.get("app_root_path", ""))):
        below = path[len(prefix) :]
        if path.startswith(prefix) and below[:1] in ("", "/"):
            return below or "/"
    return path


def _is_local(scope: Scope) -> bool:
    """Whether a request came to a loopback address or a Unix socket, as far as the ASGI server says."""
    server: Any = scope.get("server")
    return bool(server) and (is_loopback(server[0]) or server[0].startswith("/"))


def _make_sealer(settings: ServeSettings) -> Sealer:
    """Make a sealer whose key outlives the process, so that cursors survive a restart."""
    if settings.sealing_key_file is None:
        return Sealer(load=kept_key)
    return Sealer([read_key(Path(settings.sealing_key_file))])


def _make_gate(settings: ServeSettings) -> Gate:
    """Raises: SettingsError, if unauthenticated callers on the network could call."""
    authenticators: list[Authenticator] = []
    if settings.key_file is not None:
        from hubbub.security.keys import ApiKeys

        authenticators.append(ApiKeys(Path(settings.key_file)))
    if settings.jwt_keys is not None:
        from hubbub.net.fetch import fetch
        from hubbub.security.jwt import JwtSettings, open_tokens

        jwt = JwtSettings(keys=settings.jwt_keys, issuer=settings.jwt_issuer, audience=settings.jwt_audience)
        authenticators.append(open_tokens(jwt, fetch))
    edge = EdgeSettings(
        bind_host=settings.address[0],
        allowed_hosts=settings.allowed_hosts,
        allowed_origins=settings.allowed_origins,
        insecure=settings.insecure,
    )
    return Gate(edge, authenticators)
