"""Each limit of the HTTP server has its status and reason in the metrics, and affects only the caller that exceeds it.

Slow streams, shares of one address, and unfinished bodies of many connections are in tests/faults and tests/transports.
"""

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import pytest
from tests.clock import advance_and_settle, advance_clock, wait_until, yield_to_loop
from tests.http.raw_http import TIMEOUT_S
from tests.wire.byte_client import ByteClient, send_pieces
from tests.wire.other_caller import check_caller, run_with_caller
from tests.wire.recording_server import run_recording_server
from tests.wire.request_bytes import CHUNKED, CLOSE, HOST, chunk, get, length, read_statuses, request

from hubbub import bounds

HEAD_BYTES, BODY_BYTES = 4000, 10_000
HEAD_S, BODY_S, READER_S = 20.0, 40.0, 60.0
LIMITS: dict[str, Any] = {
    "head_bytes": HEAD_BYTES,
    "message_bytes": BODY_BYTES,
    "head_s": HEAD_S,
    "body_s": BODY_S,
    "slow_reader_s": READER_S,
    "connections": 40,
}
EXPECT = b"Expect: 100-continue"


def post(*headers: bytes, body: bytes = b"") -> bytes:
    return request(b"POST /a HTTP/1.1", HOST, *headers, body=body)


async def read_end(client: ByteClient) -> list[int]:
    """Wait until the server has closed the connection; return the statuses of its responses."""
    async with asyncio.timeout(TIMEOUT_S):
        await client.end
    return read_statuses(bytes(client.received))


async def send_until_closed(client: ByteClient, pieces: Iterable[bytes]) -> None:
    """Send pieces until the server closes or does not read any more."""
    for piece in pieces:
        if client.transport.is_closing() or client.transport.get_write_buffer_size():
            return
        client.transport.write(piece)
        await client.settle(3)


# -- sizes -------------------------------------------------------------------------------------


class Flood(NamedTuple):
    """Too much of one part of a request: its start, and what is repeated."""

    name: str
    start: bytes
    repeated: bytes
    statuses: tuple[int, ...]


FLOODS = [
    Flood("method", b"", b"A" * 100, (400, 431, 501)),
    Flood("target", b"GET /", b"x" * 100, (414, 431)),
    Flood("query", b"GET /?", b"x" * 100, (414, 431)),
    Flood("version", b"GET / HTTP/1.1", b"1" * 100, (400, 431, 505)),
    Flood("name of a header", b"GET / HTTP/1.1\r\n", b"x" * 100, (431,)),
    Flood("value of a header", b"GET / HTTP/1.1\r\nX: ", b"x" * 100, (431,)),
    Flood("white space before a value", b"GET / HTTP/1.1\r\nX:", b" " * 100, (431,)),
    Flood("headers", b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 20, (431,)),
    Flood("short headers", b"GET / HTTP/1.1\r\n", b"X:\r\n" * 20, (431,)),
    Flood("empty lines", b"", b"\r\n" * 50, (400, 431)),
    Flood("zeros of a length", b"POST / HTTP/1.1\r\nContent-Length: ", b"0" * 100, (400, 431)),
    Flood("chunk extension", post(CHUNKED) + b"1;a=", b"x" * 100, (413, 431)),
    Flood("chunk extensions", post(CHUNKED) + b"1", b";a=b" * 20, (413, 431)),
    Flood("zeros of a chunk size", post(CHUNKED), b"0" * 100, (400, 413, 431)),
    Flood("trailer", post(CHUNKED) + b"0\r\nX: ", b"x" * 100, (413, 431)),
    Flood("trailers", post(CHUNKED) + b"0\r\n", b"X: y\r\n" * 20, (413, 431)),
]


