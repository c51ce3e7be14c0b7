"""The HTTP server: uvicorn with httptools and uvloop, and the bounds that it leaves open.

uvicorn limits neither the head of a request nor how long one may take to arrive or an
answer to be read, and it waits for open streams without telling them to end. This is
the only module that imports it.
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import uvicorn
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.observe import log_refusal
from hubbub.ports import CutOff
from hubbub.transports.answer import Answer
from hubbub.transports.http import App

_SWEEP_TICKS: Final = 10  # uvicorn ticks ten times a second
_TOO_LARGE: Final = b"431 Request Header Fields Too Large"
_MARKS: Final = len(b": \r\n")
_HTTP: Final = "1.1"
_OF_THE_TARGET: Final = ("path", "raw_path", "query_string")
_TOO_SLOW: Final = b"408 Request Timeout"


class Site(NamedTuple):
    """What is served, and what it wants to be told."""

    app: App
    started: Callable[[], None]
    sweep: Callable[[], None]
    """Called every second: time to forget what is idle."""
    end_streams: Callable[[], None]
    """Called when the server stops: streams would never end by themselves."""
    cut_off: CutOff = lambda reason, address: None


class Limits(NamedTuple):
    """What connections may take, and for how long."""

    message_bytes: int = bounds.MESSAGE_BYTES
    head_bytes: int = bounds.REQUEST_HEAD_BYTES
    head_s: float = bounds.REQUEST_HEAD_S
    body_s: float = bounds.BODY_S
    slow_reader_s: float = bounds.SLOW_READER_S
    connections: int = bounds.CONNECTIONS
    drain_s: float = bounds.DRAIN_S


DEFAULT_LIMITS: Final = Limits()


class BoundedConfig(uvicorn.Config):
    """What uvicorn gives to each of its connections, with what ours want to know besides."""

    def __init__(self, site: Site, limits: Limits, **options: Any) -> None:
        super().__init__(site.app, **options)
        self.limits = limits
        self.cut_off = site.cut_off


class Unread:
    """How long one caller has taken nothing of what waits for it."""

    __slots__ = ("_bytes", "_since")

    def __init__(self) -> None:
        self._bytes = 0
        self._since = 0.0

    def is_stuck(self, transport: asyncio.Transport, now: float, patience_s: float) -> bool:
        """Look at what waits; whether none of it was taken for too long."""
        waiting = transport.get_write_buffer_size()
        if waiting < self._bytes or not self._bytes:
            self._since = now
        self._bytes = waiting
        return waiting > 0 and now - self._since > patience_s


class BoundedProtocol(HttpToolsProtocol):
    """One HTTP connection: its requests must arrive whole, within a size and a time, and its answers be read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A caller connects; from now on it owes us a request."""
        super().connection_made(transport)
        assert isinstance(self.config, BoundedConfig)
        self._limits, self._cut_off = self.config.limits, self.config.cut_off
        self.unread = Unread()
        self._answer: Answer | None = None
        self._target: tuple[bytes, dict[str, Any]] = (b"", {})
        """The last one asked for, and what it says of the scope; most callers ask for one only."""
        self._in_head = True
        self._overhead_bytes = 0
        self._waiting_since: float | None = self.loop.time()
        self._idle_since: float | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being served; uvicorn tells only the last of those that came in a row."""
        super().connection_lost(exc)
        self.pipeline.clear()
        if self._answer is not None:
            self._answer.leave()

    def data_received(self, data: bytes) -> None:
        """Count what arrives and is no body: heads, and what chunks can carry besides."""
        self._overhead_bytes += len(data)
        super().data_received(data)
        if self._overhead_bytes > self._limits.head_bytes:
            self.give_up(_TOO_LARGE, "large_head")

    def on_message_begin(self) -> None:
        """A request starts."""
        super().on_message_begin()
        self._waiting_since = self.loop.time()
        self._idle_since = None

    def on_headers_complete(self) -> None:
        """The head is there; one that came in a single piece is measured only now."""
        if self._overhead_bytes > self._limits.head_bytes:
            size = len(self.url) + sum(len(name) + len(value) + _MARKS for name, value in self.headers)
            if size > self._limits.head_bytes:
                self.give_up(_TOO_LARGE, "large_head")
                raise ValueError("the head is too large")  # ends the parsing
        self._in_head = False
        self._overhead_bytes = 0
        if self._is_next_of_its_kind():
            self._begin()
        else:
            super().on_headers_complete()
            if "path" in self.scope:
                self._target = (self.url, {name: self.scope.get(name) for name in _OF_THE_TARGET})

    def _is_next_of_its_kind(self) -> bool:
        """Whether it asks for what the request before it asked for, which is answered: nothing is to be decided."""
        return (
            self.url == self._target[0]
            and self.cycle.response_complete
            and not self.parser.should_upgrade()
            and self.parser.get_http_version() == _HTTP
            and len(self.connections) < self._limits.connections
            and len(self.tasks) < self._limits.connections
        )

    def _begin(self) -> None:
        """What uvicorn does with every request, without taking its target apart once more."""
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope.update(self._target[1])  # type: ignore[typeddict-item]
        self.cycle = RequestResponseCycle(
            self.scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            False,
            self.server_state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            self.parser.should_keep_alive(),
            self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def on_body(self, body: bytes) -> None:
        """A piece of the body is there."""
        self._overhead_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The whole request is there."""
        self._in_head = True
        self._overhead_bytes = 0
        self._waiting_since = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is whole. The sweep finds who asks nothing more: uvicorn sets a timer for each answer instead."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        if app is service_unavailable:
            log_refusal(cycle.scope["path"], 503, address_of(self))
        self._answer = Answer(app, cycle)
        super()._start_asgi_task(cycle, self._answer.serve)  # type: ignore[arg-type]

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, unless the connection was given up already."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def give_up(self, status: bytes, reason: str) -> None:
        """Close a connection whose request does not arrive as it should."""
        if self.transport.is_closing():
            return
        self._cut_off(reason, address_of(self))
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            headers = b"".join(b"%b: %b\r\n" % pair for pair in self.server_state.default_headers)
            closing = b"connection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(b"HTTP/1.1 %b\r\n%b%b" % (status, headers, closing))
        self.transport.close()

    def is_idle(self, now: float) -> bool:
        """Whether it is kept open for nothing."""
        return self._idle_since is not None and now - self._idle_since > self.timeout_keep_alive

    def is_overdue(self, now: float) -> bool:
        """Whether its request takes too long to arrive."""
        if self._waiting_since is None:
            return False
        allowed = self._limits.head_s if self._in_head else self._limits.body_s
        return now - self._waiting_since > allowed


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One WebSocket connection, whose messages must be read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A caller connects."""
        super().connection_made(transport)
        self.unread = Unread()

    async def send(self, message: Any) -> None:
        """Write; uvicorn forgets our headers on a refusal, and that a refusal completes the handshake."""
        kind = message["type"]
        if kind == "websocket.http.response.start":
            message = {**message, "headers": [*self.default_headers, *message.get("headers", ())]}
        await super().send(message)
        if kind == "websocket.http.response.body":
            self.handshake_complete = True

    def shutdown(self) -> None:
        """The server stops. An open connection is closed by the app, which may still have calls to answer."""
        if not self.handshake_complete:
            super().shutdown()


def address_of(connection: BoundedProtocol | BoundedWebSocket) -> str:
    """Where a caller calls from."""
    return connection.client[0] if connection.client else ""


class HttpServer(uvicorn.Server):
    """uvicorn, with an eye on slow callers and an end to open streams."""

    def __init__(self, config: BoundedConfig, site: Site) -> None:
        super().__init__(config)
        self._site = site
        self._slow_reader_s = config.limits.slow_reader_s

    def stop(self) -> None:
        """Stop soon; asked again, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and only then say so: whoever reads it may connect or send a signal at once."""
        await super().startup(sockets)
        self._site.started()

    async def on_tick(self, counter: int) -> bool:
        """Every tenth of a second."""
        if counter % _SWEEP_TICKS == 0:
            self._site.sweep()
            self._give_up_slow_callers(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def _give_up_slow_callers(self, now: float) -> None:
        for connection in list(self.server_state.connections):
            assert isinstance(connection, BoundedProtocol | BoundedWebSocket)
            if connection.unread.is_stuck(connection.transport, now, self._slow_reader_s):
                self._site.cut_off("slow_reader", address_of(connection))
                connection.transport.abort()  # to close it would be to wait until all is read
            elif not isinstance(connection, BoundedProtocol):
                continue
            elif connection.is_overdue(now):
                connection.give_up(_TOO_SLOW, "slow_sender")
            elif connection.is_idle(now):
                connection.timeout_keep_alive_handler()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open streams end before waiting for them."""
        self._site.end_streams()
        await super().shutdown(sockets)


def prepare(
    site: Site,
    *,
    headers: Sequence[tuple[str, str]] = (),
    limits: Limits = DEFAULT_LIMITS,
    trusted_proxies: Sequence[str] = (),
) -> HttpServer:
    """A server that is ready to run; setting its `should_exit` stops it."""
    config = BoundedConfig(
        site,
        limits,
        interface="asgi3",
        http=BoundedProtocol,
        ws=BoundedWebSocket,
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=list(headers),
        # Unasked, uvicorn believes whoever calls from this machine.
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        ws_max_size=limits.message_bytes,
        ws_ping_interval=bounds.KEEP_ALIVE_S,
        timeout_keep_alive=bounds.IDLE_CONNECTION_S,
        timeout_graceful_shutdown=math.ceil(limits.drain_s),
        limit_concurrency=limits.connections,
    )
    config.load()
    return HttpServer(config, site)


async def serve(server: HttpServer, listener: socket.socket) -> None:
    """Serve until somebody stops it; then drain within a bound."""
    await server._serve(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        SettingsError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only where the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        is_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        flag = "--host" if is_host else "--port"
        raise SettingsError(f"Cannot listen on {host}:{port}: {reason}. Choose another with {flag}") from None
    listener.listen(bounds.BACKLOG)
    return listener


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where there is one."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
