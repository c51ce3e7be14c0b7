"""Our HTTP server with an endpoint that records requests, for the tests in this folder.

Only `run_recording_server` depends on how a server is constructed.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from tests.http.raw_http import TIMEOUT_S, Site
from tests.wire.byte_client import ByteClient, connect

from hubbub import ConnectionClosed, MessageTooLarge
from hubbub.ports import HttpExchange, WebSocketExchange
from hubbub.transports import http_server
from hubbub.transports.server_context import WebSocketEndpoint
from hubbub.transports.server_tls import TlsFiles

DEFAULT_LIMITS = http_server.ConnectionLimits(
    message_bytes=100_000,
    head_bytes=64 * 1024,
    head_s=600,
    body_s=600,
    slow_reader_s=600,
    connections=1000,
    drain_s=5,
    idle_s=60,
    pipelined_requests=128,
    unfinished_bytes=4_000_000,
)


class SeenRequest(NamedTuple):
    """One request as an endpoint sees it."""

    method: str
    path: str
    query: str
    body: bytes


REFUSED_REQUEST = SeenRequest("", "", "", b"")
"""Stands for a request that the endpoint refuses."""


class RecordingServer:
    """A server that answers every request with 200 and records it."""

    def __init__(self) -> None:
        self.seen: list[SeenRequest] = []
        self.cut_off: Counter[str] = Counter()
        self.held: asyncio.Event | None = None
        """While it is set to an event, requests to `/held` wait for that event."""
        self.http: http_server.HttpServer
        self.site = Site(0)
        self._clients: list[ByteClient] = []

    async def connect(self) -> ByteClient:
        """Connect a client; it is reset when the server stops, also if its test fails."""
        self._clients.append(await connect(self.site.port))
        return self._clients[-1]

    def reset_clients(self) -> None:
        for client in self._clients:
            client.reset()

    async def serve(self, exchange: HttpExchange) -> None:
        try:
            body = await exchange.body()
        except MessageTooLarge:
            await exchange.respond(413, b"too large")
            return
        except ConnectionClosed:
            return
        if b"host" not in exchange.headers or exchange.headers.is_repeated(b"host"):
            self.seen.append(REFUSED_REQUEST)  # as the check of `Host` does in a real server
            await exchange.respond(400, b"no single Host")
            return
        self.seen.append(SeenRequest(exchange.method, exchange.path, exchange.query, body))
        if exchange.path == "/held" and self.held is not None:
            await self.held.wait()
        if exchange.path == "/stream":
            await exchange.start_stream()
            for number in range(3):
                await exchange.write(b"data: %d\n\n" % number)
            await exchange.end()
        elif exchange.path == "/large":
            await exchange.respond(200, b"x" * int(exchange.query))
        elif exchange.path == "/echo":
            await exchange.respond(200, b"%b: %b\n" % (exchange.headers.raw(b"x-tag") or b"", body))
        else:
            await exchange.respond(200, b"%d of %b\n" % (len(body), exchange.path.encode()))

    def report_cut_off(self, reason: str, address: str) -> None:
        self.cut_off[reason] += 1

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self.http.connections)


async def _refuse_websocket(exchange: WebSocketExchange) -> None:
    raise AssertionError("no WebSocket here")


@asynccontextmanager
async def run_recording_server(
    serve_websocket: WebSocketEndpoint = _refuse_websocket, *, tls: TlsFiles | None = None, **limits: Any
) -> AsyncIterator[RecordingServer]:
    """Serve on a free port until the block ends; `limits` replace those of `DEFAULT_LIMITS`."""
    recorder, is_up = RecordingServer(), asyncio.Event()
    server = http_server.HttpServer(
        recorder.serve,
        serve_websocket,
        msgspec.structs.replace(DEFAULT_LIMITS, **limits),
        cut_off=recorder.report_cut_off,
        tls=tls,
    )
    recorder.http = server
    listener = http_server.listen("127.0.0.1", 0)
    recorder.site = Site(listener.getsockname()[1])
    task = asyncio.create_task(server.serve(listener, is_up.set))
    try:
        await is_up.wait()
        yield recorder
    finally:
        recorder.reset_clients()
        server.stop()
        async with asyncio.timeout(TIMEOUT_S):
            await task
