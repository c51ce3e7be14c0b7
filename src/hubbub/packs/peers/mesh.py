"""Everybody in one room: the `Room` that the upper half uses.

It brings the parts together: `finder` says whom to ask, `negotiator` makes connections,
`exchange` hears the signalling server and `reception` the channels, `trust` says what
passes, `watch` notices who is gone. Channels live on when the signalling server goes
away, and it is gone back to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final

from hubbub import bounds
from hubbub.net.backoff import Backoff
from hubbub.packs.peers.bulk import BulkLine
from hubbub.packs.peers.engine import Candidate, Engine, load_engine
from hubbub.packs.peers.exchange import Exchange
from hubbub.packs.peers.failures import ChannelClosed, PeersError
from hubbub.packs.peers.finder import Finder
from hubbub.packs.peers.javascript import stringify
from hubbub.packs.peers.link import Link
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.negotiator import Negotiator
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.peer_view import PeerView
from hubbub.packs.peers.reception import Reception
from hubbub.packs.peers.room import Bulk, Listener, RoomOptions, RoomState, Sent
from hubbub.packs.peers.roster import Roster
from hubbub.packs.peers.sending import Sending
from hubbub.packs.peers.signalling import Alert, Incoming, Signalling
from hubbub.packs.peers.signalling_client import SignallingClient
from hubbub.packs.peers.strands import Strands
from hubbub.packs.peers.trust import Trust
from hubbub.packs.peers.turns import turns
from hubbub.packs.peers.watch import Watch, ping
from hubbub.packs.peers.wire import Control, Hello, StrandAnswer, StrandOffer

_BYE: Final = '{"bye":true}'
_GOODBYE_S: Final = 0.5
_SUPERSEDED: Final = "the peer is back with another connection"


class Mesh:
    """One stay in one room; see `room.Room`."""

    def __init__(
        self,
        options: RoomOptions,
        listener: Listener,
        *,
        engine: Engine | None = None,
        signalling: Signalling | None = None,
    ) -> None:
        self.options = options
        self.listener = listener
        self.state: RoomState = "idle"
        self.reconnects = 0
        self.last_error: str | None = None
        self.roster = Roster(options.max_peers)
        self.trust = Trust(options)
        self._engine = engine
        self._names = WireNames(options.password)
        self._signalling: Signalling = signalling or self._client()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: set[str] = set()
        self._target_is_there = asyncio.Event()
        self._sending = Sending(self.roster, self.trust, self.event, lambda: self.state == "connected")
        self._reception = Reception(self)
        self._watch = Watch(self)
        self._finder = Finder(
            self._names, options.stream_id, options.target_stream_id, ask=self._ask, has=self.roster.has_stream
        )

    def _client(self) -> SignallingClient:
        options = self.options
        steps = [options.reconnect_s]
        while steps[-1] < options.max_reconnect_s:
            steps.append(min(steps[-1] * 2, options.max_reconnect_s))
        room_id, stream_id = self._names.room(options.room), self._names.stream(options.stream_id)
        return SignallingClient(options.host, room_id, stream_id, Backoff(steps, jitter=0.2))

    # -- coming and going ----------------------------------------------------------------

    async def connect(self) -> None:
        """Enter the room."""
        options = self.options
        if self.state != "idle":
            raise PeersError("a room is entered once; make another")
        if options.enforce_join_token and not options.join_token_secrets:
            raise PeersError("enforce_join_token needs join_token_secret: without it no token can be checked")
        engine = self._engine or load_engine(options.engine)
        self._negotiator = Negotiator(options, self._names, engine, self, self)
        self._strands = Strands(options, engine, self)
        self._exchange = Exchange(self.roster, self._names, self._finder, self._negotiator, self.event)
        self._signalling.on_message = self._signalled
        self._signalling.on_lost = self._signalling_lost
        self._signalling.on_entered = self._signalling_back
        self.state = "connecting"
        try:
            listing = await self._signalling.enter()
        except BaseException as error:
            self.state, self.last_error = "stopped", str(error)
            raise
        self.state = "connected"
        self.event("connected")
        self._exchange.take(listing)
        self._watch.start()
        self.event(
            "ready",
            room=options.room,
            streamID=options.stream_id,
            targetStreamID=options.target_stream_id,
            host=options.host,
            forceTURN=options.force_turn,
        )
        await self._wait_for_target()

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
        """Say goodbye to all and leave."""
        if self.state in ("idle", "stopped"):
            return
        self.state = "stopped"
        self._finder.close()
        for stream_id in list(self._turns):
            self._give_turn_back(stream_id)
        await self._watch.stop()
        await self._signalling.close()
        links = [link for peer in self.roster for link in peer.links.values()]
        peers = list(self.roster)
        await asyncio.gather(*(self._part(link) for link in links))
        for peer in peers:
            await self._strands.close(peer)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _part(self, link: Link) -> None:
        try:
            async with asyncio.timeout(_GOODBYE_S):
                if link.is_open:
                    await link.part(_BYE)
        except (PeersError, TimeoutError):
            pass
        await link.close("we left")

    # -- what the upper half asks ----------------------------------------------------------

    @property
    def peers(self) -> Sequence[PeerView]:
        """Everybody we have heard of."""
        return [peer.view(self.trust) for peer in self.roster]

    def find(self, target: str) -> PeerView | None:
        """The peer with that stream id, else with that uuid."""
        peer = self.roster.find(target)
        return None if peer is None else peer.view(self.trust)

    def send(self, data: Any, *, to: str | None = None) -> Sent:
        """Send data of the application."""
        return self._sending.data(data, to)

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> Sent:
        """Send an envelope, one for each peer."""
        return self._sending.envelope(kind, payload, to)

    def announce(self, *, to: str | None = None) -> Sent:
        """Say hello again; also to those who are not admitted."""
        return self._sending.hello(to)

    async def drain(self, uuid: str, low: int = bounds.PEER_LOW_WATER_BYTES) -> None:
        """Wait until the channel of text to a peer has room."""
        peer = self.roster.get(uuid)
        link = None if peer is None else peer.link
        if link is None or link.channel is None:
            raise ChannelClosed("there is no channel to this peer")
        await link.channel.drain(low)

    def bulk(self, uuid: str) -> Bulk | None:
        """The way of bytes to a peer."""
        peer = self.roster.get(uuid)
        if peer is None or peer.bulk is None or peer.standing.key is None or not self.trust.admits(peer.standing):
            return None
        return BulkLine(peer, self.trust)

    # -- what the parts ask ------------------------------------------------------------------

    def event(self, type: str, **fields: Any) -> None:
        """Tell the upper half what happened."""
        self.listener.on_event(type, fields)

    def tell(self, message: dict[str, Any]) -> None:
        """Say something to the signalling server."""
        self._signalling.send(message)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something meanwhile; what goes wrong is told."""
        if self.state == "stopped":
            work.close()
            return
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.event("sdk_error", detail={"message": type(error).__name__})

    def say(self, peer: Peer, kind: str, payload: Mapping[str, Any]) -> bool:
        """Send an envelope to one peer, admitted or not."""
        is_signed = not kind.startswith("sync.") or kind.endswith("_ack")
        frame = self.trust.frame(peer.standing if is_signed else None, kind, payload)
        return self._sending.one(peer, frame) is None

    def greet(self, peer: Peer) -> None:
        """Say hello to one peer."""
        ok = self.say(peer, Hello.kind, self.trust.hello())
        self.event("sync_hello_sent", ok=ok, target_uuid=peer.uuid)

    def updated(self, peer: Peer) -> None:
        """A hello passed."""
        if not self.trust.admits(peer.standing):
            return
        if peer.standing.capabilities.bulk_v1 and peer.standing.key is not None:
            for link in peer.links.values():
                link.add_bulk()
            self._strands.begin(peer)
        self.listener.on_peer_ready(peer.view(self.trust))

    def strand(self, peer: Peer, message: StrandOffer) -> None:
        """One more connection for bytes is made."""
        if isinstance(message, StrandAnswer):
            self._strands.answered(peer, message)
        elif peer.standing.counts:
            self._strands.offered(peer, message)

    def strand_got(self, peer: Peer, data: bytes) -> None:
        """A frame of bytes came over one of them."""
        if self.roster.get(peer.uuid) is peer:
            self._reception.got_bytes(peer, data)

    def control(self, peer: Peer, link: Link, control: Control) -> None:
        """A message about the connection itself, over its own channel."""
        self._exchange.control(peer, link, control)

    def drop(self, peer: Peer, link: Link, reason: str) -> None:
        """End a connection."""
        if self.state == "stopped":
            link.release()
        else:
            self.spawn(link.close(reason))

    # -- names -------------------------------------------------------------------------------

    def is_free(self, peer: Peer, stream_id: str) -> bool | None:
        """Whether a peer may have a name; None: not clear yet."""
        if peer.standing.stream_id == stream_id:
            return True
        if self._finder.holders.get(stream_id, peer.address) != peer.address:
            return False
        if self._finder.stream_of(peer.address) not in (None, stream_id[: bounds.PEER_NAME_CHARACTERS]):
            return False
        return None if self._rivals(peer, stream_id) else True

    def _rivals(self, peer: Peer, stream_id: str) -> list[Link]:
        others = [other for other in self.roster.named(stream_id) if other is not peer]
        return [link for other in others if (link := other.link) is not None]

    def settle_claim(self, peer: Peer) -> None:
        """Decide about a name that two claim: who has it keeps it, if there is a sign of life."""
        if peer.claim is None:
            return
        envelope, hello = peer.claim
        rivals = self._rivals(peer, envelope.from_stream_id)
        if any(link.heard_at > peer.claimed_at for link in rivals):
            self._reception.reject(peer, "stream id is in use")
        elif not rivals or time.monotonic() - peer.claimed_at > bounds.PEER_CLAIM_S:
            for link in rivals:
                self.spawn(link.close(_SUPERSEDED))
            self._reception.admit(peer, envelope, hello)

    # -- links -------------------------------------------------------------------------------

    def link_opened(self, link: Link) -> None:
        """Text can be sent."""
        peer = self.roster.owner_of(link)
        if peer is None:
            return
        detail = {"uuid": peer.uuid, "type": link.role, "streamID": peer.stream_id}
        if not peer.has_been_open:
            peer.has_been_open = True
            self.event("peer_connected", uuid=peer.uuid, detail=detail)
        self.event("data_channel_open", detail=detail)
        info = {"info": {"label": self.options.label}}
        try:
            link.send(stringify(info if link.role == "publisher" else {"audio": False, "video": False, **info}))
        except PeersError:
            return
        self.greet(peer)
        ping(link)
        self._finder.found(peer.stream_id)
        self._give_turn_back(peer.stream_id)
        if peer.stream_id == self.options.target_stream_id:
            self._target_is_there.set()
        if peer.standing.counts and self.trust.admits(peer.standing):
            link.add_bulk()

    def link_heard(self, link: Link, text: str) -> None:
        """A frame of text came."""
        peer = self.roster.owner_of(link)
        if peer is not None:
            self._reception.heard(peer, link, text)

    def link_got_bytes(self, link: Link, data: bytes) -> None:
        """A frame of bytes came."""
        peer = self.roster.owner_of(link)
        if peer is not None:
            self._reception.got_bytes(peer, data)

    def link_found(self, link: Link, candidate: Candidate) -> None:
        """One more address of ours."""
        peer = self.roster.owner_of(link)
        if peer is not None:
            self._negotiator.send_candidate(peer, link, candidate)

    def link_closed(self, link: Link, reason: str) -> None:
        """It is over."""
        peer = self.roster.owner_of(link)
        self.spawn(link.connection.close())
        if peer is None:
            return
        del peer.links[link.role]
        detail = {"uuid": peer.uuid, "type": link.role, "streamID": peer.stream_id}
        if link.has_been_open:
            self.event("data_channel_close", detail=detail)
        elif self.state != "stopped":
            self.event("connection_failed", detail={**detail, "reason": reason})
        if not peer.links:
            self._gone(peer, reason)

    def _gone(self, peer: Peer, reason: str) -> None:
        self.roster.remove(peer)
        self.spawn(self._strands.close(peer))
        if peer.has_been_open:
            detail = {"uuid": peer.uuid, "streamID": peer.stream_id, "reason": reason}
            self.event("peer_disconnected", uuid=peer.uuid, detail=detail)
            self.listener.on_peer_gone(peer.view(self.trust))
        self._give_turn_back(peer.stream_id)
        if self.state != "stopped" and reason != _SUPERSEDED and not self.roster.has_stream(peer.stream_id):
            self._finder.lost(peer.stream_id, is_over=reason == "bye")

    # -- signalling --------------------------------------------------------------------------

    def _signalled(self, message: Incoming) -> None:
        if isinstance(message, Alert):
            self.last_error = message.message
        self._exchange.take(message)

    def _signalling_lost(self, reason: str, wait_s: float) -> None:
        if self.state == "connected":
            self.event("disconnected")
        self.state, self.last_error = "reconnecting", reason
        self.reconnects += 1
        self.event("reconnect_scheduled", reason=reason, inMs=round(wait_s * 1000))

    def _signalling_back(self) -> None:
        self.state = "connected"
        self.event("connected")

    def _ask(self, stream_id: str) -> None:
        if stream_id == self.options.target_stream_id:
            self._play(stream_id)
            return
        self._turns.add(stream_id)
        is_patient = not self._finder.is_our_turn(stream_id)
        turns().take((id(self), stream_id), lambda: self._play(stream_id), is_patient=is_patient)

    def _play(self, stream_id: str) -> None:
        if self.roster.has_stream(stream_id):
            self._give_turn_back(stream_id)
            return
        self.tell({"request": "play", "streamID": self._names.stream(stream_id)})
        self._watch.asked(stream_id)

    def _give_turn_back(self, stream_id: str | None) -> None:
        if stream_id in self._turns:
            self._turns.discard(stream_id)
            turns().done((id(self), stream_id))

    def unanswered(self, stream_id: str) -> None:
        """Somebody did not answer our wish for a connection."""
        if not self.roster.has_stream(stream_id):
            self._give_turn_back(stream_id)
            self._finder.lost(stream_id, is_over=False)
