"""The signalling server on a port: WebSockets around `signal_rules`, with health and metrics.

The one module that imports `websockets`. It sees no data of peers, and of their
descriptions only what the room's password does not seal. A page of a stranger's site
may not use it from inside a browser: its `Origin` is checked.
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

from hubbub import bounds
from hubbub.observe import CONTENT_TYPE, Metrics
from hubbub.packs.peers.javascript import stringify
from hubbub.packs.peers.signal_rules import Client, Parted, SignalLimits, Switchboard

_POLICY: Final = 1008
_LOOPBACK: Final = frozenset(("127.0.0.1", "localhost", "::1"))


class _Line:
    """What waits to be said to one client."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._bytes = 0

    def say(self, text: str) -> None:
        """Queue one message; a client that does not read loses its connection."""
        self._bytes += len(text)
        if self._bytes > bounds.SIGNAL_QUEUE_BYTES:
            self.socket.transport.abort()
            return
        self._waiting.put_nowait(text)

    async def keep_saying(self) -> None:
        """Until cancelled, or the client is gone."""
        try:
            while True:
                text = await self._waiting.get()
                await self.socket.send(text)
                self._bytes -= len(text)
        except ConnectionClosed:
            pass


def _counted(limit: int) -> type[ServerConnection]:
    """Connections of which one address has only so many, also of those that never say what they want."""
    open_ones: Counter[str] = Counter()

    class Counted(ServerConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self._from = _address(self)
            open_ones[self._from] += 1
            if open_ones[self._from] > limit:
                self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            open_ones[self._from] -= 1
            if not open_ones[self._from]:
                del open_ones[self._from]

    return Counted


class SignalServer:
    """Serves one port."""

    def __init__(
        self,
        limits: SignalLimits | None = None,
        *,
        allowed_origins: Iterable[str] = (),
        idle_s: float = bounds.SIGNAL_IDLE_S,
        join_grace_s: float = bounds.SIGNAL_JOIN_GRACE_S,
    ) -> None:
        limits = limits or SignalLimits()
        self.board = Switchboard(limits, clock=time.monotonic)
        # Twice as many as may stay, so that those who may not can still be told why.
        self._connection = _counted(2 * limits.clients_of_one_address)
        self._allowed_origins = frozenset(allowed_origins)
        self._idle_s = idle_s
        self._join_grace_s = join_grace_s
        self._lines: dict[str, _Line] = {}
        self._metrics = Metrics()
        self._metrics.gauge("signal_clients", "Clients connected.", lambda: self.board.clients)
        self._metrics.gauge("signal_rooms", "Rooms with somebody in them.", lambda: self.board.rooms)
        self._metrics.gauge("signal_handed_on", "Messages handed on since the start.", lambda: self.board.handed_on)
        self._metrics.gauge("signal_refused", "Clients and wishes refused since then.", lambda: self.board.refused)

    @asynccontextmanager
    async def running(self, host: str, port: int) -> AsyncIterator[int]:
        """Listen meanwhile; gives the port, which is a free one for 0.

        Raises: OSError, if the address is taken.
        """
        async with serve(
            self._serve,
            host,
            port,
            process_request=self._before,
            create_connection=self._connection,
            max_size=bounds.SIGNAL_MESSAGE_BYTES,
            max_queue=16,
            # Half for the next ping, half for its answer.
            ping_interval=self._idle_s / 2,
            ping_timeout=self._idle_s / 2,
            open_timeout=bounds.REQUEST_HEAD_S,
            close_timeout=bounds.CLOSE_S,
            compression=None,
            server_header=None,
        ) as server:
            yield next(iter(server.sockets)).getsockname()[1]

    # -- before a WebSocket is opened ---------------------------------------------------

    def _before(self, socket: ServerConnection, request: Request) -> Response | None:
        path = request.path.partition("?")[0]
        if "Upgrade" not in request.headers:
            if path == "/health":
                state = {"status": "ok", "clients": self.board.clients, "rooms": self.board.rooms}
                return _response(http.HTTPStatus.OK, "application/json", msgspec.json.encode(state))
            if path == "/metrics":
                return _response(http.HTTPStatus.OK, CONTENT_TYPE, self._metrics.render())
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
            client = self.board.arrive(_address(socket))
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
        if client.room is None:
            socket.transport.abort()


def _address(socket: ServerConnection) -> str:
    remote: Any = socket.remote_address
    return str(remote[0]) if remote else ""


def _response(status: http.HTTPStatus, media_type: str, body: bytes) -> Response:
    headers = Headers({"Content-Type": media_type, "Content-Length": str(len(body)), "Connection": "close"})
    return Response(status.value, status.phrase, headers, body)
