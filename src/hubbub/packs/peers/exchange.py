"""Handle signalling: messages of the signalling server, of peers behind it, and about a channel's own connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hubbub.packs.peers import limits
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.finder import Finder
from hubbub.packs.peers.link import Link, Role
from hubbub.packs.peers.negotiator import Negotiator
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.signalling import (
    Alert,
    Candidates,
    Described,
    Fallback,
    Incoming,
    Joined,
    Listing,
    Member,
    Message,
    PlayRequest,
    RestartRequest,
)
from hubbub.packs.peers.trust import Standing
from hubbub.packs.peers.turns import Turns
from hubbub.packs.peers.wire import KEEP_ALIVE, MARK, Control


class Exchange:
    """Handles signalling messages, whether they come from the server or over a peer's channel."""

    def __init__(
        self,
        context: MeshContext,
        signal: Callable[[Message], None],
        finder: Finder,
        negotiator: Negotiator,
        turns: Turns,
    ) -> None:
        self._context = context
        self._roster = context.roster
        self._names = context.names
        self._signal = signal
        self._finder = finder
        self._negotiator = negotiator
        self._turns = turns
        self._reached: set[str] = set()
        """Stream ids that have a turn or wait for one."""
        self._asked: dict[str, float] = {}
        """By stream id, when we requested an offer."""
        self._told_at: dict[str, float] = {}

    def take(self, message: Incoming) -> None:
        """Handle one message. `Gone` is ignored, since anyone could send it; peers leave when their channel closes."""
        match message:
            case Listing():
                for member in message.members:
                    self._give_name_to(member)
                self._finder.entered(message)
                for member in message.members:
                    self._moved(member.uuid)
            case Joined(member):
                self._give_name_to(member)
                self._finder.came(member)
                self._moved(member.uuid)
            case PlayRequest(address):
                peer = self._beginner(address)
                if peer is not None and not _has_just_offered(peer):
                    self._publish(peer, is_asked=True)
            case Described():
                self._described(message)
            case Candidates(address, session, side):
                found = self._roster.link_of(address, session, "viewer" if side == "local" else "publisher")
                if found is not None:
                    self._negotiator.add_candidates(found[1], message.candidates, message.vector)
            case RestartRequest(address):
                peer = self._roster.at(address)
                link = None if peer is None else peer.links.get("publisher")
                if peer is not None and link is not None:
                    self._restart(peer, link)
            case Alert(text):
                self._context.event("sdk_error", detail={"message": text})
            case Fallback(address, data):
                self._fallback(address, data)

    # -- reaching peers ------------------------------------------------------------------

    def reach(self, stream_id: str) -> None:
        """Connect to a peer when its turn comes, or immediately if it is our target."""
        if stream_id == self._context.options.target_stream_id:
            self._reach(stream_id)
            return
        self._reached.add(stream_id)
        is_patient = not self._finder.is_our_turn(stream_id)
        self._turns.take((id(self), stream_id), lambda: self._reach(stream_id), is_patient=is_patient)

    def _reach(self, stream_id: str) -> None:
        """Offer a peer a connection; ask it for an offer if its address is unknown or it ignored our last one."""
        if self._roster.has_stream(stream_id):
            self.give_turn_back(stream_id)
            return
        address = self._finder.address_to_offer(stream_id)
        if address is None or not self._offer(address):
            self._signal({"request": "play", "streamID": self._names.stream(stream_id)})
            self._asked[stream_id] = self._context.clock()

    def give_turn_back(self, stream_id: str | None) -> None:
        """Release the turn of a peer, so that the next one can be reached; does nothing if it has none."""
        if stream_id in self._reached:
            self._reached.discard(stream_id)
            self._turns.done((id(self), stream_id))

    def give_up_unanswered(self, now: float) -> None:
        """Schedule another try for peers that did not answer our request for an offer."""
        late = [stream for stream, moment in self._asked.items() if now - moment > limits.PEER_ANSWER_S]
        for stream_id in late:
            del self._asked[stream_id]
            if not self._roster.has_stream(stream_id):
                self.give_turn_back(stream_id)
                self._finder.note_ignored(stream_id, is_offer=False)
                self._finder.lost(stream_id, is_over=False)

    def close(self) -> None:
        """Release all turns."""
        for stream_id in list(self._reached):
            self.give_turn_back(stream_id)

    def _offer(self, address: str) -> bool:
        """Offer a connection to the client at an address; return False if the limit of peers is reached."""
        known = self._roster.at(address)
        if known is not None and known.links:
            return True
        if known is None and self._roster.is_full:
            return False
        self._publish(known or self._roster.add(address, self._finder.stream_of(address)), is_asked=False)
        return True

    def _publish(self, peer: Peer, *, is_asked: bool) -> None:
        self._negotiator.publish_to(peer, is_asked=is_asked)
        self._forget_if_unconnected(peer)

    def control(self, peer: Peer, link: Link, control: Control) -> None:
        """Handle a control message about the connection that it arrived on."""
        fields, vector = control.fields, control.fields.get("vector")
        vector = vector if isinstance(vector, str) else None
        match control.kind:
            case "description" if self._negotiator.may_begin(peer.address):
                opened = self._opened(fields["description"], vector)
                if opened is not None:
                    self._negotiator.renew(peer, link, *opened)
            case "candidate" | "candidates":
                self._negotiator.add_candidates(link, fields[control.kind], vector)
            case "restart" if link.role == "publisher":
                self._restart(peer, link)

    def _fallback(self, address: str, data: Any) -> None:
        """Deliver data that a peer sent through the signalling server, if peers need no authentication.

        If they do, it is refused, because the server could have written it. Envelopes are always refused.
        """
        peer = self._roster.at(address)
        is_open = self._context.trust.admits(Standing()) and (peer is None or self._context.trust.admits(peer.standing))
        stream_id = self._finder.stream_of(address) if peer is None else peer.stream_id
        uuid = address if peer is None else peer.uuid
        if is_open and not _is_internal(data):
            self._context.event(
                "data_received", uuid=uuid, streamID=stream_id, fallback=True, data=data, binaryBase64=None
            )
        elif self._may_tell("fallback"):
            self._context.event("protocol_auth_failed", kind="fallback data", uuid=uuid, stream_id=stream_id)

    def _restart(self, peer: Peer, link: Link) -> None:
        if self._negotiator.may_begin(peer.address):
            self._negotiator.restart(peer, link)

    def _give_name_to(self, member: Member) -> None:
        """Remove this stream id from peers that stated it only in an offer: the server lists it for another address."""
        name = None if member.stream_id is None else self._names.clear(member.stream_id)
        for peer in self._roster:
            if peer.standing.stream_id is None and peer.listed == name and peer.address != member.uuid:
                peer.listed = None

    def _moved(self, address: str) -> None:
        """Update the address of a connected peer, which changes when the signalling server was restarted."""
        stream_id = self._finder.stream_of(address)
        if stream_id is not None and self._roster.at(address) is None:
            for peer in self._roster.named(stream_id):
                peer.address = address

    def _beginner(self, address: str) -> Peer | None:
        """Return the peer at an address that starts an exchange; None if it exceeds a limit."""
        if not self._negotiator.may_begin(address):
            return None
        known = self._roster.at(address)
        if known is not None:
            return known
        if self._roster.is_full:
            self._tell_that_it_is_full(address)
            return None
        return self._roster.add(address, self._finder.stream_of(address))

    def _tell_that_it_is_full(self, address: str) -> None:
        if self._may_tell("full"):
            self._failed(address, "too many peers")

    def _failed(self, uuid: str, reason: str) -> None:
        self._context.event("connection_failed", detail={"uuid": uuid, "reason": reason})

    def _may_tell(self, what: str) -> bool:
        """Limit how often an event is emitted, so that unadmitted clients cannot displace events of admitted peers."""
        now = time.monotonic()
        if now - self._told_at.get(what, -limits.PEERS_TOO_MANY_S) < limits.PEERS_TOO_MANY_S:
            return False
        self._told_at[what] = now
        return True

    def _forget_if_unconnected(self, peer: Peer) -> None:
        """Remove a peer for which the engine could not create a connection, because the ICE servers cannot be used."""
        if not peer.links:
            self._roster.remove(peer)
            self._context.event(
                "connection_failed", detail={"uuid": peer.uuid, "reason": "the ICE servers cannot be used"}
            )

    def _described(self, described: Described) -> None:
        opened = self._opened(described.description, described.vector)
        if opened is None:
            return
        kind, sdp = opened
        role: Role = "publisher" if kind == "answer" else "viewer"
        found = self._roster.link_of(described.uuid, described.session, role)
        if found is not None and kind == "answer" and not found[1].is_described:
            self._negotiator.accept(found[1], sdp)
        elif found is not None:
            if self._negotiator.may_begin(described.uuid):
                self._negotiator.renew(*found, kind, sdp)
        elif kind == "offer" and described.stream_id is not None:
            self._offered(described, self._names.clear(described.stream_id), sdp)

    def _offered(self, described: Described, stream_id: str | None, sdp: str) -> None:
        if stream_id is None or self._finder.is_own(stream_id):
            return
        if self._finder.holders.get(stream_id, described.uuid) != described.uuid:
            return  # The signalling server lists this stream id for another client.
        peer = self._beginner(described.uuid)
        if peer is not None:
            peer.listed = peer.listed or stream_id
            self._negotiator.view(peer, described.session, sdp)
            self._forget_if_unconnected(peer)

    def _opened(self, description: Any, vector: str | None) -> tuple[str, str] | None:
        try:
            return self._negotiator.read_description(description, vector)
        except PeersError:
            return None


def _has_just_offered(peer: Peer) -> bool:
    """Return whether we just sent an offer that crossed this request: another would only replace the connection."""
    link = peer.links.get("publisher")
    return link is not None and link.age_s < limits.PEER_ANSWER_S


def _is_internal(data: object) -> bool:
    """Return whether data is an envelope or a keep-alive, which are valid only on a channel."""
    return isinstance(data, dict) and (data.get("__vdo_mcp") == MARK or data.get("type") == KEEP_ALIVE)
