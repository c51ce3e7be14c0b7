"""The signalling server on a port: WebSockets around `signalling_router`, with health and metrics.

The only module of the pack that imports `websockets`. It sees no data of peers, and of their descriptions only what the
room's password does not encrypt. The `Origin` header is checked, so that pages of other web sites cannot use it from a
browser.
"""

from __future__ import annotations

import asyncio
import http
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from hubbub.pack import Metrics, network_prefix, rate_limit_logger
from hubbub.packs.peers import limits
from hubbub.packs.peers.js_json import stringify
from hubbub.packs.peers.signalling_router import Client, ClientDisconnected, SignalLimits, SignalRouter

_POLICY: Final = 1008
_LOOPBACK: Final = frozenset(("127.0.0.1", "localhost", "::1"))


class _ClientQueue:
    """The queue of messages to one client."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._bytes = 0

    def put(self, text: str) -> None:
        """Queue one message; a client that reads too slowly is disconnected."""
        self._bytes += len(text)
        if self._bytes > limits.SIGNAL_QUEUE_BYTES:
            self.socket.transport.abort()
            return
        self._queue.put_nowait(text)

    async def send_queued(self) -> None:
        """Send queued messages until cancelled, or until the client disconnects."""
        try:
            while True:
                text = await self._queue.get()
                await self.socket.send(text)
                self._bytes -= len(text)
        except ConnectionClosed:
            pass


def _limit_per_address(limit: int) -> type[ServerConnection]:
    """Return a connection class that limits connections of one address, including those that never finish opening."""
    open_counts: Counter[str] = Counter()

    class LimitedConnection(ServerConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self._client_network = client_network(self)
            open_counts[self._client_network] += 1
            if open_counts[self._client_network] > limit:
                self.transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            # Pings are answered at once, even if the client does not read the answers.
            if self.transport.get_write_buffer_size() > limits.SIGNAL_QUEUE_BYTES:
                self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            open_counts[self._client_network] -= 1
            if not open_counts[self._client_network]:
                del open_counts[self._client_network]

    return LimitedConnection


class SignalServer:
    """Serves a `SignalRouter` on one port."""

    def __init__(
        self,
        signal_limits: SignalLimits | None = None,
        *,
        allowed_origins: Iterable[str] = (),
        idle_s: float | None = None,
        join_grace_s: float | None = None,
    ) -> None:
        signal_limits = signal_limits or SignalLimits()
        self.router = SignalRouter(signal_limits, clock=time.monotonic)
        # Twice the limit of clients, so that clients above the limit still receive the reason.
        self._connection_class = _limit_per_address(2 * signal_limits.clients_per_address)
        self._allowed_origins = frozenset(allowed_origins)
        self._idle_s = limits.SIGNAL_IDLE_S if idle_s is None else idle_s
        self._join_grace_s = limits.SIGNAL_JOIN_GRACE_S if join_grace_s is None else join_grace_s
        self._queues: dict[str, _ClientQueue] = {}
        self._metrics = Metrics()
        self._metrics.gauge("signal_clients", "Clients connected.", lambda: self.router.clients)
        self._metrics.gauge("signal_rooms", "Rooms with clients.", lambda: self.router.rooms)
        self._metrics.gauge("signal_handed_on", "Messages relayed since the start.", lambda: self.router.relayed)
        self._metrics.gauge(
            "signal_refused", "Clients and requests refused since the start.", lambda: self.router.refused
        )

    @asynccontextmanager
    async def running(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen while the block runs; yield the port, a free one if `port` is 0.

        Raises: OSError, if the address is in use.
        """
        rate_limit_logger("websockets.server")  # It logs every client.
        async with serve(
            self._serve,
            host,
            port,
            process_request=self._process_request,
            create_connection=self._connection_class,
            max_size=limits.SIGNAL_MESSAGE_BYTES,
            max_queue=16,
            # Half for the next ping, half for its answer.
            ping_interval=self._idle_s / 2,
            ping_timeout=self._idle_s / 2,
            open_timeout=limits.SIGNAL_OPEN_S,
            close_timeout=limits.SIGNAL_CLOSE_S,
            compression=None,
            server_header=None,
        ) as server:
            yield next(iter(server.sockets)).getsockname()[1]

    # -- before the WebSocket handshake -------------------------------------------------

    def _process_request(self, socket: ServerConnection, request: Request) -> Response | None:
        path = request.path.partition("?")[0]
        if "Upgrade" not in request.headers:
            if path == "/health":
                state = {"status": "ok", "clients": self.router.clients, "rooms": self.router.rooms}
                return _response(http.HTTPStatus.OK, "application/json", msgspec.json.encode(state))
            if path == "/metrics":
                return _response(http.HTTPStatus.OK, Metrics.content_type, self._metrics.render())
            return _response(http.HTTPStatus.UPGRADE_REQUIRED, "text/plain", b"Connect with a WebSocket (ws://)\n")
        if not self._is_allowed_origin(request.headers.get("Origin")):
            self.router.refused += 1
            return _response(
                http.HTTPStatus.FORBIDDEN, "text/plain", b"This origin is not allowed; see --allowed-origin\n"
            )
        return None

    def _is_allowed_origin(self, origin: str | None) -> bool:
        if origin is None or origin in self._allowed_origins:
            return True
        try:
            return urlsplit(origin).hostname in _LOOPBACK
        except ValueError:
            return False

    # -- one client ----------------------------------------------------------------------

    async def _serve(self, socket: ServerConnection) -> None:
        try:
            client = self.router.connect(client_network(socket))
        except ClientDisconnected as refusal:
            await socket.close(_POLICY, str(refusal))
            return
        queue = self._queues[client.uuid] = _ClientQueue(socket)
        writer = asyncio.create_task(queue.send_queued())
        join_timer = asyncio.get_running_loop().call_later(self._join_grace_s, self._check_joined, client, socket)
        try:
            await self._receive(client, socket)
        except ConnectionClosed:
            pass
        finally:
            join_timer.cancel()
            self.router.disconnect(client)
            del self._queues[client.uuid]
            writer.cancel()
            await asyncio.wait([writer])

    async def _receive(self, client: Client, socket: ServerConnection) -> None:
        async for text in socket:
            try:
                deliveries = self.router.receive(client, text)
            except ClientDisconnected as refusal:
                await socket.close(_POLICY, str(refusal))
                return
            for to, message in deliveries:
                queue = self._queues.get(to.uuid)
                if queue is not None:
                    queue.put(stringify(message))

    @staticmethod
    def _check_joined(client: Client, socket: ServerConnection) -> None:
        if not client.is_active:
            socket.transport.abort()


def client_network(socket: ServerConnection) -> str:
    """Return the key of limits per address: an IPv4 address, or the /64 of an IPv6 address, which one host may own."""
    remote: Any = socket.remote_address
    return network_prefix(str(remote[0])) if remote else ""


def _response(status: http.HTTPStatus, media_type: str, body: bytes) -> Response:
    headers = Headers({"Content-Type": media_type, "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status.value, status.phrase, headers, body)
