"""A bare server over HTTP, for clients under test: `python -m bench.floors.bare_http PORT legacy|modern`."""

from __future__ import annotations

import asyncio
import sys

import httptools
import uvloop
from bench.floors.bare import answer

_NO_STREAM = b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n"
_ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


class Floor(asyncio.Protocol):
    """Answers every POST, without sessions or streams."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._parser.get_method() != b"POST":
            self._transport.write(_NO_STREAM)
            return
        body, self._body = answer(self._body), b""
        if not body:
            self._transport.write(_ACCEPTED)
            return
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)


async def main() -> None:
    """Serve until the process is killed."""
    server = await asyncio.get_running_loop().create_server(Floor, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


uvloop.run(main())
