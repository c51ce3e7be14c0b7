"""A queue of messages that another task writes to a client: ordered, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from hubbub.errors import ConnectionClosed


class MessageQueue:
    """`put` never waits. If a client leaves too many bytes unread, the queue is closed."""

    def __init__(self, limit: int, on_overflow: Callable[[], None]) -> None:
        self._limit = limit
        self._on_overflow = on_overflow
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_closed = False
        self.reason = 0
        """Close reason, a number that the caller of `close` defines; 0: none."""

    def put(self, message: bytes) -> None:
        """Add a message; close the queue if it has too many bytes then."""
        if self._is_closed:
            return
        self._messages.append(message)
        self._bytes += len(message)
        if self._bytes > self._limit // 2:
            self._has_room.clear()
        if self._bytes > self._limit:
            self.close()
            self._on_overflow()
        self._changed.set()

    async def get(self) -> bytes:
        """Return the next message.

        Raises:
            ConnectionClosed: the queue is closed and empty.
        """
        while not self._messages:
            if self._is_closed:
                raise ConnectionClosed("The connection is closed")
            self._changed.clear()
            await self._changed.wait()
        message = self._messages.popleft()
        self._bytes -= len(message)
        if self._bytes <= self._limit // 2:
            self._has_room.set()
        return message

    async def drain(self) -> None:
        """Wait while the client does not read."""
        await self._has_room.wait()

    def close(self, reason: int = 0) -> None:
        """Accept no more messages."""
        self._is_closed = True
        self.reason = self.reason or reason
        self._has_room.set()
        self._changed.set()
