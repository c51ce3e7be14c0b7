"""A client that sends bytes in chosen pieces, and returns everything that the server sent."""

import asyncio
import fcntl
import re
import socket
import struct
import sys
import termios
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar, cast

from tests.clock import AdjustableClockLoop
from tests.http.raw_http import TIMEOUT_S

T = TypeVar("T")
QUIET_ITERATIONS = 40
"""Iterations of the loop without new data, after which a server has answered what it will answer."""
STUCK_ITERATIONS = 3000
"""The same while sent bytes have not arrived, because the server does not read."""
_DATE = re.compile(rb"date: [^\r]*\r\n", re.IGNORECASE)
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Received(NamedTuple):
    """What came back on one connection."""

    data: bytes
    is_closed: bool
    """Whether the server closed the connection by itself."""

    @property
    def answers(self) -> bytes:
        """The responses without what may differ: dates, and whether `100 Continue` came before the body."""
        return _DATE.sub(b"", self.data.replace(_CONTINUE, b""))


class ByteClient(asyncio.Protocol):
    """Collects what the server sends."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        if not self.end.done():
            self.end.set_result(None)

    @property
    def socket(self) -> Any:
        return self.transport.get_extra_info("socket")

    def count_unacknowledged(self) -> int:
        """Return how many sent bytes have not arrived at the other end yet, where the system can say it."""
        if sys.platform != "linux" or self.end.done():
            return 0
        return int(struct.unpack("i", fcntl.ioctl(self.socket.fileno(), termios.TIOCOUTQ, bytes(4)))[0])

    async def settle(self, quiet: int = QUIET_ITERATIONS) -> None:
        """Run the loop until all sent bytes have arrived and nothing comes back any more."""
        state, iterations = (0, 0), 0
        while not self.end.done() and iterations < (STUCK_ITERATIONS if state[1] else quiet):
            await asyncio.sleep(0)
            previous, state = state, (len(self.received), self.count_unacknowledged())
            iterations = iterations + 1 if state == previous else 0

    def reset(self) -> None:
        """Close the connection with a reset instead of an end."""
        if not self.end.done():
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


async def connect(port: int) -> ByteClient:
    _, client = await asyncio.get_running_loop().create_connection(ByteClient, "127.0.0.1", port)
    return client


async def send_pieces(port: int, pieces: Sequence[bytes], quiet: int = 3) -> Received:
    """Send these pieces, each in its own packet; half-close only if the server waits for more.

    Args:
        quiet: Iterations of the loop without new data, after which the next piece is sent.
    """
    client = await connect(port)
    for number, piece in enumerate(pieces):
        if number:
            await client.settle(quiet)
        if client.end.done():
            break
        client.transport.write(piece)
    await client.settle()
    is_closed = client.end.done()
    if not is_closed:
        with suppress(OSError):
            client.transport.write_eof()
    async with asyncio.timeout(TIMEOUT_S):
        await client.end
    client.transport.close()
    return Received(bytes(client.received), is_closed)


class LoopRunner:
    """An event loop in which servers keep running between the examples of a property test."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


def open_loop_runner(
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = AdjustableClockLoop,
) -> Iterator[LoopRunner]:
    """Yield an event loop, for fixtures; nothing may be left open in it."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        yield LoopRunner(runner)
        loop = runner.get_loop()
    if isinstance(loop, AdjustableClockLoop):
        assert not loop.left_open, f"left open: {loop.left_open}"
