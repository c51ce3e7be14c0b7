"""The kinds of load of the soak run: correct exchanges, whose answers are checked, and faults.

Each is one function that opens its own connections and closes them. A correct exchange raises an
error if an answer is wrong or missing; a fault only has to end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from websockets.asyncio.client import connect
from websockets.frames import Frame, Opcode

from bench.http_generator import HOST
from bench.soak import wire
from bench.soak.wire import Connection, WrongAnswerError

REQUEST_TIMEOUT_S = 2.0
"""The server's time limit for a head and for a body."""
_ADDRESSES = [f"127.0.0.{last}" for last in range(2, 10)]
_CALLS = 10
_LARGE_CHARACTERS = 500_000
_STREAM_S = 1.0
_SLOW_S = REQUEST_TIMEOUT_S / 4
_MAX_PAUSE_S = 0.01
_READ_S = 0.1
_HANDSHAKE = (
    f"GET /mcp-ws HTTP/1.1\r\nhost: {HOST}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\nsec-websocket-protocol: mcp.v1\r\n\r\n"
).encode()
_POST = f"POST /mcp HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n".encode()
_NO_NAME = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}'
_MALFORMED = [
    b"NONSENSE\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the start of TLS
    b"POST /mcp HTTP/9.9\r\nhost: %b\r\n\r\n" % HOST.encode(),
    b"POST /mcp HTTP/1.1\r\n\r\n",
    b"GET /unknown HTTP/1.1\r\nhost: %b\r\n\r\n" % HOST.encode(),
    b"BREW /mcp HTTP/1.1\r\nhost: %b\r\n\r\n" % HOST.encode(),
    b"POST /mcp HTTP/1.1\r\nhost: attacker.example\r\ncontent-length: 2\r\n\r\n{}",
    _POST + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    _POST + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
    _POST + b"content-length: -1\r\n\r\n",
    _POST + b"content-length: 99999999999999999999\r\n\r\n",
    _POST + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
    _POST + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    _POST + b"no colon\r\n\r\n",
    _POST + b"folded: a\r\n b\r\ncontent-length: 0\r\n\r\n",
    _POST + b"x-zero: \x00\r\n\r\n",
    _POST + b"x-long: %b\r\n\r\n" % (b"a" * 100_000),
    _POST + b"content-length: 9\r\n\r\n{not json",
    _POST + b"content-length: 2\r\n\r\n\xff\xfe",
    _POST + b"content-length: 13\r\n\r\n[[[[[[1]]]]]]",
    b"CONNECT a:80 HTTP/1.1\r\nhost: %b\r\ncontent-length: 2\r\n\r\n{}" % HOST.encode(),
    b"POST /unknown HTTP/1.1\r\nhost: %b\r\ncontent-length: 1000000\r\n\r\n%b" % (HOST.encode(), b"x" * 1_000_000),
    _POST + b"content-length: %d\r\n\r\n%b" % (len(_NO_NAME), _NO_NAME),
]


