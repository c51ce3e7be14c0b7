"""The minimal HTTP server in Python: httptools on uvloop."""

from __future__ import annotations

import asyncio

import httptools
import uvloop
from bench.floors.echo_call import CONTENT_TYPE, PORT, answer


class Floor(asyncio.Protocol):
    """Answers every request on one connection as if it were a call of `echo`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = answer(self._body), b""
        head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (CONTENT_TYPE, len(body))
        self._transport.write(head + body)


async def main() -> None:
    """Serve until the process is killed."""
    server = await asyncio.get_running_loop().create_server(Floor, "127.0.0.1", PORT)
    await server.serve_forever()


uvloop.run(main())
