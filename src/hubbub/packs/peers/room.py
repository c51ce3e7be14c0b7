"""A room: its peers, found through signalling, reached over WebRTC, known by stream id.

This is the interface between the lower half of the pack (engine, signalling, trust) and the upper half (sessions,
files, state, tools). `mesh.Mesh` implements it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from hubbub.packs.peers import limits
from hubbub.packs.peers.engine import IceServer
from hubbub.packs.peers.signalling import DEFAULT_HOST
from hubbub.packs.peers.wire import Capabilities, Envelope

RoomState: TypeAlias = Literal["idle", "connecting", "connected", "reconnecting", "stopped"]
"""The state of the connection to the signalling server; channels survive its loss."""


Handshake: TypeAlias = Literal["discovered", "hello_received", "ready", "rejected"]


class PeerView(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of one peer."""

    uuid: str
    """Constant while the connection lives, even if the signalling server assigns another UUID."""
    stream_id: str | None
    """In clear: from its hello, bound to the connection; before that, as the signalling server lists it."""
    is_connected: bool
    """Whether a channel to it is open."""
    handshake: Handshake
    is_authenticated: bool
    """`auth_ok`: its hello passed every required check."""
    rejected_reason: str | None
    has_key: bool
    """Whether messages in both directions are signed."""
    is_admitted: bool
    """Whether its messages are accepted."""
    has_bulk: bool
    """Whether its bulk channel is open."""
    capabilities: Capabilities
    last_seen: float
    """Unix time of the last message, 0 if there was none."""
    last_heartbeat: float
    max_message_size: int
    """The largest text frame, in bytes of UTF-8."""

    @property
    def is_hubbub(self) -> bool:
        """Whether the other end is Hubbub, and admitted."""
        return self.is_admitted and self.capabilities.hubbub_v1


class RoomOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of one membership. Names are already sanitised (`names.sanitize`)."""

    room: str
    stream_id: str
    target_stream_id: str | None = None
    host: str = DEFAULT_HOST
    password: str | Literal[False] | None = None
    """None: the default password. False: nothing is encrypted, names are sent in clear."""
    label: str = "mcp_bridge"
    engine: str = "auto"
    ice_servers: tuple[IceServer, ...] = ()
    force_turn: bool = False
    heartbeat_s: float = 15.0
    reconnect_s: float = 3.0
    max_reconnect_s: float = 30.0
    join_token: str | None = None
    """Sent unchanged. If None and there is a secret, a new token is made for each hello."""
    join_token_secrets: tuple[str, ...] = ()
    """Tokens are signed with the first; signatures of any of them are accepted."""
    join_token_ttl_s: float = 600.0
    enforce_join_token: bool = False
    allow_peer_stream_ids: tuple[str, ...] = ()
    require_session_mac: bool = False
    max_peers: int = msgspec.field(default_factory=lambda: limits.PEERS_PER_ROOM)
    bulk_connections: int = 1
    """Parallel connections for bytes, for paths with packet loss; 1 to 4."""
    capabilities: frozenset[str] = frozenset(("file_transfer_v1", "state_v1", "resume_v1"))
    """Capabilities of the upper half, announced in our hello; `sync_v1` and the like are added."""
    target_wait_s: float = msgspec.field(default_factory=lambda: limits.PEER_TARGET_S)


class Listener(Protocol):
    """Callbacks of a room, implemented by the upper half.

    All are called on the event loop's thread, in order; they must not block.
    """

    def on_data(self, peer: PeerView, data: Any) -> None:
        """Handle application data of an admitted peer. Keep-alives of VDO.Ninja bridges are filtered out."""

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        """Handle a `file.*` or `state.*` envelope of an admitted peer; its MAC is verified, and it is not a replay."""

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        """Handle a binary frame of another Hubbub, verified likewise. The room does not interpret it."""

    def on_peer_ready(self, peer: PeerView) -> None:
        """Handle a peer that was admitted and whose key is known, and each later hello. Time to request its state."""

    def on_bulk_open(self, peer: PeerView) -> None:
        """Handle the opening of a bulk channel: `has_bulk` may be true now."""

    def on_peer_gone(self, peer: PeerView) -> None:
        """Handle the close of the last channel to a peer. It may return with the same stream id and another uuid."""

    def on_heartbeat(self, peer: PeerView, state_digest: str | None) -> None:
        """Handle a heartbeat of a peer."""

    def on_event(self, type: str, fields: Mapping[str, Any]) -> None:
        """Handle an event for `vdo_receive`; `fields` as in the contract, without `type` and `ts`.

        A room emits these events of the contract: connected, disconnected, ready, reconnect_scheduled,
        connection_failed, sdk_error, peer_connected, peer_disconnected, data_channel_open, data_channel_close,
        send_error, send_rejected, heartbeat_sent, sync_hello_sent, sync_peer_updated, sync_peer_rejected,
        protocol_auth_failed, protocol_unknown.
        """

    def state_digest(self) -> str | None:
        """Return the digest of the shared state, which heartbeats to other Hubbubs carry; None to omit it."""


class SendResult(msgspec.Struct, frozen=True):
    """The result of sending one message."""

    recipients: tuple[str, ...] = ()
    """The uuids of the peers whose channel accepted it."""
    failed: Mapping[str, str] = {}
    """By uuid, why it was not sent to a recipient.

    `no_open_data_channel`, `not_admitted`, `undeliverable` (a VDO.Ninja bridge would lose it), `too_large` or
    `queue_full`.
    """

    @property
    def ok(self) -> bool:
        """Whether any channel accepted it."""
        return bool(self.recipients)


class BulkChannel(Protocol):
    """The bulk channel to another Hubbub."""

    @property
    def max_frame(self) -> int:
        """The largest frame that `send` accepts."""

    @property
    def buffered_amount(self) -> int:
        """Bytes queued on the connection with the shortest queue; compare it with a high-water mark."""

    def send(self, data: bytes) -> None:
        """Send one signed frame on the connection with the shortest queue.

        With one connection, frames arrive in order; with several they may overtake each other, and frames
        queued on a connection that breaks are lost while the others continue.

        Raises: ChannelClosed, QueueFull, FrameTooLarge.
        """

    async def drain(self, low: int | None = None) -> None:
        """Wait until `low` bytes or fewer are queued on one of the connections.

        Raises: ChannelClosed.
        """

    async def flush(self) -> None:
        """Wait until nothing is queued on any of the connections.

        Raises: ChannelClosed.
        """


class Room(Protocol):
    """Membership in one room, from `connect` to `disconnect`."""

    options: RoomOptions

    @property
    def state(self) -> RoomState:
        """The state of the connection to the signalling server."""

    @property
    def peers(self) -> Sequence[PeerView]:
        """All known peers, including those without an open channel, until they leave."""

    @property
    def reconnects(self) -> int:
        """How often the connection to the signalling server was lost and retried."""

    @property
    def last_error(self) -> str | None: ...

    @property
    def heartbeat_at(self) -> float:
        """Unix time of the last heartbeat that was sent to any peer; 0 if there was none."""

    async def connect(self) -> None:
        """Enter the room. With a target, wait up to `target_wait_s` for its channel, then continue without it.

        Raises: SignallingFailed, StreamIdTaken, EngineMissing; everything is released then.
        """

    async def disconnect(self) -> None:
        """Send `bye` to all peers and leave the room. Further calls do nothing."""

    def find(self, target: str) -> PeerView | None:
        """Return the peer with that stream id, else with that uuid."""

    def send(self, data: Any, *, to: str | None = None) -> SendResult:
        """Send application data to one peer (stream id or uuid), or to all admitted peers.

        Raises: JsonError, if JSON cannot represent it.
        """

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> SendResult:
        """Send an envelope, encoded for each peer, and signed if its key is known."""

    def announce(self, *, to: str | None = None) -> SendResult:
        """Send a hello and a heartbeat now instead of at the next interval."""

    async def drain(self, uuid: str, low: int | None = None) -> None:
        """Wait until the text channel to a peer has room.

        Raises: ChannelClosed.
        """

    def queued_bytes(self, uuid: str) -> int:
        """Return the bytes queued on the text channel to a peer; 0 without a channel."""

    def bulk(self, uuid: str) -> BulkChannel | None:
        """Return the bulk channel to a peer; None if it has none."""


RoomFactory: TypeAlias = Callable[[RoomOptions, Listener], Room]
