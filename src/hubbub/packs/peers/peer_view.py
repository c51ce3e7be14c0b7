"""What a session knows of one peer, as tools show it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from hubbub.packs.peers.wire import Capabilities

Handshake: TypeAlias = Literal["discovered", "hello_received", "ready", "rejected"]


class PeerView(msgspec.Struct, frozen=True, kw_only=True):
    """One peer at one moment."""

    uuid: str
    """Stays the same for as long as the connection lives, whatever the signalling server calls it meanwhile."""
    stream_id: str | None
    """From its hello, bound to the connection; before that, what the signalling server says; in clear."""
    is_connected: bool
    """Whether a channel to it is open."""
    handshake: Handshake
    is_authenticated: bool
    """`auth_ok`: its hello passed every check that is asked for."""
    rejected_reason: str | None
    has_key: bool
    """Whether what it sends and what we send it is signed."""
    is_admitted: bool
    """Whether anything that it sends is let through."""
    has_bulk: bool
    """Whether bytes can be sent to it on a channel of their own."""
    capabilities: Capabilities
    last_seen: float
    """Unix time of the last message, 0 if there was none."""
    last_heartbeat: float
    max_message_size: int
    """One frame of text, as bytes of UTF-8."""

    @property
    def is_hubbub(self) -> bool:
        """Whether the other end is Hubbub, and admitted."""
        return self.is_admitted and self.capabilities.hubbub_v1
