"""Authentication of peers: stream ids, join tokens, keys, signatures, replay protection.

Without I/O. The stream id of a peer comes from its hello and is bound to the connection. Nothing is accepted from a
peer that did not pass every required check, whichever fields it leaves out. `mesh` asks before anything reaches the
upper half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from hubbub.packs.peers import limits, session_mac, tokens
from hubbub.packs.peers.encryption import KeyPair
from hubbub.packs.peers.errors import PeersError
from hubbub.packs.peers.js_json import stringify
from hubbub.packs.peers.names import make_id, sanitize
from hubbub.packs.peers.room import Handshake, RoomOptions
from hubbub.packs.peers.wire import Capabilities, Envelope, Hello, HelloAck, envelope_frame, signed_text

NOT_ALLOWED: Final = "peer not on allowlist"
NAME_BELONGS_TO_OTHER: Final = "stream id belongs to another peer"
NAME_IS_OURS: Final = "both peers have the same stream id"


class Refused(PeersError):
    """A message is refused; the reason is for events, and never contains the message's content."""


class PeerAuth:
    """What is known about one peer so far."""

    def __init__(self) -> None:
        self.stream_id: str | None = None
        """From its first accepted hello; it never changes afterwards."""
        self.handshake: Handshake = "discovered"
        self.is_authenticated = False
        self.rejected_reason: str | None = None
        self.capabilities = Capabilities()
        self.key: bytes | None = None
        self.has_proved_key = False
        """Whether it signed its reply to our hello: a hello and its token can be replayed by a peer that got them."""
        self.counters: session_mac.KeyCounters | None = None
        self.wanted_bulk_connections = 1

    @property
    def has_said_hello(self) -> bool:
        """Whether one of its hellos was accepted."""
        return self.handshake in ("hello_received", "ready")

    @property
    def signs_everything(self) -> bool:
        """Whether it is another Hubbub and signs everything that it sends."""
        return self.capabilities.hubbub_v1 and self.key is not None


