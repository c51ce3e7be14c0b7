"""The signalling server on a port: WebSockets around `signal_rules`, with health and metrics.

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
from hubbub.packs.peers.javascript import stringify
from hubbub.packs.peers.signal_rules import Client, Parted, SignalLimits, Switchboard

_POLICY: Final = 1008
_LOOPBACK: Final = frozenset(("127.0.0.1", "localhost", "::1"))


class _Line:
    """The queue of messages to one client."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._bytes = 0

    def say(self, text: str) -> None:
        """Queue one message; a client that reads too slowly is disconnected."""
        self._bytes += len(text)
        if self._bytes > limits.SIGNAL_QUEUE_BYTES:
            self.socket.transport.abort()
            return
        self._waiting.put_nowait(text)

    async def keep_saying(self) -> None:
        """Send queued messages until cancelled, or until the client disconnects."""
        try:
            while True:
                text = await self._waiting.get()
                await self.socket.send(text)
                self._bytes -= len(text)
        except ConnectionClosed:
            pass


def _counted(limit: int) -> type[ServerConnection]:
    """Return a connection class that limits connections of one address, including those that never finish opening."""
    open_ones: Counter[str] = Counter()

    class Counted(ServerConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self._from = client_network(self)
            open_ones[self._from] += 1
            if open_ones[self._from] > limit:
                self.transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            # Pings are answered at once, even if the client does not read the answers.
            if self.transport.get_write_buffer_size() > limits.SIGNAL_QUEUE_BYTES:
                self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            open_ones[self._from] -= 1
            if not open_ones[self._from]:
                del open_ones[self._from]

    return Counted


class SignalServer:
    """Serves `signal_rules` on one port."""

    def __init__(
        self,
        signal_limits: SignalLimits | None = None,
        *,
        allowed_origins: Iterable[str] = (),
        idle_s: float | None = None,
        join_grace_s: float | None = None,
    ) -> None:
        signal_limits = signal_limits or SignalLimits()
        self.board = Switchboard(signal_limits, clock=time.monotonic)
        # Twice the limit of clients, so that clients above the limit still receive the reason.
        self._connection = _counted(2 * signal_limits.clients_of_one_address)
        self._allowed_origins = frozenset(allowed_origins)
        self._idle_s = limits.SIGNAL_IDLE_S if idle_s is None else idle_s
        self._join_grace_s = limits.SIGNAL_JOIN_GRACE_S if join_grace_s is None else join_grace_s
        self._lines: dict[str, _Line] = {}
        self._metrics = Metrics()
        self._metrics.gauge("signal_clients", "Clients connected.", lambda: self.board.clients)
        self._metrics.gauge("signal_rooms", "Rooms with somebody in them.", lambda: self.board.rooms)
        self._metrics.gauge("signal_handed_on", "Messages handed on since the start.", lambda: self.board.handed_on)
        self._metrics.gauge("signal_refused", "Clients and wishes refused since then.", lambda: self.board.refused)

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
            process_request=self._before,
            create_connection=self._connection,
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

    def _before(self, socket: ServerConnection, request: Request) -> Response | None:
        path = request.path.partition("?")[0]
        if "Upgrade" not in request.headers:
            if path == "/health":
                state = {"status": "ok", "clients": self.board.clients, "rooms": self.board.rooms}
                return _response(http.HTTPStatus.OK, "application/json", msgspec.json.encode(state))
            if path == "/metrics":
                return _response(http.HTTPStatus.OK, Metrics.content_type, self._metrics.render())
            return _response(http.HTTPStatus.UPGRADE_REQUIRED, "text/plain", b"This is a signalling server: ws://\n")
        if not self._may_come_from(request.headers.get("Origin")):
            self.board.refused += 1
            return _response(http.HTTPStatus.FORBIDDEN, "text/plain", b"This origin is not allowed\n")
        return None

    def _may_come_from(self, origin: str | None) -> bool:
        if origin is None or origin in self._allowed_origins:
            return True
        try:
            return urlsplit(origin).hostname in _LOOPBACK
        except ValueError:
            return False

    # -- one client ----------------------------------------------------------------------

    async def _serve(self, socket: ServerConnection) -> None:
        try:
            client = self.board.arrive(client_network(socket))
        except Parted as parted:
            await socket.close(_POLICY, str(parted))
            return
        line = self._lines[client.uuid] = _Line(socket)
        writer = asyncio.create_task(line.keep_saying())
        watch = asyncio.get_running_loop().call_later(self._join_grace_s, self._check_joined, client, socket)
        try:
            await self._hear(client, socket)
        except ConnectionClosed:
            pass
        finally:
            watch.cancel()
            self.board.depart(client)
            del self._lines[client.uuid]
            writer.cancel()
            await asyncio.wait([writer])

    async def _hear(self, client: Client, socket: ServerConnection) -> None:
        async for text in socket:
            try:
                deliveries = self.board.receive(client, text)
            except Parted as parted:
                await socket.close(_POLICY, str(parted))
                return
            for to, message in deliveries:
                line = self._lines.get(to.uuid)
                if line is not None:
                    line.say(stringify(message))

    @staticmethod
    def _check_joined(client: Client, socket: ServerConnection) -> None:
        if not client.has_asked:
            socket.transport.abort()


def client_network(socket: ServerConnection) -> str:
    """Return the key of limits per address: an IPv4 address, or the /64 of an IPv6 address, which one host may own."""
    remote: Any = socket.remote_address
    return network_prefix(str(remote[0])) if remote else ""


def _response(status: http.HTTPStatus, media_type: str, body: bytes) -> Response:
    headers = Headers({"Content-Type": media_type, "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status.value, status.phrase, headers, body)
