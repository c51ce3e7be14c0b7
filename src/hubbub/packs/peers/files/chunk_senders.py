"""The two ways to send chunks to a peer: binary frames to another Hubbub, envelopes to any other peer."""

from __future__ import annotations

import base64
import hashlib
from typing import Protocol

from hubbub.packs.peers import limits
from hubbub.packs.peers.errors import ChannelClosed, FrameTooLarge, QueueFull
from hubbub.packs.peers.files import frames
from hubbub.packs.peers.files.delay_window import DelayWindow
from hubbub.packs.peers.room import BulkChannel, PeerView, Room


class ChunkSender(Protocol):
    """Sends the chunks of one transfer to one peer."""

    @property
    def window_bytes(self) -> int:
        """How many unacknowledged bytes may be in flight."""

    def chunks_per_send(self, chunk_bytes: int) -> int:
        """Return how many chunks of that size one `send` accepts; 0 if they are too large."""

    @property
    def buffered_amount(self) -> int:
        """Bytes queued for sending."""

    async def send(self, seq: int, data: memoryview) -> None:
        """Send whole chunks, and wait while too many bytes are queued.

        Raises: ChannelClosed, FrameTooLarge.
        """

    def record_ack(self, seq: int) -> None:
        """Handle the acknowledgement of a chunk."""


class BinaryChunkSender:
    """Sends chunks in binary frames."""

    @property
    def window_bytes(self) -> int:
        return limits.FILE_WINDOW_BYTES

    def __init__(self, bulk: BulkChannel, transfer_id: str) -> None:
        self._bulk = bulk
        self._transfer_id = transfer_id

    @property
    def buffered_amount(self) -> int:
        return self._bulk.buffered_amount

    def chunks_per_send(self, chunk_bytes: int) -> int:
        """Return how many chunks of that size fit into one frame."""
        return (self._bulk.max_frame - frames.header_size(self._transfer_id)) // chunk_bytes

    async def send(self, seq: int, data: memoryview) -> None:
        frame = frames.write_frame(self._transfer_id, seq, data)
        while True:
            if self._bulk.buffered_amount > limits.PEER_HIGH_WATER_BYTES:
                await self._bulk.drain()
            try:
                self._bulk.send(frame)
            except QueueFull:
                await self._bulk.drain()
            else:
                return

    def record_ack(self, seq: int) -> None:
        """Do nothing: the window is fixed."""


class EnvelopeChunkSender:
    """Sends chunks in envelopes, one chunk in each."""

    def __init__(self, room: Room, peer: PeerView, transfer_id: str, chunk_bytes: int) -> None:
        self._room = room
        self._uuid = peer.uuid
        self._transfer_id = transfer_id
        self._max_chunk_bytes = max_envelope_chunk(peer)
        self._window = DelayWindow(chunk_bytes)

    @property
    def window_bytes(self) -> int:
        return self._window.bytes

    @property
    def buffered_amount(self) -> int:
        return self._room.queued_bytes(self._uuid)

    def record_ack(self, seq: int) -> None:
        """Handle the acknowledgement of a chunk."""
        self._window.record_ack(seq)

    def chunks_per_send(self, chunk_bytes: int) -> int:
        """Return 1 if a chunk of that size fits into an envelope, else 0."""
        return int(chunk_bytes <= self._max_chunk_bytes)

    async def send(self, seq: int, data: memoryview) -> None:
        """Send one chunk as base64, with its hash."""
        text = base64.b64encode(data).decode()
        payload = {
            "transfer_id": self._transfer_id,
            "seq": seq,
            "data_base64": text,
            "chunk_hash": hashlib.sha256(data).hexdigest(),
        }
        while True:
            await self._room.drain(self._uuid, limits.PEER_HIGH_WATER_BYTES)
            self._window.record_sent(seq)
            sent = self._room.send_envelope("file.chunk", payload, to=self._uuid)
            if sent.ok:
                return
            match sent.failed.get(self._uuid):
                case "queue_full":
                    await self._room.drain(self._uuid)
                case "too_large":
                    raise FrameTooLarge(len(text), self._max_chunk_bytes)
                case _:
                    raise ChannelClosed("the channel to the peer is closed")


def max_envelope_chunk(peer: PeerView) -> int:
    """Return the largest chunk that fits into one envelope to this peer, as base64."""
    frame = min(peer.max_message_size, limits.PEER_FRAME_BYTES)
    return max((frame - limits.FILE_ENVELOPE_OVERHEAD_BYTES) // 4 * 3, 0)


def make_chunk_sender(room: Room, peer: PeerView, transfer_id: str, chunk_bytes: int) -> ChunkSender:
    """Return the fastest chunk sender for a peer: binary frames if its bulk channel is open, else envelopes."""
    bulk = room.bulk(peer.uuid) if peer.is_hubbub else None
    return (
        EnvelopeChunkSender(room, peer, transfer_id, chunk_bytes)
        if bulk is None
        else BinaryChunkSender(bulk, transfer_id)
    )
