"""More connections to one peer, for bytes only: on a path that loses packets, each has a rate of its own.

They are agreed on over the channel that there is already, so the signalling server has
no part in it. The publisher of that channel offers; both ends' wishes count, the larger
one wins. Frames on different connections may overtake each other.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from hubbub import bounds
from hubbub.packs.peers.descriptions import check_description
from hubbub.packs.peers.engine import Channel, Connection, Engine
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.link import Role
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.room import RoomOptions
from hubbub.packs.peers.wire import BULK_CHANNEL, StrandAnswer, StrandOffer

_MOST: Final = 4


class Loom(Protocol):
    """What strands need of the mesh."""

    def say(self, peer: Peer, kind: str, payload: Mapping[str, Any]) -> bool:
        """Send an envelope to one peer."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something meanwhile."""

    def strand_got(self, peer: Peer, data: bytes) -> None:
        """A frame of bytes came."""


class Strand:
    """One more connection."""

    def __init__(self, connection: Connection, got: Callable[[bytes | str], None]) -> None:
        self.connection = connection
        self.channel: Channel | None = None
        self._got = got
        connection.on_channel = self._announced

    def use(self, channel: Channel) -> None:
        """Take bytes from this channel."""
        self.channel = channel
        channel.on_message = self._got

    def _announced(self, channel: Channel) -> None:
        if channel.label == BULK_CHANNEL and self.channel is None:
            self.use(channel)
        else:
            channel.close()


class Strands:
    """Makes them, and takes those that others make."""

    def __init__(self, options: RoomOptions, engine: Engine, loom: Loom) -> None:
        self._options = options
        self._engine = engine
        self._loom = loom

    def begin(self, peer: Peer) -> None:
        """Make as many as either end wants, if it is our turn."""
        wanted = min(max(self._options.bulk_connections, peer.standing.wanted_strands), _MOST)
        role: Role = "publisher"
        if role not in peer.links or peer.strands or not peer.standing.counts:
            return
        for index in range(1, wanted):
            strand = self._make(peer, index)
            if strand is not None:
                strand.use(strand.connection.create_channel(BULK_CHANNEL))
                self._loom.spawn(self._offer(peer, index, strand))

    async def _offer(self, peer: Peer, index: int, strand: Strand) -> None:
        try:
            self._loom.say(peer, StrandOffer.kind, {"index": index, "sdp": await strand.connection.offer()})
        except PeersError:
            await self._drop(peer, index)

    def offered(self, peer: Peer, offer: StrandOffer) -> None:
        """The other end makes one."""
        if 0 < offer.index < _MOST and offer.index not in peer.strands:
            strand = self._make(peer, offer.index)
            if strand is not None:
                self._loom.spawn(self._answer(peer, offer, strand))

    async def _answer(self, peer: Peer, offer: StrandOffer, strand: Strand) -> None:
        try:
            answer = await strand.connection.answer(check_description(offer.sdp))
            self._loom.say(peer, StrandAnswer.kind, {"index": offer.index, "sdp": answer})
        except PeersError:
            await self._drop(peer, offer.index)

    def answered(self, peer: Peer, answer: StrandAnswer) -> None:
        """The other end took one."""
        strand = peer.strands.get(answer.index)
        if strand is not None:
            self._loom.spawn(self._accept(peer, answer, strand))

    async def _accept(self, peer: Peer, answer: StrandAnswer, strand: Strand) -> None:
        try:
            await strand.connection.accept(check_description(answer.sdp))
        except PeersError:
            await self._drop(peer, answer.index)

    async def close(self, peer: Peer) -> None:
        """End all of a peer."""
        for index in list(peer.strands):
            await self._drop(peer, index)

    async def _drop(self, peer: Peer, index: int) -> None:
        strand = peer.strands.pop(index, None)
        if strand is not None:
            await strand.connection.close()

    def _make(self, peer: Peer, index: int) -> Strand | None:
        def got(data: bytes | str) -> None:
            if isinstance(data, bytes) and len(data) <= bounds.PEER_FRAME_BYTES:
                self._loom.strand_got(peer, data)

        try:
            connection = self._engine.connection(self._options.ice_servers, relay_only=self._options.force_turn)
        except PeersError:
            return None
        strand = peer.strands[index] = Strand(connection, got)

        def changed(state: str) -> None:
            if state in ("failed", "closed") and peer.strands.get(index) is strand:
                self._loom.spawn(self._drop(peer, index))

        connection.on_state = changed
        return strand
