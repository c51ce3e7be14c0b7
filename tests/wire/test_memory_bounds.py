"""Memory stays bounded for anything that one connection sends, in any amount, even if it reads nothing."""

import asyncio
import gc
import socket
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple

import pytest
from tests.http.in_process_server import RunningServer, run_server
from tests.wire.byte_client import QUIET_ITERATIONS
from tests.wire.other_caller import check_caller, run_with_caller
from tests.wire.request_bytes import CHUNKED, HANDSHAKE, HOST, get, request

MIB = 1024 * 1024
FLOOD_BYTES = 12 * MIB
BOUND_BYTES = 4 * MIB
"""Well above what one connection may use with the limits of these tests, and well below the flood."""


@contextmanager
def measure_peak() -> Iterator[Callable[[], int]]:
    """Yield a function that returns by how many bytes memory has grown at most."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@asynccontextmanager
async def connect_without_reading(port: int) -> AsyncIterator[socket.socket]:
    """Connect without reading: the receive buffer is small."""
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
        yield connection


async def flood(connection: socket.socket, piece: bytes, total: int = FLOOD_BYTES) -> int:
    """Send the piece again and again until the server closes or does not read any more; return the bytes sent."""
    sent = stuck = 0
    with suppress(ConnectionError):
        while sent < total and stuck < QUIET_ITERATIONS:
            try:
                sent += connection.send(piece[sent % len(piece) :])
                stuck = 0
            except BlockingIOError:
                stuck += 1
            await asyncio.sleep(0)
    return sent


class Flood(NamedTuple):
    """What is sent first, and what is repeated."""

    name: str
    start: bytes
    repeated: bytes
    total: int = FLOOD_BYTES


def post(*headers: bytes) -> bytes:
    return request(b"POST /a HTTP/1.1", HOST, *headers)


FLOODS = [
    Flood("empty lines", b"", b"\r\n" * 1000),
    Flood("target", b"GET /", b"x" * 1000),
    Flood("headers", b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 1000),
    Flood("fixed body", post(b"Content-Length: %d" % FLOOD_BYTES), b"x" * 10_000),
    Flood("fixed body after expect", post(b"Expect: 100-continue", b"Content-Length: %d" % FLOOD_BYTES), b"x" * 10_000),
    Flood("one chunk", post(CHUNKED) + b"%x\r\n" % FLOOD_BYTES, b"x" * 10_000),
    Flood("chunks", post(CHUNKED), b"1\r\nx\r\n" * 1000),
    Flood("chunk extension", post(CHUNKED) + b"1;a=", b"x" * 10_000),
    Flood("chunks with extensions", post(CHUNKED), b"1;a=b\r\nx\r\n" * 1000),
    Flood("trailers", post(CHUNKED) + b"0\r\n", b"X: y\r\n" * 1000),
    Flood("requests that wait for the first", get(b"/held"), get(b"/a") * 100),
    Flood("bodies that wait for the first", get(b"/held"), post(b"Content-Length: 9000") + b"x" * 9000),
    Flood("responses that are not read", b"", get(b"/large?50000")),
    Flood("streams that are not read", b"", get(b"/stream") * 10),
    Flood("requests after an ignored upgrade", get(b"/a", b"Connection: upgrade", b"Upgrade: x"), get(b"/a") * 100),
    Flood("requests after the last", get(b"/a", b"Connection: close"), get(b"/a") * 100),
    Flood("after a malformed request", b"\x00\r\n\r\n", b"x" * 10_000),
]


@pytest.mark.parametrize("each", FLOODS, ids=lambda each: each.name)
async def test_a_connection_uses_little_memory_whatever_it_sends(each: Flood) -> None:
    async with run_with_caller(head_bytes=16_384, message_bytes=20_000) as (server, other):
        server.held = asyncio.Event()
        with measure_peak() as read_peak:
            async with connect_without_reading(server.site.port) as connection:
                connection.send(each.start)
                await flood(connection, each.repeated)
                server.seen.clear()  # ours, not the server's
                assert read_peak() < BOUND_BYTES
                await check_caller(other)
        server.held.set()


# -- WebSocket ---------------------------------------------------------------------------------

SMALL_FRAMES_BYTES = 2_000_000
"""Tens of thousands of the smallest frames, which would take several megabytes as objects."""
TEXT, PING, CONTINUATION = b"\x81", b"\x89", b"\x00"
MASK = b"\x80\0\0\0\0"


def frame(kind: bytes, data: bytes) -> bytes:
    """Encode a short masked frame."""
    return kind + bytes([0x80 | len(data)]) + bytes(4) + data


WEBSOCKET_FLOODS = [
    Flood("pings", b"", frame(PING, b"x" * 125) * 100),
    Flood("empty pings", b"", (PING + MASK) * 500, SMALL_FRAMES_BYTES),
    Flood("unsolicited pongs", b"", frame(b"\x8a", b"x" * 125) * 100),
    Flood("empty fragments", frame(b"\x01", b""), (CONTINUATION + MASK) * 500, SMALL_FRAMES_BYTES),
    Flood("fragments", frame(b"\x01", b""), frame(CONTINUATION, b"x" * 100) * 100),
    Flood("one frame", b"\x81\xff" + FLOOD_BYTES.to_bytes(8) + bytes(4), b"x" * 10_000),
    Flood("binary messages", b"", frame(b"\x82", b"x") * 500, SMALL_FRAMES_BYTES),
    Flood("invalid messages", b"", frame(TEXT, b"{}") * 500, SMALL_FRAMES_BYTES),
    Flood(
        "requests whose answers are not read", b"", frame(TEXT, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}') * 100
    ),
    Flood("after a close", frame(b"\x88", b"\x03\xe8"), frame(PING, b"x" * 125) * 100),
    Flood("after a violation", b"\xff\xff", b"x" * 10_000),
]


async def open_websocket(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, request(b"GET /mcp-ws HTTP/1.1", HOST, *HANDSHAKE))
    received = b""
    while b"\r\n\r\n" not in received:
        received += await loop.sock_recv(connection, 100)
    assert received.startswith(b"HTTP/1.1 101 ")


async def check_health(instance: RunningServer) -> None:
    assert (await instance.site.get("/health")).status == 200


@pytest.mark.parametrize("each", WEBSOCKET_FLOODS, ids=lambda each: each.name)
async def test_a_websocket_uses_little_memory_whatever_it_sends(each: Flood) -> None:
    settings: dict[str, Any] = {"max_message_bytes": 20_000, "max_queue_bytes": 100_000}
    async with run_server(**settings) as instance:
        await check_health(instance)
        async with connect_without_reading(instance.site.port) as connection:
            await open_websocket(connection)
            with measure_peak() as read_peak:
                connection.send(each.start)
                await flood(connection, each.repeated, each.total // 4)
                assert read_peak() < BOUND_BYTES
            await check_health(instance)
