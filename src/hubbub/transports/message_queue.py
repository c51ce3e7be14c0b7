"""Messages on their way to a client that another task writes: ordered, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from hubbub import bounds
from hubbub.errors import ConnectionClosed


class MessageQueue:
    """Put never waits. A client that lets too much pile up is given up."""

    def __init__(self, limit: int = bounds.OUTBOX_BYTES, overflowed: Callable[[], None] = lambda: None) -> None:
        self._limit = limit
        self._overflowed = overflowed
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False

    def put(self, message: bytes) -> None:
        """Add a message; one too many closes the queue."""
        if self._closed:
            return
        self._messages.append(message)
        self._bytes += len(message)
        if self._bytes > self._limit // 2:
            self._room.clear()
        if self._bytes > self._limit:
            self.close()
            self._overflowed()
        self._changed.set()

    async def get(self) -> bytes:
        """The next message.

        Raises:
            ConnectionClosed: there will be none.
        """
        while not self._messages:
            if self._closed:
                raise ConnectionClosed("The connection is closed")
            self._changed.clear()
            await self._changed.wait()
        message = self._messages.popleft()
        self._bytes -= len(message)
        if self._bytes <= self._limit // 2:
            self._room.set()
        return message

    async def drained(self) -> None:
        """Wait while the client does not read."""
        await self._room.wait()

    def close(self) -> None:
        """Take no more."""
        self._closed = True
        self._room.set()
        self._changed.set()
