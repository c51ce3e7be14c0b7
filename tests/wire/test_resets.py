"""Connections that are reset or half-closed at any byte: nothing is left over, and other callers are not affected."""

import asyncio
import socket
import struct

import pytest
from tests.clock import yield_to_loop
from tests.wire.byte_client import send_pieces
from tests.wire.other_caller import check_caller, run_with_caller
from tests.wire.request_bytes import get, read_statuses
from tests.wire.streams import STREAMS, Stream

LARGE = 3_000_000
CHECK_EVERY = 25


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
async def test_a_reset_at_every_byte_of_a_request_leaves_nothing(stream: Stream) -> None:
    async with run_with_caller(message_bytes=500) as (server, other):
        for end in range(len(stream.data) + 1):
            client = await server.connect()
            client.transport.write(stream.data[:end])
            await client.settle(end % 5)
            client.reset()
            if end % CHECK_EVERY == 0:
                await check_caller(other)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name)
async def test_a_half_close_at_every_byte_of_a_request_ends_the_connection(stream: Stream) -> None:
    async with run_with_caller(message_bytes=500) as (server, other):
        whole = read_statuses((await send_pieces(server.site.port, [stream.data])).data)
        for end in range(len(stream.data) + 1):
            statuses = read_statuses((await send_pieces(server.site.port, [stream.data[:end]])).data)
            assert statuses in (whole[: len(statuses)], [*whole[: len(statuses) - 1], 400]), stream.data[:end]
            if end % CHECK_EVERY == 0:
                await check_caller(other)


def connect_blocking(port: int, receive_bytes: int | None = None) -> socket.socket:
    connection = socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.connect(("127.0.0.1", port))
    connection.setblocking(False)
    return connection


async def receive_exactly(connection: socket.socket, size: int) -> None:
    loop = asyncio.get_running_loop()
    while size:
        received = await loop.sock_recv(connection, size)
        assert received
        size -= len(received)


@pytest.mark.parametrize("path", [b"/a", b"/stream"])
async def test_a_reset_at_every_byte_of_a_response_leaves_nothing(path: bytes) -> None:
    async with run_with_caller(message_bytes=500) as (server, other):
        response = await send_pieces(server.site.port, [get(path)])
        for size in range(len(response.data) + 1):
            with connect_blocking(server.site.port) as connection:
                connection.send(get(path) * 2)
                await receive_exactly(connection, size)
            if size % CHECK_EVERY == 0:
                await check_caller(other)


async def test_a_reset_while_a_large_response_is_written_leaves_nothing() -> None:
    async with run_with_caller(message_bytes=500) as (server, other):
        for size in (0, 1, 100, 4096, 50_000, LARGE // 2, LARGE - 1):
            with connect_blocking(server.site.port, 4096) as connection:
                connection.send(get(b"/large?%d" % LARGE) + get(b"/a"))
                await receive_exactly(connection, size)
            await check_caller(other)


async def test_a_reset_while_a_request_is_served_leaves_nothing() -> None:
    async with run_with_caller(message_bytes=500) as (server, other):
        server.held = asyncio.Event()
        for pipelined in range(5):
            client = await server.connect()
            client.transport.write(get(b"/held") + get(b"/a") * pipelined)
            await client.settle()
            client.reset()
            await yield_to_loop()
            await check_caller(other)
        server.held.set()
        await yield_to_loop()
        assert [request.path for request in server.seen if request.path != "/other"] == ["/held"] * 5
