"""Mutated input through real sockets and pipes: HTTP requests, and message streams on stdio."""

import asyncio
import json
import sys
from pathlib import Path
from random import Random

from tests.fuzz.endpoints import decode_messages
from tests.fuzz.mutation import change_bytes, echo_call, random_message
from tests.fuzz.server import make_server
from tests.http.in_process_server import run_server

from hubbub.protocol.framing import Framer, encode_frame, encode_line

ROOT = Path(__file__).parents[2]
SERVE = "from tests.fuzz.server import make_server; from hubbub import run; run(make_server())"
INPUTS_PER_PROCESS = 2000
CONCURRENT_REQUESTS = 20
TIMEOUT_S = 60.0
_LAST_ID = "the last one"


# -- sockets ------------------------------------------------------------------------


def raw_request(rng: Random) -> bytes:
    """Return the bytes of one mutated HTTP request."""
    body = random_message(rng)
    method = rng.choice(["POST", "GET", "DELETE", "OPTIONS"])
    head = f"{method} {rng.choice(['/mcp', '/sse', '/health', '/mcp-ws'])} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += "Content-Type: application/json\r\nAccept: application/json\r\n"
    if rng.random() < 0.2:
        head += "Transfer-Encoding: chunked\r\n"
        body = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    else:
        head += f"Content-Length: {len(body)}\r\n"
    if rng.random() < 0.1:
        head += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n"
    head += "Connection: close\r\n\r\n" if rng.random() < 0.9 else "\r\n"
    damaged = change_bytes(rng, head.encode())
    return (damaged if rng.random() < 0.8 else head.encode()) + body


async def sockets(rng: Random, count: int) -> None:
    """Send requests on separate connections, some of them concurrently."""
    async with run_server(make_server()) as here:
        for start in range(0, count, CONCURRENT_REQUESTS):
            requests = [raw_request(rng) for _ in range(min(CONCURRENT_REQUESTS, count - start))]
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.gather(*(_send(here.site.port, data) for data in requests))
        assert (await here.site.get("/health")).status == 200
        assert (await here.site.post(echo_call(_LAST_ID))).json["id"] == _LAST_ID
        assert len(here.server.rounds) == len(here.server.broadcaster.subscription_shares) == 0


async def _send(port: int, data: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        writer.write_eof()
        answer = await reader.read(-1)
        assert answer[:9] in (b"", b"HTTP/1.1 "), (data, answer)
    except ConnectionError:
        return  # the server closed first
    finally:
        writer.close()


# -- stdio --------------------------------------------------------------------------


async def stdio(rng: Random, count: int) -> None:
    """Run processes that must read mutated streams to the end, answer the last call and exit with code 0."""
    for start in range(0, count, INPUTS_PER_PROCESS):
        inputs = [_random_frame(rng) for _ in range(min(INPUTS_PER_PROCESS, count - start))]
        await _fuzz_process(b"".join(inputs))


def _random_frame(rng: Random) -> bytes:
    # A client request would delay the end, and a mutated frame length may include all that follows.
    message = random_message(rng).replace(b"\n", b" ").replace(b"\r", b" ").replace(b"declared", b"echo")
    if rng.random() < 0.3:
        return encode_frame(message)
    return encode_line(message.replace(b"Content-Length", b"Content-Lines"))


async def _fuzz_process(stream: bytes) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVE,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    last = encode_line(json.dumps(echo_call(_LAST_ID)).encode())
    async with asyncio.timeout(TIMEOUT_S):
        output, errors = await process.communicate(stream + b"\n" + last)
    assert process.returncode == 0, errors
    assert b"Traceback" not in errors, errors
    framer = Framer()
    answers = [*framer.feed(output), *framer.finish()]
    assert all(isinstance(item, bytes) for item in answers)
    ids = [message.get("id") for item in answers if isinstance(item, bytes) for message in decode_messages(item)]
    assert _LAST_ID in ids


PROCESSES = {"sockets": sockets, "stdio": stdio}
