"""The minimal gateway in Python: `python -m bench.floors.gateway PORT URL`, or a command for the URL.

httptools on uvloop for clients; upstream is one stdio server, or one HTTP server with
persistent connections. Requests to stdio get new ids, because many clients use the same
ones. Nothing is validated or stored.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Callable
from typing import Any, Protocol, cast
from urllib.parse import SplitResult, urlsplit

import httptools
import msgspec
import uvloop

_ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"

Take = Callable[[bytes], None]


class Upstream(Protocol):
    """The server that receives the requests."""

    def ask(self, body: bytes, take: Take) -> None:
        """Send a message and pass the response to `take`; it is empty if there is none."""


class Front(asyncio.Protocol):
    """One client."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        self._upstream.ask(body, self._answer)

    def _answer(self, body: bytes) -> None:
        if not body:
            self._transport.write(_ACCEPTED)
            return
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)


# -- stdio -----------------------------------------------------------------------


class Message(msgspec.Struct, omit_defaults=True):
    """A request or a response, parsed one level deep."""

    jsonrpc: str
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(Message).decode
_encode = msgspec.json.Encoder().encode


class StdioUpstream(asyncio.SubprocessProtocol):
    """A child process on stdio."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, tuple[msgspec.Raw, Take]] = {}
        self._numbers = itertools.count(1)
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        child = cast("asyncio.SubprocessTransport", transport)
        self._input = cast("asyncio.WriteTransport", child.get_pipe_transport(0))

    def ask(self, body: bytes, take: Take) -> None:
        """Write the message with a new id."""
        message = _decode(body)
        if isinstance(message.id, msgspec.UnsetType):
            take(b"")
        else:
            key = b"%d" % next(self._numbers)
            self._waiting[key] = message.id, take
            message.id = msgspec.Raw(key)
        self._input.write(_encode(message) + b"\n")

    def pipe_data_received(self, descriptor: int, data: bytes) -> None:
        """Pass on every complete response."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = _decode(line)
            message.id, take = self._waiting.pop(bytes(cast("msgspec.Raw", message.id)))
            take(_encode(message))


# -- HTTP ------------------------------------------------------------------------


class HttpUpstream:
    """One HTTP server, with one connection per concurrent request."""

    def __init__(self, url: SplitResult) -> None:
        self._url = url
        self._head = f"POST {url.path} HTTP/1.1\r\nhost: {url.netloc}\r\ncontent-type: application/json\r\n".encode()
        self._free: list[HttpConnection] = []
        self._opening: set[asyncio.Task[None]] = set()

    def ask(self, body: bytes, take: Take) -> None:
        """Post the message unchanged."""
        if self._free:
            self._send(self._free.pop(), body, take)
        else:
            task = asyncio.ensure_future(self._open(body, take))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, body: bytes, take: Take) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(HttpConnection, str(self._url.hostname), self._url.port or 80)
        self._send(connection, body, take)

    def _send(self, connection: HttpConnection, body: bytes, take: Take) -> None:
        def done(answer: bytes) -> None:
            self._free.append(connection)
            take(answer)

        connection.send(self._head + b"content-length: %d\r\n\r\n" % len(body) + body, done)


class HttpConnection(asyncio.Protocol):
    """One connection with one request on it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._parser: Any = httptools.HttpResponseParser(self)
        self._body = b""

    def send(self, request: bytes, take: Take) -> None:
        """Send a request; its response body is passed to `take`."""
        self._take = take
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        self._take(body)


async def main(port: int, place: list[str]) -> None:
    """Serve until the process is killed."""
    loop = asyncio.get_running_loop()
    if len(place) == 1:
        upstream: Upstream = HttpUpstream(urlsplit(place[0]))
    else:
        _, upstream = await loop.subprocess_exec(StdioUpstream, *place, stderr=None)
    server = await loop.create_server(lambda: Front(upstream), "127.0.0.1", port)
    await server.serve_forever()


uvloop.run(main(int(sys.argv[1]), sys.argv[2:]))
