"""The memory transport: both ends in one process, a message is a function call."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from hubbub.ports import Connect


class MemoryLink:
    """A client's end of a connection that never leaves the process.

    async with MemoryLink(connect) as link:
        link.send(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
        answer = await link.receive()
    """

    def __init__(self, connect: Connect) -> None:
        self._arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self._duplex = connect(self._arrived.put_nowait, self._drained)

    def send(self, message: bytes) -> None:
        """Give the server one message."""
        self._duplex.receive(message)

    async def receive(self, timeout_s: float = 10.0) -> bytes:
        """The next message from the server."""
        async with asyncio.timeout(timeout_s):
            return await self._arrived.get()

    def waiting(self) -> int:
        """How many messages have arrived and were not yet received."""
        return self._arrived.qsize()

    async def finish(self) -> None:
        """Send nothing more; what runs is still answered."""
        await self._duplex.finish()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._duplex.close()

    async def _drained(self) -> None:
        """A queue in memory is never slow."""
