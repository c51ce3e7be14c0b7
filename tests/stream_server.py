"""A TCP server that closes every connection at the end, even one whose handler has not begun."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def stream_server(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve on a free port of 127.0.0.1, which is yielded, until the block ends.

    Before Python 3.12, a handler that `asyncio.start_server` runs itself and that is cancelled before its first step
    leaves its connection open.
    """
    running: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass

    def start_handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(handle(reader, writer))
        running.add(task)
        writers.append(writer)
        task.add_done_callback(lambda _: writer.close())
        task.add_done_callback(running.discard)

    listener = await asyncio.start_server(start_handler, "127.0.0.1", 0, ssl=tls)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in running:
            task.cancel()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*running, return_exceptions=True)
        await asyncio.sleep(0)  # aborted connections are closed in the next iteration of the loop