class Trust:
    """What one session requires of its peers, and its own credentials."""

    def __init__(self, options: RoomOptions, *, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._clock = clock
        self._keys = KeyPair()
        self._key_counters = session_mac.KeyCounterCache()
        self._requires_auth = bool(
            options.enforce_join_token or options.allow_peer_stream_ids or options.require_session_mac
        )

    def admits(self, auth: PeerAuth) -> bool:
        """Return whether messages are accepted from a peer, and sent to it."""
        if auth.rejected_reason is not None:
            return False
        if not self._requires_auth:
            return True
        if not auth.has_said_hello or (self._options.enforce_join_token and not auth.is_authenticated):
            return False
        return auth.key is not None or not self._options.require_session_mac

    # -- hellos ------------------------------------------------------------------------

    def hello(self) -> dict[str, Any]:
        """Return the payload of our hello."""
        supported = dict.fromkeys(
            ("sync_v1", "session_mac_v1", "hubbub_v1", "bulk_v1", *self._options.capabilities), True
        )
        names = [field.name for field in msgspec.structs.fields(Capabilities)]
        return {
            "capabilities": {name: supported.get(name, False) for name in names},
            "public_key": self._keys.public,
            "join_token": self._make_token(),
            "bulk_connections": self._options.bulk_connections,
        }

    def _make_token(self) -> str | None:
        options = self._options
        if options.join_token is not None or not options.join_token_secrets:
            return options.join_token
        expires_ms = int((self._clock() + options.join_token_ttl_s) * 1000)
        secret, nonce = options.join_token_secrets[0], make_id("join")
        return tokens.mint(secret, options.room, options.stream_id, expires_ms, nonce, self._keys.public)

    def accept_hello(self, auth: PeerAuth, envelope: Envelope, hello: Hello) -> None:
        """Check a hello or its reply, and record the identity of the peer.

        Raises:
            Refused: the peer is rejected until one of its hellos passes.
        """
        try:
            self._check_name(envelope.from_stream_id)
            is_authenticated, needs_proof = self._check_token(envelope.from_stream_id, hello)
            self._accept_key(auth, hello.public_key)
        except Refused as refused:
            auth.handshake, auth.rejected_reason = "rejected", str(refused)
            auth.is_authenticated, auth.key, auth.counters = False, None, None
            raise
        auth.has_proved_key = auth.has_proved_key or _is_signed(auth, envelope)
        auth.stream_id = envelope.from_stream_id
        auth.is_authenticated = is_authenticated and (auth.has_proved_key or not needs_proof)
        auth.rejected_reason = None
        auth.capabilities = hello.capabilities
        auth.wanted_bulk_connections = hello.bulk_connections
        if isinstance(hello, HelloAck) or auth.handshake == "ready":
            auth.handshake = "ready"
        else:
            auth.handshake = "hello_received"

    def _check_name(self, stream_id: str) -> None:
        allowed = self._options.allow_peer_stream_ids
        if stream_id == self._options.stream_id:
            raise Refused(NAME_IS_OURS)
        if not stream_id or (allowed and stream_id not in allowed):
            raise Refused(NOT_ALLOWED)
        if len(stream_id) > limits.SIGNAL_NAME_CHARACTERS or sanitize(stream_id) != stream_id:
            raise Refused("invalid stream id")

    def _check_token(self, stream_id: str, hello: Hello) -> tuple[bool, bool]:
        """Return whether the token is valid, and whether the peer must also prove that it owns its key."""
        options, token, key = self._options, hello.join_token, None
        try:
            if token is None and options.enforce_join_token:
                raise tokens.TokenRefused(tokens.REQUIRED)
            if token is not None:
                key = tokens.check(token, options.join_token_secrets, options.room, stream_id, self._clock() * 1000)
            if key is not None and key != hello.public_key:
                raise tokens.TokenRefused("join token key mismatch")
        except tokens.TokenRefused as refused:
            if options.enforce_join_token:
                raise Refused(str(refused)) from refused
            return False, False
        return True, key is not None

    def _accept_key(self, auth: PeerAuth, public_key: str | None) -> None:
        if public_key is None:
            if auth.key is not None:
                raise Refused("public key missing, but an earlier hello had one")
            return
        try:
            key = self._keys.derive_secret(public_key)
        except ValueError as error:
            raise Refused("invalid public key") from error
        if key != auth.key:
            auth.key, auth.counters = key, self._key_counters.get(key, self._now_ms())
            auth.has_proved_key = False

    # -- outgoing ------------------------------------------------------------------------

    def frame(self, auth: PeerAuth | None, kind: str, payload: Mapping[str, Any]) -> str:
        """Return the frame of an envelope to one peer, signed if there is a key."""
        key = None if auth is None else auth.key
        counters = None if auth is None or not auth.signs_everything else auth.counters
        envelope = Envelope(
            kind=kind,
            ts=self._now_ms(),
            nonce=session_mac.random_nonce() if counters is None else counters.outgoing.nonce(),
            room=self._options.room,
            from_stream_id=self._options.stream_id,
            payload={},
        )
        text = signed_text(envelope, stringify(payload))
        return envelope_frame(text, None if key is None else session_mac.sign(key, text))

    def sign_bytes(self, auth: PeerAuth, data: bytes) -> bytes:
        """Return a signed binary frame.

        Raises: Refused, without a key.
        """
        if auth.key is None or auth.counters is None:
            raise Refused("no key")
        key = session_mac.bulk_key(auth.key, self._options.stream_id)
        return session_mac.sign_frame(key, auth.counters.outgoing.next(), data)

    # -- incoming ------------------------------------------------------------------------

    def check_origin(self, auth: PeerAuth, envelope: Envelope) -> None:
        """Check that an envelope belongs to this room and to the peer of its connection.

        Raises: Refused.
        """
        if envelope.room != self._options.room:
            raise Refused("wrong room")
        if auth.stream_id is not None and envelope.from_stream_id != auth.stream_id:
            raise Refused(NAME_BELONGS_TO_OTHER)

    def check_envelope(self, auth: PeerAuth, envelope: Envelope) -> None:
        """Check that an envelope comes from an admitted peer, is signed by it, and is not a replay.

        Raises: Refused.
        """
        if not self.admits(auth):
            raise Refused("peer not admitted")
        if envelope.mac is None:
            if self._options.require_session_mac or auth.signs_everything:
                raise Refused("mac missing")
            return
        if auth.key is None or auth.counters is None:
            raise Refused("no key for this mac")
        if not session_mac.is_valid_mac(auth.key, envelope.signed_text, envelope.mac):
            raise Refused("mac invalid")
        if auth.signs_everything and not auth.counters.envelopes.accept_nonce(envelope.nonce):
            raise Refused("replayed")

    def verify_bytes(self, auth: PeerAuth, frame: bytes) -> bytes:
        """Verify a binary frame, and return its data.

        Raises: Refused.
        """
        if not self.admits(auth) or auth.key is None or auth.counters is None or auth.stream_id is None:
            raise Refused("peer not admitted")
        verified = session_mac.verify_frame(session_mac.bulk_key(auth.key, auth.stream_id), frame)
        if verified is None:
            raise Refused("mac invalid")
        number, data = verified
        if not auth.counters.frames.accept(number):
            raise Refused("replayed")
        return data

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _is_signed(auth: PeerAuth, envelope: Envelope) -> bool:
    if auth.key is None or envelope.mac is None:
        return False
    return session_mac.is_valid_mac(auth.key, envelope.signed_text, envelope.mac)
