"""Our HTTP server: listens, sweeps and stops. Connections: `http_connection`, `websocket_connection`."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from hubbub import bounds
from hubbub.ports import ReportCutOff
from hubbub.protocol.http_headers import HeaderList
from hubbub.transports.connection_limits import ConnectionLimits
from hubbub.transports.http_connection import HttpConnection
from hubbub.transports.listeners import listen, start_accepting
from hubbub.transports.server_context import HttpEndpoint, ServerConnection, ServerContext, WebSocketEndpoint

if TYPE_CHECKING:
    from hubbub.transports.server_tls import TlsFiles

logger = logging.getLogger("hubbub.http")
__all__ = ["ConnectionLimits", "HttpServer", "listen", "new_event_loop"]


class HttpServer:
    """Serves the connections of one listening socket, with TLS if it has certificates.

    `end_streams` is called when it stops.
    """

    def __init__(
        self,
        serve_http: HttpEndpoint,
        serve_websocket: WebSocketEndpoint,
        limits: ConnectionLimits,
        *,
        headers: HeaderList = (),
        cut_off: ReportCutOff = lambda reason, address: None,
        end_streams: Callable[[], None] = lambda: None,
        trusted_proxies: Iterable[str] = (),
        tls: TlsFiles | None = None,
        allowed_uids: Collection[int] | None = None,
    ) -> None:
        """`allowed_uids`: the users who may connect to a Unix socket; None: all whom its permissions let in."""
        self._context = ServerContext(
            serve_http, serve_websocket, limits, headers=headers, cut_off=cut_off, proxies=trusted_proxies
        )
        self._tls = tls
        self._allowed_uids = allowed_uids
        self._end_streams = end_streams
        self._stop_requested = asyncio.Event()
        self._exit_requested = asyncio.Event()

    @property
    def connections(self) -> set[ServerConnection]:
        """The open connections."""
        return self._context.connections

    def stop(self) -> None:
        """Stop gracefully; the second call stops at once."""
        if self._stop_requested.is_set():
            self._exit_requested.set()
        self._stop_requested.set()

    async def serve(self, listener: socket.socket, on_started: Callable[[], None] = lambda: None) -> None:
        """Serve until the server is stopped; then drain within a time limit."""
        loop, context = asyncio.get_running_loop(), self._context
        context.sweep(loop.time())
        server = await start_accepting(listener, self._protocol_factory())
        sweeper = asyncio.create_task(self._sweep())
        try:
            on_started()
            await self._stop_requested.wait()
        finally:
            server.close()
            await self._drain()
            sweeper.cancel()

    def _protocol_factory(self) -> Callable[[], asyncio.Protocol]:
        make_connection = partial(HttpConnection, self._context)
        if self._allowed_uids is not None:
            from hubbub.transports.peer_credentials import PeerCheck

            return partial(PeerCheck, self._allowed_uids, make_connection)
        if self._tls is None:
            return make_connection
        from hubbub.transports.tls_connection import TlsConnection

        return partial(TlsConnection, self._context, self._tls, make_connection)

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(bounds.SWEEP_INTERVAL_S)
            self._context.sweep(loop.time())
            if self._tls is not None:
                try:
                    self._tls.reload_if_changed()
                except Exception:  # deadlines must be checked all the same
                    logger.exception("reloading the TLS files failed")

    async def _drain(self) -> None:
        """End streams, let running requests finish, and close all connections."""
        context = self._context
        context.is_stopping = True
        self._end_streams()
        for connection in list(context.connections):
            connection.shut_down()
        await self._wait(self._finish_tasks(), context.limits.drain_s)
        await asyncio.sleep(0)  # a task that is cancelled before its first step would answer nothing
        for task in context.tasks:
            task.cancel()
        await self._wait(self._finish_tasks(), bounds.SHUTDOWN_TIMEOUT_S)
        for connection in list(context.connections):
            connection.transport.close()
        if context.connections:  # callers have some seconds to read their last responses
            await self._wait(context.all_closed.wait(), bounds.LINGER_TIMEOUT_S)
        for connection in list(context.connections):
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _finish_tasks(self) -> None:
        while tasks := {task for task in self._context.tasks if not task.done()}:
            await asyncio.wait(tasks)

    async def _wait(self, work: Coroutine[Any, Any, object], timeout_s: float) -> None:
        """Wait until the work is done, the time is over, or `stop` is called a second time."""
        waiting = [asyncio.ensure_future(work), asyncio.ensure_future(self._exit_requested.wait())]
        try:
            await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a uvloop event loop if it is installed."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
