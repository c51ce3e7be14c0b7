"""The generator for HTTP: keep-alive connections, each with one request in flight, raw on uvloop.

It validates responses as little as possible, or it would measure itself: `check` parses one
as JSON; the others must be complete, have status 200 and contain the text.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.messages import FIRST_ID, TEXT, CallForm
from bench.process import ServerProcess

HOST = "127.0.0.1"
_START_S = 60
_RETRY_S = 0.002  # short, because a start is measured with it
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
_MESSAGE = re.compile(rb"\{.*\}", re.DOTALL)


@dataclass(frozen=True)
class Flow:
    """Result of a series of calls."""

    times: list[float]
    wall_s: float
    server_cpu_s: float
    generator_cpu_s: float


class Connection(asyncio.Protocol):
    """One connection with one request in flight."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._received = b""
        self._take: Callable[[bytes], None] = self._refuse
        self._done: asyncio.Future[bytes] | None = None

    async def ask(self, request: bytes) -> bytes:
        """Send one request and return the response, head and body."""
        if self._transport.is_closing():
            raise self._server.make_error("it has closed a connection")
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._done, self._take = done, done.set_result
        self._transport.write(request)
        return await done

    async def check(self, form: CallForm) -> None:
        """Call once and validate the response."""
        answer = await self.ask(form.request(FIRST_ID))
        message = _MESSAGE.search(answer)
        found = json.loads(message[0]) if message is not None else {}
        content = found.get("result", {}).get("content")
        if found.get("id") != FIRST_ID or content != [{"type": "text", "text": TEXT.decode()}]:
            raise self._server.make_error(f"a wrong answer: {answer[:400]!r}")

    async def repeat(self, form: CallForm, goes_on: Callable[[], bool]) -> list[float]:
        """Call sequentially and return the duration of each call."""
        times: list[float] = []
        started, identifier = 0.0, FIRST_ID

        def send() -> None:
            nonlocal started, identifier
            identifier += 1
            started = time.perf_counter()
            self._transport.write(form.request(identifier))

        def take(answer: bytes) -> None:
            times.append(time.perf_counter() - started)
            if not answer.startswith(b"HTTP/1.1 200") or TEXT not in answer:
                self._fail(f"a wrong answer: {answer[:400]!r}")
            elif goes_on():
                send()
            elif self._done is not None:
                self._done.set_result(answer)

        done = self._done = asyncio.get_running_loop().create_future()
        self._take = take
        send()
        await done
        return times

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        if is_whole(self._received):
            answer, self._received = self._received, b""
            self._take(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail("it has closed a connection")

    def close(self) -> None:
        self._done = None
        self._transport.close()

    def _refuse(self, answer: bytes) -> None:
        self._fail(f"unexpected response: {answer[:400]!r}")

    def _fail(self, problem: str) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(self._server.make_error(problem))


async def connect(server: ServerProcess, port: int) -> Connection:
    """Open a connection; retry until the server listens."""
    loop, end = asyncio.get_running_loop(), time.monotonic() + _START_S
    while True:
        try:
            _, connection = await loop.create_connection(lambda: Connection(server), HOST, port)
            return connection
        except ConnectionRefusedError:
            if time.monotonic() > end or server.has_ended():
                raise server.make_error(f"it does not listen on port {port}") from None
            await asyncio.sleep(_RETRY_S)


async def check(calling: Iterable[tuple[Connection, CallForm]]) -> None:
    """Call once on each connection and validate the responses."""
    for connection, form in calling:
        await connection.check(form)


async def flow(
    server: ServerProcess, calling: Iterable[tuple[Connection, CallForm]], goes_on: Callable[[], bool]
) -> Flow:
    """Call on all connections concurrently while `goes_on` returns true."""
    cpu_s, own_cpu_s, start = server.cpu_s(), time.process_time(), time.perf_counter()
    found = await asyncio.gather(*(connection.repeat(form, goes_on) for connection, form in calling))
    wall_s, cpu_s, own_cpu_s = time.perf_counter() - start, server.cpu_s() - cpu_s, time.process_time() - own_cpu_s
    return Flow([seconds for times in found for seconds in times], wall_s, cpu_s, own_cpu_s)


def for_seconds(seconds: float) -> Callable[[], bool]:
    """Return a function that is true until this time has passed."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


def wait_for_listener(server: ServerProcess, port: int) -> None:
    """Wait until the server accepts connections."""

    async def main() -> None:
        (await connect(server, port)).close()

    asyncio.run(main())


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def is_whole(answer: bytes) -> bool:
    """Whether these bytes are a complete response."""
    head = answer.find(b"\r\n\r\n")
    if head < 0:
        return False
    length = _LENGTH.search(answer, 0, head)
    if length is not None:
        return len(answer) >= head + 4 + int(length[1])
    return answer.endswith(b"0\r\n\r\n")  # the last chunk; the JSON contains no line breaks
