"""The mesh of all peers in one room: the `Room` that the upper half uses.

`finder` decides whom to connect to, `negotiator` makes connections, `exchange` handles signalling messages, `reception`
handles messages on channels, `sending` sends, `watch` detects dead peers. They share a `MeshContext`. Channels stay
open while signalling reconnects.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from hubbub.pack.http import Backoff
from hubbub.packs.peers import limits
from hubbub.packs.peers.bulk import BulkLine
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.engine import Channel, Engine
from hubbub.packs.peers.exchange import Exchange
from hubbub.packs.peers.failures import ChannelClosed, PeersError
from hubbub.packs.peers.finder import Finder
from hubbub.packs.peers.javascript import stringify
from hubbub.packs.peers.link import Link
from hubbub.packs.peers.negotiator import Negotiator
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.reception import SUPERSEDED, Reception
from hubbub.packs.peers.room import Bulk, Listener, PeerView, RoomOptions, RoomState, Sent
from hubbub.packs.peers.sending import Sending
from hubbub.packs.peers.signalling import Alert, Incoming, Signalling
from hubbub.packs.peers.signalling_client import SignallingClient
from hubbub.packs.peers.strands import Strands
from hubbub.packs.peers.turns import Turns
from hubbub.packs.peers.watch import Watch, ping

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
        turns: Turns | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self.reconnects = 0
        self.last_error: str | None = None
        context = self._context = MeshContext(options, listener, engine, clock)
        self.roster = context.roster
        self._target_is_there = asyncio.Event()
        self._signalling: Signalling = signalling or self._client()
        self._sending = Sending(context)
        self._finder = Finder(context.names, options.stream_id, options.target_stream_id, has=context.roster.has_stream)
        negotiator = Negotiator(context, self._signalling.send, self._attach)
        self._exchange = Exchange(context, self._signalling.send, self._finder, negotiator, turns or Turns())
        self._strands = Strands(context, self._sending)
        self._reception = Reception(context, self._sending, self._exchange, self._strands, self._finder)
        self._finder.on_due = self._exchange.reach
        self._strands.on_bytes = self._reception.got_bytes
        self.watch = Watch(context, self._sending, self._exchange, self._reception)

    def _client(self) -> SignallingClient:
        options, names = self.options, self._context.names
        steps = [options.reconnect_s]
        while steps[-1] < options.max_reconnect_s:
            steps.append(min(steps[-1] * 2, options.max_reconnect_s))
        room_id, stream_id = names.room(options.room), names.stream(options.stream_id)
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
            raise PeersError("a room is entered once; make another")
        if options.enforce_join_token and not options.join_token_secrets:
            raise PeersError("enforce_join_token needs join_token_secret: without it no token can be checked")
        _ = context.engine  # Report a missing library before other clients see us.
        self._signalling.on_message = self._signalled
        self._signalling.on_lost = self._signalling_lost
        self._signalling.on_entered = self._signalling_back
        context.state = "connecting"
        try:
            listing = await self._signalling.enter()
        except BaseException as error:
            context.state, self.last_error = "stopped", str(error)
            raise
        context.state = "connected"
        self._exchange.take(listing)
        self.watch.start()
        self._tell_ready()
        await self._wait_for_target()

    def _tell_ready(self) -> None:
        """Emit `connected`: on joining the room, and each time that signalling has reconnected."""
        options = self.options
        self._context.event("connected")
        self._context.event(
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
                await self._target_is_there.wait()
        except TimeoutError:
            pass  # It may come later.
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        """Say `bye` to all peers and leave the room."""
        if self.state in ("idle", "stopped"):
            return
        self._context.state = "stopped"
        self._finder.close()
        self._exchange.close()
        await self.watch.stop()
        await self._signalling.close()
        peers = list(self.roster)
        await asyncio.gather(*(self._part(link) for peer in peers for link in peer.links.values()))
        for peer in peers:
            await self._strands.close(peer)
        await self._context.cancel_tasks()

    async def _part(self, link: Link) -> None:
        try:
            async with asyncio.timeout(limits.PEER_BYE_S):
                if link.is_open or link.is_opening:
                    await link.part(_BYE)
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

    def send(self, data: Any, *, to: str | None = None) -> Sent:
        """Send application data."""
        return self._sending.data(data, to)

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> Sent:
        """Send an envelope, encoded for each peer."""
        return self._sending.envelope(kind, payload, to)

    def announce(self, *, to: str | None = None) -> Sent:
        """Send a hello and a heartbeat now; the hello also to peers that are not admitted."""
        sent = self._sending.hello(to)
        self._context.event("heartbeat_sent", ok=self.watch.beat(sent.to))
        return sent

    @property
    def heartbeat_at(self) -> float:
        """Unix time of the last heartbeat that was sent; 0 if there was none."""
        return self.watch.beaten_at

    async def drain(self, uuid: str, low: int | None = None) -> None:
        """Wait until the text channel to a peer has room."""
        channel = self._channel(uuid)
        if channel is None:
            raise ChannelClosed("there is no channel to this peer")
        await channel.drain(low)

    def queued_bytes(self, uuid: str) -> int:
        """Return the bytes queued on the text channel to a peer."""
        channel = self._channel(uuid)
        return 0 if channel is None else channel.buffered_amount

    def _channel(self, uuid: str) -> Channel | None:
        peer = self.roster.get(uuid)
        link = None if peer is None else peer.link
        return None if link is None else link.channel

    def bulk(self, uuid: str) -> Bulk | None:
        """Return the bulk channel to a peer; None if it is not open, or the peer has no key or is not admitted."""
        peer, trust = self.roster.get(uuid), self._context.trust
        if peer is None or peer.bulk is None or peer.standing.key is None or not trust.admits(peer.standing):
            return None
        return BulkLine(peer, trust)

    # -- connections -------------------------------------------------------------------------

    def _attach(self, peer: Peer, link: Link) -> None:
        """Set the callbacks of a new connection."""
        link.on_open = lambda: self._opened(peer, link)
        link.on_close = lambda reason: self._closed(peer, link, reason)
        link.on_text = lambda text: self._reception.heard(peer, link, text)
        link.on_bytes = lambda data: self._reception.got_bytes(peer, data)
        link.on_bulk_open = lambda: self._context.listener.on_bulk_open(peer.view(self._context.trust))

    def _opened(self, peer: Peer, link: Link) -> None:
        context = self._context
        peer.note_life()
        detail = {"uuid": peer.uuid, "type": link.role, "streamID": peer.stream_id}
        if not peer.has_been_open:
            peer.has_been_open = True
            context.event("peer_connected", uuid=peer.uuid, detail=detail)
        context.event("data_channel_open", detail=detail)
        info = {"info": {"label": self.options.label}}
        try:
            link.send(stringify(info if link.role == "publisher" else {"audio": False, "video": False, **info}))
        except PeersError:
            return
        self._sending.greet(peer)
        ping(peer)
        self._finder.found(peer.stream_id)
        self._exchange.give_turn_back(peer.stream_id)
        if peer.stream_id == self.options.target_stream_id:
            self._target_is_there.set()
        if peer.standing.counts and context.trust.admits(peer.standing):
            link.add_bulk()

    def _closed(self, peer: Peer, link: Link, reason: str) -> None:
        context = self._context
        context.spawn(link.connection.close())
        del peer.links[link.role]
        if link.role == "publisher" and not link.is_described:
            self._finder.note_ignored(peer.stream_id, is_offer=True)
        detail = {"uuid": peer.uuid, "type": link.role, "streamID": peer.stream_id}
        if link.has_been_open:
            context.event("data_channel_close", detail=detail)
        elif context.state != "stopped":
            context.event("connection_failed", detail={**detail, "reason": reason})
        if not peer.links:
            self._gone(peer, reason)

    def _gone(self, peer: Peer, reason: str) -> None:
        context = self._context
        context.roster.remove(peer)
        context.spawn(self._strands.close(peer))
        if peer.has_been_open:
            detail = {"uuid": peer.uuid, "streamID": peer.stream_id, "reason": reason}
            context.event("peer_disconnected", uuid=peer.uuid, detail=detail)
            context.listener.on_peer_gone(peer.view(context.trust))
        self._exchange.give_turn_back(peer.stream_id)
        if context.state != "stopped" and reason != SUPERSEDED and not context.roster.has_stream(peer.stream_id):
            self._finder.lost(peer.stream_id, is_over=reason == "bye")

    # -- signalling --------------------------------------------------------------------------

    def _signalled(self, message: Incoming) -> None:
        if isinstance(message, Alert):
            self.last_error = message.message
        self._exchange.take(message)

    def _signalling_lost(self, reason: str, wait_s: float) -> None:
        context = self._context
        if context.state == "connected":
            context.event("disconnected")
        context.state, self.last_error = "reconnecting", reason
        self.reconnects += 1
        context.event("reconnect_scheduled", reason=reason, inMs=round(wait_s * 1000))

    def _signalling_back(self) -> None:
        self._context.state = "connected"
        self._tell_ready()
