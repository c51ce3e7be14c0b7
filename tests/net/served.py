"""A server that answers to the byte as a test says, a door to it, and one request through that door."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from hubbub.net.door import Door
from hubbub.net.egress import ANYWHERE

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Served:
    def __init__(self) -> None:
        self.heads: list[str] = []
        self.connections = 0
        self.open = 0
        self.url = ""


@asynccontextmanager
async def serving(
    *answers: bytes, then: Answering | None = None, close: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Served]:
    """Answers the requests on a connection with these bytes, one after the other; `then` has the last word."""
    served, tasks = Served(), set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        tasks.add(task)
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
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            served.open -= 1
            writer.transport.abort()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    served.url = f"http{'s' if tls else ''}://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    try:
        yield served
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def opened(**options: float) -> AsyncIterator[Door]:
    door = Door(ANYWHERE, **options)
    try:
        yield door
    finally:
        await door.close()


async def ask(door: Door, served: Served, body: bytes | None = b"{}", limit: int = 100_000) -> bytes:
    answer = await door.send("POST", served.url, headers={"X-One": "1"}, body=body)
    try:
        return await answer.read(limit)
    finally:
        answer.close()
