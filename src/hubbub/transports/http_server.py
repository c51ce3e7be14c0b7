"""The HTTP server: uvicorn with httptools and uvloop, and the limits that uvicorn lacks.

uvicorn waits for open streams without ending them, and for callers that neither
send nor read. The limits of one connection are in `http_connection` and `websocket_connection`.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hubbub import bounds
from hubbub.net.bind_address import listen_error
from hubbub.observe import rate_limit_logger
from hubbub.ports import ReportCutOff
from hubbub.transports.connection_limits import ConnectionLimits
from hubbub.transports.http import App
from hubbub.transports.http_connection import REQUEST_TIMEOUT, BoundedConfig, BoundedProtocol, client_address
from hubbub.transports.uvicorn_parts import Server
from hubbub.transports.websocket_connection import BoundedWebSocket

__all__ = ["ConnectionLimits", "HttpServer", "ServedApp", "listen", "new_event_loop", "prepare", "serve"]

_SWEEP_TICKS: Final = 10  # uvicorn ticks ten times a second


class ServedApp(NamedTuple):
    """The app that is served, and its callbacks."""

    app: App
    on_started: Callable[[], None]
    end_streams: Callable[[], None]
    """Called when the server stops, because streams do not end by themselves."""
    cut_off: ReportCutOff = lambda reason, address: None


class HttpServer(Server):
    """uvicorn that disconnects slow callers and ends open streams when it stops."""

    def __init__(self, config: BoundedConfig, served_app: ServedApp) -> None:
        super().__init__(config)
        self._served_app = served_app
        self._slow_reader_s = config.limits.slow_reader_s

    def stop(self) -> None:
        """Stop gracefully; the second call stops at once."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then report the start: its readers may connect or send a signal at once."""
        await super().startup(sockets)
        self._served_app.on_started()

    async def on_tick(self, counter: int) -> bool:
        """Check for slow callers once a second; uvicorn calls this every tenth of a second."""
        if counter % _SWEEP_TICKS == 0:
            self._disconnect_slow_callers(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def _disconnect_slow_callers(self, now: float) -> None:
        for connection in list(self.server_state.connections):
            assert isinstance(connection, BoundedProtocol | BoundedWebSocket)
            if connection.unread.is_stuck(connection.transport, now, self._slow_reader_s):
                self._served_app.cut_off("slow_reader", client_address(connection))
                connection.transport.abort()  # closing would wait until everything is read
            elif isinstance(connection, BoundedWebSocket):
                if connection.is_overdue(now):
                    connection.give_up("The message did not arrive in time")
            elif connection.is_overdue(now):
                connection.give_up(REQUEST_TIMEOUT, "slow_sender")
            elif connection.is_idle(now):
                connection.transport.close()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End open streams before waiting for them."""
        self._served_app.end_streams()
        await super().shutdown(sockets)


def prepare(
    served_app: ServedApp,
    *,
    headers: Sequence[tuple[str, str]] = (),
    limits: ConnectionLimits,
    trusted_proxies: Sequence[str] = (),
) -> HttpServer:
    """Make a server that is ready to run; setting its `should_exit` stops it."""
    config = BoundedConfig(
        served_app.app,
        served_app.cut_off,
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
        # By default uvicorn trusts the proxy headers of callers on this machine.
        proxy_headers=bool(trusted_proxies),
        forwarded_allow_ips=list(trusted_proxies),
        ws_max_size=limits.message_bytes,
        ws_ping_interval=bounds.KEEP_ALIVE_S,
        timeout_keep_alive=bounds.IDLE_CONNECTION_S,
        timeout_graceful_shutdown=math.ceil(limits.drain_s),
    )
    config.load()
    rate_limit_logger("uvicorn.error")  # uvicorn logs a line for every caller
    return HttpServer(config, served_app)


async def serve(server: HttpServer, listener: socket.socket) -> None:
    """Serve until the server is stopped; then drain within a time limit."""
    await server._serve(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Raises:
        SettingsError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets whose protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise listen_error(host, port, error) from None
    listener.listen(bounds.BACKLOG)
    return listener


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if it is installed."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
