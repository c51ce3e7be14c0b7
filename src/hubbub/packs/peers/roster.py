"""The peers of one mesh, found by uuid, address, stream id or negotiation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from hubbub.packs.peers.link import Link, Role
from hubbub.packs.peers.peer import Peer


class Roster:
    """All peers that a mesh has, or is making, a connection to."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._peers: dict[str, Peer] = {}
        self._by_address: dict[str, Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers.values()))

    @property
    def is_full(self) -> bool:
        """Whether the limit of peers is reached."""
        return len(self._peers) >= self._limit

    def add(self, address: str, listed_stream_id: str | None) -> Peer:
        """Create and add a peer."""
        peer = Peer(address, listed_stream_id, self._clock)
        self._peers[address] = self._by_address[address] = peer
        return peer

    def remove(self, peer: Peer) -> None:
        self._peers.pop(peer.uuid, None)
        if self._by_address.get(peer.uuid) is peer:
            del self._by_address[peer.uuid]

    def get(self, uuid: str) -> Peer | None:
        """Return the peer with the uuid that we show."""
        return self._peers.get(uuid)

    def get_by_address(self, address: str) -> Peer | None:
        """Return the peer whose connections were made with this address."""
        return self._by_address.get(address)

    def find(self, target: str) -> Peer | None:
        """Return the peer with this stream id, else with this uuid."""
        named = [peer for peer in self._peers.values() if peer.stream_id == target]
        # Prefer reachable peers, and of those the ones whose own hello states the name over those that are only listed.
        named.sort(key=lambda peer: (peer.link is not None, peer.auth.stream_id == target), reverse=True)
        return named[0] if named else self._peers.get(target)

    def find_by_hello(self, stream_id: str) -> list[Peer]:
        """Return the reachable peers whose hello states this stream id."""
        return [peer for peer in self._peers.values() if peer.auth.stream_id == stream_id and peer.link is not None]

    def has_stream(self, stream_id: str | None) -> bool:
        """Return whether a connection to a peer of this stream id exists or is being made."""
        return stream_id is not None and any(
            peer.stream_id == stream_id and peer.links for peer in self._peers.values()
        )

    def find_link(self, address: str, session: str, role: Role) -> tuple[Peer, Link] | None:
        """Return the connection of a negotiation, if the other end is at that address."""
        for peer in self._peers.values():
            link = peer.links.get(role)
            if link is not None and link.session == session and address in (peer.address, peer.uuid):
                return peer, link
        return None