@dataclass(frozen=True)
class LoadSource:
    """Where the load of one worker comes from and goes to, and its random values."""

    port: int
    random: Random

    def connect(self) -> Connection:
        return Connection(self.port, self.address())

    def address(self) -> str:
        return self.random.choice(_ADDRESSES)

    def identifier(self) -> int:
        return self.random.randrange(1, 1 << 40)

    def text(self, characters: int = 200) -> str:
        return f"{self.identifier()} é " * self.random.randint(1, max(1, characters // 16))


# -- correct exchanges ---------------------------------------------------------


async def call_modern(source: LoadSource) -> None:
    """Call some times on one connection without a session."""
    async with source.connect() as connection:
        for _ in range(source.random.randint(1, _CALLS)):
            identifier, text = source.identifier(), source.text()
            request = wire.modern_request(wire.call_message(identifier, text))
            wire.check_response(await connection.ask(request), identifier, text)


async def call_legacy(source: LoadSource) -> None:
    """Open a session, call some times, and end the session or leave it."""
    async with source.connect() as connection:
        session = await wire.open_session(connection)
        for _ in range(source.random.randint(1, _CALLS)):
            identifier, text = source.identifier(), source.text()
            request = wire.legacy_request(wire.call_message(identifier, text), session)
            wire.check_response(await connection.ask(request), identifier, text)
        if source.random.random() < 0.8:
            await connection.ask(wire.delete_request(session))


async def read_events(source: LoadSource) -> None:
    """Call tools whose answers are streams: with progress, and because the client accepts nothing else."""
    async with source.connect() as connection:
        identifier, steps, text = source.identifier(), source.random.randint(1, 20), source.text()
        response = await connection.ask(wire.modern_request(wire.count_message(identifier, steps)))
        wire.check_response(response, identifier, str(steps))
        if response.body.count(b"notifications/progress") != steps:
            raise WrongAnswerError(f"expected {steps} progress notifications: {response.body[:300]!r}")
        request = wire.modern_request(wire.call_message(identifier, text), accept="text/event-stream")
        wire.check_response(await connection.ask(request), identifier, text)


async def hold_stream(source: LoadSource) -> None:
    """Open a stream for notifications, and close it after a while."""
    kind = source.random.choice(("legacy", "modern", "old"))
    async with source.connect() as connection:
        if kind == "legacy":
            session = await wire.open_session(connection)
            await connection.send(wire.stream_request("/mcp", session))
        elif kind == "modern":
            listen = {"method": "subscriptions/listen", "params": {"notifications": {"toolsListChanged": True}}}
            await connection.send(wire.modern_request({"jsonrpc": "2.0", "id": source.identifier(), **listen}))
        else:
            await connection.send(wire.stream_request("/sse"))
        status, headers = await connection.read_head()
        if status != 200 or not headers["content-type"].startswith("text/event-stream"):
            raise WrongAnswerError(f"expected a stream from {kind}, got {status} {headers}")
        await asyncio.sleep(source.random.uniform(0, _STREAM_S))
        _choose_end(connection, source.random)


async def call_websocket(source: LoadSource) -> None:
    """Open a WebSocket, call some times, and close it or reset it."""
    opened = await wire.open_socket(source.port, source.address())
    uri = f"ws://{HOST}:{source.port}/mcp-ws"
    async with connect(uri, sock=opened, subprotocols=["mcp.v1"], proxy=None, ping_interval=None) as client:  # type: ignore[list-item]
        await client.send(json.dumps(wire.initialize_message()))
        await client.recv()
        await client.send(json.dumps(wire.INITIALIZED))
        for _ in range(source.random.randint(1, _CALLS)):
            identifier, text = source.identifier(), source.text()
            await client.send(json.dumps(wire.call_message(identifier, text)))
            wire.check_result(json.loads(await client.recv()), identifier, text)
        if source.random.random() < 0.3:
            wire.reset_on_close(client.transport)
            client.transport.abort()


async def pipeline(source: LoadSource) -> None:
    """Send several requests in one write, and read the responses in order."""
    async with source.connect() as connection:
        calls = [(source.identifier(), source.text()) for _ in range(source.random.randint(2, 30))]
        requests = [
            wire.modern_request(wire.call_message(*call), source.random if source.random.random() < 0.2 else None)
            for call in calls
        ]
        await connection.send(b"".join(requests))
        for identifier, text in calls:
            wire.check_response(await connection.read_response(), identifier, text)


async def send_chunks(source: LoadSource) -> None:
    """Send a chunked body in pieces that do not end where the chunks end."""
    identifier, text = source.identifier(), source.text(20_000)
    request = wire.modern_request(wire.call_message(identifier, text), source.random)
    async with source.connect() as connection:
        for piece in _split(request, source.random, 5):
            await connection.send(piece)
            await asyncio.sleep(0)
        wire.check_response(await connection.read_response(), identifier, text)


async def call_large(source: LoadSource) -> None:
    """Send and receive a large text."""
    identifier, text = source.identifier(), source.text(_LARGE_CHARACTERS)
    random = source.random if source.random.random() < 0.3 else None
    async with source.connect() as connection:
        response = await connection.ask(wire.modern_request(wire.call_message(identifier, text), random))
        wire.check_response(response, identifier, text)


async def send_slowly(source: LoadSource) -> None:
    """Send a request in small pieces, within the limits of the server."""
    identifier, text = source.identifier(), source.text()
    pieces = _split(wire.modern_request(wire.call_message(identifier, text)), source.random, 10)
    async with source.connect() as connection:
        for piece in pieces:
            await connection.send(piece)
            await asyncio.sleep(_SLOW_S / len(pieces))
        wire.check_response(await connection.read_response(), identifier, text)


# -- faults --------------------------------------------------------------------


async def stall(source: LoadSource) -> None:
    """Send a part of a request and wait until the server closes the connection."""
    request = _make_any_request(source)
    async with source.connect() as connection:
        await _send_until_closed(connection, request[: source.random.randrange(1, len(request))])
        await _read_to_end(connection)


async def send_malformed(source: LoadSource) -> None:
    """Send a malformed request, alone or after a correct one."""
    random = source.random
    bad = random.choice([*_MALFORMED, random.randbytes(random.randint(1, 2000))])
    first = wire.modern_request(wire.call_message(1, "first")) if random.random() < 0.3 else b""
    async with source.connect() as connection:
        await _send_until_closed(connection, first + bad)
        if random.random() < 0.5:
            await _read_to_end(connection)
        _choose_end(connection, random)


async def cut_request(source: LoadSource) -> None:
    """Close or reset a connection at any byte of a request."""
    request = _make_any_request(source)
    async with source.connect() as connection:
        for piece in _split(request[: source.random.randrange(len(request))], source.random, 3):
            await _send_until_closed(connection, piece)
            await asyncio.sleep(source.random.uniform(0, _MAX_PAUSE_S))
        _choose_end(connection, source.random)


async def cut_response(source: LoadSource) -> None:
    """Close or reset a connection at any byte of a response, or before its first."""
    request = _make_any_request(source)
    async with source.connect() as connection:
        await _send_until_closed(connection, request)
        try:
            async with asyncio.timeout(_READ_S):
                await connection.reader.readexactly(source.random.choice((0, 10, 300, len(request))))
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            pass
        _choose_end(connection, source.random)


def _make_any_request(source: LoadSource) -> bytes:
    """Return a request of any kind, a series of requests, or a WebSocket with messages."""
    random, identifier = source.random, source.identifier()
    message: dict[str, Any] = wire.call_message(identifier, source.text())
    match random.randrange(7):
        case 0:
            return wire.modern_request(message)
        case 1:
            return wire.modern_request(message, random)
        case 2:
            return wire.modern_request(message) * random.randint(2, 10)
        case 3:
            return wire.modern_request(wire.call_message(identifier, source.text(_LARGE_CHARACTERS)))
        case 4:
            return wire.modern_request(wire.count_message(identifier, 50))
        case 5:
            return wire.legacy_request(wire.initialize_message())
    message = random.choice((message, wire.initialize_message()))
    frame = Frame(Opcode.TEXT, json.dumps(message).encode()).serialize(mask=True)
    return _HANDSHAKE + frame * random.randint(1, 5)


def _split(data: bytes, random: Random, count: int) -> list[bytes]:
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(count - 1))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


async def _send_until_closed(connection: Connection, data: bytes) -> None:
    try:
        await connection.send(data)
    except ConnectionError:
        return  # the server has refused it already


async def _read_to_end(connection: Connection) -> None:
    """Read until the server closes the connection, which it does not after a cut between two requests."""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_S * 2):
            while await connection.reader.read(1 << 16):
                continue
    except (TimeoutError, ConnectionError):
        return


def _choose_end(connection: Connection, random: Random) -> None:
    """Choose whether the connection ends with FIN or RST."""
    if random.random() < 0.5:
        connection.reset_on_close()


Kind = Callable[[LoadSource], Awaitable[None]]
# With weights.
KINDS: dict[Kind, int] = {
    call_modern: 10,
    call_legacy: 10,
    read_events: 6,
    hold_stream: 4,
    call_websocket: 4,
    pipeline: 4,
    send_chunks: 4,
    call_large: 2,
    send_slowly: 2,
    stall: 1,
    send_malformed: 6,
    cut_request: 10,
    cut_response: 10,
}
