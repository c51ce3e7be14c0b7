"""Additional connections to one peer, for bytes only: on a path with packet loss, each has its own rate.

They are negotiated over the existing channel, without the signalling server. The publisher of that channel offers; the
larger of the two ends' `bulk_connections` counts. Frames on different connections may overtake each other.
"""

from __future__ import annotations

from collections.abc import Callable

from hubbub.packs.peers import limits
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.engine import Channel, Connection
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.link import Role
from hubbub.packs.peers.outbound import MessageSender
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.wire import BULK_CHANNEL, BulkConnectionAnswer, BulkConnectionOffer


class BulkConnection:
    """One additional connection."""

    def __init__(self, connection: Connection, handle_data: Callable[[bytes | str], None]) -> None:
        self.connection = connection
        self.channel: Channel | None = None
        self._handle_data = handle_data
        connection.on_channel = self._handle_channel

    def attach_channel(self, channel: Channel) -> None:
        """Receive bytes from this channel."""
        self.channel = channel
        channel.on_message = self._handle_data

    def _handle_channel(self, channel: Channel) -> None:
        if channel.label == BULK_CHANNEL and self.channel is None:
            self.attach_channel(channel)
        else:
            channel.close()


class BulkConnections:
    """Creates additional connections, and accepts those of peers."""

    def __init__(self, context: MeshContext, outbound: MessageSender) -> None:
        self._context = context
        self._options = context.options
        self._outbound = outbound
        self.on_bytes: Callable[[Peer, bytes], None] = lambda peer, data: None

    def start(self, peer: Peer) -> None:
        """Create as many connections as either end wants, if we are the publisher."""
        wanted = min(
            max(self._options.bulk_connections, peer.auth.wanted_bulk_connections), limits.PEER_BULK_CONNECTIONS
        )
        role: Role = "publisher"
        if role not in peer.links or peer.bulk_connections or not peer.auth.signs_everything:
            return
        for index in range(1, wanted):
            bulk_connection = self._make_connection(peer, index)
            if bulk_connection is not None:
                bulk_connection.attach_channel(bulk_connection.connection.create_channel(BULK_CHANNEL))
                self._context.spawn(self._offer(peer, index, bulk_connection))

    async def _offer(self, peer: Peer, index: int, bulk_connection: BulkConnection) -> None:
        try:
            self._outbound.send_to_peer(
                peer, BulkConnectionOffer.kind, {"index": index, "sdp": await bulk_connection.connection.offer()}
            )
        except PeersError:
            await self._drop(peer, index)

    def handle_offer(self, peer: Peer, offer: BulkConnectionOffer) -> None:
        """Accept a connection that the other end offers."""
        if 0 < offer.index < limits.PEER_BULK_CONNECTIONS and offer.index not in peer.bulk_connections:
            bulk_connection = self._make_connection(peer, offer.index)
            if bulk_connection is not None:
                self._context.spawn(self._answer(peer, offer, bulk_connection))

    async def _answer(self, peer: Peer, offer: BulkConnectionOffer, bulk_connection: BulkConnection) -> None:
        try:
            answer = await bulk_connection.connection.answer(offer.sdp)
            self._outbound.send_to_peer(peer, BulkConnectionAnswer.kind, {"index": offer.index, "sdp": answer})
        except PeersError:
            await self._drop(peer, offer.index)

    def handle_answer(self, peer: Peer, answer: BulkConnectionAnswer) -> None:
        """Apply the answer to our offer."""
        bulk_connection = peer.bulk_connections.get(answer.index)
        if bulk_connection is not None:
            self._context.spawn(self._accept(peer, answer, bulk_connection))

    async def _accept(self, peer: Peer, answer: BulkConnectionAnswer, bulk_connection: BulkConnection) -> None:
        try:
            await bulk_connection.connection.accept(answer.sdp)
        except PeersError:
            await self._drop(peer, answer.index)

    async def close(self, peer: Peer) -> None:
        """Close all additional connections to a peer."""
        for index in list(peer.bulk_connections):
            await self._drop(peer, index)

    async def _drop(self, peer: Peer, index: int) -> None:
        bulk_connection = peer.bulk_connections.pop(index, None)
        if bulk_connection is not None:
            await bulk_connection.connection.close()

    def _make_connection(self, peer: Peer, index: int) -> BulkConnection | None:
        def handle_data(data: bytes | str) -> None:
            is_current = self._context.roster.get(peer.uuid) is peer
            if is_current and isinstance(data, bytes) and len(data) <= limits.PEER_FRAME_BYTES:
                self.on_bytes(peer, data)

        try:
            connection = self._context.engine.connection(self._options.ice_servers, relay_only=self._options.force_turn)
        except PeersError:
            return None
        bulk_connection = peer.bulk_connections[index] = BulkConnection(connection, handle_data)

        def handle_state(state: str) -> None:
            if state in ("failed", "closed") and peer.bulk_connections.get(index) is bulk_connection:
                self._context.spawn(self._drop(peer, index))

        connection.on_state = handle_state
        return bulk_connection
