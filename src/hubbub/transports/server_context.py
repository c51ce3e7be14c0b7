"""What all connections of one HTTP server share: endpoints, limits, and the requests that are being served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from hubbub import bounds
from hubbub.observe import log_refusal
from hubbub.ports import HttpExchange, ReportCutOff, WebSocketExchange
from hubbub.protocol.http_headers import HeaderList, Headers
from hubbub.transports.connection_limits import ConnectionLimits, ConnectionTable, UnfinishedMessages
from hubbub.transports.forwarded import TrustedProxies
from hubbub.transports.response_heads import RETRY_SOON, ResponseHeads
from hubbub.transports.shared_tasks import SharedTasks

if TYPE_CHECKING:
    from hubbub.transports.http_exchange import ServerExchange

logger = logging.getLogger("hubbub.http")

HttpEndpoint = Callable[[HttpExchange], Coroutine[Any, Any, None]]
WebSocketEndpoint = Callable[[WebSocketExchange], Awaitable[None]]
_TEXT: Final = b"text/plain; charset=utf-8"


class ServerConnection(Protocol):
    """What the server needs of a connection: HTTP, WebSocket, or one that is still in its TLS handshake."""

    transport: asyncio.Transport

    def sweep(self, now: float) -> None:
        """Check its deadlines; called once a second."""

    def shed(self) -> None:
        """Close it to free memory, and drop its unfinished message."""

    def shut_down(self) -> None:
        """Close it, after the requests that are running on it."""


class ServerContext:
    """The shared state of the connections of one HTTP server."""

    def __init__(
        self,
        endpoint: HttpEndpoint,
        websocket_endpoint: WebSocketEndpoint,
        limits: ConnectionLimits,
        *,
        headers: HeaderList = (),
        cut_off: ReportCutOff = lambda reason, address: None,
        proxies: Iterable[str] = (),
    ) -> None:
        self._endpoint = endpoint
        self.websocket_endpoint = websocket_endpoint
        self.limits = limits
        self.headers = headers
        """Sent with every response."""
        self.heads = ResponseHeads(headers)
        self.cut_off = cut_off
        self.proxies = TrustedProxies(proxies)
        self.has_proxies = bool(self.proxies)
        """Whether any proxy is trusted; they never change."""
        self.connections: set[ServerConnection] = set()
        self.table = ConnectionTable(limits.connections)
        self.unfinished = UnfinishedMessages(limits.unfinished_bytes)
        self._running: set[ServerExchange] = set()
        """The requests that are being served; some continue without their connection."""
        self._shared_tasks: SharedTasks[ServerExchange] = SharedTasks(_set_task, self._end)
        self._websocket_tasks: set[asyncio.Task[None]] = set()
        self.next_sweep = 0.0
        """When deadlines are checked next. Used as the current time, so that a request reads no clock."""
        self.is_stopping = False
        self.all_closed = asyncio.Event()
        """Set when the last connection was closed while the server stops."""

    def remove(self, connection: ServerConnection) -> None:
        """Remove a connection that was closed."""
        self.connections.discard(connection)
        self.table.remove(connection.transport)
        self.unfinished.remove(connection)
        if self.is_stopping and not self.connections:
            self.all_closed.set()

    @property
    def tasks(self) -> set[asyncio.Task[Any]]:
        """The tasks that serve requests and WebSockets."""
        return {exchange.task for exchange in self._running if exchange.task is not None} | self._websocket_tasks

    def sweep(self, now: float) -> None:
        """Check the deadlines of all connections."""
        self.next_sweep = now + bounds.SWEEP_INTERVAL_S
        self.heads.update_date()
        for connection in list(self.connections):
            try:
                connection.sweep(now)
            except Exception:
                logger.exception("checking the deadlines of a connection failed")
                connection.transport.abort()

    def find_scheme(self, transport: asyncio.BaseTransport, headers: Headers) -> str:
        """Return the scheme of a request, `http` or `https`."""
        is_encrypted = transport.get_extra_info("sslcontext") is not None
        return self.proxies.scheme(headers, client_address(transport), "https" if is_encrypted else "http")

    def start(self, exchange: ServerExchange) -> None:
        """Serve a request in a task, unless too many are running: calls can continue without their connection."""
        if len(self._running) >= self.limits.connections:
            exchange.keeps_alive = False
            log_refusal(exchange.path, 503, exchange.client)
            self.cut_off("too_many_connections", exchange.client)
            text = b"Too many requests at once (max_connections); try again later"
            exchange.respond(503, text, RETRY_SOON, content_type=_TEXT)
            return
        self._running.add(exchange)
        endpoint = self._endpoint
        exchange.task = self._shared_tasks.start(exchange, endpoint(exchange))

    def _end(self, exchange: ServerExchange) -> None:
        self._running.discard(exchange)
        if not exchange.is_complete:
            exchange.abort()

    def start_websocket(self, socket: WebSocketExchange) -> asyncio.Task[None]:
        """Serve a WebSocket in a task."""
        task = asyncio.create_task(self._serve_websocket(socket))
        self._websocket_tasks.add(task)
        task.add_done_callback(self._websocket_tasks.discard)
        return task

    async def _serve_websocket(self, socket: WebSocketExchange) -> None:
        await self.websocket_endpoint(socket)


def _set_task(exchange: ServerExchange, task: asyncio.Task[Any]) -> None:
    exchange.task = task


def client_address(transport: asyncio.BaseTransport) -> str:
    """Return the network address of a caller; empty if it has none, as on a Unix socket."""
    peer = transport.get_extra_info("peername")
    return peer[0] if isinstance(peer, tuple) else ""
