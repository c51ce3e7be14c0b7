"""Everybody in one room: the `Room` that the upper half uses.

It brings the parts together: `finder` says whom to ask, `negotiator` makes connections,
`reception` takes what comes over them, `trust` says what passes, `watch` notices who is
gone. Channels live on when the signalling server goes away, and it is gone back to.
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
from hubbub.packs.peers.failures import ChannelClosed, FrameTooLarge, PeersError, QueueFull
from hubbub.packs.peers.finder import Finder
from hubbub.packs.peers.javascript import stringify
from hubbub.packs.peers.link import Link
from hubbub.packs.peers.names import WireNames
from hubbub.packs.peers.negotiator import Negotiator
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.peer_view import PeerView
from hubbub.packs.peers.reception import Reception
from hubbub.packs.peers.room import Bulk, Listener, RoomOptions, RoomState, Sent
from hubbub.packs.peers.sealing import SealBroken
from hubbub.packs.peers.signalling import (
    Alert,
    Candidates,
    Described,
    Gone,
    Incoming,
    Joined,
    Listing,
    PlayRequest,
    RestartRequest,
    Signalling,
)
from hubbub.packs.peers.signalling_client import SignallingClient
from hubbub.packs.peers.trust import Trust
from hubbub.packs.peers.watch import Watch
from hubbub.packs.peers.wire import Control, Hello, original_swallows, pipe_frame

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
        self._engine = engine
        self._names = WireNames(options.password)
        self._signalling: Signalling = signalling or self._client()
        self._peers: dict[str, Peer] = {}
        self._by_address: dict[str, Peer] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._target_is_there = asyncio.Event()

    def _client(self) -> SignallingClient:
        options = self.options
        steps = [options.reconnect_s]
        while steps[-1] < options.max_reconnect_s:
            steps.append(min(steps[-1] * 2, options.max_reconnect_s))
        names = self._names
        return SignallingClient(
            options.host, names.room(options.room), names.stream(options.stream_id), Backoff(steps, jitter=0.2)
        )

    # -- coming and going ----------------------------------------------------------------

    async def connect(self) -> None:
        """Enter the room."""
        options = self.options
        if options.enforce_join_token and not options.join_token_secrets:
            raise PeersError("enforce_join_token needs join_token_secret: without it no token can be checked")
        engine = self._engine or load_engine(options.engine)
        self.trust = Trust(options)
        self._reception = Reception(self)
        self._negotiator = Negotiator(options, self._names, engine, self, self)
        self._finder = Finder(
            self._names, options.stream_id, options.target_stream_id, ask=self._ask, has=self._has_stream
        )
        self._watch = Watch(self)
        self.state = "connecting"
        self._signalling.on_message = self._signalled
        self._signalling.on_lost = self._signalling_lost
        self._signalling.on_entered = self._signalling_back
        try:
            listing = await self._signalling.enter()
        except BaseException as error:
            self.state, self.last_error = "stopped", str(error)
            raise
        self.state = "connected"
        self.event("connected")
        self._finder.entered(listing)
        self._watch.start()
        self.event(
            "ready",
            room=options.room,
            streamID=options.stream_id,
            targetStreamID=options.target_stream_id,
            host=options.host,
            forceTURN=options.force_turn,
        )
        if options.target_stream_id not in (None, options.stream_id):
            try:
                async with asyncio.timeout(options.target_wait_s):
                    await self._target_is_there.wait()
            except TimeoutError:
                pass  # It may come later.

    async def disconnect(self) -> None:
        """Say goodbye to all and leave."""
        if self.state in ("idle", "stopped"):
            return
        self.state = "stopped"
        self._finder.close()
        await self._watch.stop()
        await self._signalling.close()
        links = [link for peer in self._peers.values() for link in peer.links.values()]
        await asyncio.gather(*(self._part(link) for link in links))
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _part(self, link: Link) -> None:
        try:
            async with asyncio.timeout(_GOODBYE_S):
                if link.is_open and link.channel is not None:
                    link.send(_BYE)
                    await link.channel.drain(0)
        except (PeersError, TimeoutError):
            pass
        await link.close("we left")

    # -- what the upper half asks ----------------------------------------------------------

    @property
    def peers(self) -> Sequence[PeerView]:
        """Everybody we have heard of."""
        return [peer.view(self.trust) for peer in self._peers.values()]

    @property
    def live_peers(self) -> list[Peer]:
        """For `watch`: as they are, not as they are shown."""
        return list(self._peers.values())

    def find(self, target: str) -> PeerView | None:
        """The peer with that stream id, else with that uuid."""
        peer = self._find(target)
        return None if peer is None else peer.view(self.trust)

    def _find(self, target: str) -> Peer | None:
        named = [peer for peer in self._peers.values() if peer.stream_id == target]
        # Who said the name itself comes before who only is said to have it.
        named.sort(key=lambda peer: (peer.standing.stream_id == target, peer.link is not None), reverse=True)
        return named[0] if named else self._peers.get(target)

    def send(self, data: Any, *, to: str | None = None) -> Sent:
        """Send data of the application."""
        text, is_swallowed = pipe_frame(data), original_swallows(data)

        def frame(peer: Peer) -> str | None:
            return None if is_swallowed and not peer.standing.capabilities.hubbub_v1 else text

        return self._send_each(frame, to)

    def send_envelope(self, kind: str, payload: Mapping[str, Any], *, to: str | None = None) -> Sent:
        """Send an envelope, one for each peer."""
        return self._send_each(lambda peer: self.trust.frame(peer.standing, kind, payload), to)

    def announce(self, *, to: str | None = None) -> Sent:
        """Say hello again; also to those who are not admitted."""
        return self._send_each(lambda peer: self.trust.frame(None, Hello.kind, self.trust.hello()), to, is_hello=True)

    def _send_each(self, frame: Any, to: str | None, *, is_hello: bool = False) -> Sent:
        sent: list[str] = []
        failed: dict[str, str] = {}
        chosen = self._find(to) if to is not None else None
        meant = [chosen] if chosen is not None else [] if to is not None else list(self._peers.values())
        for peer in meant:
            if to is None and (peer.link is None or not (is_hello or self.trust.admits(peer.standing))):
                continue
            problem = self._send_one(peer, frame, is_hello=is_hello)
            if problem is None:
                sent.append(peer.uuid)
            else:
                failed[peer.uuid] = problem
        if to is not None and chosen is None:
            failed[to] = "no_open_data_channel"
        if not sent and not is_hello:
            is_away = self.state != "connected" and not self._peers
            reason = "not_connected" if is_away else next(iter(failed.values()), "no_open_data_channel")
            self.event("send_rejected", reason=reason, target=to)
        for uuid in sent if is_hello else ():
            self.event("sync_hello_sent", ok=True, target_uuid=uuid)
        return Sent(tuple(sent), failed)

    def _send_one(self, peer: Peer, frame: Any, *, is_hello: bool) -> str | None:
        """Why it could not be sent; None if it was."""
        if peer.link is None:
            return "no_open_data_channel"
        if not is_hello and (not self.trust.admits(peer.standing) or peer.claim is not None):
            return "not_admitted"
        text = frame(peer)
        return "undeliverable" if text is None else self._push(peer, text)

    def _push(self, peer: Peer, text: str) -> str | None:
        link = peer.link
        try:
            if link is None:
                return "no_open_data_channel"
            link.send(text)
        except FrameTooLarge as error:
            self.event("send_error", message=error.message)
            return "too_large"
        except QueueFull as error:
            self.event("send_error", message=error.message)
            return "queue_full"
        except ChannelClosed:
            return "no_open_data_channel"
        return None

    async def drain(self, uuid: str, low: int = bounds.PEER_LOW_WATER_BYTES) -> None:
        """Wait until the channel of text to a peer has room."""
        peer = self._peers.get(uuid)
        link = None if peer is None else peer.link
        if link is None or link.channel is None:
            raise ChannelClosed("there is no channel to this peer")
        await link.channel.drain(low)

    def bulk(self, uuid: str) -> Bulk | None:
        """The way of bytes to a peer."""
        peer = self._peers.get(uuid)
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
            self.event("sdk_error", detail={"message": f"{type(error).__name__}"})

    def say(self, peer: Peer, kind: str, payload: Mapping[str, Any]) -> bool:
        """Send an envelope to one peer, admitted or not."""
        signed = None if kind.startswith("sync.") and not kind.endswith("_ack") else peer.standing
        return self._push(peer, self.trust.frame(signed, kind, payload)) is None

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
        self.listener.on_peer_ready(peer.view(self.trust))

    def is_free(self, peer: Peer, stream_id: str) -> bool | None:
        """Whether a peer may have a name."""
        if peer.standing.stream_id == stream_id:
            return True
        holder = self._finder.holders.get(stream_id)
        if holder is not None and holder != peer.address:
            return False
        if self._finder.stream_of(peer.address) not in (None, stream_id[: bounds.PEER_NAME_CHARACTERS]):
            return False
        others = [
            other for other in self._peers.values() if other is not peer and other.standing.stream_id == stream_id
        ]
        alive = [other for other in others if other.link is not None]
        return None if alive else True

    def settle_claim(self, peer: Peer) -> None:
        """Decide about a name that two claim, when one of them has been asked whether it is there."""
        if peer.claim is None:
            return
        envelope, hello = peer.claim
        rivals = [
            other
            for other in self._peers.values()
            if other is not peer and other.standing.stream_id == envelope.from_stream_id and other.link is not None
        ]
        silent = [link for rival in rivals if (link := rival.link) is not None and link.heard_at < peer.claimed_at]
        if len(silent) < len(rivals):
            self._reception.reject(peer, "stream id is in use")
        elif time.monotonic() - peer.claimed_at > bounds.PEER_CLAIM_S or not rivals:
            for rival in rivals:
                self._drop_peer(rival, _SUPERSEDED)
            self._reception.admit(peer, envelope, hello)

    def drop(self, peer: Peer, link: Link, reason: str) -> None:
        """End a connection."""
        self.spawn(link.close(reason))

    def _drop_peer(self, peer: Peer, reason: str) -> None:
        for link in list(peer.links.values()):
            self.drop(peer, link, reason)

    def control(self, peer: Peer, link: Link, control: Control) -> None:
        """A message about the connection itself, over its own channel."""
        fields, vector = control.fields, control.fields.get("vector")
        vector = vector if isinstance(vector, str) else None
        match control.kind:
            case "description":
                described = Described(peer.address, link.session, fields["description"], vector, None)
                self._redescribed(peer, link, described)
            case "candidate" | "candidates":
                self._negotiator.add_candidates(link, fields[control.kind], vector)
            case "restart" if link.role == "publisher" and self._negotiator.may_begin(peer.address):
                self._negotiator.restart(peer, link)

    # -- links -------------------------------------------------------------------------------

    def _owner_of(self, link: Link) -> Peer | None:
        return next((peer for peer in self._peers.values() if peer.links.get(link.role) is link), None)

    def link_opened(self, link: Link) -> None:
        """Text can be sent."""
        peer = self._owner_of(link)
        if peer is None:
            return
        detail = {"uuid": peer.uuid, "type": link.role, "streamID": peer.stream_id}
        info = {"label": self.options.label}
        if not peer.has_been_open:
            peer.has_been_open = True
            self.event("peer_connected", uuid=peer.uuid, detail=detail)
        self.event("data_channel_open", detail=detail)
        first = {"info": info} if link.role == "publisher" else {"audio": False, "video": False, "info": info}
        try:
            link.send(stringify(first))
        except PeersError:
            return
        self.greet(peer)
        self._finder.found(peer.stream_id)
        if peer.stream_id == self.options.target_stream_id:
            self._target_is_there.set()
        if self.trust.admits(peer.standing) and peer.standing.counts:
            link.add_bulk()

    def link_heard(self, link: Link, text: str) -> None:
        """A frame of text came."""
        peer = self._owner_of(link)
        if peer is not None:
            self._reception.heard(peer, link, text)

    def link_got_bytes(self, link: Link, data: bytes) -> None:
        """A frame of bytes came."""
        peer = self._owner_of(link)
        if peer is not None:
            self._reception.got_bytes(peer, data)

    def link_found(self, link: Link, candidate: Candidate) -> None:
        """One more address of ours."""
        peer = self._owner_of(link)
        if peer is not None:
            self._negotiator.send_candidate(peer, link, candidate)

    def link_closed(self, link: Link, reason: str) -> None:
        """It is over."""
        peer = self._owner_of(link)
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
        self._peers.pop(peer.uuid, None)
        if self._by_address.get(peer.address) is peer:
            del self._by_address[peer.address]
        if peer.has_been_open:
            detail = {"uuid": peer.uuid, "streamID": peer.stream_id, "reason": reason}
            self.event("peer_disconnected", uuid=peer.uuid, detail=detail)
            self.listener.on_peer_gone(peer.view(self.trust))
        if self.state != "stopped" and reason != _SUPERSEDED and not self._has_stream(peer.stream_id or ""):
            self._finder.lost(peer.stream_id, is_over=reason == "bye")

    # -- signalling --------------------------------------------------------------------------

    def _signalled(self, message: Incoming) -> None:
        match message:
            case Listing():
                self._finder.entered(message)
                for member in message.members:
                    self._moved(member.uuid)
            case Joined(member):
                self._finder.came(member)
                self._moved(member.uuid)
            case PlayRequest(address):
                peer = self._peer_at(address)
                if peer is not None:
                    self._negotiator.publish_to(peer)
            case Described():
                self._described(message)
            case Candidates(address, session, side):
                found = self._link_of(address, session, "viewer" if side == "local" else "publisher")
                if found is not None:
                    self._negotiator.add_candidates(found[1], message)
            case RestartRequest(address):
                peer = self._by_address.get(address)
                link = None if peer is None else peer.links.get("publisher")
                if peer is not None and link is not None and self._negotiator.may_begin(address):
                    self._negotiator.restart(peer, link)
            case Alert(text):
                self.last_error = text
                self.event("sdk_error", detail={"message": text})
            case Gone():
                pass  # Who is gone is seen by their channel; anybody could say this.

    def _moved(self, address: str) -> None:
        """Somebody we are connected to may have another address since the server was restarted."""
        stream_id = self._finder.stream_of(address)
        if stream_id is None or address in self._by_address:
            return
        for peer in self._peers.values():
            if peer.standing.stream_id == stream_id and peer.link is not None:
                peer.address = address

    def _peer_at(self, address: str) -> Peer | None:
        """The peer of an address that begins an exchange; None if it may not."""
        if not self._negotiator.may_begin(address):
            return None
        known = self._by_address.get(address)
        if known is not None:
            return known
        if len(self._peers) >= self.options.max_peers:
            self.event("connection_failed", detail={"uuid": address, "reason": "too many peers"})
            return None
        peer = Peer(address, self._finder.stream_of(address))
        self._peers[address] = self._by_address[address] = peer
        return peer

    def _described(self, described: Described) -> None:
        try:
            kind, sdp = self._negotiator.read_description(described)
        except (SealBroken, PeersError):
            return
        found = self._link_of(described.uuid, described.session, "publisher" if kind == "answer" else "viewer")
        if found is not None and (kind == "offer" or found[1].is_described):
            self._negotiator.renew(*found, kind, sdp)
        elif found is not None:
            self._negotiator.accept(found[1], sdp)
        elif kind == "offer" and described.stream_id is not None:
            stream_id = self._names.clear(described.stream_id)
            peer = self._peer_at(described.uuid) if self._finder.wants(stream_id) else None
            if peer is not None:
                peer.listed = peer.listed or stream_id
                self._negotiator.view(peer, described.session, sdp)

    def _redescribed(self, peer: Peer, link: Link, described: Described) -> None:
        try:
            kind, sdp = self._negotiator.read_description(described)
        except (SealBroken, PeersError):
            return
        if self._negotiator.may_begin(peer.address):
            self._negotiator.renew(peer, link, kind, sdp)

    def _link_of(self, address: str, session: str, role: Any) -> tuple[Peer, Link] | None:
        for peer in self._peers.values():
            link = peer.links.get(role)
            if link is not None and link.session == session and address in (peer.address, peer.uuid):
                return peer, link
        return None

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
        self.tell({"request": "play", "streamID": self._names.stream(stream_id)})
        self._watch.asked(stream_id)

    def _has_stream(self, stream_id: str) -> bool:
        return any(peer.stream_id == stream_id and peer.links for peer in self._peers.values())

    def unanswered(self, stream_id: str) -> None:
        """Somebody did not answer our wish for a connection."""
        if not self._has_stream(stream_id):
            self._finder.lost(stream_id, is_over=False)
