"""One peer: where it is, who it is, and the connections to it.

It belongs to the address (the server's UUID) that its first connection was made with.
Another address is another peer, even if it says the same name, until its hello decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hubbub import bounds
from hubbub.packs.peers.engine import Channel
from hubbub.packs.peers.link import Link, Role
from hubbub.packs.peers.peer_view import PeerView
from hubbub.packs.peers.trust import Standing, Trust
from hubbub.packs.peers.wire import Envelope, Hello

if TYPE_CHECKING:
    from hubbub.packs.peers.strands import Strand


class Peer:
    """Somebody we have, or had, a connection to."""

    def __init__(self, uuid: str, listed: str | None) -> None:
        self.uuid = uuid
        self.address = uuid
        """What the signalling server calls it now; another one after the server was restarted."""
        self.listed = listed
        """The stream id that the signalling server says it has."""
        self.standing = Standing()
        self.links: dict[Role, Link] = {}
        self.strands: dict[int, Strand] = {}
        """More connections for bytes, by number."""
        self.last_seen = 0.0
        self.last_heartbeat = 0.0
        self.has_been_open = False
        self.refusals = 0
        """How much of it was refused since its last hello that passed."""
        self.answers_pings = False
        """Whether it ever did, on any of its connections: then its silence means something."""
        self.claim: tuple[Envelope, Hello] | None = None
        """A hello with the name of another peer, which we wait for to answer."""
        self.claimed_at = 0.0

    @property
    def stream_id(self) -> str | None:
        """Its name, as well as we know it."""
        return self.standing.stream_id or self.listed

    @property
    def link(self) -> Link | None:
        """The connection to send on: the one that it asked us for, if there are two."""
        found = [link for role in ("publisher", "viewer") if (link := self.links.get(role)) is not None]
        return next((link for link in found if link.is_open), None)

    @property
    def bulk(self) -> Channel | None:
        """The channel of bytes; of several, the one where the least waits."""
        return min(self.bulks, key=lambda channel: channel.buffered_amount, default=None)

    @property
    def bulks(self) -> list[Channel]:
        """All that are open."""
        open_ones = [channel for link in self.links.values() if (channel := link.bulk_channel) is not None]
        open_ones += [
            each.channel for each in self.strands.values() if each.channel is not None and each.channel.is_open
        ]
        return open_ones

    def view(self, trust: Trust) -> PeerView:
        """What the upper half sees of it."""
        link, standing = self.link, self.standing
        return PeerView(
            uuid=self.uuid,
            stream_id=self.stream_id,
            is_connected=link is not None,
            handshake=standing.handshake,
            is_authenticated=standing.is_authenticated,
            rejected_reason=standing.rejected_reason,
            has_key=standing.key is not None,
            is_admitted=link is not None and trust.admits(standing),
            has_bulk=self.bulk is not None and standing.key is not None,
            capabilities=standing.capabilities,
            last_seen=self.last_seen,
            last_heartbeat=self.last_heartbeat,
            max_message_size=bounds.PEER_FRAME_BYTES
            if link is None or link.channel is None
            else link.channel.max_message_size,
        )
