"""A client transport in memory that sends any bytes, including invalid ones, and stores what it receives."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Self

from hubbub import Server
from hubbub.ports import ConnectionHandler


class RawTransport:
    """Options are those of `hubbub.ports.Connect`.

    async with RawLink(server) as link:
        link.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        answer = await link.receive()
    """

    duplex: ConnectionHandler

    def __init__(self, server: Server, **options: Any) -> None:
        self.server = server
        self._options = options
        self._received: asyncio.Queue[bytes] = asyncio.Queue()
        self._stack = AsyncExitStack()

    def send(self, message: bytes) -> None:
        self.duplex.receive(message)

    async def receive(self, timeout_s: float = 60.0) -> bytes:
        async with asyncio.timeout(timeout_s):
            return await self._received.get()

    def pending_count(self) -> int:
        """Number of messages that have arrived but were not yet received."""
        return self._received.qsize()

    async def finish(self) -> None:
        """End the input; running calls are still answered."""
        await self.duplex.finish()

    async def stop_server(self) -> None:
        """Stop the server, unless others use it; the connection stays open."""
        await self._stack.aclose()

    async def drained(self) -> None:
        """Return at once: a queue in memory has no backpressure."""

    async def __aenter__(self) -> Self:
        connect = await self._stack.enter_async_context(self.server.in_memory())
        self.duplex = connect(self._received.put_nowait, self.drained, **self._options)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.duplex.close()
        await self._stack.aclose()
