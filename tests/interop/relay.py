"""A TCP relay between a client and a server that can reset all connections at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.stream_server import stream_server


class Relay:
    """Forwards bytes in both directions until its connections are reset."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._open_writers: set[asyncio.StreamWriter] = set()

    def abort_connections(self) -> int:
        """Reset every connection and return their number; new connections are accepted."""
        writers, self._open_writers = self._open_writers, set()
        for aborted_writer in writers:
            aborted_writer.transport.abort()
        return len(writers) // 2

    async def handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        inner_reader, inner_writer = await asyncio.open_connection(self._host, self._port)
        self._open_writers |= {writer, inner_writer}
        try:
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._copy_bytes(reader, inner_writer))
                directions.create_task(self._copy_bytes(inner_reader, writer))
        finally:
            inner_writer.transport.abort()

    async def _copy_bytes(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
        except OSError:
            pass  # reset or closed by one end: both are closed below
        finally:
            self._open_writers.discard(sink)
            sink.close()


@asynccontextmanager
async def open_relay(url: str) -> AsyncIterator[tuple[str, Relay]]:
    """Open a relay to that server; yield its address and the relay."""
    host, _, rest = url.removeprefix("http://").partition(":")
    port, _, path = rest.partition("/")
    relay = Relay(host, int(port))
    async with stream_server(relay.handle_connection) as own_port:
        yield f"http://127.0.0.1:{own_port}/{path}", relay
