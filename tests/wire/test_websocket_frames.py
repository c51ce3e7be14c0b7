"""WebSocket frames that break the protocol, and valid ones cut or reset at any byte.

Unfinished and too large messages, and unread pongs, are in tests/transports/test_websocket_raw_sockets.py.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.clock import advance_and_settle, wait_until
from tests.http.in_process_server import run_server
from tests.http.raw_http import RawConnection, Site
from tests.http.server_process import ServerProcess
from tests.transports.test_websocket_raw_sockets import CONTINUATION, PONG, TEXT, frame, next_frame, read_close_code
from tests.wire.byte_client import connect
from tests.wire.recording_server import run_recording_server
from tests.wire.request_bytes import HANDSHAKE, HOST, message, request

from hubbub import bounds
from hubbub.ports import WebSocketExchange
from hubbub.protocol.refusal import Refusal

OPENING = request(b"GET /mcp-ws HTTP/1.1", HOST, *HANDSHAKE)
PING_CALL = message("ping")
HALF = len(PING_CALL) // 2
FRAMES = (
    frame(TEXT, PING_CALL[:HALF], is_last=False)
    + frame(9, b"between")
    + frame(CONTINUATION, PING_CALL[HALF:])
    + frame(TEXT, message("ping", {"_meta": {"x": "y" * 200}}, id=2))
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ServerProcess(str(Path(__file__).with_name("counter.py")), "--max-message-bytes", "100000") as process:
        yield process.site
        assert "Traceback" not in "".join(process.stderr_lines)


@asynccontextmanager
async def open_websocket(site: Site) -> AsyncIterator[RawConnection]:
    async with site.connect() as link:
        await link.send(OPENING)
        assert (await link.read_head())[0] == 101
        yield link


def unmask(sent: bytes) -> bytes:
    """Make an unmasked frame of a short masked one."""
    return sent[:1] + bytes([sent[1] & 0x7F]) + sent[6:]


VIOLATIONS = [
    ("unmasked", unmask(frame(TEXT, PING_CALL)), {1002}),
    ("reserved bit", frame(0x40 | TEXT, PING_CALL), {1002}),
    ("reserved opcode", frame(3, b""), {1002}),
    ("reserved control opcode", frame(11, b""), {1002}),
    ("long ping", frame(9, b"x" * 126), {1002}),
    ("long close", frame(8, b"\x03\xe8" + b"x" * 124), {1002}),
    ("fragmented ping", frame(9, b"", is_last=False), {1002}),
    ("fragmented close", frame(8, b"", is_last=False), {1002}),
    ("continuation of nothing", frame(CONTINUATION, b""), {1002}),
    ("message within a message", frame(TEXT, b"{", is_last=False) + frame(TEXT, b"}"), {1002}),
    ("text that is not UTF-8", frame(TEXT, b"\xff"), {1007}),
    ("fragments that are not UTF-8", frame(TEXT, b"\xc3", is_last=False) + frame(CONTINUATION, b"("), {1007}),
    ("surrogate", frame(TEXT, b"\xed\xa0\x80"), {1007}),
    ("length with the highest bit", b"\x81\xff" + b"\xff" * 8 + bytes(4), {1002, 1009}),
    ("length of 1 TB", b"\x81\xff" + (10**12).to_bytes(8) + bytes(4), {1009}),
    ("large message", frame(TEXT, b"x" * 100_001), {1009}),
    ("large fragments", frame(TEXT, b"x" * 60_000, is_last=False) + frame(CONTINUATION, b"x" * 60_000), {1009}),
    ("close with half a code", frame(8, b"\x03"), {1002}),
    ("close with a reserved code", frame(8, b"\x03\xed"), {1002}),
    ("close with an unknown code", frame(8, b"\x00\x01"), {1002}),
    ("close with a reason that is not UTF-8", frame(8, b"\x03\xe8\xff"), {1002, 1007}),
    ("HTTP", request(b"GET /health HTTP/1.1", HOST), {1002}),
]


@pytest.mark.parametrize(("sent", "codes"), [row[1:] for row in VIOLATIONS], ids=[row[0] for row in VIOLATIONS])
async def test_a_violation_of_the_protocol_closes_only_its_connection(site: Site, sent: bytes, codes: set[int]) -> None:
    async with open_websocket(site) as other, open_websocket(site) as link:
        await link.send(sent)
        assert await read_close_code(link) in codes
        await other.send(FRAMES)
        assert await next_frame(other) == (PONG, b"between")
        assert json.loads((await next_frame(other))[1])["result"] == {}


async def test_a_close_is_answered_and_nothing_after_it(site: Site) -> None:
    async with open_websocket(site) as link:
        await link.send(frame(8, b"\x03\xe8bye") + FRAMES)
        assert await read_close_code(link) == 1000


async def read_exactly(link: RawConnection, size: int) -> bytes:
    async with asyncio.timeout(60):
        return await link.reader.readexactly(size)


async def test_frames_may_be_cut_at_every_position(site: Site) -> None:
    async with open_websocket(site) as link:
        await link.send(FRAMES)
        whole = b""
        while whole.count(b"jsonrpc") < 2 or not whole.endswith(b"}"):
            whole += await link.reader.read(1000)
        for cut in range(1, len(FRAMES)):
            await link.send(FRAMES[:cut])
            await asyncio.sleep(0)
            await link.send(FRAMES[cut:])
            assert await read_exactly(link, len(whole)) == whole, cut


async def test_an_opening_handshake_may_be_cut_at_every_position(site: Site) -> None:
    for cut in range(1, len(OPENING), 3):
        async with site.connect() as link:
            await link.send(OPENING[:cut])
            await asyncio.sleep(0)
            await link.send(OPENING[cut:])
            status, headers = await link.read_head()
            assert (status, dict(headers)["sec-websocket-accept"]) == (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")


async def test_a_reset_at_every_byte_leaves_nothing() -> None:
    async with run_server() as instance:
        before = await instance.count_resources()
        for end in range(len(OPENING) + len(FRAMES)):
            client = await connect(instance.site.port)
            client.transport.write(OPENING[:end])
            await client.settle(end % 5)
            if end > len(OPENING):
                await wait_until(lambda client=client: client.received)  # type: ignore[misc]
                client.transport.write(FRAMES[: end - len(OPENING)])
                await client.settle(end % 5)
            client.reset()
        await instance.wait_for_count(before)
        assert (await instance.site.get("/health")).status == 200


async def test_a_half_close_at_every_byte_ends_the_connection() -> None:
    async with run_server() as instance:
        before = await instance.count_resources()
        for end in range(0, len(FRAMES), 3):
            client = await connect(instance.site.port)
            client.transport.write(OPENING)
            await wait_until(lambda client=client: client.received)  # type: ignore[misc]
            client.transport.write(FRAMES[:end])
            client.transport.write_eof()
            async with asyncio.timeout(60):
                await client.end
        await instance.wait_for_count(before)


CALL = message("tools/call", {"name": "wait", "arguments": {"name": "door"}})


@pytest.mark.parametrize(
    "invalid",
    [
        frame(TEXT, b"\xff"),
        frame(TEXT, b"\xc3", is_last=False) + frame(CONTINUATION, b"x"),
        frame(CONTINUATION, b"x"),
        frame(0x3, b""),
    ],
    ids=["text", "fragmented text", "continuation", "opcode"],
)
async def test_messages_behind_an_invalid_frame_are_not_served(invalid: bytes) -> None:
    async with run_server() as instance:
        for sent, is_served in ((invalid + frame(TEXT, CALL), False), (frame(TEXT, CALL) + invalid, True)):
            async with open_websocket(instance.site) as link:
                await link.send(sent)
                assert await read_close_code(link) in (1002, 1007)
            await wait_until(lambda: not instance.http.connections)
            assert ("start door" in await instance.history()) == is_served


@pytest.mark.parametrize("head_bytes", [4096, 8191, 8192, 8193])
async def test_frames_behind_a_handshake_are_refused_wherever_it_ends(head_bytes: int) -> None:
    start = request(b"GET /mcp-ws HTTP/1.1", HOST, *HANDSHAKE, b"X: ")
    data = request(b"GET /mcp-ws HTTP/1.1", HOST, *HANDSHAKE, b"X: " + b"y" * (head_bytes - len(start)))
    assert len(data) == head_bytes
    async with run_server(max_head_bytes=32768) as instance:
        for rest, status in ((b"", 101), (frame(TEXT, CALL), 400)):
            async with instance.site.connect() as link:
                await link.send(data + rest)
                assert (await link.read_head())[0] == status


async def test_a_refused_handshake_is_not_cut_while_it_is_read() -> None:
    text = "x" * 20_000_000

    async def refuse(exchange: WebSocketExchange) -> None:
        await exchange.refuse(Refusal(403, text))

    async with run_recording_server(refuse, slow_reader_s=3600) as server:
        client = await server.connect()
        client.transport.pause_reading()
        client.transport.write(request(b"GET /mcp-ws HTTP/1.1", HOST, *HANDSHAKE))
        for _ in range(3):
            await advance_and_settle(2 * bounds.LINGER_TIMEOUT_S)
            await client.settle()
        assert server.connections == 1
        client.transport.resume_reading()
        await client.end
        assert bytes(client.received[-len(text) :]) == text.encode()


async def test_the_time_of_a_message_starts_anew_with_each_message() -> None:
    """Also if every packet ends within a message, as on a slow network."""
    received: list[bytes] = []

    async def serve(exchange: WebSocketExchange) -> None:
        await exchange.accept(None)
        while (data := await exchange.receive()) is not None:
            received.append(data)

    whole = frame(TEXT, PING_CALL)
    async with run_recording_server(serve, body_s=40) as server:
        client = await server.connect()
        client.transport.write(OPENING)
        await client.settle()
        client.transport.write(whole[:HALF])
        for number in range(1, 9):
            await client.settle()
            await advance_and_settle(10)
            client.transport.write(whole[HALF:] + whole[:HALF])
            await wait_until(lambda number=number: len(received) == number or server.cut_off)  # type: ignore[misc]
        assert not server.cut_off
        for _ in range(5):  # the last message stays unfinished
            await advance_and_settle(10)
        assert dict(server.cut_off) == {"unfinished_message": 1}
