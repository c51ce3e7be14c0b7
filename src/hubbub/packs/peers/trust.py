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
from hubbub.packs.peers.failures import PeersError
from hubbub.packs.peers.javascript import stringify
from hubbub.packs.peers.names import sanitise, short_id
from hubbub.packs.peers.room import Handshake, RoomOptions
from hubbub.packs.peers.sealing import KeyPair
from hubbub.packs.peers.wire import Capabilities, Envelope, Hello, HelloAck, envelope_frame, signed_text

NOT_ALLOWED: Final = "peer not on allowlist"
NOT_THIS_NAME: Final = "stream id belongs to somebody else"
OUR_NAME: Final = "stream id is our own"


class Refused(PeersError):
    """A message is refused; the reason is for events, and never contains the message's content."""


class Standing:
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
        self.use: session_mac.KeyUse | None = None
        self.wanted_strands = 1

    @property
    def has_said_hello(self) -> bool:
        """Whether one of its hellos was accepted."""
        return self.handshake in ("hello_received", "ready")

    @property
    def counts(self) -> bool:
        """Whether it is another Hubbub and signs everything that it sends."""
        return self.capabilities.hubbub_v1 and self.key is not None


class Trust:
    """What one session requires of its peers, and its own credentials."""

    def __init__(self, options: RoomOptions, *, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._clock = clock
        self._keys = KeyPair()
        self._uses = session_mac.KeyUses()
        self._is_gated = bool(
            options.enforce_join_token or options.allow_peer_stream_ids or options.require_session_mac
        )

    def admits(self, standing: Standing) -> bool:
        """Return whether messages are accepted from a peer, and sent to it."""
        if standing.rejected_reason is not None:
            return False
        if not self._is_gated:
            return True
        if not standing.has_said_hello or (self._options.enforce_join_token and not standing.is_authenticated):
            return False
        return standing.key is not None or not self._options.require_session_mac

    # -- hellos ------------------------------------------------------------------------

    def hello(self) -> dict[str, Any]:
        """Return the payload of our hello."""
        said = dict.fromkeys(("sync_v1", "session_mac_v1", "hubbub_v1", "bulk_v1", *self._options.capabilities), True)
        names = [field.name for field in msgspec.structs.fields(Capabilities)]
        return {
            "capabilities": {name: said.get(name, False) for name in names},
            "public_key": self._keys.public,
            "join_token": self._token(),
            "bulk_connections": self._options.bulk_connections,
        }

    def _token(self) -> str | None:
        options = self._options
        if options.join_token is not None or not options.join_token_secrets:
            return options.join_token
        expires_ms = int((self._clock() + options.join_token_ttl_s) * 1000)
        secret, nonce = options.join_token_secrets[0], short_id("join")
        return tokens.mint(secret, options.room, options.stream_id, expires_ms, nonce, self._keys.public)

    def take_hello(self, standing: Standing, envelope: Envelope, hello: Hello) -> None:
        """Check a hello or its reply, and record the identity of the peer.

        Raises:
            Refused: the peer is rejected until one of its hellos passes.
        """
        try:
            self._check_name(envelope.from_stream_id)
            is_authenticated, needs_proof = self._check_token(envelope.from_stream_id, hello)
            self._take_key(standing, hello.public_key)
        except Refused as refused:
            standing.handshake, standing.rejected_reason = "rejected", str(refused)
            standing.is_authenticated, standing.key, standing.use = False, None, None
            raise
        standing.has_proved_key = standing.has_proved_key or _is_signed(standing, envelope)
        standing.stream_id = envelope.from_stream_id
        standing.is_authenticated = is_authenticated and (standing.has_proved_key or not needs_proof)
        standing.rejected_reason = None
        standing.capabilities = hello.capabilities
        standing.wanted_strands = hello.bulk_connections
        if isinstance(hello, HelloAck) or standing.handshake == "ready":
            standing.handshake = "ready"
        else:
            standing.handshake = "hello_received"

    def _check_name(self, stream_id: str) -> None:
        allowed = self._options.allow_peer_stream_ids
        if stream_id == self._options.stream_id:
            raise Refused(OUR_NAME)
        if not stream_id or (allowed and stream_id not in allowed):
            raise Refused(NOT_ALLOWED)
        if len(stream_id) > limits.SIGNAL_NAME_CHARACTERS or sanitise(stream_id) != stream_id:
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

    def _take_key(self, standing: Standing, public_key: str | None) -> None:
        if public_key is None:
            if standing.key is not None:
                raise Refused("a key was given, and is missing now")
            return
        try:
            key = self._keys.shared_with(public_key)
        except ValueError as error:
            raise Refused("invalid public key") from error
        if key != standing.key:
            standing.key, standing.use = key, self._uses.of(key, self._now_ms())
            standing.has_proved_key = False

    # -- outgoing ------------------------------------------------------------------------

    def frame(self, standing: Standing | None, kind: str, payload: Mapping[str, Any]) -> str:
        """Return the frame of an envelope to one peer, signed if there is a key."""
        key = None if standing is None else standing.key
        use = None if standing is None or not standing.counts else standing.use
        envelope = Envelope(
            kind=kind,
            ts=self._now_ms(),
            nonce=session_mac.plain_nonce() if use is None else use.outgoing.nonce(),
            room=self._options.room,
            from_stream_id=self._options.stream_id,
            payload={},
        )
        text = signed_text(envelope, stringify(payload))
        return envelope_frame(text, None if key is None else session_mac.sign(key, text))

    def seal_bytes(self, standing: Standing, data: bytes) -> bytes:
        """Return a signed binary frame.

        Raises: Refused, without a key.
        """
        if standing.key is None or standing.use is None:
            raise Refused("no key")
        key = session_mac.bulk_key(standing.key, self._options.stream_id)
        return session_mac.seal_frame(key, standing.use.outgoing.next(), data)

    # -- incoming ------------------------------------------------------------------------

    def check_origin(self, standing: Standing, envelope: Envelope) -> None:
        """Check that an envelope belongs to this room and to the peer of its connection.

        Raises: Refused.
        """
        if envelope.room != self._options.room:
            raise Refused("wrong room")
        if standing.stream_id is not None and envelope.from_stream_id != standing.stream_id:
            raise Refused(NOT_THIS_NAME)

    def check_envelope(self, standing: Standing, envelope: Envelope) -> None:
        """Check that an envelope comes from an admitted peer, is signed by it, and is not a replay.

        Raises: Refused.
        """
        if not self.admits(standing):
            raise Refused("peer not admitted")
        if envelope.mac is None:
            if self._options.require_session_mac or standing.counts:
                raise Refused("mac missing")
            return
        if standing.key is None or standing.use is None:
            raise Refused("no key for this mac")
        if not session_mac.is_signed(standing.key, envelope.signed_text, envelope.mac):
            raise Refused("mac wrong")
        if standing.counts and not standing.use.envelopes.take_nonce(envelope.nonce):
            raise Refused("replayed")

    def open_bytes(self, standing: Standing, frame: bytes) -> bytes:
        """Verify a binary frame, and return its data.

        Raises: Refused.
        """
        if not self.admits(standing) or standing.key is None or standing.use is None or standing.stream_id is None:
            raise Refused("peer not admitted")
        opened = session_mac.open_frame(session_mac.bulk_key(standing.key, standing.stream_id), frame)
        if opened is None:
            raise Refused("mac wrong")
        number, data = opened
        if not standing.use.frames.take(number):
            raise Refused("replayed")
        return data

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _is_signed(standing: Standing, envelope: Envelope) -> bool:
    if standing.key is None or envelope.mac is None:
        return False
    return session_mac.is_signed(standing.key, envelope.signed_text, envelope.mac)
