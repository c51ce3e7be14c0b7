"""Handle messages of peers on channels: pings, hellos, data and envelopes, and refusals.

Everything from a channel passes through here before the upper half sees it. Unreadable frames are ignored; a connection
with too many of them is closed.
"""

from __future__ import annotations

import time
from typing import Any, Final

from hubbub.packs.peers import limits
from hubbub.packs.peers.bulk_connections import BulkConnections
from hubbub.packs.peers.context import MeshContext
from hubbub.packs.peers.discovery import Discovery
from hubbub.packs.peers.errors import PeersError, WireError
from hubbub.packs.peers.link import Link
from hubbub.packs.peers.outbound import MessageSender
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.signalling_handler import SignallingHandler
from hubbub.packs.peers.trust import NAME_BELONGS_TO_OTHER, NOT_ALLOWED, Refused
from hubbub.packs.peers.wire import (
    KEEP_ALIVE,
    BulkConnectionAnswer,
    BulkConnectionOffer,
    Control,
    Envelope,
    Heartbeat,
    Hello,
    HelloAck,
    Payload,
    Reject,
    read_envelope,
    read_frame,
)

SUPERSEDED: Final = "the peer reconnected with another connection"
_FORWARDED_PREFIXES: Final = ("file.", "state.")
"""Unknown kinds with these prefixes are passed on, because the upper half has its own events for them."""
_EVENT_REASONS: Final = {NOT_ALLOWED: "peer_not_allowed"}


