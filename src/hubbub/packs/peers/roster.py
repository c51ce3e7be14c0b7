"""The peers of one mesh: found by uuid, by address, by name, by connection."""

from __future__ import annotations

from collections.abc import Iterator

from hubbub.packs.peers.link import Link, Role
from hubbub.packs.peers.peer import Peer


class Roster:
    """Everybody that a mesh has, or is making, a connection to."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._peers: dict[str, Peer] = {}
        self._by_address: dict[str, Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers.values()))

    @property
    def is_full(self) -> bool:
        """Whether there is no place for one more."""
        return len(self._peers) >= self._limit

    def add(self, address: str, listed: str | None) -> Peer:
        """Somebody new."""
        peer = Peer(address, listed)
        self._peers[address] = self._by_address[address] = peer
        return peer

    def remove(self, peer: Peer) -> None:
        """Somebody is gone."""
        self._peers.pop(peer.uuid, None)
        if self._by_address.get(peer.uuid) is peer:
            del self._by_address[peer.uuid]

    def get(self, uuid: str) -> Peer | None:
        """By the uuid that we show."""
        return self._peers.get(uuid)

    def at(self, address: str) -> Peer | None:
        """By the address that its connections were made with."""
        return self._by_address.get(address)

    def find(self, target: str) -> Peer | None:
        """By stream id, else by uuid."""
        named = [peer for peer in self._peers.values() if peer.stream_id == target]
        # Who can be reached comes first, and of those who said the name itself before who only is said to have it.
        named.sort(key=lambda peer: (peer.link is not None, peer.standing.stream_id == target), reverse=True)
        return named[0] if named else self._peers.get(target)

    def named(self, stream_id: str) -> list[Peer]:
        """Those that said this name and can be reached."""
        return [peer for peer in self._peers.values() if peer.standing.stream_id == stream_id and peer.link is not None]

    def has_stream(self, stream_id: str | None) -> bool:
        """Whether there is, or begins, a connection to somebody of this name."""
        return stream_id is not None and any(
            peer.stream_id == stream_id and peer.links for peer in self._peers.values()
        )

    def owner_of(self, link: Link) -> Peer | None:
        """Whose connection it is."""
        return next((peer for peer in self._peers.values() if peer.links.get(link.role) is link), None)

    def link_of(self, address: str, session: str, role: Role) -> tuple[Peer, Link] | None:
        """The connection of one exchange, if the other end is at that address."""
        for peer in self._peers.values():
            link = peer.links.get(role)
            if link is not None and link.session == session and address in (peer.address, peer.uuid):
                return peer, link
        return None
