"""A server as an ASGI app, to be served by any ASGI server or mounted in another app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypedDict

from hubbub import bounds
from hubbub.errors import DefinitionError, SettingsError
from hubbub.observe import log_refusal
from hubbub.protocol.calls import ANONYMOUS
from hubbub.protocol.host_origin import is_loopback, share_owner
from hubbub.protocol.refusal import Refusal
from hubbub.server.http.app import RESPONSE_HEADERS, HttpApp
from hubbub.server.responses import respond_refusal
from hubbub.server.server import Server
from hubbub.settings import ServeSettings, Sources, format_suggestion, read_settings
from hubbub.shares import Shares
from hubbub.transports.asgi import AsgiExchange, AsgiWebSocket, Message, Receive, Scope, Send
from hubbub.transports.signals import observe_stop_signals

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
_TOO_MANY_REQUESTS: Final = Refusal(
    503, "Too many requests at once (max_connections); try again later", ((b"retry-after", b"1"),)
)


class AsgiOptions(TypedDict, total=False):
    """The options of `Server.asgi`; each has the meaning of the setting of the same name. None means the default."""

    key_file: str | None
    jwt_keys: str | None
    jwt_issuer: str | None
    jwt_audience: Sequence[str] | None
    jwt_scope_claims: Sequence[str] | None
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
        self.http = HttpApp(server, settings)
        self._settings = settings
        self._is_running = False
        self._requests = Shares(settings.max_connections)
        self._tasks: set[asyncio.Task[Any]] = set()

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
            await self._serve(scope, limited_request)
            if limited_request.is_body_late and not limited_request.has_answered:
                text = f"The request body took over {self._settings.body_s:g} s (body_s); send it faster"
                await self._refuse(Refusal(408, text, _CONNECTION_CLOSE), scope, limited_request, client)
        finally:
            self._requests.give_back(owner)

    async def _serve(self, scope: Scope, limited_request: _LimitedRequest) -> None:
        receive, send = limited_request.receive, limited_request.send
        if scope["type"] == "http":
            await self.http.serve(AsgiExchange(scope, receive, send, self.http.message_bytes))
        else:
            await receive()  # websocket.connect
            await self.http.serve_websocket(AsgiWebSocket(scope, receive, send))

    async def _refuse(self, refusal: Refusal, scope: Scope, limited_request: _LimitedRequest, client: str) -> None:
        """Refuse a request before it reaches the endpoint."""
        self.http.metrics.response(scope["path"], refusal.status)
        log_refusal(scope["path"], refusal.status, client)
        if scope["type"] == "http":
            await respond_refusal(AsgiExchange(scope, limited_request.receive, limited_request.send, 0), refusal)
        else:
            await limited_request.receive()  # websocket.connect
            await AsgiWebSocket(scope, limited_request.receive, limited_request.send).refuse(refusal)

    @property
    def _is_local_only(self) -> bool:
        return not (self.http.requires_authentication or self._settings.insecure)

    # -- lifespan --------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncIterator[None]:
        """Run the server while the block runs, within the lifespan of a parent app; `app` is not used.

        Streams end at SIGINT or SIGTERM already: ASGI servers wait for them before they end the lifespan.

        Raises: DefinitionError, if it is already running.
        """
        if self._is_running:
            raise DefinitionError("This app is already running; enter its lifespan only once")
        async with self.http.running():
            self._is_running = True
            try:
                with observe_stop_signals(self.http.end_streams):
                    yield
            finally:
                self._is_running = False
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

    async def _end_requests(self) -> None:
        """End streams and wait for running calls; cancel those that take longer than `drain_s`."""
        self.http.end_streams()
        if not self._tasks:
            return
        _, running = await asyncio.wait(self._tasks, timeout=self._settings.drain_s)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=bounds.SHUTDOWN_TIMEOUT_S)


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
            self._app.http.cut_off("slow_sender", self._client)
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
            message = {**message, "headers": [*message.get("headers", ()), *RESPONSE_HEADERS]}
        if self._is_reader_stalled:
            raise TimeoutError
        timer = asyncio.timeout(self._slow_reader_s)
        try:
            async with timer:
                await self._send(message)
        except TimeoutError:
            if timer.expired():
                self._is_reader_stalled = True
                self._app.http.cut_off("slow_reader", self._client)
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
