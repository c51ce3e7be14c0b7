"""A room: everybody in it, found through signalling, reached over WebRTC, known by name.

This is the seam between the lower half of the pack (engine, signalling, trust) and the
upper (sessions, files, state, tools). `Mesh` in `mesh` is the one that does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from hubbub import bounds
from hubbub.packs.peers.engine import IceServer
from hubbub.packs.peers.peer_view import PeerView
from hubbub.packs.peers.signalling import USUAL_HOST
from hubbub.packs.peers.wire import Envelope

RoomState: TypeAlias = Literal["idle", "connecting", "connected", "reconnecting", "stopped"]
"""Of the way to the signalling server; channels outlive it."""


class RoomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to be in a room. Names are already sanitised (`names.sanitise`)."""

    room: str
    stream_id: str
    target_stream_id: str | None = None
    host: str = USUAL_HOST
    password: str | Literal[False] | None = None
    """None: the usual one. False: nothing is sealed, names are sent in clear."""
    label: str = "mcp_bridge"
    engine: str = "auto"
    ice_servers: tuple[IceServer, ...] = ()
    force_turn: bool = False
    heartbeat_s: float = 15.0
    reconnect_s: float = 3.0
    max_reconnect_s: float = 30.0
    join_token: str | None = None
    """Sent as it is; without one, a fresh one is made for each hello if there is a secret."""
    join_token_secrets: tuple[str, ...] = ()
    """The first signs, each is taken."""
    join_token_ttl_s: float = 600.0
    enforce_join_token: bool = False
    allow_peer_stream_ids: tuple[str, ...] = ()
    require_session_mac: bool = False
    max_peers: int = bounds.PEERS_IN_A_ROOM
    bulk_connections: int = 1
    """Parallel connections for bytes, for paths that lose packets; 1 to 4."""
    capabilities: frozenset[str] = frozenset(("file_transfer_v1", "state_v1", "resume_v1"))
    """What the upper half can do, told in our hello; `sync_v1` and the like are added."""
    target_wait_s: float = bounds.PEER_TARGET_S


class Listener(Protocol):
    """The upper half, as a room calls it. All on the loop's thread, in order; none may block."""

    def on_data(self, peer: PeerView, data: Any) -> None:
        """Data of the application, of a peer that was admitted. Keep-alives of the original do not come here."""

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        """A `file.*` or `state.*` envelope, checked: of an admitted peer, its MAC right, not a replay."""

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        """A frame of bytes from another Hubbub, checked likewise. Its meaning is the upper half's."""

    def on_peer_ready(self, peer: PeerView) -> None:
        """A peer was admitted and its key is known; also after each later hello. Time to ask for its state."""

    def on_peer_gone(self, peer: PeerView) -> None:
        """The last channel to it is closed. It may come back, with the same stream id and another uuid."""

    def on_heartbeat(self, peer: PeerView, state_digest: str | None) -> None:
        """A peer said that it is there."""

    def on_event(self, type: str, fields: Mapping[str, Any]) -> None:
        """Something that `vdo_receive` shows; `fields` as in the contract, without `type` and `ts`.

        Of the contract's events a room tells: connected, disconnected, ready,
        reconnect_scheduled, connection_failed, sdk_error, peer_connected,
        peer_disconnected, data_channel_open, data_channel_close, send_error,
        send_rejected, heartbeat_sent, sync_hello_sent, sync_peer_updated,
        sync_peer_rejected, protocol_auth_failed, protocol_unknown.
        """

    def state_digest(self) -> str | None:
        """Of the shared state, told to other Hubbubs with each heartbeat; None: say nothing of it."""


class Sent(msgspec.Struct, frozen=True):
    """What became of one message."""

    to: tuple[str, ...] = ()
    """The uuids of those whose channel took it."""
    failed: Mapping[str, str] = {}
    """By uuid, why it was not sent to somebody it was meant for: `no_open_data_channel`, `not_admitted`,
    `undeliverable` (an original would lose it), `too_large`, `queue_full`."""

    @property
    def ok(self) -> bool:
        """Whether anybody's channel took it."""
        return bool(self.to)


class Bulk(Protocol):
    """The way of bytes to one other Hubbub."""

    @property
    def max_frame(self) -> int:
        """The largest frame that `send` takes."""

    @property
    def buffered_amount(self) -> int:
        """Bytes that wait on the connection where the least waits: what to compare with a high-water mark."""

    def send(self, data: bytes) -> None:
        """Send one frame, signed, on the connection where the least waits.

        With one connection frames arrive in order; with several they may overtake each
        other, and what waits on one that breaks is lost while the others go on.

        Raises: ChannelClosed, QueueFull, FrameTooLarge.
        """

    async def drain(self, low: int = bounds.PEER_LOW_WATER_BYTES) -> None:
        """Wait until there is room: `low` bytes or fewer wait on one of the connections.

        Raises: ChannelClosed.
        """

    async def flush(self) -> None:
        """Wait until nothing waits on any of them.

        Raises: ChannelClosed.
        """


class Room(Protocol):
    """One stay in one room."""

    options: RoomOptions

    @property
    def state(self) -> RoomState:
        """How the way to the signalling server is."""

    @property
    def peers(self) -> Sequence[PeerView]:
        """Everybody we have heard of; those without an open channel too, until they are gone."""

    @property
    def reconnects(self) -> int:
        """How often the way to the signalling server was taken up again."""

    @property
    def last_error(self) -> str | None: ...

    async def connect(self) -> None:
        """Enter the room. With a target, wait for its channel for a while, then go on without.

        Raises: SignallingFailed, StreamIdTaken, EngineMissing; nothing is left behind then.
        """

    async def disconnect(self) -> None:
        """Say goodbye to all and leave. Does nothing the second time."""

    def find(self, target: str) -> PeerView | None:
        """The peer with that stream id, else with that uuid."""

    def send(self, data: Any, *, to: str | None = None) -> Sent:
        """Send data of the application to one peer (stream id or uuid), or to all that are admitted.

        Raises: Unreadable, if JSON cannot say it.
        """

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> Sent:
        """Send an envelope, one for each peer, signed wherever a key is known."""

    def announce(self, *, to: str | None = None) -> Sent:
        """Say hello again."""

    async def drain(self, uuid: str, low: int = bounds.PEER_LOW_WATER_BYTES) -> None:
        """Wait until the channel of text to a peer has room.

        Raises: ChannelClosed.
        """

    def bulk(self, uuid: str) -> Bulk | None:
        """The way of bytes to a peer; None if the peer has none."""


MakeRoom: TypeAlias = Callable[[RoomOptions, Listener], Room]
