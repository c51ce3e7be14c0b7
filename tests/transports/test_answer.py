"""What is written to a connection, and in how many pieces; uvicorn's part is real, only the socket is not."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hubbub.transports import http_server
from hubbub.transports.http import Exchange, application

DEADLINE_S = 10
Serve = Callable[[Exchange], Awaitable[None]]


class Recorder(asyncio.Transport):
    """Keeps every piece that is written."""

    def __init__(self) -> None:
        super().__init__({"sockname": ("127.0.0.1", 3000), "peername": ("127.0.0.1", 5000)})
        self.pieces: list[bytes] = []
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.pieces.append(bytes(data))

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


def pieces_of(serve: Serve, *requests: bytes) -> list[bytes]:
    """What one connection gets to read, request after request."""

    async def scenario() -> list[bytes]:
        site = http_server.Site(application(serve), *[lambda *given: None] * 4)
        server = http_server.prepare(site, headers=[("x-own", "1")])
        await server.on_tick(0)  # fills in the headers of every answer
        transport = Recorder()
        connection = server.config.http_protocol_class(
            config=server.config, server_state=server.server_state, app_state={}
        )
        connection.connection_made(transport)
        for request in requests:
            connection.data_received(request)
            async with asyncio.timeout(DEADLINE_S):
                await asyncio.gather(*connection.tasks)
        connection.connection_lost(None)
        return transport.pieces

    return asyncio.run(scenario())


def request(method: str = "GET", headers: bytes = b"") -> bytes:
    return b"%b / HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % (method.encode(), headers)


async def greet(exchange: Exchange) -> None:
    await exchange.reply(200, b'"hello"')


def test_a_whole_answer_is_written_in_one_piece():
    first, second = pieces_of(greet, request(), request())
    head, _, body = first.partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    assert status == b"HTTP/1.1 200 OK"
    assert {b"x-own: 1", b"content-length: 7", b"content-type: application/json"} <= set(headers)
    assert body == b'"hello"'
    assert second.endswith(b'\r\n\r\n"hello"')


def test_a_stream_starts_before_there_is_anything_to_say():
    async def serve(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.write(b"data: 1\n\n")
        await exchange.end()

    head, *events = pieces_of(serve, request())
    assert head.endswith(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert events == [b"9\r\ndata: 1\n\n\r\n", b"0\r\n\r\n"]


def test_head_gets_the_length_without_the_body():
    (head,) = pieces_of(greet, request("HEAD"))
    assert b"content-length: 7" in head
    assert head.endswith(b"\r\n\r\n")


def test_a_caller_that_wants_to_close_is_told_so():
    told = b"".join(pieces_of(greet, request(headers=b"connection: close\r\n")))
    assert b"connection: close" in told
    assert told.endswith(b'\r\n\r\n"hello"')


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb"])
def test_no_header_can_become_two(value, caplog):
    async def serve(exchange: Exchange) -> None:
        await exchange.reply(200, b"1", [(b"x-given", value)])

    told = b"".join(pieces_of(serve, request()))
    assert told.startswith(b"HTTP/1.1 500 ")
    assert b"x-given" not in told
    assert "more than one line" in caplog.text
