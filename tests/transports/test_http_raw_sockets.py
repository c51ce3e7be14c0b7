"""Bytes that no HTTP library would send, to a server process: upgrades, trailers, large bodies, pipelining.

They use only sockets, so that they apply to any HTTP server that we may use.
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from tests.http.raw_http import JSON, TIMEOUT_S, RawConnection, Site, call, head, request
from tests.http.server_process import PLAYGROUND, ServerProcess, memory_mib

from hubbub.security.api_keys import append_record, generate_key

HOST = {"Host": "127.0.0.1"}
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket"}
HANDSHAKE = {"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
H2C = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQAoAAAAAIAAAAA"}
PING = json.dumps(request("ping")).encode()
HEALTH = head("GET", "/health", HOST)
LIMIT = 100_000


@pytest.fixture(scope="module")
def process() -> Iterator[ServerProcess]:
    with ServerProcess(str(PLAYGROUND), "--max-message-bytes", str(LIMIT), "--log-level", "info") as process:
        yield process
        assert "Traceback" not in "".join(process.stderr_lines)


@pytest.fixture(scope="module")
def site(process: ServerProcess) -> Site:
    return process.site


async def read_rest(link: RawConnection) -> bytes:
    """Read until the server closes; a reset counts as the end, because our last bytes may have come after it."""
    found = b""
    async with asyncio.timeout(TIMEOUT_S):
        with suppress(ConnectionResetError):
            while piece := await link.reader.read(65536):
                found += piece
    return found


# -- upgrades --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"Content-Length": "5"},
        {"Content-Length": "00"},
        {"Content-Length": "5", **HANDSHAKE},
        {"Transfer-Encoding": "chunked", **HANDSHAKE},
        {"X-Long": "x" * 70_000, **HANDSHAKE},
        {"Sec-WebSocket-Key": "x" * 9000, "Sec-WebSocket-Version": "13"},
        {},
    ],
    ids=["length", "zero twice", "length and key", "chunked", "long header", "long key", "no key"],
)
async def test_an_invalid_websocket_handshake_is_refused_and_closed(site: Site, fields: dict[str, str]) -> None:
    async with site.connect() as link:
        await link.send(head("GET", "/mcp-ws", HOST | UPGRADE | fields))
        status, headers = await link.read_head()
        assert status == (431 if "X-Long" in fields else 400)
        assert ("x-mcp-version", "1.0.0") in headers
        assert b"HTTP/1.1 " not in await read_rest(link)


@pytest.mark.parametrize(
    ("target", "fields"),
    [
        ("/mcp-ws", {"Cookie": "x" * 60_000}),
        ("/mcp-ws", {f"X-{number}": "x" for number in range(1000)}),
        ("/mcp-ws?" + "x" * 60_000, {}),
    ],
    ids=["long header", "many headers", "long target"],
)
async def test_a_websocket_handshake_may_be_as_large_as_any_head(
    site: Site, target: str, fields: dict[str, str]
) -> None:
    async with site.connect() as link:
        await link.send(head("GET", target, HOST | UPGRADE | HANDSHAKE | fields))
        assert (await link.read_head())[0] == 101


async def test_a_websocket_handshake_may_have_a_content_length_of_zero(site: Site) -> None:
    async with site.connect() as link:
        await link.send(head("GET", "/mcp-ws", HOST | UPGRADE | HANDSHAKE | {"Content-Length": "0"}))
        assert (await link.read_head())[0] == 101


async def test_refused_handshakes_do_not_affect_the_shutdown() -> None:
    with ServerProcess(str(PLAYGROUND), "--drain-s", "600") as process:
        site = process.site
        async with site.connect() as first, site.connect() as second:
            await first.send(head("GET", "/mcp-ws", HOST | UPGRADE | {"Content-Length": "5"}))
            await second.send(head("GET", "/mcp-ws", HOST | UPGRADE | {"Sec-WebSocket-Key": "x" * 9000}))
            running = asyncio.create_task(site.post(call("nap", {"seconds": 1.5})))
            async with asyncio.timeout(TIMEOUT_S):
                while b"start a" not in (await site.post(call("history"))).body:
                    await asyncio.sleep(0.02)
            process.signal()
            assert (await running).json["result"]["content"][0]["text"] == "rested"
            assert process.wait() == 0
        assert "Traceback" not in "".join(process.stderr_lines)


@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_request_with_an_unsupported_upgrade_is_served_and_closes_the_connection(
    site: Site, is_chunked: bool, in_pieces: bool
) -> None:
    framing = {"Transfer-Encoding": "chunked"} if is_chunked else {"Content-Length": str(len(PING))}
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(PING), PING) if is_chunked else PING
    async with site.connect() as link:
        parts = [head("POST", "/mcp", HOST | JSON | H2C | framing), body, HEALTH]
        for part in parts if in_pieces else [b"".join(parts)]:
            await link.send(part)
            await asyncio.sleep(0)
        answer = await link.read_response()
        assert (answer.json["result"], answer.header("connection")) == ({}, "close")
        assert await read_rest(link) == b""


@pytest.mark.parametrize("protocol", ["h2c", "websocket, h2c", "TLS/1.0"])
async def test_the_body_of_an_upgrade_request_is_never_parsed_as_a_request(site: Site, protocol: str) -> None:
    async with site.connect() as link:
        fields = HOST | JSON | H2C | {"Upgrade": protocol, "Content-Length": str(len(HEALTH))}
        await link.send(head("POST", "/mcp", fields))
        await link.send(HEALTH)
        answer = await link.read_response()
        assert (answer.status, answer.code) == (400, -32700)
        assert await read_rest(link) == b""


async def test_an_upgrade_request_without_a_body_closes_the_connection(site: Site) -> None:
    async with site.connect() as link:
        await link.send(head("GET", "/health", HOST | H2C) + HEALTH)
        await link.send(HEALTH)
        answer = await link.read_response()
        assert (answer.json["status"], answer.header("connection")) == ("healthy", "close")
        assert await read_rest(link) == b""


# -- log flooding ----------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        head("GET", "/mcp-ws", HOST | UPGRADE | {"Content-Length": "5"}),
        head("GET", "/mcp-ws", HOST | UPGRADE | {"Sec-WebSocket-Key": "x" * 9000}),
        head("GET", "/health", HOST | H2C),
        head("GET", "/nowhere", HOST | {"Connection": "close"}),
        head("GET", "/health", {"Host": "evil.example", "Connection": "close"}),
    ],
    ids=["malformed", "handshake", "long key", "upgrade", "path", "host"],
)
async def test_invalid_requests_do_not_flood_the_log(sent: bytes) -> None:
    with ServerProcess(str(PLAYGROUND), "--log-level", "info") as process:
        for _ in range(150):
            async with process.site.connect() as link:
                await link.send(sent)
                assert (await read_rest(link)).startswith(b"HTTP/1.1 ")
        process.signal()
        assert process.wait() == 0
        assert len(process.stderr_lines) < 120


# -- trailers --------------------------------------------------------------------------------


def chunked_request(body: bytes, trailers: bytes) -> bytes:
    fields = HOST | JSON | {"Transfer-Encoding": "chunked"}
    return head("POST", "/mcp", fields) + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailers)


async def test_a_key_in_a_trailer_does_not_authenticate(tmp_path: Path) -> None:
    key, record = generate_key("ada")
    append_record(tmp_path / "keys.toml", record)
    with ServerProcess(str(PLAYGROUND), "--key-file", str(tmp_path / "keys.toml")) as process:
        async with process.site.connect() as link:
            await link.send(chunked_request(PING, b"X-API-Key: %b\r\n" % key.encode()))
            assert (await link.read_response()).status == 401
        assert (await process.site.post(request("ping"), {"X-API-Key": key})).status == 200


async def test_a_forwarded_address_in_a_trailer_does_not_evade_a_limit() -> None:
    with ServerProcess(str(PLAYGROUND), "--proxied-by", "127.0.0.1", "--limit", "mcp=2/minute") as process:
        statuses = []
        for number in range(3):
            async with process.site.connect() as link:
                await link.send(chunked_request(PING, b"X-Forwarded-For: 198.51.100.%d\r\n" % number))
                statuses.append((await link.read_response()).status)
        assert statuses == [200, 200, 429]


async def test_trailers_are_dropped_and_the_connection_stays_open(site: Site) -> None:
    async with site.connect() as link:
        await link.send(
            chunked_request(PING, b"Host: evil.example\r\nOrigin: https://evil.example\r\nMcp-Session-Id: x\r\n")
        )
        assert (await link.read_response()).json["result"] == {}
        await link.send(HEALTH)
        assert (await link.read_response()).status == 200


@pytest.mark.parametrize("line", [b"X: yyyyyyyyyyyyyyyyyy\r\n", b"X-%b: y\r\n" % (b"x" * 9000)], ids=["short", "long"])
async def test_endless_trailers_close_the_connection(site: Site, line: bytes) -> None:
    async with site.connect() as link:
        await link.send(chunked_request(PING, b"")[:-2])
        reading = asyncio.create_task(read_rest(link))
        with pytest.raises(ConnectionError):
            await send_repeatedly(link, line, 20_000_000 // len(line))
        await asyncio.gather(reading, return_exceptions=True)
    assert (await site.get("/health")).status == 200


async def send_repeatedly(link: RawConnection, data: bytes, times: int) -> None:
    for _ in range(times):
        await link.send(data)


# -- responses to clients that are still sending -----------------------------------------------------------


@pytest.mark.parametrize("connection", ["close", "keep-alive"])
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_client_with_a_too_large_body_receives_413_while_sending(
    site: Site, connection: str, is_chunked: bool
) -> None:
    size = 8_000_000
    framing = {"Transfer-Encoding": "chunked"} if is_chunked else {"Content-Length": str(size)}
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size) if is_chunked else b"x" * size
    async with site.connect() as link:
        await link.send(head("POST", "/mcp", HOST | JSON | framing | {"Connection": connection}) + body)
        answer = await link.read_response()
        assert (answer.status, answer.json["jsonrpc"]) == (413, "2.0")
        if connection == "close":
            assert await read_rest(link) == b""
        else:
            await link.send(HEALTH)
            assert (await link.read_response()).status == 200


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (head("POST", "/nowhere", HOST | JSON | {"Content-Length": "8000000", "Connection": "close"}), 404),
        (head("POST", "/mcp", {"Host": "evil.example", "Content-Length": "8000000", "Connection": "close"}), 403),
        (head("POST", "/mcp", HOST | {"Content-Length": "x"}), 400),
        (head("GET", "/health", HOST | {"X-Large": "x" * 70_000}), 431),
    ],
    ids=["path", "host", "malformed", "large head"],
)
async def test_a_client_with_a_large_body_receives_every_other_refusal(site: Site, start: bytes, status: int) -> None:
    async with site.connect() as link:
        await link.send(start + b"x" * 8_000_000)
        assert (await link.read_response()).status == status
        assert await read_rest(link) == b""


async def test_the_rest_of_a_refused_request_is_read_for_a_limited_time(site: Site) -> None:
    async with site.connect() as link:
        await link.send(head("POST", "/mcp", HOST | JSON | {"Content-Length": str(10**12), "Connection": "close"}))
        assert (await link.read_response()).status == 413
        with pytest.raises(ConnectionError):
            await send_repeatedly(link, b"x" * 1_000_000, 1000)


# -- many connections of one address -----------------------------------------------------------


@pytest.mark.skipif(sys.platform == "darwin", reason="it has only one loopback address")
@pytest.mark.parametrize(
    "start",
    [b"GET /he", HEALTH, head("GET", "/mcp-ws", HOST | UPGRADE | HANDSHAKE)],
    ids=["unfinished head", "idle", "websocket"],
)
async def test_connections_of_one_address_are_limited(start: bytes) -> None:
    limit, share = 32, 28
    with ServerProcess(str(PLAYGROUND), "--max-connections", str(limit), "--head-s", "600") as process:
        other_address = Site(process.site.port, "127.0.0.2")
        async with AsyncExitStack() as stack:
            for _ in range(share):
                link = await stack.enter_async_context(other_address.connect())
                await link.send(start)
                if start.endswith(b"\r\n\r\n"):
                    assert (await link.read_head())[0] in (101, 200)
            for _ in range(2 * limit):
                link = await stack.enter_async_context(other_address.connect())
                assert (await link.read_response()).status == 503
                assert await read_rest(link) == b""
            for _ in range(3):
                link = await stack.enter_async_context(process.site.connect())
                await link.send(HEALTH)
                assert (await link.read_response()).status == 200
        async with AsyncExitStack() as stack, asyncio.timeout(TIMEOUT_S):
            kept = 0
            while kept < share:  # the share is free again as soon as the server has noticed the closed connections
                link = await stack.enter_async_context(other_address.connect())
                await link.send(HEALTH)
                kept += (await link.read_response()).status == 200
        assert "Traceback" not in "".join(process.stderr_lines)


# -- many requests at once ---------------------------------------------------------------------


async def test_a_connection_may_pipeline_a_few_requests(site: Site) -> None:
    async with site.connect() as link:
        await link.send(HEALTH * 50)
        assert [(await link.read_response()).status for _ in range(50)] == [200] * 50


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_a_connection_that_pipelines_too_many_requests_is_closed(process: ServerProcess, site: Site) -> None:
    before = memory_mib(process)
    async with site.connect() as link:
        reading = asyncio.create_task(read_rest(link))
        with pytest.raises(ConnectionError):
            await send_repeatedly(link, HEALTH * 1000, 1000)
        await asyncio.gather(reading, return_exceptions=True)
    assert memory_mib(process) < before + 30


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_the_unfinished_bodies_of_all_connections_are_bounded(is_chunked: bool) -> None:
    size, part = 4_000_000, b"x" * 3_500_000
    framing = {"Transfer-Encoding": "chunked"} if is_chunked else {"Content-Length": str(size)}
    start = head("POST", "/mcp", HOST | JSON | framing) + (b"%x\r\n" % size if is_chunked else b"") + part
    with ServerProcess(str(PLAYGROUND), "--body-s", "600") as process:
        before = memory_mib(process)
        async with process.site.connect(local_addr=("127.0.0.2", 0)) as other, AsyncExitStack() as stack:
            await other.send(head("POST", "/mcp", HOST | JSON | {"Content-Length": str(len(PING))}) + PING[:-1])
            links = [await stack.enter_async_context(process.site.connect()) for _ in range(40)]
            lost = [asyncio.create_task(link.reader.read()) for link in links]
            for link in links:
                await link.send(start)
            done, kept = await asyncio.wait(lost, return_when=asyncio.FIRST_COMPLETED, timeout=TIMEOUT_S)
            assert done
            assert memory_mib(process) < before + 200
            for one in kept:
                one.cancel()
            await asyncio.gather(*lost, return_exceptions=True)
            await other.send(PING[-1:])
            assert (await other.read_response()).json["result"] == {}
