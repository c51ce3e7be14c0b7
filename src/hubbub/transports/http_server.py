"""The HTTP server: uvicorn with httptools and uvloop, and the bounds that it leaves open.

uvicorn limits neither the head of a request nor how long one may take to arrive, and
it waits for open streams without telling them to end. This is the only module that
imports it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hubbub import bounds
from hubbub.errors import SettingsError
from hubbub.transports.http import App

logger = logging.getLogger("hubbub.http")

_SWEEP_TICKS: Final = 10  # uvicorn ticks ten times a second
_TOO_LARGE: Final = b"431 Request Header Fields Too Large"
_TOO_SLOW: Final = b"408 Request Timeout"


class BoundedProtocol(HttpToolsProtocol):
    """One HTTP connection whose requests must arrive whole, within a size and a time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A caller connects; from now on it owes us a request."""
        super().connection_made(transport)
        self._in_head = True
        self._head_bytes = 0
        self._waiting_since: float | None = self.loop.time()

    def data_received(self, data: bytes) -> None:
        """Count what arrives before a head is complete."""
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._in_head:
            self._head_bytes = 0
        elif self._head_bytes > bounds.REQUEST_HEAD_BYTES:
            self.give_up(_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request starts."""
        super().on_message_begin()
        self._waiting_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """The head is there."""
        self._in_head = False
        self._head_bytes = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The whole request is there."""
        self._in_head = True
        self._head_bytes = 0
        self._waiting_since = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, unless the connection was given up already."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def give_up(self, status: bytes) -> None:
        """Close a connection whose request does not arrive as it should."""
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            headers = b"".join(b"%b: %b\r\n" % pair for pair in self.server_state.default_headers)
            closing = b"connection: close\r\ncontent-length: 0\r\n\r\n"
            self.transport.write(b"HTTP/1.1 %b\r\n%b%b" % (status, headers, closing))
        self.transport.close()

    def is_overdue(self, now: float) -> bool:
        """Whether its request takes too long to arrive."""
        if self._waiting_since is None:
            return False
        allowed = bounds.REQUEST_HEAD_S if self._in_head else bounds.BODY_S
        return now - self._waiting_since > allowed


class HttpServer(uvicorn.Server):
    """uvicorn, with an eye on slow senders and an end to open streams."""

    def __init__(self, config: uvicorn.Config, sweep: Callable[[], None], end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._sweep = sweep
        self._end_streams = end_streams

    async def on_tick(self, counter: int) -> bool:
        """Every tenth of a second."""
        if counter % _SWEEP_TICKS == 0:
            self._sweep()
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedProtocol) and connection.is_overdue(now):
                    connection.give_up(_TOO_SLOW)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open streams end before waiting for them."""
        self._end_streams()
        await super().shutdown(sockets)


async def serve(
    app: App,
    listener: socket.socket,
    *,
    sweep: Callable[[], None],
    end_streams: Callable[[], None],
    headers: Sequence[tuple[str, str]] = (),
    limit: int = bounds.MESSAGE_BYTES,
    drain_s: float = bounds.DRAIN_S,
) -> None:
    """Serve until the process is told to stop; then drain within a bound."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="websockets-sansio",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=list(headers),
        ws_max_size=limit,
        ws_ping_interval=bounds.KEEP_ALIVE_S,
        timeout_keep_alive=bounds.IDLE_CONNECTION_S,
        timeout_graceful_shutdown=int(drain_s),
        limit_concurrency=bounds.CONNECTIONS,
    )
    config.load()
    server = HttpServer(config, sweep, end_streams)
    _stop_on_signals(server)
    await server._serve(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        SettingsError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise SettingsError(f"Cannot listen on {host}:{port}: {reason}. Choose another with --port") from None
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


def _stop_on_signals(server: HttpServer) -> None:
    def stop(*_: Any) -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, stop)
        except (NotImplementedError, RuntimeError):  # Windows, or not the main thread
            return
