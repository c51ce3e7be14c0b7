"""Handle messages of peers on channels: pings, hellos, data and envelopes, and refusals.

Everything from a channel passes through here before the upper half sees it. Unreadable frames are ignored; a connection
with too many of them is closed.
"""

from __future__ import annotations

import time
from typing import Any, Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.exchange import Exchange
from hubbub.packs.peers.failures import PeersError, WireError
from hubbub.packs.peers.finder import Finder
from hubbub.packs.peers.link import Link
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.sending import Sending
from hubbub.packs.peers.strands import Strands
from hubbub.packs.peers.trust import NOT_ALLOWED, NOT_THIS_NAME, Refused
from hubbub.packs.peers.wire import (
    KEEP_ALIVE,
    Control,
    Envelope,
    Heartbeat,
    Hello,
    HelloAck,
    Payload,
    Reject,
    StrandAnswer,
    StrandOffer,
    read_envelope,
    read_frame,
)

SUPERSEDED: Final = "the peer is back with another connection"
_OF_THE_UPPER_HALF: Final = ("file.", "state.")
"""Unknown kinds with these prefixes are passed on, because the upper half has its own events for them."""
_EVENT_REASONS: Final = {NOT_ALLOWED: "peer_not_allowed"}


class Reception:
    """Handles everything that arrives on channels."""

    def __init__(
        self, context: MeshContext, sending: Sending, exchange: Exchange, strands: Strands, finder: Finder
    ) -> None:
        self._context = context
        self._trust = context.trust
        self._sending = sending
        self._exchange = exchange
        self._strands = strands
        self._finder = finder

    def heard(self, peer: Peer, link: Link, text: str) -> None:
        """Handle one text frame."""
        peer.last_seen = time.time()
        peer.note_life()
        try:
            frame = read_frame(text)
            if isinstance(frame, Control):
                self._controlled(peer, link, frame)
                return
            envelope = read_envelope(frame.data)
        except WireError:
            self._bad_frame(peer, link)
            return
        if envelope is None:
            self._data(peer, frame.data)
        else:
            self._enveloped(peer, link, envelope)

    def got_bytes(self, peer: Peer, data: bytes) -> None:
        """Handle one binary frame."""
        peer.last_seen = time.time()
        peer.note_life()
        try:
            opened = self._trust.open_bytes(peer.standing, data)
        except Refused as refused:
            self._failed(peer, "bytes", refused)
            return
        self._context.listener.on_bytes(peer.view(self._trust), opened)

    # -- control messages ------------------------------------------------------------------

    def _controlled(self, peer: Peer, link: Link, control: Control) -> None:
        match control.kind:
            case "ping":
                self._pong(link, control.fields["ping"])
            case "pong":
                peer.answers_pings = True
            case "bye":
                # A connection that is still being made to a peer that leaves will never open.
                for each in [link, *(other for other in peer.links.values() if not other.is_open)]:
                    self._context.drop(each, "bye")
            case "description" | "candidate" | "candidates" | "restart":
                self._exchange.control(peer, link, control)

    @staticmethod
    def _pong(link: Link, sent: Any) -> None:
        if isinstance(sent, int | float):
            try:
                link.send(f'{{"pong":{int(sent)}}}')
            except (PeersError, ValueError, OverflowError):
                pass

    def _bad_frame(self, peer: Peer, link: Link) -> None:
        link.bad_frames += 1
        if link.bad_frames > limits.PEER_BAD_FRAMES:
            self._context.drop(link, "too much that cannot be read")

    # -- data and envelopes ------------------------------------------------------------------

    def _data(self, peer: Peer, data: Any) -> None:
        if isinstance(data, dict) and data.get("type") == KEEP_ALIVE:
            return
        if not self._trust.admits(peer.standing) or self._has_doubtful_name(peer):
            self._failed(peer, "data", Refused("peer not admitted"))
            return
        self._context.listener.on_data(peer.view(self._trust), data)

    def _enveloped(self, peer: Peer, link: Link, envelope: Envelope) -> None:
        try:
            self._trust.check_origin(peer.standing, envelope)
            if not envelope.is_known and not envelope.kind.startswith(_OF_THE_UPPER_HALF):
                self._unknown(peer, envelope)
                return
            payload = self._payload(envelope)
            match payload:
                case Hello():
                    self._greeted(peer, envelope, payload)
                case Reject():
                    self._rejected(peer, payload.reason)
                case Heartbeat():
                    self._beat(peer, payload)
                case _:
                    if self._has_doubtful_name(peer):
                        raise Refused("peer not admitted")
                    self._trust.check_envelope(peer.standing, envelope)
                    if isinstance(payload, StrandOffer):
                        self._stranded(peer, payload)
                    else:
                        self._context.listener.on_envelope(peer.view(self._trust), envelope)
                        if payload is None:
                            self._bad_frame(peer, link)
        except Refused as refused:
            self._failed(peer, envelope.kind, refused)
        except WireError:
            self._bad_frame(peer, link)

    @staticmethod
    def _payload(envelope: Envelope) -> Payload | None:
        """Return the payload; None if it is malformed and the upper half reports that.

        Raises: WireError.
        """
        try:
            return envelope.read()
        except WireError:
            if envelope.kind.startswith(_OF_THE_UPPER_HALF):
                return None
            raise

    def _has_doubtful_name(self, peer: Peer) -> bool:
        """Return whether another peer may own this peer's name, stated by itself or, without a hello, by the server."""
        if peer.claim is not None:
            return True
        has_said_none = peer.standing.stream_id is None and peer.listed is not None
        return has_said_none and self._is_free(peer, peer.listed or "") is not True

    def _stranded(self, peer: Peer, message: StrandOffer) -> None:
        if isinstance(message, StrandAnswer):
            self._strands.answered(peer, message)
        elif peer.standing.counts:
            self._strands.offered(peer, message)

    def _unknown(self, peer: Peer, envelope: Envelope) -> None:
        self._tell(peer, "protocol_unknown", kind=envelope.kind[:64])

    def _failed(self, peer: Peer, kind: str, refused: Refused) -> None:
        self._tell(peer, "protocol_auth_failed", kind=kind[:64], reason=str(refused))

    def _tell(self, peer: Peer, type: str, **fields: str) -> None:
        """Emit an event about a refusal; limited in number, so that a refused peer cannot displace events of others."""
        peer.refusals += 1
        if peer.refusals <= limits.PEER_REFUSALS:
            self._context.event(type, uuid=peer.uuid, stream_id=peer.stream_id, **fields)

    # -- hellos and heartbeats ---------------------------------------------------------------

    def _greeted(self, peer: Peer, envelope: Envelope, hello: Hello) -> None:
        match self._is_free(peer, envelope.from_stream_id):
            case True:
                self._admit(peer, envelope, hello)
            case False:
                self._reject(peer, NOT_THIS_NAME)
            case None if peer.claim is None:
                peer.claim, peer.claimed_at = (envelope, hello), peer.clock()

    def _admit(self, peer: Peer, envelope: Envelope, hello: Hello) -> None:
        """Process a hello whose name is free."""
        peer.claim = None
        before, was_rejected = self._shown(peer), peer.standing.rejected_reason is not None
        try:
            self._trust.take_hello(peer.standing, envelope, hello)
        except Refused as refused:
            self._reject(peer, str(refused))
            return
        peer.refusals = 0
        if not isinstance(hello, HelloAck):
            self._sending.say(peer, HelloAck.kind, self._trust.hello())
            if was_rejected:
                # Its reply to our last hello had no effect, and a new one may have to prove its key.
                self._sending.greet(peer)
        if self._shown(peer) != before:
            self._context.event("sync_peer_updated", **self._shown(peer))
        self._admitted(peer)

    def _admitted(self, peer: Peer) -> None:
        """Open the bulk channels after an accepted hello, and notify the upper half."""
        if not self._trust.admits(peer.standing):
            return
        if peer.standing.capabilities.bulk_v1 and peer.standing.key is not None:
            for link in peer.links.values():
                link.add_bulk()
            self._strands.begin(peer)
        self._context.listener.on_peer_ready(peer.view(self._trust))

    @staticmethod
    def _shown(peer: Peer) -> dict[str, Any]:
        return {
            "uuid": peer.uuid,
            "stream_id": peer.stream_id,
            "handshake_state": peer.standing.handshake,
            "auth_ok": peer.standing.is_authenticated,
            "shared_key_ready": peer.standing.key is not None,
        }

    def _reject(self, peer: Peer, reason: str) -> None:
        """Refuse everything of this peer, and send it the reason."""
        peer.claim = None
        peer.standing.handshake, peer.standing.rejected_reason = "rejected", reason
        self._sending.say(peer, Reject.kind, {"reason": reason})
        self._tell(peer, "sync_peer_rejected", reason=_EVENT_REASONS.get(reason, reason))

    def _rejected(self, peer: Peer, reason: str) -> None:
        """Record that the other end rejected us."""
        reason = reason[:200] or "rejected by the peer"
        if peer.standing.rejected_reason is None:
            peer.standing.handshake, peer.standing.rejected_reason = "rejected", reason
            self._context.event("sync_peer_rejected", uuid=peer.uuid, stream_id=peer.stream_id, reason=reason)

    def _beat(self, peer: Peer, heartbeat: Heartbeat) -> None:
        if not self._trust.admits(peer.standing) or peer.claim is not None:
            return
        peer.last_heartbeat = time.time()
        self._context.listener.on_heartbeat(peer.view(self._trust), heartbeat.state_digest)

    # -- names -------------------------------------------------------------------------------

    def _is_free(self, peer: Peer, stream_id: str) -> bool | None:
        """Return whether a peer may use a name; None if another peer has to answer first."""
        if peer.standing.stream_id == stream_id:
            return True
        if self._finder.holders.get(stream_id, peer.address) != peer.address:
            return False
        if self._finder.stream_of(peer.address) not in (None, stream_id[: limits.PEER_NAME_CHARACTERS]):
            return False
        return None if self._rivals(peer, stream_id) else True

    def _rivals(self, peer: Peer, stream_id: str) -> list[Peer]:
        return [other for other in self._context.roster.named(stream_id) if other is not peer]

    def settle_claim(self, peer: Peer) -> None:
        """Decide between two peers that claim a name: the one that has it keeps it if it shows a sign of life."""
        if peer.claim is None or not peer.links:
            return
        envelope, hello = peer.claim
        rivals = self._rivals(peer, envelope.from_stream_id)
        if any(rival.heard_at > peer.claimed_at for rival in rivals):
            self._reject(peer, "stream id is in use")
        elif not rivals or self._context.clock() - peer.claimed_at > limits.PEER_CLAIM_S:
            for link in [link for rival in rivals for link in rival.links.values()]:
                self._context.drop(link, SUPERSEDED)
            self._admit(peer, envelope, hello)
