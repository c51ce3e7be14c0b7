"""One session: a room with its events, files and shared state.

It implements the callbacks of a room (`room.Listener`) and serves the tools. Messages of peers become events here;
events never contain secrets or details of how a connection is made.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from hubbub import ToolError
from hubbub.packs.peers import limits
from hubbub.packs.peers.event_queue import EventQueue, event_size, iso_time
from hubbub.packs.peers.files.files import Files
from hubbub.packs.peers.owner import LOCAL, Owner
from hubbub.packs.peers.room import PeerView, Room, RoomFactory
from hubbub.packs.peers.session_options import SessionOptions
from hubbub.packs.peers.settings import PeersSettings
from hubbub.packs.peers.signalling import redact_host
from hubbub.packs.peers.state_sync import StateSync
from hubbub.packs.peers.wire import Envelope, FileNack, FileOffer

logger = logging.getLogger("hubbub.peers")

_TIME_FIELDS: Final = {
    "ready": "last_ready_at",
    "connected": "last_connected_at",
    "disconnected": "last_disconnected_at",
}
_DATA_FIELDS: Final = {"data_received": "data", "state_updated": "value"}
"""Events with data of any size, and the field that holds it."""
_NO_FILES: Final = "this session does not accept files"
_STALE_HEARTBEATS: Final = 4


class Session:
    """Membership in one room, as the tools see it."""

    def __init__(
        self,
        session_id: str,
        options: SessionOptions,
        settings: PeersSettings,
        *,
        make_room: RoomFactory,
        owner: Owner = LOCAL,
    ) -> None:
        self.id = session_id
        self.owner = owner
        """The caller that may use it."""
        self.options = options
        self.settings = settings
        self.file_options = options.files
        self.events = EventQueue()
        self.state = StateSync(self, options.room.stream_id, options.state_max_keys, options.state_max_snapshot_entries)
        self.room: Room = make_room(options.room, self)
        self._files = Files(self) if options.has_files else None
        self.last_used_at = 0.0
        """Set by `Sessions`, from its clock."""
        self._times: dict[str, str | None] = dict.fromkeys(_TIME_FIELDS.values())
        self._reconnect_delay_ms = round(options.room.reconnect_s * 1000)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    # -- joining and leaving -------------------------------------------------------------

    async def connect(self) -> None:
        """Enter the room.

        Raises: PeersError; everything is released then.
        """
        try:
            await self.room.connect()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> str:
        """Leave the room and release everything; return the time. Further calls do nothing else."""
        if not self._is_closed:
            self._is_closed = True
            for task in list(self._tasks):
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            if self._files is not None:
                await self._files.close()
            await self.room.disconnect()
            self.emit("stopped")
            self.events.close()
        return iso_time()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task that ends with the session."""
        if self._is_closed:
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._handle_task_end)

    def _handle_task_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a task of a session failed", exc_info=error)

    # -- called by the tools -------------------------------------------------------------

    def emit(self, type: str, /, **fields: Any) -> None:
        """Add an event for `vdo_receive`."""
        if type in _TIME_FIELDS:
            self._times[_TIME_FIELDS[type]] = iso_time()
        if self.options.is_debugging:
            logger.info("session %s: %s", self.id, type)
        data_field = _DATA_FIELDS.get(type)
        if data_field is None:
            self.events.put(type, fields)
        else:
            self.events.put(type, fields, event_size(fields[data_field]))

    @property
    def files(self) -> Files:
        """The file transfers.

        Raises: ToolError, if the session was opened without file tools.
        """
        if self._files is None:
            raise ToolError(
                "the file tools were not enabled when this session was opened; open another with vdo_connect"
            )
        return self._files

    @property
    def is_busy(self) -> bool:
        """Whether a file transfer is in progress, even if no tool was called for a while."""
        return self._files is not None and self._files.is_busy

    def resolve(self, target: str | None) -> str | None:
        """Return the uuid of the peer that a target names; the target itself if there is no such peer."""
        peer = None if target is None else self.room.find(target)
        return target if peer is None else peer.uuid

    def status(self) -> dict[str, Any]:
        """Return the status as the tools show it."""
        room, options = self.room, self.options.room
        peers = list(room.peers)
        connected = [peer.uuid for peer in peers if peer.is_connected]
        return {
            "session_id": self.id,
            "state": room.state,
            "connected": room.state == "connected",
            "room": options.room,
            "stream_id": options.stream_id,
            "target_stream_id": options.target_stream_id,
            "host": redact_host(options.host),
            "force_turn": options.force_turn,
            "peers": connected,
            "peer_count": len(connected),
            "sync_peer_count": len(peers),
            "reconnect_count": room.reconnects,
            "reconnect_delay_ms": self._reconnect_delay_ms,
            **self._times,
            "last_heartbeat_at": iso_time(room.heartbeat_at) if room.heartbeat_at else None,
            "last_error": room.last_error,
            "state_keys": len(self.state.shared),
            "outgoing_transfers": 0 if self._files is None else len(self._files.outgoing),
            "incoming_transfers": 0 if self._files is None else len(self._files.incoming),
            "queued_events": len(self.events),
            "dropped_events": self.events.dropped,
        }

    def sync_peers(self) -> list[dict[str, Any]]:
        """Return the peers as the tools show them."""
        stale_s = max(_STALE_HEARTBEATS * self.options.room.heartbeat_s, limits.PEER_STALE_S)
        return [_describe_peer(peer, stale_s) for peer in self.room.peers]

    # -- called by the room --------------------------------------------------------------

    def on_data(self, peer: PeerView, data: Any) -> None:
        self.emit(
            "data_received", uuid=peer.uuid, streamID=peer.stream_id, fallback=False, data=data, binaryBase64=None
        )

    def on_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        """Pass a file or state envelope to its part of the session."""
        if not envelope.kind.startswith("state."):
            self._handle_file_envelope(peer, envelope)
        elif self.options.has_state or not envelope.is_known:
            self.state.on_envelope(peer, envelope)

    def _handle_file_envelope(self, peer: PeerView, envelope: Envelope) -> None:
        transfer_id = envelope.payload.get("transfer_id")
        if not isinstance(transfer_id, str) or not transfer_id:
            self.emit("file_protocol_error", reason="missing_transfer_id", kind=envelope.kind[:64], from_uuid=peer.uuid)
        elif not envelope.is_known:
            self.emit("file_protocol_unhandled", transfer_id=transfer_id[:256], kind=envelope.kind[:64])
        elif self._files is not None:
            self._files.on_envelope(peer, envelope)
        elif envelope.kind == FileOffer.kind:
            self.emit("file_offer_rejected", transfer_id=transfer_id[:256], reason=_NO_FILES)
            nack = {"transfer_id": transfer_id, "expected_seq": 0, "reason": _NO_FILES}
            self.room.send_envelope(FileNack.kind, nack, to=peer.uuid)

    def on_bytes(self, peer: PeerView, data: bytes) -> None:
        """Pass file chunks to the transfers."""
        if self._files is not None:
            self._files.on_bytes(peer, data)

    def on_peer_ready(self, peer: PeerView) -> None:
        """Start synchronising with a peer that was admitted."""
        if self.options.has_state:
            self.state.on_peer_ready(peer)
        if self._files is not None:
            self._files.on_peer_ready()

    def on_bulk_open(self, peer: PeerView) -> None:
        """Let waiting transfers use the bulk channel."""
        if self._files is not None:
            self._files.on_peer_ready()

    def on_peer_gone(self, peer: PeerView) -> None:
        """Update state and transfers for a peer that left."""
        self.state.on_peer_gone(peer)
        if self._files is not None:
            self._files.on_peer_gone(peer)

    def on_heartbeat(self, peer: PeerView, state_digest: str | None) -> None:
        """Compare the peer's state digest with ours."""
        if self.options.has_state:
            self.state.on_heartbeat(peer, state_digest)

    def on_event(self, type: str, fields: Mapping[str, Any]) -> None:
        """Record an event of the room."""
        match type:
            case "reconnect_scheduled":
                self._reconnect_delay_ms = fields["inMs"]
            case "connected":
                self._reconnect_delay_ms = round(self.options.room.reconnect_s * 1000)
            case "ready":
                fields = {**fields, "host": redact_host(fields["host"])}
        self.emit(type, **fields)

    def state_digest(self) -> str | None:
        """Return the digest of the shared state; None if the session has no state tools."""
        return self.state.shared.digest if self.options.has_state else None


def _describe_peer(peer: PeerView, stale_s: float) -> dict[str, Any]:
    return {
        "uuid": peer.uuid,
        "stream_id": peer.stream_id,
        "connected": peer.is_connected,
        "handshake_state": peer.handshake,
        "auth_ok": peer.is_authenticated,
        "rejected_reason": peer.rejected_reason,
        "shared_key_ready": peer.has_key,
        "last_seen_at": iso_time(peer.last_seen) if peer.last_seen else None,
        "last_heartbeat_at": iso_time(peer.last_heartbeat) if peer.last_heartbeat else None,
        "stale": time.time() - peer.last_seen > stale_s,
        "capabilities": {name: getattr(peer.capabilities, name) for name in peer.capabilities.__struct_fields__},
    }
