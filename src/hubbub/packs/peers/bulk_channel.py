"""Send bytes to another Hubbub, as signed frames on the bulk channel."""

from __future__ import annotations

import asyncio

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import Channel
from hubbub.packs.peers.errors import ChannelClosed
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.session_mac import BULK_OVERHEAD_BYTES
from hubbub.packs.peers.trust import Refused, Trust


class SignedBulkChannel:
    """Implements `room.BulkChannel`."""

    def __init__(self, peer: Peer, trust: Trust) -> None:
        self._peer = peer
        self._trust = trust

    def _open_channel(self) -> Channel:
        channel = self._peer.bulk
        if channel is None:
            raise ChannelClosed("the bulk channel is closed")
        return channel

    @property
    def max_frame(self) -> int:
        """The largest frame that `send` accepts."""
        channel = self._peer.bulk
        return (limits.PEER_FRAME_BYTES if channel is None else channel.max_message_size) - BULK_OVERHEAD_BYTES

    @property
    def buffered_amount(self) -> int:
        """Bytes queued on the connection with the shortest queue."""
        channel = self._peer.bulk
        return 0 if channel is None else channel.buffered_amount

    def send(self, data: bytes) -> None:
        """Send one frame, signed."""
        channel = self._open_channel()
        try:
            frame = self._trust.sign_bytes(self._peer.auth, data)
        except Refused as refused:
            raise ChannelClosed("the bulk channel has no session key any more") from refused
        channel.send(frame)

    async def drain(self, low: int | None = None) -> None:
        """Wait until `low` bytes or fewer are queued on one of the connections."""
        low = limits.PEER_LOW_WATER_BYTES if low is None else low
        while self._open_channel().buffered_amount > low:
            drains = [asyncio.ensure_future(channel.drain(low)) for channel in self._peer.open_bulks]
            try:
                await asyncio.wait(drains, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in drains:
                    wait.cancel()
                await asyncio.gather(*drains, return_exceptions=True)

    async def flush(self) -> None:
        """Wait until nothing is queued on any of the connections."""
        self._open_channel()
        await asyncio.gather(*(channel.drain(0) for channel in self._peer.open_bulks))
