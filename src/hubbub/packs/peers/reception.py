"""What peers say, sorted: signs of life, hellos, data, envelopes; and what is refused.

Everything from a channel comes through here before the upper half sees it. Whatever
cannot be read is ignored, and an end that sends only that loses its connection.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from hubbub import bounds
from hubbub.packs.peers.failures import PeersError, WireError
from hubbub.packs.peers.link import Link
from hubbub.packs.peers.peer import Peer
from hubbub.packs.peers.room import Listener
from hubbub.packs.peers.trust import NOT_ALLOWED, NOT_THIS_NAME, Refused, Trust
from hubbub.packs.peers.wire import (
    Control,
    Envelope,
    Heartbeat,
    Hello,
    HelloAck,
    Payload,
    Reject,
    StrandOffer,
    read_envelope,
    read_frame,
)

_BAD_FRAMES: Final = 100
_KEEP_ALIVE: Final = "bridge.keepalive"
_OF_THE_UPPER_HALF: Final = ("file.", "state.")
"""It has events of its own for what it does not know of these families."""
_EVENT_REASONS: Final = {NOT_ALLOWED: "peer_not_allowed"}


class Host(Protocol):
    """What the reception needs of the mesh."""

    listener: Listener
    trust: Trust

    def say(self, peer: Peer, kind: str, payload: Mapping[str, Any]) -> bool:
        """Send an envelope to one peer, admitted or not."""

    def event(self, type: str, **fields: Any) -> None:
        """Tell the upper half what happened."""

    def control(self, peer: Peer, link: Link, control: Control) -> None:
        """A message about the connection itself: a description, addresses, a wish for another way."""

    def drop(self, peer: Peer, link: Link, reason: str) -> None:
        """End a connection."""

    def is_free(self, peer: Peer, stream_id: str) -> bool | None:
        """Whether a peer may have a name; None: not clear yet, somebody else has to answer first."""

    def strand(self, peer: Peer, message: StrandOffer) -> None:
        """One more connection for bytes is made."""

    def greet(self, peer: Peer) -> None:
        """Say hello to one peer."""

    def updated(self, peer: Peer) -> None:
        """A hello passed."""


class Reception:
    """Takes what comes over channels."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def heard(self, peer: Peer, link: Link, text: str) -> None:
        """One frame of text."""
        peer.last_seen = time.time()
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
        """One frame of bytes."""
        peer.last_seen = time.time()
        try:
            opened = self._host.trust.open_bytes(peer.standing, data)
        except Refused as refused:
            self._failed(peer, "bytes", refused)
            return
        self._host.listener.on_bytes(peer.view(self._host.trust), opened)

    # -- about the connection --------------------------------------------------------------

    def _controlled(self, peer: Peer, link: Link, control: Control) -> None:
        match control.kind:
            case "ping":
                self._pong(link, control.fields["ping"])
            case "pong":
                peer.answers_pings = True
            case "bye":
                # What is still being made to somebody who leaves will never be open.
                for each in [link, *(other for other in peer.links.values() if not other.is_open)]:
                    self._host.drop(peer, each, "bye")
            case "description" | "candidate" | "candidates" | "restart":
                self._host.control(peer, link, control)

    @staticmethod
    def _pong(link: Link, sent: Any) -> None:
        if isinstance(sent, int | float):
            try:
                link.send(f'{{"pong":{int(sent)}}}')
            except (PeersError, ValueError, OverflowError):
                pass

    def _bad_frame(self, peer: Peer, link: Link) -> None:
        link.bad_frames += 1
        if link.bad_frames > _BAD_FRAMES:
            self._host.drop(peer, link, "too much that cannot be read")

    # -- data and envelopes ------------------------------------------------------------------

    def _data(self, peer: Peer, data: Any) -> None:
        if isinstance(data, dict) and data.get("type") == _KEEP_ALIVE:
            return
        if not self._host.trust.admits(peer.standing) or self._has_doubtful_name(peer):
            self._failed(peer, "data", Refused("peer not admitted"))
            return
        self._host.listener.on_data(peer.view(self._host.trust), data)

    def _enveloped(self, peer: Peer, link: Link, envelope: Envelope) -> None:
        trust = self._host.trust
        try:
            trust.check_origin(peer.standing, envelope)
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
                    trust.check_envelope(peer.standing, envelope)
                    if isinstance(payload, StrandOffer):
                        self._host.strand(peer, payload)
                    else:
                        self._host.listener.on_envelope(peer.view(trust), envelope)
                        if payload is None:
                            self._bad_frame(peer, link)
        except Refused as refused:
            self._failed(peer, envelope.kind, refused)
        except WireError:
            self._bad_frame(peer, link)

    @staticmethod
    def _payload(envelope: Envelope) -> Payload | None:
        """What it carries; None if that cannot be read, and the upper half will say so.

        Raises: WireError.
        """
        try:
            return envelope.read()
        except WireError:
            if envelope.kind.startswith(_OF_THE_UPPER_HALF):
                return None
            raise

    def _has_doubtful_name(self, peer: Peer) -> bool:
        """Whether somebody else may be who this peer says it is, or who the server says it is while it says nothing."""
        if peer.claim is not None:
            return True
        has_said_none = peer.standing.stream_id is None and peer.listed is not None
        return has_said_none and self._host.is_free(peer, peer.listed or "") is not True

    def _unknown(self, peer: Peer, envelope: Envelope) -> None:
        self._tell(peer, "protocol_unknown", kind=envelope.kind[:64])

    def _failed(self, peer: Peer, kind: str, refused: Refused) -> None:
        self._tell(peer, "protocol_auth_failed", kind=kind[:64], reason=str(refused))

    def _tell(self, peer: Peer, type: str, **fields: str) -> None:
        """Tell what was refused; not for ever, or who is kept out would push out what others said."""
        peer.refusals += 1
        if peer.refusals <= bounds.PEER_REFUSALS:
            self._host.event(type, uuid=peer.uuid, stream_id=peer.stream_id, **fields)

    # -- who is there ------------------------------------------------------------------------

    def _greeted(self, peer: Peer, envelope: Envelope, hello: Hello) -> None:
        match self._host.is_free(peer, envelope.from_stream_id):
            case True:
                self.admit(peer, envelope, hello)
            case False:
                self.reject(peer, NOT_THIS_NAME)
            case None if peer.claim is None:
                peer.claim, peer.claimed_at = (envelope, hello), time.monotonic()

    def admit(self, peer: Peer, envelope: Envelope, hello: Hello) -> None:
        """Take a hello whose name is free."""
        peer.claim = None
        before, was_rejected = self._shown(peer), peer.standing.rejected_reason is not None
        try:
            self._host.trust.take_hello(peer.standing, envelope, hello)
        except Refused as refused:
            self.reject(peer, str(refused))
            return
        peer.refusals = 0
        if not isinstance(hello, HelloAck):
            self._host.say(peer, HelloAck.kind, self._host.trust.hello())
            if was_rejected:
                self._host.greet(peer)  # Its answer to our last hello was lost on us, and may have to prove something.
        if self._shown(peer) != before:
            self._host.event("sync_peer_updated", **self._shown(peer))
        self._host.updated(peer)

    @staticmethod
    def _shown(peer: Peer) -> dict[str, Any]:
        return {
            "uuid": peer.uuid,
            "stream_id": peer.stream_id,
            "handshake_state": peer.standing.handshake,
            "auth_ok": peer.standing.is_authenticated,
            "shared_key_ready": peer.standing.key is not None,
        }

    def reject(self, peer: Peer, reason: str) -> None:
        """Let nothing of this peer through, and tell it why."""
        peer.claim = None
        peer.standing.handshake, peer.standing.rejected_reason = "rejected", reason
        self._host.say(peer, Reject.kind, {"reason": reason})
        self._tell(peer, "sync_peer_rejected", reason=_EVENT_REASONS.get(reason, reason))

    def _rejected(self, peer: Peer, reason: str) -> None:
        """The other end does not want us."""
        reason = reason[:200] or "rejected by the peer"
        if peer.standing.rejected_reason is None:
            peer.standing.handshake, peer.standing.rejected_reason = "rejected", reason
            self._host.event("sync_peer_rejected", uuid=peer.uuid, stream_id=peer.stream_id, reason=reason)

    def _beat(self, peer: Peer, heartbeat: Heartbeat) -> None:
        if not self._host.trust.admits(peer.standing) or peer.claim is not None:
            return
        peer.last_heartbeat = time.time()
        self._host.listener.on_heartbeat(peer.view(self._host.trust), heartbeat.state_digest)
