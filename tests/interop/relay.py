"""A relay between a client and a server that can break every connection at once, as networks do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Relay:
    """Passes bytes on, both ways, until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> int:
        """Reset every connection; new ones are let through. How many there were."""
        ends, self._open = self._open, set()
        for end in ends:
            end.transport.abort()
        return len(ends) // 2

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        inner_reader, inner_writer = await asyncio.open_connection(self._host, self._port)
        self._open |= {writer, inner_writer}
        for source, sink in ((reader, inner_writer), (inner_reader, writer)):
            task = asyncio.create_task(self._pass_on(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass  # cut, or the other end has gone: both ends are closed below
        finally:
            self._open.discard(sink)
            sink.close()

    async def end(self) -> None:
        """Break everything for good."""
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)


@asynccontextmanager
async def relayed(url: str) -> AsyncIterator[tuple[str, Relay]]:
    """The address of a relay to that server, and the relay."""
    host, _, rest = url.removeprefix("http://").partition(":")
    port, _, path = rest.partition("/")
    relay = Relay(host, int(port))
    server = await asyncio.start_server(relay.join, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/{path}", relay
    finally:
        server.close()
        await relay.end()
        await server.wait_closed()
