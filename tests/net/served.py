"""A server that answers to the byte as a test says, a door to it, and one request through that door."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.stream_server import Handler, stream_server

from hubbub.pack.http import ANY_ADDRESS, HttpClient

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Served:
    def __init__(self) -> None:
        self.heads: list[str] = []
        self.connections = 0
        self.open = 0
        self.url = ""


@asynccontextmanager
async def serving(
    *answers: bytes, then: Handler | None = None, close: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Served]:
    """Answers the requests on a connection with these bytes, one after the other; `then` has the last word."""
    served = Served()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        served.open += 1
        try:
            for answer in answers:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                served.heads.append(head)
                lengths = [line.split(":")[1] for line in head.split("\r\n") if line.lower().startswith("content-len")]
                await reader.readexactly(int(lengths[0]) if lengths else 0)
                writer.write(answer)
                await writer.drain()
            if then is not None:
                await then(reader, writer)
            elif not close:
                await reader.read()
        finally:
            served.open -= 1
            writer.transport.abort()

    async with stream_server(serve, tls) as port:
        served.url = f"http{'s' if tls else ''}://127.0.0.1:{port}/mcp"
        yield served


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[HttpClient]:
    door = HttpClient(ANY_ADDRESS, **options)
    try:
        yield door
    finally:
        await door.close()


async def ask(door: HttpClient, served: Served, body: bytes | None = b"{}", limit: int = 100_000) -> bytes:
    answer = await door.send("POST", served.url, headers={"X-One": "1"}, body=body)
    try:
        return await answer.read(limit)
    finally:
        answer.close()
