"""WebSocket frames that no library would send, to a server process: unfinished messages, pings with unread pongs.

They use only sockets, so that they apply to any HTTP server that we may use.
"""

import asyncio
import json
import socket
import struct
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from tests.http.raw_http import TIMEOUT_S, RawConnection, Site, head, request
from tests.http.server_process import PLAYGROUND, ServerProcess, memory_mib

HANDSHAKE = {
    "Host": "127.0.0.1",
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
CONTINUATION, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
MIB = 1024 * 1024
PING_MESSAGE = json.dumps(request("ping")).encode()
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


@pytest.fixture(scope="module")
def process() -> Iterator[ServerProcess]:
    with ServerProcess(str(PLAYGROUND), "--body-s", "600", "--slow-reader-s", "600") as process:
        yield process
        assert "Traceback" not in "".join(process.stderr_lines)


@pytest.fixture(scope="module")
def site(process: ServerProcess) -> Site:
    return process.site


def frame(kind: int, data: bytes, *, is_last: bool = True) -> bytes:
    """Encode a frame of a client, masked with zeros."""
    start = bytes([(0x80 if is_last else 0) | kind])
    if len(data) < 126:
        return start + bytes([0x80 | len(data)]) + bytes(4) + data
    if len(data) < 65536:
        return start + b"\xfe" + struct.pack("!H", len(data)) + bytes(4) + data
    return start + b"\xff" + struct.pack("!Q", len(data)) + bytes(4) + data


async def next_frame(link: RawConnection) -> tuple[int, bytes]:
    """Return opcode and data of the server's next frame."""
    async with asyncio.timeout(TIMEOUT_S):
        first, size = await link.reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await link.reader.readexactly(2))
        return first & 0x0F, await link.reader.readexactly(size)


async def read_close_code(link: RawConnection) -> int:
    """Return the server's close code; check that the connection ends."""
    kind, data = await next_frame(link)
    assert kind == CLOSE, (kind, data)
    async with asyncio.timeout(TIMEOUT_S):
        assert await link.reader.read() == b""
    return int.from_bytes(data[:2])


@asynccontextmanager
async def open_websocket(site: Site, **options: Any) -> AsyncIterator[RawConnection]:
    async with site.connect(**options) as link:
        await link.send(head("GET", "/mcp-ws", HANDSHAKE))
        assert (await link.read_head())[0] == 101
        yield link


# -- unfinished messages ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "start",
    [
        b"\x81",
        frame(TEXT, PING_MESSAGE)[:-1],
        frame(TEXT, PING_MESSAGE, is_last=False),
        frame(TEXT, b"", is_last=False),
        frame(TEXT, b"{", is_last=False) + frame(PING, b"x") + frame(CONTINUATION, b"", is_last=False) * 1000,
        frame(TEXT, PING_MESSAGE) + frame(TEXT, b"{", is_last=False),
    ],
    ids=["header", "frame", "fragment", "empty fragment", "many fragments", "second message"],
)
async def test_an_unfinished_message_times_out_and_closes_the_connection(start: bytes) -> None:
    with ServerProcess(str(PLAYGROUND), "--body-s", "0.5") as process:
        async with open_websocket(process.site) as link:
            await link.send(start)
            async with asyncio.timeout(TIMEOUT_S):
                while (received := await next_frame(link))[0] != CLOSE:
                    pass
            assert received[1] == b"\x03\xf0The message took longer than 0.5 s (body_s)"
        async with open_websocket(process.site) as link:
            await link.send(frame(TEXT, PING_MESSAGE))
            assert json.loads((await next_frame(link))[1])["result"] == {}


async def test_an_idle_connection_has_no_unfinished_message() -> None:
    with ServerProcess(str(PLAYGROUND), "--body-s", "0.5") as process:
        async with open_websocket(process.site) as idle, open_websocket(process.site) as unfinished:
            await unfinished.send(frame(TEXT, PING_MESSAGE)[:-1])
            assert await read_close_code(unfinished) == 1008
            await idle.send(frame(TEXT, PING_MESSAGE))
            assert json.loads((await next_frame(idle))[1])["result"] == {}


