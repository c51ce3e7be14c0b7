"""A client's end of a connection in memory that sends any bytes, also wrong ones, and keeps what arrives."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, Self

from hubbub import Server
from hubbub.ports import Duplex


class RawLink:
    """Options are those of `hubbub.ports.Connect`.

    async with RawLink(server) as link:
        link.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        answer = await link.receive()
    """

    duplex: Duplex

    def __init__(self, server: Server, **options: Any) -> None:
        self.server = server
        self._options = options
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._stack = AsyncExitStack()

    def send(self, message: bytes) -> None:
        self.duplex.receive(message)

    async def receive(self, timeout_s: float = 10.0) -> bytes:
        async with asyncio.timeout(timeout_s):
            return await self._arrived.get()

    def waiting(self) -> int:
        """How many messages have arrived and were not yet received."""
        return self._arrived.qsize()

    async def finish(self) -> None:
        """Send nothing more; what runs is still answered."""
        await self.duplex.finish()

    async def stop_server(self) -> None:
        """Stop the server, unless others use it; the connection stays open."""
        await self._stack.aclose()

    async def drained(self) -> None:
        """A queue in memory is never slow."""

    async def __aenter__(self) -> Self:
        connect = await self._stack.enter_async_context(self.server.in_memory())
        self.duplex = connect(self._arrived.put_nowait, self.drained, **self._options)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.duplex.close()
        await self._stack.aclose()
