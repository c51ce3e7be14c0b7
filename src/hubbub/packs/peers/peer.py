"""One peer: its address, its identity, and the connections to it.

It is identified by the address (the server's UUID) of its first connection. Another address is another peer, even with
the same stream id, until its hello decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import Channel
from hubbub.packs.peers.link import Link, Role
from hubbub.packs.peers.room import PeerView
from hubbub.packs.peers.trust import PeerAuth, Trust
from hubbub.packs.peers.wire import Envelope, Hello

if TYPE_CHECKING:
    from hubbub.packs.peers.bulk_connections import BulkConnection


class Peer:
    """A peer that we have, or had, a connection to."""

    def __init__(self, uuid: str, listed_stream_id: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.last_received_at = clock()
        """When anything was last received on any of its connections.

        A VDO.Ninja bridge answers on the channel that it prefers, not on the one that a ping came on, so
        silence on one connection means nothing.
        """
        self.last_pinged_at = clock()
        self.uuid = uuid
        self.address = uuid
        """Its current UUID at the signalling server; it changes when the server is restarted."""
        self.listed_stream_id = listed_stream_id
        """The stream id that the signalling server lists for it."""
        self.auth = PeerAuth()
        self.links: dict[Role, Link] = {}
        self.bulk_connections: dict[int, BulkConnection] = {}
        """Additional connections for bytes, by number."""
        self.last_seen = 0.0
        self.last_heartbeat = 0.0
        self.has_been_open = False
        self.refusals = 0
        """Number of refused messages since its last accepted hello."""
        self.answers_pings = False
        """Whether it ever answered a ping on any of its connections; only then its silence means something."""
        self.claim: tuple[Envelope, Hello] | None = None
        """A hello that claims the name of another peer, pending that peer's answer."""
        self.claimed_at = 0.0

    @property
    def silent_s(self) -> float:
        """Seconds since anything was received."""
        return self.clock() - self.last_received_at

    @property
    def since_ping_s(self) -> float:
        """Seconds since the last ping to it."""
        return self.clock() - self.last_pinged_at

    def mark_alive(self) -> None:
        """Record that something was received."""
        self.last_received_at = self.clock()

    @property
    def stream_id(self) -> str | None:
        """Its stream id: from its hello, else from the signalling server."""
        return self.auth.stream_id or self.listed_stream_id

    @property
    def link(self) -> Link | None:
        """The connection to send on; of two, the one that we published."""
        return next(iter(self.open_links), None)

    @property
    def open_links(self) -> list[Link]:
        """The open connections, the one to send on first."""
        found = [link for role in ("publisher", "viewer") if (link := self.links.get(role)) is not None]
        return [link for link in found if link.is_open]

    @property
    def bulk(self) -> Channel | None:
        """The open bulk channel with the shortest queue."""
        return min(self.open_bulks, key=lambda channel: channel.buffered_amount, default=None)

    @property
    def open_bulks(self) -> list[Channel]:
        """All open bulk channels."""
        channels = [channel for link in self.links.values() if (channel := link.open_bulk) is not None]
        channels += [
            each.channel for each in self.bulk_connections.values() if each.channel is not None and each.channel.is_open
        ]
        return channels

    def view(self, trust: Trust) -> PeerView:
        """Return a snapshot of this peer for the upper half."""
        link, auth = self.link, self.auth
        return PeerView(
            uuid=self.uuid,
            stream_id=self.stream_id,
            is_connected=link is not None,
            handshake=auth.handshake,
            is_authenticated=auth.is_authenticated,
            rejected_reason=auth.rejected_reason,
            has_key=auth.key is not None,
            is_admitted=link is not None and self.claim is None and trust.admits(auth),
            has_bulk=self.bulk is not None and auth.key is not None,
            capabilities=auth.capabilities,
            last_seen=self.last_seen,
            last_heartbeat=self.last_heartbeat,
            max_message_size=limits.PEER_FRAME_BYTES
            if link is None or link.channel is None
            else link.channel.max_message_size,
        )
