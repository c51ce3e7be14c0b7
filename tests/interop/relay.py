"""A relay between a client and a server that can break every connection at once, as networks do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.stream_server import stream_server


class Relay:
    """Passes bytes on, both ways, until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._open: set[asyncio.StreamWriter] = set()

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
        try:
            async with asyncio.TaskGroup() as both_ways:
                both_ways.create_task(self._pass_on(reader, inner_writer))
                both_ways.create_task(self._pass_on(inner_reader, writer))
        finally:
            inner_writer.transport.abort()

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


@asynccontextmanager
async def relayed(url: str) -> AsyncIterator[tuple[str, Relay]]:
    """The address of a relay to that server, and the relay."""
    host, _, rest = url.removeprefix("http://").partition(":")
    port, _, path = rest.partition("/")
    relay = Relay(host, int(port))
    async with stream_server(relay.join) as own_port:
        yield f"http://127.0.0.1:{own_port}/{path}", relay
