"""The mesh of all peers in one room: the `Room` that the upper half uses.

`discovery` decides which peers to connect to, `negotiator` makes connections, `signalling_handler` handles signalling
messages, `inbound` handles messages on channels, `outbound` sends messages, `liveness` detects dead peers. They share a
`MeshContext`. Channels stay open while signalling reconnects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hubbub.pack.http import Backoff
from hubbub.packs.peers import limits
from hubbub.packs.peers.bulk_channel import SignedBulkChannel
from hubbub.packs.peers.bulk_connections import BulkConnections
from hubbub.packs.peers.connection_throttle import ConnectionThrottle
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.discovery import Discovery
from hubbub.packs.peers.engine import Channel, Engine
from hubbub.packs.peers.errors import ChannelClosed, PeersError
from hubbub.packs.peers.inbound import SUPERSEDED, InboundRouter
from hubbub.packs.peers.js_json import stringify
from hubbub.packs.peers.link import Link
from hubbub.packs.peers.liveness import LivenessMonitor, send_ping
from hubbub.packs.peers.negotiator import Negotiator
from hubbub.packs.peers.outbound import MessageSender
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.room import BulkChannel, Listener, PeerView, RoomOptions, RoomState, SendResult
from hubbub.packs.peers.signalling import Alert, IncomingMessage, Signalling
from hubbub.packs.peers.signalling_client import SignallingClient
from hubbub.packs.peers.signalling_handler import SignallingHandler

_BYE: Final = '{"bye":true}'


class Mesh:
    """Membership in one room; implements `room.Room`."""

    def __init__(
        self,
        options: RoomOptions,
        listener: Listener,
        *,
        engine: Engine | None = None,
        signalling: Signalling | None = None,
        throttle: ConnectionThrottle | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self.reconnects = 0
        self.last_error: str | None = None
        context = self._context = MeshContext(options, listener, engine, clock)
        self.roster = context.roster
        self._target_connected = asyncio.Event()
        self._signalling: Signalling = signalling or self._make_signalling_client()
        self._outbound = MessageSender(context)
        self._discovery = Discovery(
            context.names, options.stream_id, options.target_stream_id, has_stream=context.roster.has_stream
        )
        negotiator = Negotiator(context, self._signalling.send, self._attach)
        self._signalling_handler = SignallingHandler(
            context, self._signalling.send, self._discovery, negotiator, throttle or ConnectionThrottle()
        )
        self._bulk_connections = BulkConnections(context, self._outbound)
        self._inbound = InboundRouter(
            context, self._outbound, self._signalling_handler, self._bulk_connections, self._discovery
        )
        self._discovery.on_due = self._signalling_handler.connect_to
        self._bulk_connections.on_bytes = self._inbound.handle_bytes
        self.liveness = LivenessMonitor(context, self._outbound, self._signalling_handler, self._inbound)

    def _make_signalling_client(self) -> SignallingClient:
        options, names = self.options, self._context.names
        steps = [options.reconnect_s]
        while steps[-1] < options.max_reconnect_s:
            steps.append(min(steps[-1] * 2, options.max_reconnect_s))
        room_id, stream_id = names.room_id(options.room), names.wire_stream_id(options.stream_id)
        return SignallingClient(options.host, room_id, stream_id, Backoff(steps, jitter=0.2))

    @property
    def state(self) -> RoomState:
        """The state of the connection to the signalling server."""
        return self._context.state

    # -- joining and leaving -------------------------------------------------------------

    async def connect(self) -> None:
        """Enter the room."""
        options, context = self.options, self._context
        if context.state != "idle":
            raise PeersError("this room was joined before; create another one")
        if options.enforce_join_token and not options.join_token_secrets:
            raise PeersError("enforce_join_token needs join_token_secret: without it, join tokens cannot be verified")
        _ = context.engine  # Report a missing library before other clients see us.
        self._signalling.on_message = self._handle_signalling
        self._signalling.on_lost = self._handle_signalling_lost
        self._signalling.on_rejoined = self._handle_signalling_restored
        context.state = "connecting"
        try:
            listing = await self._signalling.join()
        except BaseException as error:
            context.state, self.last_error = "stopped", str(error)
            raise
        context.state = "connected"
        self._signalling_handler.handle_message(listing)
        self.liveness.start()
        self._emit_ready()
        await self._wait_for_target()

    def _emit_ready(self) -> None:
        """Emit `connected`: on joining the room, and each time that signalling has reconnected."""
        options = self.options
        self._context.emit("connected")
        self._context.emit(
            "ready",
            room=options.room,
            streamID=options.stream_id,
            targetStreamID=options.target_stream_id,
            host=options.host,
            forceTURN=options.force_turn,
        )

    async def _wait_for_target(self) -> None:
        if self.options.target_stream_id in (None, self.options.stream_id):
            return
        try:
            async with asyncio.timeout(self.options.target_wait_s):
                await self._target_connected.wait()
        except TimeoutError:
            pass  # It may come later.
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        """Send `bye` to all peers and leave the room."""
        if self.state in ("idle", "stopped"):
            return
        self._context.state = "stopped"
        self._discovery.close()
        self._signalling_handler.close()
        await self.liveness.stop()
        await self._signalling.close()
        peers = list(self.roster)
        await asyncio.gather(*(self._leave_link(link) for peer in peers for link in peer.links.values()))
        for peer in peers:
            await self._bulk_connections.close(peer)
        await self._context.cancel_tasks()

    async def _leave_link(self, link: Link) -> None:
        try:
            async with asyncio.timeout(limits.PEER_BYE_TIMEOUT_S):
                if link.is_open or link.is_opening:
                    await link.send_last(_BYE)
        except (PeersError, TimeoutError):
            pass
        await link.close("we left")

    # -- called by the upper half ----------------------------------------------------------

    @property
    def peers(self) -> Sequence[PeerView]:
        """All known peers."""
        return [peer.view(self._context.trust) for peer in self.roster]

    def find(self, target: str) -> PeerView | None:
        """Return the peer with that stream id, else with that uuid."""
        peer = self.roster.find(target)
        return None if peer is None else peer.view(self._context.trust)

    def send(self, data: Any, *, to: str | None = None) -> SendResult:
        """Send application data."""
        return self._outbound.send_data(data, to)

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> SendResult:
        """Send an envelope, encoded for each peer."""
        return self._outbound.send_envelope(kind, payload, to)

    def announce(self, *, to: str | None = None) -> SendResult:
        """Send a hello and a heartbeat now; the hello also to peers that are not admitted."""
        sent = self._outbound.send_hello(to)
        self._context.emit("heartbeat_sent", ok=self.liveness.send_heartbeat(sent.recipients))
        return sent

    @property
    def heartbeat_at(self) -> float:
        """Unix time of the last heartbeat that was sent; 0 if there was none."""
        return self.liveness.heartbeat_sent_at

    async def drain(self, uuid: str, low: int | None = None) -> None:
        """Wait until the text channel to a peer has room."""
        channel = self._channel(uuid)
        if channel is None:
            raise ChannelClosed(f"the peer {uuid} has no open channel")
        await channel.drain(low)

    def queued_bytes(self, uuid: str) -> int:
        """Return the bytes queued on the text channel to a peer."""
        channel = self._channel(uuid)
        return 0 if channel is None else channel.buffered_amount

    def _channel(self, uuid: str) -> Channel | None:
        peer = self.roster.get(uuid)
        link = None if peer is None else peer.link
        return None if link is None else link.channel

    def bulk(self, uuid: str) -> BulkChannel | None:
        """Return the bulk channel to a peer; None if it is not open, or the peer has no key or is not admitted."""
        peer, trust = self.roster.get(uuid), self._context.trust
        if peer is None or peer.bulk is None or peer.auth.key is None or not trust.admits(peer.auth):
            return None
        return SignedBulkChannel(peer, trust)

    # -- connections -------------------------------------------------------------------------

    def _attach(self, peer: Peer, link: Link) -> None:
        """Set the callbacks of a new connection."""
        link.on_open = lambda: self._handle_open(peer, link)
        link.on_close = lambda reason: self._handle_close(peer, link, reason)
        link.on_text = lambda text: self._inbound.handle_text(peer, link, text)
        link.on_bytes = lambda data: self._inbound.handle_bytes(peer, data)
        link.on_bulk_open = lambda: self._context.listener.on_bulk_open(peer.view(self._context.trust))

    def _handle_open(self, peer: Peer, link: Link) -> None:
        context = self._context
        peer.mark_alive()
        detail = {"uuid": peer.uuid, "type": link.role, "streamID": peer.stream_id}
        if not peer.has_been_open:
            peer.has_been_open = True
            context.emit("peer_connected", uuid=peer.uuid, detail=detail)
        context.emit("data_channel_open", detail=detail)
        info = {"info": {"label": self.options.label}}
        try:
            link.send(stringify(info if link.role == "publisher" else {"audio": False, "video": False, **info}))
        except PeersError:
            return
        self._outbound.send_hello_to_peer(peer)
        send_ping(peer)
        self._discovery.handle_connect(peer.stream_id)
        self._signalling_handler.release_slot(peer.stream_id)
        if peer.stream_id == self.options.target_stream_id:
            self._target_connected.set()
        if peer.auth.signs_everything and context.trust.admits(peer.auth):
            link.add_bulk()

    def _handle_close(self, peer: Peer, link: Link, reason: str) -> None:
        context = self._context
        context.spawn(link.connection.close())
        del peer.links[link.role]
        if link.role == "publisher" and not link.is_described:
            self._discovery.record_unanswered(peer.stream_id, is_offer=True)
        detail = {"uuid": peer.uuid, "type": link.role, "streamID": peer.stream_id}
        if link.has_been_open:
            context.emit("data_channel_close", detail=detail)
        elif context.state != "stopped":
            context.emit("connection_failed", detail={**detail, "reason": reason})
        if not peer.links:
            self._handle_peer_gone(peer, reason)

    def _handle_peer_gone(self, peer: Peer, reason: str) -> None:
        context = self._context
        context.roster.remove(peer)
        context.spawn(self._bulk_connections.close(peer))
        if peer.has_been_open:
            detail = {"uuid": peer.uuid, "streamID": peer.stream_id, "reason": reason}
            context.emit("peer_disconnected", uuid=peer.uuid, detail=detail)
            context.listener.on_peer_gone(peer.view(context.trust))
        self._signalling_handler.release_slot(peer.stream_id)
        if context.state != "stopped" and reason != SUPERSEDED and not context.roster.has_stream(peer.stream_id):
            self._discovery.handle_disconnect(peer.stream_id, is_final=reason == "bye")

    # -- signalling --------------------------------------------------------------------------

    def _handle_signalling(self, message: IncomingMessage) -> None:
        if isinstance(message, Alert):
            self.last_error = message.message
        self._signalling_handler.handle_message(message)

    def _handle_signalling_lost(self, reason: str, wait_s: float) -> None:
        context = self._context
        if context.state == "connected":
            context.emit("disconnected")
        context.state, self.last_error = "reconnecting", reason
        self.reconnects += 1
        context.emit("reconnect_scheduled", reason=reason, inMs=round(wait_s * 1000))

    def _handle_signalling_restored(self) -> None:
        self._context.state = "connected"
        self._emit_ready()