@pytest.mark.parametrize("piece_bytes", [100, 10_000])
@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.name)
async def test_an_endless_part_of_a_request_is_refused(flood: Flood, piece_bytes: int) -> None:
    async with run_with_caller(**LIMITS) as (server, other):
        client = await server.connect()
        client.transport.write(flood.start)
        piece = flood.repeated * (piece_bytes // 100)
        await send_until_closed(client, [piece] * (10 * HEAD_BYTES // len(piece) + 1))
        client.transport.write_eof()
        assert await read_end(client) in [[status] for status in flood.statuses]
        assert set(server.cut_off) in ({"large_head"}, {"malformed"} if 400 in flood.statuses else {"large_head"})
        assert server.cut_off.total() == 1
        await check_caller(other)


@pytest.mark.parametrize("tail", [b"", b"\r\n"], ids=["unfinished", "finished"])
async def test_a_head_may_be_as_large_as_its_limit_and_no_larger(tail: bytes) -> None:
    start = b"GET / HTTP/1.1\r\n" + HOST + b"\r\n" + CLOSE + b"\r\nX: "
    async with run_with_caller(**LIMITS) as (server, _):
        for size, allowed in ((HEAD_BYTES - len(start) - 100, [[200]]), (HEAD_BYTES + 100, [[414], [431]])):
            client = await server.connect()
            client.transport.write(start + b"x" * size + b"\r\n" + tail)
            if not tail:
                await client.settle()
                client.transport.write(b"\r\n")
            assert await read_end(client) in allowed


@pytest.mark.parametrize("cut", [None, 40, 4000, 5000, -5, -1])
async def test_a_length_with_thousands_of_zeros_is_refused(cut: int | None, caplog: pytest.LogCaptureFixture) -> None:
    data = post(b"Content-Length: " + b"0" * 5000 + b"5", body=b"hello")
    async with run_with_caller(**LIMITS | {"head_bytes": 16384}) as (server, other):
        found = await send_pieces(server.site.port, [data] if cut is None else [data[:cut], data[cut:]])
        assert (read_statuses(found.data), found.is_closed) == ([400], True)
        assert dict(server.cut_off) == {"malformed": 1}
        await check_caller(other)
        assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(("zeros", "statuses"), [(19, [200, 200]), (20, [400])])
async def test_a_length_may_have_twenty_digits(zeros: int, statuses: list[int]) -> None:
    data = post(b"Content-Length: " + b"0" * zeros + b"5", body=b"hello")
    async with run_with_caller(**LIMITS) as (server, _):
        found = await send_pieces(server.site.port, [data + get(b"/a", CLOSE)])
        assert read_statuses(found.data) == statuses


@pytest.mark.parametrize(("zeros", "statuses"), [(18, [200, 200]), (19, [400])])
@pytest.mark.parametrize("size", [b"0a", b"0A;x=y", b"00"])
async def test_a_chunk_size_may_have_twenty_digits(size: bytes, zeros: int, statuses: list[int]) -> None:
    start = post(CHUNKED, body=chunk(b"0" * 30))
    line = b"0" * zeros + size + b"\r\n"
    rest = b"\r\n" if size == b"00" else b"0123456789\r\n0\r\n\r\n"
    data = start + line + rest + get(b"/a", CLOSE)
    async with run_with_caller(**LIMITS) as (server, _):
        for cut in (0, len(start), len(start) + 1, len(start) + 19, len(start + line) - 1):
            found = await send_pieces(server.site.port, [data[:cut], data[cut:]] if cut else [data])
            assert read_statuses(found.data) == statuses, cut


@pytest.mark.parametrize("expects", [(), (EXPECT,)], ids=["", "expect"])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["fixed", "chunked"])
async def test_a_large_body_is_413(is_chunked: bool, expects: tuple[bytes, ...]) -> None:
    framing = CHUNKED if is_chunked else length(b"x" * (BODY_BYTES + 1))
    async with run_with_caller(**LIMITS) as (server, other):
        client = await server.connect()
        client.transport.write(post(framing, CLOSE, *expects))
        await client.settle()
        if not is_chunked:  # it is refused before its body is sent
            assert read_statuses(bytes(client.received)) == [413]
            assert b" 100 " not in client.received
        else:
            assert (b" 100 " in client.received) == bool(expects)
            await send_until_closed(client, [chunk(b"x" * 1000)] * 20)
        client.transport.write_eof()
        assert await read_end(client) == [413]
        assert [request.path for request in server.seen] == ["/other"]
        await check_caller(other)


async def test_too_many_pipelined_requests_are_refused_and_the_first_was_served_once() -> None:
    async with run_with_caller(**LIMITS) as (server, other):
        server.held = asyncio.Event()
        client = await server.connect()
        client.transport.write(get(b"/held"))
        await client.settle()
        await send_until_closed(client, [get(b"/a") * 20] * bounds.PIPELINED_REQUESTS)
        server.held.set()
        await yield_to_loop(3 * bounds.PIPELINED_REQUESTS)
        client.reset()
        paths = [request.path for request in server.seen if request.path != "/other"]
        assert paths[:1] == ["/held"]
        assert paths.count("/held") == 1
        assert len(paths) <= 2 * bounds.PIPELINED_REQUESTS
        await check_caller(other)


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("more", [0, 1, 10])
async def test_as_many_requests_may_wait_as_the_limit_says(limit: int, more: int) -> None:
    async with run_with_caller(**LIMITS | {"pipelined_requests": limit}) as (server, _):
        before = len(server.seen)
        found = await send_pieces(server.site.port, [get(b"/a") * (1 + limit + more)])
        assert read_statuses(found.data) == [200] * (1 + limit) + [429] * bool(more)
        assert len(server.seen) - before == 1 + limit


@pytest.mark.parametrize("waiting", [0, 1, 10])
async def test_a_disconnect_behind_waiting_requests_is_noticed(waiting: int) -> None:
    async with run_with_caller(**LIMITS) as (server, _):
        server.held = asyncio.Event()
        client = await server.connect()
        client.transport.write(get(b"/held") + get(b"/a") * waiting)
        await client.settle()
        client.reset()
        await wait_until(lambda: server.connections == 1)
        server.held.set()


async def test_waiting_requests_stop_reading_before_they_use_much_memory() -> None:
    async with run_with_caller(**LIMITS | {"message_bytes": 1_000_000}) as (server, other):
        server.held = asyncio.Event()
        client = await server.connect()
        client.transport.write(get(b"/held"))
        await client.settle()
        large = post(length(b"x" * 100_000), body=b"x" * 100_000)
        for _ in range(60):
            client.transport.write(large)
        await yield_to_loop(500)
        assert client.transport.get_write_buffer_size() + client.count_unacknowledged() > 40 * len(large)
        await check_caller(other)
        server.held.set()
        await wait_until(lambda: read_statuses(bytes(client.received)) == [200] * 61)
        client.reset()


# -- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "limit_s"),
    [
        (b"", HEAD_S),
        (b"G", HEAD_S),
        (b"GET / HTTP/1.1\r\nX:", HEAD_S),
        (get(b"/a")[:-1], HEAD_S),
        (post(length(b"hello"), body=b"hell"), BODY_S),
        (post(length(b"hello")), BODY_S),
        (post(length(b"hello"), EXPECT), BODY_S),
        (post(CHUNKED), BODY_S),
        (post(CHUNKED, body=b"5"), BODY_S),
        (post(CHUNKED, body=chunk(b"hello")), BODY_S),
        (post(CHUNKED, body=chunk(b"hello") + b"0\r\n"), BODY_S),
        (post(CHUNKED, body=chunk(b"hello") + b"0\r\nX: y"), BODY_S),
    ],
    ids=[
        *("nothing", "method", "header", "head", "fixed body", "no body", "expect"),
        *("chunked", "chunk size", "chunk", "last chunk", "trailer"),
    ],
)
async def test_a_request_that_does_not_arrive_in_time_is_408(sent: bytes, limit_s: float) -> None:
    async with run_with_caller(**LIMITS) as (server, other):
        client = await server.connect()
        client.transport.write(sent)
        await client.settle()
        advance_clock(limit_s / 2)
        await client.settle()
        assert not client.end.done()
        await check_caller(other)
        advance_clock(limit_s)
        assert await read_end(client) == [408]
        assert dict(server.cut_off) == {"slow_sender": 1}


async def test_the_time_of_a_head_starts_anew_with_each_request() -> None:
    async with run_with_caller(**LIMITS) as (server, other):
        client = await server.connect()
        for _ in range(5):
            client.transport.write(get(b"/a"))
            await client.settle()
            advance_clock(0.9 * HEAD_S)
            await client.settle()
            await check_caller(other)
        client.transport.write(get(b"/a", CLOSE))
        assert await read_end(client) == [200] * 6
        assert not server.cut_off


async def test_an_idle_connection_is_closed_without_a_response() -> None:
    async with run_with_caller(**LIMITS) as (server, other):
        client = await server.connect()
        client.transport.write(get(b"/a"))
        await client.settle()
        while not client.end.done():
            await check_caller(other)
            advance_clock(bounds.IDLE_CONNECTION_S / 3)
            await asyncio.sleep(0.01)
        assert await read_end(client) == [200]
        assert not server.cut_off


async def test_a_response_that_is_not_read_is_aborted() -> None:
    async with run_with_caller(**LIMITS) as (server, other):
        client = await server.connect()
        client.transport.pause_reading()
        client.transport.write(get(b"/large?20000000") + get(b"/a"))
        await client.settle()
        while server.connections > 1:
            await check_caller(other)
            advance_clock(READER_S / 4)
            await asyncio.sleep(0.01)
        assert dict(server.cut_off) == {"slow_reader": 1}


async def test_a_caller_that_reads_each_response_late_is_not_a_slow_reader() -> None:
    """The server looks once a second, when as much may be unread as the last time."""
    async with run_with_caller(**LIMITS) as (server, other):
        client = await server.connect()
        for number in range(1, 9):
            await check_caller(other)
            client.transport.pause_reading()
            client.received.clear()
            size = (20 + number) * 1_000_000
            client.transport.write(get(b"/large?%d" % size))
            await client.settle()
            await advance_and_settle(READER_S / 4)
            client.transport.resume_reading()
            await wait_until(lambda size=size: len(client.received) > size or client.end.done())  # type: ignore[misc]
        assert not server.cut_off
        client.reset()


# -- requests at once --------------------------------------------------------------------------


@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "pieces"])
async def test_a_request_above_the_limit_gets_503_and_ends_its_connection(
    in_pieces: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests continue without their connection, so that more can run than there are connections."""
    async with run_recording_server(connections=1) as server:
        server.held = asyncio.Event()
        first = await server.connect()
        first.transport.write(get(b"/held"))
        await first.settle()
        first.reset()
        await wait_until(lambda: not server.connections)
        unfinished = post(CHUNKED, body=chunk(b"hello") + chunk(b"world"))
        rest = b"0\r\n\r\n" + get(b"/b") + get(b"/c")
        found = await send_pieces(server.site.port, [unfinished, rest] if in_pieces else [unfinished + rest])
        assert (read_statuses(found.data), found.is_closed) == ([503], True)
        assert b"\r\nretry-after: 1\r\n" in found.data
        assert [seen.path for seen in server.seen] == ["/held"]
        assert dict(server.cut_off) == {"too_many_connections": 1}
        assert not [record for record in caplog.records if record.exc_info]
        server.held.set()


# -- connections -------------------------------------------------------------------------------


async def test_connections_above_the_limit_get_503_and_the_others_are_served() -> None:
    async with run_with_caller(**LIMITS) as (server, other):
        clients = [await server.connect() for _ in range(3 * LIMITS["connections"])]
        await yield_to_loop(100)
        for client in clients:
            if not client.transport.is_closing():
                client.transport.write(get(b"/a", CLOSE))
        await check_caller(other)
        found = [await read_end(client) for client in clients]
        served, refused = found.count([200]), found.count([503]) + found.count([])
        assert (served + refused, [503] in found) == (len(clients), True)
        assert LIMITS["connections"] // 2 <= served < LIMITS["connections"]
        assert dict(server.cut_off) == {"too_many_connections": refused}
        await wait_until(lambda: server.connections == 1)
        async with AsyncExitStack() as stack:  # the room is free again
            links = [await stack.enter_async_context(server.site.connect()) for _ in range(served)]
            for link in links:
                await link.send_request("GET", "/a")
            assert [(await link.read_response()).status for link in links] == [200] * served
