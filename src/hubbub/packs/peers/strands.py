"""Additional connections to one peer, for bytes only: on a path with packet loss, each has its own rate.

They are negotiated over the existing channel, without the signalling server. The publisher of that channel offers; the
larger of the two ends' `bulk_connections` counts. Frames on different connections may overtake each other.
"""

from __future__ import annotations

from collections.abc import Callable

from hubbub.packs.peers import limits
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.engine import Channel, Connection
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.link import Role
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.sending import Sending
from hubbub.packs.peers.wire import BULK_CHANNEL, StrandAnswer, StrandOffer


class Strand:
    """One additional connection."""

    def __init__(self, connection: Connection, got: Callable[[bytes | str], None]) -> None:
        self.connection = connection
        self.channel: Channel | None = None
        self._got = got
        connection.on_channel = self._announced

    def use(self, channel: Channel) -> None:
        """Receive bytes from this channel."""
        self.channel = channel
        channel.on_message = self._got

    def _announced(self, channel: Channel) -> None:
        if channel.label == BULK_CHANNEL and self.channel is None:
            self.use(channel)
        else:
            channel.close()


class Strands:
    """Creates additional connections, and accepts those of peers."""

    def __init__(self, context: MeshContext, sending: Sending) -> None:
        self._context = context
        self._options = context.options
        self._sending = sending
        self.on_bytes: Callable[[Peer, bytes], None] = lambda peer, data: None

    def begin(self, peer: Peer) -> None:
        """Create as many connections as either end wants, if we are the publisher."""
        wanted = min(max(self._options.bulk_connections, peer.standing.wanted_strands), limits.PEER_BULK_CONNECTIONS)
        role: Role = "publisher"
        if role not in peer.links or peer.strands or not peer.standing.counts:
            return
        for index in range(1, wanted):
            strand = self._make(peer, index)
            if strand is not None:
                strand.use(strand.connection.create_channel(BULK_CHANNEL))
                self._context.spawn(self._offer(peer, index, strand))

    async def _offer(self, peer: Peer, index: int, strand: Strand) -> None:
        try:
            self._sending.say(peer, StrandOffer.kind, {"index": index, "sdp": await strand.connection.offer()})
        except PeersError:
            await self._drop(peer, index)

    def offered(self, peer: Peer, offer: StrandOffer) -> None:
        """Accept a connection that the other end offers."""
        if 0 < offer.index < limits.PEER_BULK_CONNECTIONS and offer.index not in peer.strands:
            strand = self._make(peer, offer.index)
            if strand is not None:
                self._context.spawn(self._answer(peer, offer, strand))

    async def _answer(self, peer: Peer, offer: StrandOffer, strand: Strand) -> None:
        try:
            answer = await strand.connection.answer(offer.sdp)
            self._sending.say(peer, StrandAnswer.kind, {"index": offer.index, "sdp": answer})
        except PeersError:
            await self._drop(peer, offer.index)

    def answered(self, peer: Peer, answer: StrandAnswer) -> None:
        """Apply the answer to our offer."""
        strand = peer.strands.get(answer.index)
        if strand is not None:
            self._context.spawn(self._accept(peer, answer, strand))

    async def _accept(self, peer: Peer, answer: StrandAnswer, strand: Strand) -> None:
        try:
            await strand.connection.accept(answer.sdp)
        except PeersError:
            await self._drop(peer, answer.index)

    async def close(self, peer: Peer) -> None:
        """Close all additional connections to a peer."""
        for index in list(peer.strands):
            await self._drop(peer, index)

    async def _drop(self, peer: Peer, index: int) -> None:
        strand = peer.strands.pop(index, None)
        if strand is not None:
            await strand.connection.close()

    def _make(self, peer: Peer, index: int) -> Strand | None:
        def got(data: bytes | str) -> None:
            is_here = self._context.roster.get(peer.uuid) is peer
            if is_here and isinstance(data, bytes) and len(data) <= limits.PEER_FRAME_BYTES:
                self.on_bytes(peer, data)

        try:
            connection = self._context.engine.connection(self._options.ice_servers, relay_only=self._options.force_turn)
        except PeersError:
            return None
        strand = peer.strands[index] = Strand(connection, got)

        def changed(state: str) -> None:
            if state in ("failed", "closed") and peer.strands.get(index) is strand:
                self._context.spawn(self._drop(peer, index))

        connection.on_state = changed
        return strand
