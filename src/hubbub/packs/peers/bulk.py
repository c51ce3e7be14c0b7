"""Sending bytes to another Hubbub: signed frames on the bulk channel."""

from __future__ import annotations

import asyncio

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import Channel
from hubbub.packs.peers.failures import ChannelClosed
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.session_mac import BULK_OVERHEAD
from hubbub.packs.peers.trust import Refused, Trust


class BulkLine:
    """Implements `room.Bulk`."""

    def __init__(self, peer: Peer, trust: Trust) -> None:
        self._peer = peer
        self._trust = trust

    def _channel(self) -> Channel:
        channel = self._peer.bulk
        if channel is None:
            raise ChannelClosed("the channel of bytes is closed")
        return channel

    @property
    def max_frame(self) -> int:
        """The largest frame that `send` takes."""
        channel = self._peer.bulk
        return (limits.PEER_FRAME_BYTES if channel is None else channel.max_message_size) - BULK_OVERHEAD

    @property
    def buffered_amount(self) -> int:
        """Bytes queued on the connection with the shortest queue."""
        channel = self._peer.bulk
        return 0 if channel is None else channel.buffered_amount

    def send(self, data: bytes) -> None:
        """Send one frame, signed."""
        channel = self._channel()
        try:
            frame = self._trust.seal_bytes(self._peer.standing, data)
        except Refused as refused:
            raise ChannelClosed("the key of the channel of bytes is gone") from refused
        channel.send(frame)

    async def drain(self, low: int | None = None) -> None:
        """Wait until `low` bytes or fewer are queued on one of the connections."""
        low = limits.PEER_LOW_WATER_BYTES if low is None else low
        while self._channel().buffered_amount > low:
            waits = [asyncio.ensure_future(channel.drain(low)) for channel in self._peer.bulks]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
                await asyncio.gather(*waits, return_exceptions=True)

    async def flush(self) -> None:
        """Wait until nothing is queued on any of the connections."""
        self._channel()
        await asyncio.gather(*(channel.drain(0) for channel in self._peer.bulks))
