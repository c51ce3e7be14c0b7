"""Limits on the number, memory and time of the connections of one HTTP server."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

import msgspec

from hubbub.protocol.host_origin import network_prefix
from hubbub.shares import Shares


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of connections, in bytes, seconds and numbers."""

    message_bytes: int
    head_bytes: int
    head_s: float
    body_s: float
    slow_reader_s: float
    connections: int
    drain_s: float
    idle_s: float
    pipelined_requests: int
    unfinished_bytes: int


class ConnectionTable:
    """Counts the open connections of one server and gives each network a share, before callers are authenticated.

    Networks are counted on loopback too. The address of a proxy is counted like any other: it can use seven eighths
    of the table if no other network connects.
    """

    def __init__(self, limit: int) -> None:
        self._shares = Shares(limit)
        self._owners: dict[asyncio.BaseTransport, str] = {}

    def admit(self, transport: asyncio.BaseTransport, address: str) -> bool:
        """Count a new connection, unless its network holds too many."""
        owner = network_prefix(address)
        if not self._shares.has_room(owner):
            return False
        self._shares.take(owner)
        self._owners[transport] = owner
        return True

    def remove(self, transport: asyncio.BaseTransport) -> None:
        """Remove a connection, if it was admitted. A WebSocket has the transport of the request that opened it."""
        owner = self._owners.pop(transport, None)
        if owner is not None:
            self._shares.give_back(owner)


class UnreadOutput:
    """Measures how long a caller has not read its output."""

    __slots__ = ("_bytes", "_since")

    def __init__(self) -> None:
        self._bytes = 0
        self._since = 0.0

    def is_stuck(self, transport: asyncio.Transport, now: float, max_stall_s: float) -> bool:
        """Whether the caller has read nothing for too long."""
        unread_bytes = transport.get_write_buffer_size()
        if unread_bytes < self._bytes or not self._bytes:
            self._since = now
        self._bytes = unread_bytes
        return unread_bytes > 0 and now - self._since > max_stall_s

    def restart(self) -> None:
        """Restart the measurement, because the caller has read enough for more to be written."""
        self._bytes = 0


class Sheddable(Protocol):
    """A connection that can be closed to free memory."""

    def shed(self) -> None:
        """Close it and drop its unfinished message."""


class UnfinishedMessages:
    """Counts the bytes of incomplete HTTP bodies and WebSocket messages over all connections of one server.

    Above the limit, the client with the most such bytes loses the connection with the largest message, so that one
    client cannot use up the limit however many connections it opens. The addresses of one IPv6 network are one
    client, as for rate limits.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes: dict[Sheddable, tuple[str, int]] = {}
        self._total_bytes = 0

    def update(self, connection: Sheddable, address: str, size: int) -> None:
        """Set how many bytes of an unfinished message a connection holds."""
        self.remove(connection)
        if size:
            self._bytes[connection] = (address, size)
            self._total_bytes += size

    def remove(self, connection: Sheddable) -> None:
        """Remove a connection that holds no unfinished message any more."""
        if connection in self._bytes:
            self._total_bytes -= self._bytes.pop(connection)[1]

    def shed(self) -> None:
        """Close connections until the limit is met."""
        while self._total_bytes > self._limit_bytes:
            self._largest().shed()

    def _largest(self) -> Sheddable:
        networks = {address: network_prefix(address) for address, _ in self._bytes.values()}
        by_client: Counter[str] = Counter()
        for address, size in self._bytes.values():
            by_client[networks[address]] += size
        [(heaviest, _)] = by_client.most_common(1)
        sizes = {
            connection: size for connection, (address, size) in self._bytes.items() if networks[address] == heaviest
        }
        return max(sizes, key=sizes.__getitem__)
