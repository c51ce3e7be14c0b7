"""Handle signalling: messages of the signalling server, of peers behind it, and about a channel's own connection."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hubbub.packs.peers import limits
from hubbub.packs.peers.connection_throttle import ConnectionThrottle
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.discovery import Discovery
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.link import Link, Role
from hubbub.packs.peers.negotiator import Negotiator
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.signalling import (
    Alert,
    Candidates,
    Description,
    FallbackData,
    IncomingMessage,
    Listing,
    Member,
    MemberJoined,
    OutgoingMessage,
    PlayRequest,
    RestartRequest,
)
from hubbub.packs.peers.trust import PeerAuth
from hubbub.packs.peers.wire import ENVELOPE_MARK, KEEP_ALIVE, Control


class SignallingHandler:
    """Handles signalling messages, whether they come from the server or over a peer's channel."""

    def __init__(
        self,
        context: MeshContext,
        signal: Callable[[OutgoingMessage], None],
        discovery: Discovery,
        negotiator: Negotiator,
        throttle: ConnectionThrottle,
    ) -> None:
        self._context = context
        self._roster = context.roster
        self._names = context.names
        self._send_signal = signal
        self._discovery = discovery
        self._negotiator = negotiator
        self._throttle = throttle
        self._connecting: set[str] = set()
        """Stream ids that have a connection slot or wait for one."""
        self._offer_requested_at: dict[str, float] = {}
        """By stream id, when we requested an offer."""
        self._emitted_at: dict[str, float] = {}

    def handle_message(self, message: IncomingMessage) -> None:
        """Handle one message.

        `Departure` is ignored, since any client could send it: a peer leaves when its channel closes.
        """
        match message:
            case Listing():
                for member in message.members:
                    self._clear_conflicting_names(member)
                self._discovery.handle_listing(message)
                for member in message.members:
                    self._update_address(member.uuid)
            case MemberJoined(member):
                self._clear_conflicting_names(member)
                self._discovery.handle_member(member)
                self._update_address(member.uuid)
            case PlayRequest(address):
                peer = self._get_or_add_peer(address)
                if peer is not None and not _has_just_offered(peer):
                    self._publish(peer, is_requested=True)
            case Description():
                self._handle_description(message)
            case Candidates(address, session, side):
                found = self._roster.find_link(address, session, "viewer" if side == "local" else "publisher")
                if found is not None:
                    self._negotiator.add_candidates(found[1], message.candidates, message.vector)
            case RestartRequest(address):
                peer = self._roster.get_by_address(address)
                link = None if peer is None else peer.links.get("publisher")
                if peer is not None and link is not None:
                    self._restart(peer, link)
            case Alert(text):
                self._context.emit("sdk_error", detail={"message": text})
            case FallbackData(address, data):
                self._handle_fallback(address, data)

    # -- reaching peers ------------------------------------------------------------------

    def connect_to(self, stream_id: str) -> None:
        """Connect to a peer when a slot is free, or immediately if it is our target."""
        if stream_id == self._context.options.target_stream_id:
            self._connect_now(stream_id)
            return
        self._connecting.add(stream_id)
        is_low_priority = not self._discovery.offers_first(stream_id)
        self._throttle.acquire(
            (id(self), stream_id), lambda: self._connect_now(stream_id), is_low_priority=is_low_priority
        )

    def _connect_now(self, stream_id: str) -> None:
        """Offer a peer a connection; ask it for an offer if its address is unknown or it ignored our last one."""
        if self._roster.has_stream(stream_id):
            self.release_slot(stream_id)
            return
        address = self._discovery.address_to_offer(stream_id)
        if address is None or not self._offer(address):
            self._send_signal({"request": "play", "streamID": self._names.wire_stream_id(stream_id)})
            self._offer_requested_at[stream_id] = self._context.clock()

    def release_slot(self, stream_id: str | None) -> None:
        """Release the slot of a peer for the next one; does nothing if it has none."""
        if stream_id in self._connecting:
            self._connecting.discard(stream_id)
            self._throttle.release((id(self), stream_id))

    def retry_unanswered(self, now: float) -> None:
        """Schedule another try for peers that did not answer our request for an offer."""
        unanswered = [
            stream
            for stream, moment in self._offer_requested_at.items()
            if now - moment > limits.PEER_RESPONSE_TIMEOUT_S
        ]
        for stream_id in unanswered:
            del self._offer_requested_at[stream_id]
            if not self._roster.has_stream(stream_id):
                self.release_slot(stream_id)
                self._discovery.record_unanswered(stream_id, is_offer=False)
                self._discovery.handle_disconnect(stream_id, is_final=False)

    def close(self) -> None:
        """Release all slots."""
        for stream_id in list(self._connecting):
            self.release_slot(stream_id)

    def _offer(self, address: str) -> bool:
        """Offer a connection to the client at an address; return False if the limit of peers is reached."""
        known = self._roster.get_by_address(address)
        if known is not None and known.links:
            return True
        if known is None and self._roster.is_full:
            return False
        self._publish(known or self._roster.add(address, self._discovery.stream_id_at(address)), is_requested=False)
        return True

    def _publish(self, peer: Peer, *, is_requested: bool) -> None:
        self._negotiator.offer_to(peer, is_requested=is_requested)
        self._forget_if_unconnected(peer)

    def handle_control(self, peer: Peer, link: Link, control: Control) -> None:
        """Handle a control message about the connection that it arrived on."""
        fields, vector = control.fields, control.fields.get("vector")
        vector = vector if isinstance(vector, str) else None
        match control.kind:
            case "description" if self._negotiator.may_start(peer.address):
                decrypted = self._read_description(fields["description"], vector)
                if decrypted is not None:
                    self._negotiator.renegotiate(peer, link, *decrypted)
            case "candidate" | "candidates":
                self._negotiator.add_candidates(link, fields[control.kind], vector)
            case "restart" if link.role == "publisher":
                self._restart(peer, link)

    def _handle_fallback(self, address: str, data: Any) -> None:
        """Deliver data that a peer sent through the signalling server, if peers need no authentication.

        If they do, it is refused, because the server could have written it. Envelopes are always refused.
        """
        peer = self._roster.get_by_address(address)
        is_open = self._context.trust.admits(PeerAuth()) and (peer is None or self._context.trust.admits(peer.auth))
        stream_id = self._discovery.stream_id_at(address) if peer is None else peer.stream_id
        uuid = address if peer is None else peer.uuid
        if is_open and not _is_internal(data):
            self._context.emit(
                "data_received", uuid=uuid, streamID=stream_id, fallback=True, data=data, binaryBase64=None
            )
        elif self._may_emit("fallback"):
            self._context.emit("protocol_auth_failed", kind="fallback data", uuid=uuid, stream_id=stream_id)

    def _restart(self, peer: Peer, link: Link) -> None:
        if self._negotiator.may_start(peer.address):
            self._negotiator.restart(peer, link)

    def _clear_conflicting_names(self, member: Member) -> None:
        """Remove this stream id from peers that stated it only in an offer: the server lists it for another address."""
        name = None if member.stream_id is None else self._names.plain_stream_id(member.stream_id)
        for peer in self._roster:
            if peer.auth.stream_id is None and peer.listed_stream_id == name and peer.address != member.uuid:
                peer.listed_stream_id = None

    def _update_address(self, address: str) -> None:
        """Update the address of a connected peer, which changes when the signalling server was restarted."""
        stream_id = self._discovery.stream_id_at(address)
        if stream_id is not None and self._roster.get_by_address(address) is None:
            for peer in self._roster.find_by_hello(stream_id):
                peer.address = address

    def _get_or_add_peer(self, address: str) -> Peer | None:
        """Return the peer at an address that starts an exchange; None if it exceeds a limit."""
        if not self._negotiator.may_start(address):
            return None
        known = self._roster.get_by_address(address)
        if known is not None:
            return known
        if self._roster.is_full:
            self._report_full(address)
            return None
        return self._roster.add(address, self._discovery.stream_id_at(address))

    def _report_full(self, address: str) -> None:
        if self._may_emit("full"):
            limit = self._context.options.max_peers
            reason = f"the limit of {limit} peers is reached; raise max_peers to allow more"
            self._report_connection_failed(address, reason)

    def _report_connection_failed(self, uuid: str, reason: str) -> None:
        self._context.emit("connection_failed", detail={"uuid": uuid, "reason": reason})

    def _may_emit(self, what: str) -> bool:
        """Limit how often an event is emitted, so that unadmitted clients cannot displace events of admitted peers."""
        now = time.monotonic()
        if now - self._emitted_at.get(what, -limits.PEER_REFUSAL_EVENT_S) < limits.PEER_REFUSAL_EVENT_S:
            return False
        self._emitted_at[what] = now
        return True

    def _forget_if_unconnected(self, peer: Peer) -> None:
        """Remove a peer for which the engine could not create a connection, because the ICE servers cannot be used."""
        if not peer.links:
            self._roster.remove(peer)
            self._report_connection_failed(peer.uuid, "the ICE servers cannot be used; check ice_servers")

    def _handle_description(self, incoming: Description) -> None:
        decrypted = self._read_description(incoming.description, incoming.vector)
        if decrypted is None:
            return
        kind, sdp = decrypted
        role: Role = "publisher" if kind == "answer" else "viewer"
        found = self._roster.find_link(incoming.uuid, incoming.session, role)
        if found is not None and kind == "answer" and not found[1].is_described:
            self._negotiator.accept(found[1], sdp)
        elif found is not None:
            if self._negotiator.may_start(incoming.uuid):
                self._negotiator.renegotiate(*found, kind, sdp)
        elif kind == "offer" and incoming.stream_id is not None:
            self._handle_offer(incoming, self._names.plain_stream_id(incoming.stream_id), sdp)

    def _handle_offer(self, incoming: Description, stream_id: str | None, sdp: str) -> None:
        if stream_id is None or self._discovery.is_own(stream_id):
            return
        if self._discovery.addresses.get(stream_id, incoming.uuid) != incoming.uuid:
            return  # The signalling server lists this stream id for another client.
        peer = self._get_or_add_peer(incoming.uuid)
        if peer is not None:
            peer.listed_stream_id = peer.listed_stream_id or stream_id
            self._negotiator.answer_offer(peer, incoming.session, sdp)
            self._forget_if_unconnected(peer)

    def _read_description(self, description: Any, vector: str | None) -> tuple[str, str] | None:
        try:
            return self._negotiator.read_description(description, vector)
        except PeersError:
            return None


def _has_just_offered(peer: Peer) -> bool:
    """Return whether we just sent an offer that crossed this request: another would only replace the connection."""
    link = peer.links.get("publisher")
    return link is not None and link.age_s < limits.PEER_RESPONSE_TIMEOUT_S


def _is_internal(data: object) -> bool:
    """Return whether data is an envelope or a keep-alive, which are valid only on a channel."""
    return isinstance(data, dict) and (data.get("__vdo_mcp") == ENVELOPE_MARK or data.get("type") == KEEP_ALIVE)