class InboundRouter:
    """Handles everything that arrives on channels."""

    def __init__(
        self,
        context: MeshContext,
        outbound: MessageSender,
        signalling_handler: SignallingHandler,
        bulk_connections: BulkConnections,
        discovery: Discovery,
    ) -> None:
        self._context = context
        self._trust = context.trust
        self._outbound = outbound
        self._signalling_handler = signalling_handler
        self._bulk_connections = bulk_connections
        self._discovery = discovery

    def handle_text(self, peer: Peer, link: Link, text: str) -> None:
        """Handle one text frame."""
        peer.last_seen = time.time()
        peer.mark_alive()
        try:
            frame = read_frame(text)
            if isinstance(frame, Control):
                self._handle_control(peer, link, frame)
                return
            envelope = read_envelope(frame.data)
        except WireError:
            self._count_bad_frame(peer, link)
            return
        if envelope is None:
            self._handle_data(peer, frame.data)
        else:
            self._handle_envelope(peer, link, envelope)

    def handle_bytes(self, peer: Peer, data: bytes) -> None:
        """Handle one binary frame."""
        peer.last_seen = time.time()
        peer.mark_alive()
        try:
            verified = self._trust.verify_bytes(peer.auth, data)
        except Refused as refused:
            self._report_refusal(peer, "bytes", refused)
            return
        self._context.listener.on_bytes(peer.view(self._trust), verified)

    # -- control messages ------------------------------------------------------------------

    def _handle_control(self, peer: Peer, link: Link, control: Control) -> None:
        match control.kind:
            case "ping":
                self._send_pong(link, control.fields["ping"])
            case "pong":
                peer.answers_pings = True
            case "bye":
                # A connection that is still being made to a peer that leaves will never open.
                for each in [link, *(other for other in peer.links.values() if not other.is_open)]:
                    self._context.end_link(each, "bye")
            case "description" | "candidate" | "candidates" | "restart":
                self._signalling_handler.handle_control(peer, link, control)

    @staticmethod
    def _send_pong(link: Link, sent: Any) -> None:
        if isinstance(sent, int | float):
            try:
                link.send(f'{{"pong":{int(sent)}}}')
            except (PeersError, ValueError, OverflowError):
                pass

    def _count_bad_frame(self, peer: Peer, link: Link) -> None:
        link.bad_frames += 1
        if link.bad_frames > limits.PEER_BAD_FRAMES:
            self._context.end_link(link, "too many unreadable frames")

    # -- data and envelopes ------------------------------------------------------------------

    def _handle_data(self, peer: Peer, data: Any) -> None:
        if isinstance(data, dict) and data.get("type") == KEEP_ALIVE:
            return
        if not self._trust.admits(peer.auth) or self._has_contested_name(peer):
            self._report_refusal(peer, "data", Refused("peer not admitted"))
            return
        self._context.listener.on_data(peer.view(self._trust), data)

    def _handle_envelope(self, peer: Peer, link: Link, envelope: Envelope) -> None:
        try:
            self._trust.check_origin(peer.auth, envelope)
            if not envelope.is_known and not envelope.kind.startswith(_FORWARDED_PREFIXES):
                self._report_unknown(peer, envelope)
                return
            payload = self._read_payload(envelope)
            match payload:
                case Hello():
                    self._handle_hello(peer, envelope, payload)
                case Reject():
                    self._handle_reject(peer, payload.reason)
                case Heartbeat():
                    self._handle_heartbeat(peer, payload)
                case _:
                    if self._has_contested_name(peer):
                        raise Refused("peer not admitted")
                    self._trust.check_envelope(peer.auth, envelope)
                    if isinstance(payload, BulkConnectionOffer):
                        self._handle_bulk_connection(peer, payload)
                    else:
                        self._context.listener.on_envelope(peer.view(self._trust), envelope)
                        if payload is None:
                            self._count_bad_frame(peer, link)
        except Refused as refused:
            self._report_refusal(peer, envelope.kind, refused)
        except WireError:
            self._count_bad_frame(peer, link)

    @staticmethod
    def _read_payload(envelope: Envelope) -> Payload | None:
        """Return the payload; None if it is malformed and the upper half reports that.

        Raises: WireError.
        """
        try:
            return envelope.read_payload()
        except WireError:
            if envelope.kind.startswith(_FORWARDED_PREFIXES):
                return None
            raise

    def _has_contested_name(self, peer: Peer) -> bool:
        """Return whether another peer may own this peer's name, stated by itself or, without a hello, by the server."""
        if peer.claim is not None:
            return True
        is_unnamed = peer.auth.stream_id is None and peer.listed_stream_id is not None
        return is_unnamed and self._is_name_free(peer, peer.listed_stream_id or "") is not True

    def _handle_bulk_connection(self, peer: Peer, message: BulkConnectionOffer) -> None:
        if isinstance(message, BulkConnectionAnswer):
            self._bulk_connections.handle_answer(peer, message)
        elif peer.auth.signs_everything:
            self._bulk_connections.handle_offer(peer, message)

    def _report_unknown(self, peer: Peer, envelope: Envelope) -> None:
        self._emit_refusal(peer, "protocol_unknown", kind=envelope.kind[:64])

    def _report_refusal(self, peer: Peer, kind: str, refused: Refused) -> None:
        self._emit_refusal(peer, "protocol_auth_failed", kind=kind[:64], reason=str(refused))

    def _emit_refusal(self, peer: Peer, type: str, **fields: str) -> None:
        """Emit an event about a refusal; limited in number, so that a refused peer cannot displace events of others."""
        peer.refusals += 1
        if peer.refusals <= limits.PEER_REFUSALS:
            self._context.emit(type, uuid=peer.uuid, stream_id=peer.stream_id, **fields)

    # -- hellos and heartbeats ---------------------------------------------------------------

    def _handle_hello(self, peer: Peer, envelope: Envelope, hello: Hello) -> None:
        match self._is_name_free(peer, envelope.from_stream_id):
            case True:
                self._admit(peer, envelope, hello)
            case False:
                self._reject(peer, NAME_BELONGS_TO_OTHER)
            case None if peer.claim is None:
                peer.claim, peer.claimed_at = (envelope, hello), peer.clock()

    def _admit(self, peer: Peer, envelope: Envelope, hello: Hello) -> None:
        """Process a hello whose name is free."""
        peer.claim = None
        before, was_rejected = self._describe_peer(peer), peer.auth.rejected_reason is not None
        try:
            self._trust.accept_hello(peer.auth, envelope, hello)
        except Refused as refused:
            self._reject(peer, str(refused))
            return
        peer.refusals = 0
        if not isinstance(hello, HelloAck):
            self._outbound.send_to_peer(peer, HelloAck.kind, self._trust.hello())
            if was_rejected:
                # Its reply to our last hello had no effect, and a new one may have to prove its key.
                self._outbound.send_hello_to_peer(peer)
        if self._describe_peer(peer) != before:
            self._context.emit("sync_peer_updated", **self._describe_peer(peer))
        self._handle_admitted(peer)

    def _handle_admitted(self, peer: Peer) -> None:
        """Open the bulk channels after an accepted hello, and notify the upper half."""
        if not self._trust.admits(peer.auth):
            return
        if peer.auth.capabilities.bulk_v1 and peer.auth.key is not None:
            for link in peer.links.values():
                link.add_bulk()
            self._bulk_connections.start(peer)
        self._context.listener.on_peer_ready(peer.view(self._trust))

    @staticmethod
    def _describe_peer(peer: Peer) -> dict[str, Any]:
        return {
            "uuid": peer.uuid,
            "stream_id": peer.stream_id,
            "handshake_state": peer.auth.handshake,
            "auth_ok": peer.auth.is_authenticated,
            "shared_key_ready": peer.auth.key is not None,
        }

    def _reject(self, peer: Peer, reason: str) -> None:
        """Refuse everything of this peer, and send it the reason."""
        peer.claim = None
        peer.auth.handshake, peer.auth.rejected_reason = "rejected", reason
        self._outbound.send_to_peer(peer, Reject.kind, {"reason": reason})
        self._emit_refusal(peer, "sync_peer_rejected", reason=_EVENT_REASONS.get(reason, reason))

    def _handle_reject(self, peer: Peer, reason: str) -> None:
        """Record that the other end rejected us."""
        reason = reason[:200] or "rejected by the peer"
        if peer.auth.rejected_reason is None:
            peer.auth.handshake, peer.auth.rejected_reason = "rejected", reason
            self._context.emit("sync_peer_rejected", uuid=peer.uuid, stream_id=peer.stream_id, reason=reason)

    def _handle_heartbeat(self, peer: Peer, heartbeat: Heartbeat) -> None:
        if not self._trust.admits(peer.auth) or peer.claim is not None:
            return
        peer.last_heartbeat = time.time()
        self._context.listener.on_heartbeat(peer.view(self._trust), heartbeat.state_digest)

    # -- names -------------------------------------------------------------------------------

    def _is_name_free(self, peer: Peer, stream_id: str) -> bool | None:
        """Return whether a peer may use a name; None if another peer has to answer first."""
        if peer.auth.stream_id == stream_id:
            return True
        if self._discovery.addresses.get(stream_id, peer.address) != peer.address:
            return False
        if self._discovery.stream_id_at(peer.address) not in (None, stream_id[: limits.PEER_NAME_CHARACTERS]):
            return False
        return None if self._rivals(peer, stream_id) else True

    def _rivals(self, peer: Peer, stream_id: str) -> list[Peer]:
        return [other for other in self._context.roster.find_by_hello(stream_id) if other is not peer]

    def settle_claim(self, peer: Peer) -> None:
        """Decide between two peers that claim a name: the one that has it keeps it if it shows a sign of life."""
        if peer.claim is None or not peer.links:
            return
        envelope, hello = peer.claim
        rivals = self._rivals(peer, envelope.from_stream_id)
        if any(rival.last_received_at > peer.claimed_at for rival in rivals):
            self._reject(peer, "stream id is in use")
        elif not rivals or self._context.clock() - peer.claimed_at > limits.PEER_CLAIM_S:
            for link in [link for rival in rivals for link in rival.links.values()]:
                self._context.end_link(link, SUPERSEDED)
            self._admit(peer, envelope, hello)