@needs_proc
async def test_unfinished_messages_of_all_connections_are_bounded_and_freed(process: ServerProcess, site: Site) -> None:
    before = memory_mib(process)
    piece = b"x" * (3 * MIB + 512 * 1024)
    half = json.dumps(request("echo", {"text": "y" * MIB})).encode()
    async with open_websocket(site, local_addr=("127.0.0.2", 0)) as other:
        await other.send(frame(TEXT, half)[:-1])
        for _ in range(4):
            async with AsyncExitStack() as stack:
                links = [await stack.enter_async_context(open_websocket(site)) for _ in range(40)]
                for number, link in enumerate(links):
                    whole = frame(TEXT, piece, is_last=False)
                    await link.send(whole if number % 2 else whole[:-1])
                assert memory_mib(process) < before + 120
                # One client is over the limit, so it loses connections; which of its own does not matter.
                lost = [asyncio.create_task(link.reader.readexactly(4)) for link in links]
                await asyncio.wait(lost, return_when=asyncio.FIRST_COMPLETED, timeout=TIMEOUT_S)
                assert {one.result()[2:] for one in lost if one.done()} == {b"\x03\xf0"}
                for one in lost:
                    one.cancel()
        assert memory_mib(process) < before + 120
        await other.send(half[-1:])
        kind, data = await read_frame_start(other)
        assert kind == TEXT
        assert b'"id":1' in data


async def read_frame_start(link: RawConnection) -> tuple[int, bytes]:
    """Read only the beginning of the next frame."""
    async with asyncio.timeout(TIMEOUT_S):
        first, _ = await link.reader.readexactly(2)
        return first & 0x0F, await link.reader.readexactly(200)


@pytest.mark.parametrize("size", [0, 1])
@needs_proc
async def test_many_small_fragments_use_memory_in_proportion_to_their_size(
    process: ServerProcess, site: Site, size: int
) -> None:
    before = memory_mib(process)
    async with open_websocket(site) as link:
        await link.send(frame(TEXT, b" ", is_last=False))
        for _ in range(20):
            await link.send(frame(CONTINUATION, b" " * size, is_last=False) * 10_000)
        await link.send(frame(PING, b"all read"))
        assert await next_frame(link) == (PONG, b"all read")
        assert memory_mib(process) < before + 8
        await link.send(frame(CONTINUATION, PING_MESSAGE))
        assert json.loads((await next_frame(link))[1])["result"] == {}


async def test_a_message_in_fragments_may_be_interrupted_by_pings(site: Site) -> None:
    async with open_websocket(site) as link:
        await link.send(frame(TEXT, PING_MESSAGE[:5], is_last=False) + frame(PING, b"1"))
        await link.send(frame(CONTINUATION, PING_MESSAGE[5:9], is_last=False) + frame(PING, b"2"))
        await link.send(frame(CONTINUATION, PING_MESSAGE[9:]))
        assert [await next_frame(link), await next_frame(link)] == [(PONG, b"1"), (PONG, b"2")]
        assert json.loads((await next_frame(link))[1])["result"] == {}


# -- too large, too early --------------------------------------------------------------------


@pytest.mark.parametrize("is_fragmented", [False, True])
async def test_a_client_that_is_still_sending_receives_the_reason_for_a_too_large_message(
    site: Site, is_fragmented: bool
) -> None:
    half = b"x" * (2 * MIB + 1)
    parts = [frame(TEXT, half, is_last=False), frame(CONTINUATION, half)] if is_fragmented else [frame(TEXT, half * 4)]
    async with open_websocket(site) as link:
        for part in parts:
            await link.send(part)
        assert await read_close_code(link) == 1009


async def test_a_message_in_one_write_with_the_handshake_is_refused(site: Site) -> None:
    async with site.connect() as link:
        await link.send(head("GET", "/mcp-ws", HANDSHAKE) + frame(TEXT, PING_MESSAGE))
        assert (await link.read_response()).status == 400


@pytest.mark.parametrize("path", ["/mcp-ws", "/nowhere"])
async def test_garbage_before_the_handshake_response_affects_no_other_connection(site: Site, path: str) -> None:
    for _ in range(20):
        async with site.connect() as link:
            await link.send(head("GET", path, HANDSHAKE))
            await asyncio.sleep(0)
            await link.send(b"\xff" * 100)
            assert (await link.read_head())[0] in (101, 400, 404)
    assert (await site.get("/health")).status == 200


# -- pings -----------------------------------------------------------------------------------


async def test_only_the_last_ping_of_a_client_that_does_not_read_is_answered(site: Site) -> None:
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    narrow.setblocking(False)
    await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", site.port))
    reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)
    link = RawConnection(reader, writer)
    await link.send(head("GET", "/mcp-ws", HANDSHAKE))
    assert (await link.read_head())[0] == 101
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    sent = 100_000
    for _ in range(sent // 1000):
        await link.send(frame(PING, b"x" * 125) * 1000)
    await link.send(frame(PING, b"last"))
    writer.transport.resume_reading()  # type: ignore[attr-defined]
    received = 0
    while await next_frame(link) != (PONG, b"last"):
        received += 1
    assert received < sent / 2
    link.abort()
