"""The two ways that chunks go to a peer: as bytes to another Hubbub, in envelopes to everybody else."""

from __future__ import annotations

import base64
import hashlib
from typing import Protocol

from hubbub import bounds
from hubbub.packs.peers.failures import ChannelClosed, FrameTooLarge, QueueFull
from hubbub.packs.peers.files import frames
from hubbub.packs.peers.peer_view import PeerView
from hubbub.packs.peers.room import Bulk, Room


class Line(Protocol):
    """A way for the chunks of one transfer to one peer."""

    window_bytes: int
    """What may be on its way."""

    def chunks(self, chunk_bytes: int) -> int:
        """How many chunks of that size one `send` takes; 0: they are too large."""

    @property
    def buffered_amount(self) -> int:
        """Bytes that have not left yet; 0 where that cannot be known."""

    async def send(self, seq: int, data: memoryview) -> None:
        """Send whole chunks, and wait while too much waits.

        Raises: ChannelClosed, FrameTooLarge.
        """


class BytesLine:
    """As bytes."""

    window_bytes = bounds.FILE_WINDOW_BYTES

    def __init__(self, bulk: Bulk, transfer_id: str) -> None:
        self._bulk = bulk
        self._transfer_id = transfer_id

    @property
    def buffered_amount(self) -> int:
        """Bytes that have not left yet."""
        return self._bulk.buffered_amount

    def chunks(self, chunk_bytes: int) -> int:
        """How many chunks of that size one frame takes."""
        return (self._bulk.max_frame - frames.head_bytes(self._transfer_id)) // chunk_bytes

    async def send(self, seq: int, data: memoryview) -> None:
        """Send whole chunks."""
        frame = frames.write_frame(self._transfer_id, seq, data)
        while True:
            if self._bulk.buffered_amount > bounds.PEER_HIGH_WATER_BYTES:
                await self._bulk.drain()
            try:
                self._bulk.send(frame)
            except QueueFull:
                await self._bulk.drain()
            else:
                return


class EnvelopeLine:
    """In envelopes, one chunk in each."""

    window_bytes = bounds.FILE_ENVELOPE_WINDOW_BYTES
    buffered_amount = 0

    def __init__(self, room: Room, peer: PeerView, transfer_id: str) -> None:
        self._room = room
        self._uuid = peer.uuid
        self._transfer_id = transfer_id
        self._most = envelope_chunk(peer)

    def chunks(self, chunk_bytes: int) -> int:
        """One, if it fits."""
        return int(chunk_bytes <= self._most)

    async def send(self, seq: int, data: memoryview) -> None:
        """Send one chunk."""
        text = base64.b64encode(data).decode()
        payload = {
            "transfer_id": self._transfer_id,
            "seq": seq,
            "data_base64": text,
            "chunk_hash": hashlib.sha256(data).hexdigest(),
        }
        while True:
            await self._room.drain(self._uuid, bounds.PEER_HIGH_WATER_BYTES)
            sent = self._room.send_envelope("file.chunk", payload, to=self._uuid)
            if sent.ok:
                return
            match sent.failed.get(self._uuid):
                case "queue_full":
                    await self._room.drain(self._uuid)
                case "too_large":
                    raise FrameTooLarge(len(text), self._most)
                case _:
                    raise ChannelClosed("the channel to the peer is closed")


def envelope_chunk(peer: PeerView) -> int:
    """The largest chunk that fits into one envelope to this peer, as base64."""
    frame = min(peer.max_message_size, bounds.PEER_FRAME_BYTES)
    return max((frame - bounds.FILE_ENVELOPE_OVERHEAD) // 4 * 3, 0)


def line_to(room: Room, peer: PeerView, transfer_id: str) -> Line:
    """The better way to a peer."""
    bulk = room.bulk(peer.uuid) if peer.is_hubbub else None
    return EnvelopeLine(room, peer, transfer_id) if bulk is None else BytesLine(bulk, transfer_id)
