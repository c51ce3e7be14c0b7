"""The WebSocket client against a server that writes raw frames."""

import asyncio
import base64
import hashlib
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.harness import assert_no_leaks
from tests.stream_server import Handler, stream_server

from hubbub import TransportError
from hubbub.pack.http import ANY_ADDRESS, HttpClient

_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(opcode: int, data: bytes) -> bytes:
    length = bytes([len(data)]) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2)
    return bytes([0x80 | opcode]) + length + data


@asynccontextmanager
async def server(then: Handler) -> AsyncIterator[str]:
    """Accept WebSockets; `then` writes frames."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            [key] = [
                line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")
            ]
            accept = base64.b64encode(hashlib.sha1(key + _MAGIC).digest())
            writer.write(
                b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
            )
            await then(reader, writer)
        finally:
            writer.transport.abort()

    async with stream_server(serve) as port:
        yield f"ws://127.0.0.1:{port}/"


@asynccontextmanager
async def open_client(url: str, limit: int = 1000, **headers: str) -> AsyncIterator[object]:
    http_client = HttpClient(ANY_ADDRESS)
    try:
        yield await http_client.open_websocket(url, headers=headers, protocols=(), limit=limit)
    finally:
        await http_client.close()


async def test_messages_are_returned_as_bytes() -> None:
    async def then(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(1, b"text") + frame(1, b"\xff bad") + frame(2, b"binary"))
        await reader.read()

    async with assert_no_leaks(), server(then) as url, open_client(url) as client:
        assert [await client.receive() for _ in range(3)] == [b"text", b"\xff bad", b"binary"]  # type: ignore[attr-defined]


async def test_a_message_over_the_limit_closes_the_connection_with_the_reason() -> None:
    async def then(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(frame(1, b"x" * 1001))
        await reader.read()

    async with assert_no_leaks(), server(then) as url, open_client(url, 1000) as client:
        assert await client.receive() is None  # type: ignore[attr-defined]
        assert client.close_reason == "the server sent a message of more than 1000 bytes"  # type: ignore[attr-defined]
        with pytest.raises(TransportError):
            await client.send(b"{}")  # type: ignore[attr-defined]


async def test_a_server_that_sends_pings_and_reads_no_pongs_is_disconnected() -> None:
    async def then(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        while not writer.is_closing():
            writer.write(frame(9, b"p" * 125) * 1000)
            await writer.drain()

    async with assert_no_leaks(), server(then) as url, open_client(url) as client, asyncio.timeout(60):
        assert await client.receive() is None  # type: ignore[attr-defined]


async def test_headers_of_the_handshake_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def then(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    caplog.set_level(logging.DEBUG)
    async with assert_no_leaks(), server(then) as url, open_client(url, 1000, **{"X-API-Key": "canary-4711"}) as client:
        await client.close()  # type: ignore[attr-defined]
    assert "canary" not in caplog.text
