"""Which peers are admitted, and which are refused even if they omit fields."""

from __future__ import annotations

from typing import Any

import pytest

from hubbub.packs.peers import limits, tokens
from hubbub.packs.peers.room import RoomOptions
from hubbub.packs.peers.trust import NAME_IS_OURS, NOT_ALLOWED, PeerAuth, Refused, Trust
from hubbub.packs.peers.wire import Envelope, Hello, HelloAck, Pipe, read_envelope, read_frame

SECRET = "sek"
NOW = 1_700_000_000.0
PATCH = {"key": "k", "value": {"b": 1, "2": 1.0, "é": [1e21, 1e-7, "\ud800"]}, "actor": "bob", "clock": 1}


def trust(name: str = "ann", **options: Any) -> Trust:
    return Trust(RoomOptions(room="r", stream_id=name, **options), clock=lambda: NOW)


def parse_envelope(frame: str) -> Envelope:
    read = read_frame(frame)
    assert isinstance(read, Pipe)
    envelope = read_envelope(read.data)
    assert envelope is not None
    return envelope


def accept_hello(
    ours: Trust,
    auth: PeerAuth,
    theirs: Trust,
    kind: str = Hello.kind,
    signing: PeerAuth | None = None,
    **changes: Any,
) -> None:
    envelope = parse_envelope(theirs.frame(signing, kind, {**theirs.hello(), **changes}))
    ours.check_origin(auth, envelope)
    hello = envelope.read_payload()
    assert isinstance(hello, Hello)
    ours.accept_hello(auth, envelope, hello)


def auth_after_hello(them: Trust, us: Trust) -> PeerAuth:
    """Return what a peer knows about us after our hello."""
    auth = PeerAuth()
    accept_hello(them, auth, us)
    return auth


def exchange_hellos(ours: Trust, theirs: Trust) -> tuple[PeerAuth, PeerAuth]:
    """Exchange hellos; return the peer as we see it, and us as it sees us."""
    they, we = PeerAuth(), PeerAuth()
    accept_hello(ours, they, theirs)
    accept_hello(theirs, we, ours, HelloAck.kind)
    return they, we


def test_two_peers_sign_and_verify_after_hellos() -> None:
    ann, bob = trust("ann", require_session_mac=True), trust("bob", require_session_mac=True)
    bob_seen, ann_seen = exchange_hellos(ann, bob)
    assert (bob_seen.handshake, ann_seen.handshake) == ("hello_received", "ready")
    assert bob_seen.key == ann_seen.key is not None
    envelope = parse_envelope(bob.frame(ann_seen, "state.patch", PATCH))
    assert envelope.mac is not None
    ann.check_envelope(bob_seen, envelope)
    with pytest.raises(Refused, match="replayed"):
        ann.check_envelope(bob_seen, envelope)


def test_a_replayed_envelope_is_refused_on_another_connection() -> None:
    ann, bob = trust("ann"), trust("bob")
    bob_seen, ann_seen = exchange_hellos(ann, bob)
    envelope = parse_envelope(bob.frame(ann_seen, "state.patch", PATCH))
    ann.check_envelope(bob_seen, envelope)
    again = PeerAuth()
    accept_hello(ann, again, bob)
    with pytest.raises(Refused, match="replayed"):
        ann.check_envelope(again, envelope)
    ann.check_envelope(again, parse_envelope(bob.frame(ann_seen, "state.patch", PATCH)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mac": "0" * 64}, "mac invalid"),
        ({"mac": ""}, "mac invalid"),
        ({"mac": None}, "mac missing"),
        ({"kind": "state.snapshot"}, "mac invalid"),
        ({"ts": 1}, "mac invalid"),
        ({"nonce": "h_ffffffffffffffff"}, "mac invalid"),
        ({"payload": {**PATCH, "clock": 2}}, "mac invalid"),
    ],
)
def test_forged_envelopes_are_refused(changes: dict[str, Any], reason: str) -> None:
    ann, bob = trust("ann"), trust("bob")
    bob_seen, ann_seen = exchange_hellos(ann, bob)
    import msgspec

    forged = msgspec.structs.replace(parse_envelope(bob.frame(ann_seen, "state.patch", PATCH)), **changes)
    with pytest.raises(Refused, match=reason):
        ann.check_envelope(bob_seen, forged)


def test_an_envelope_of_another_room_or_stream_id_is_refused() -> None:
    ann, bob, carol = trust("ann"), trust("bob"), trust("carol")
    elsewhere = Trust(RoomOptions(room="q", stream_id="bob"))
    bob_seen, _ = exchange_hellos(ann, bob)
    for other, reason in ((carol, "another peer"), (elsewhere, "wrong room")):
        with pytest.raises(Refused, match=reason):
            ann.check_origin(bob_seen, parse_envelope(other.frame(None, "state.patch", PATCH)))


def test_a_hello_with_our_own_stream_id_is_refused() -> None:
    with pytest.raises(Refused, match=NAME_IS_OURS):
        accept_hello(trust("ann"), PeerAuth(), trust("ann"))


def vdo_bridge_hello(theirs: Trust) -> dict[str, Any]:
    return {"capabilities": {"sync_v1": True, "session_mac_v1": True}}


@pytest.mark.parametrize("name", ["b" * 257, "b\ud800", "bob!", "_bob", "bob\n"])
def test_an_invalid_stream_id_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="invalid stream id"):
        accept_hello(trust("ann"), PeerAuth(), trust(name))


def test_a_vdo_bridge_may_omit_the_mac_unless_it_is_required() -> None:
    for is_required in (False, True):
        ann, bob = trust("ann", require_session_mac=is_required), trust("bob")
        seen, theirs = PeerAuth(), PeerAuth()
        accept_hello(ann, seen, bob, **vdo_bridge_hello(bob))
        accept_hello(bob, theirs, ann, HelloAck.kind)
        unsigned = parse_envelope(bob.frame(None, "state.patch", PATCH))
        if is_required:
            with pytest.raises(Refused, match="mac missing"):
                ann.check_envelope(seen, unsigned)
        else:
            ann.check_envelope(seen, unsigned)
        signed = parse_envelope(bob.frame(theirs, "state.patch", PATCH))
        ann.check_envelope(seen, signed)
        ann.check_envelope(seen, signed)  # A VDO.Ninja bridge has no counter, so replays cannot be detected.


def test_a_mac_without_a_key_is_refused() -> None:
    ann, bob = trust("ann"), trust("bob")
    _, ann_seen = exchange_hellos(ann, bob)
    with pytest.raises(Refused, match="no key"):
        ann.check_envelope(PeerAuth(), parse_envelope(bob.frame(ann_seen, "state.patch", PATCH)))


GATES = [
    {"enforce_join_token": True, "join_token_secrets": (SECRET,)},
    {"allow_peer_stream_ids": ("carol",)},
    {"require_session_mac": True},
]


@pytest.mark.parametrize("gate", GATES)
def test_nothing_is_accepted_before_the_hello_if_peers_must_authenticate(gate: dict[str, Any]) -> None:
    ann = trust("ann", **gate)
    assert not ann.admits(PeerAuth())
    with pytest.raises(Refused, match="not admitted"):
        ann.check_envelope(PeerAuth(), parse_envelope(trust("bob").frame(None, "state.patch", PATCH)))
    with pytest.raises(Refused, match="not admitted"):
        ann.verify_bytes(PeerAuth(), b"x" * 100)


def test_an_open_room_admits_peers_before_their_hello() -> None:
    assert trust().admits(PeerAuth())


def test_a_peer_that_is_not_on_the_allow_list_is_rejected() -> None:
    ann, auth = trust("ann", allow_peer_stream_ids=("carol",)), PeerAuth()
    with pytest.raises(Refused, match=NOT_ALLOWED):
        accept_hello(ann, auth, trust("bob"))
    assert (auth.handshake, auth.rejected_reason, auth.key) == ("rejected", NOT_ALLOWED, None)
    assert not ann.admits(auth)
    carol = PeerAuth()
    accept_hello(ann, carol, trust("carol"))
    assert ann.admits(carol)


def bad_tokens() -> list[tuple[str | None, str]]:
    later, before = int(NOW * 1000) + 1000, int(NOW * 1000) - 1
    return [
        (None, "join token required"),
        ("x", "invalid token format"),
        (tokens.mint("wrong", "r", "bob", later, "n"), "invalid token signature"),
        (tokens.mint(SECRET, "q", "bob", later, "n"), "join token room mismatch"),
        (tokens.mint(SECRET, "r", "carol", later, "n"), "join token stream mismatch"),
        (tokens.mint(SECRET, "r", "bob", before, "n"), "join token expired"),
    ]


@pytest.mark.parametrize(("token", "reason"), bad_tokens())
def test_an_invalid_token_is_rejected_if_tokens_are_enforced(token: str | None, reason: str) -> None:
    enforcing = trust("ann", enforce_join_token=True, join_token_secrets=(SECRET,))
    auth = PeerAuth()
    with pytest.raises(Refused, match=reason):
        accept_hello(enforcing, auth, trust("bob"), join_token=token)
    assert not enforcing.admits(auth)
    assert auth.key is None


@pytest.mark.parametrize(("token", "reason"), bad_tokens()[1:])
def test_an_invalid_token_only_leaves_a_peer_unauthenticated_if_tokens_are_optional(token: str, reason: str) -> None:
    lenient, auth = trust("ann", join_token_secrets=(SECRET,)), PeerAuth()
    accept_hello(lenient, auth, trust("bob"), join_token=token)
    assert not auth.is_authenticated
    assert lenient.admits(auth)


def test_a_rejected_peer_is_admitted_by_a_later_hello_with_a_valid_token() -> None:
    ann = trust("ann", enforce_join_token=True, join_token_secrets=("new", SECRET))
    bob = trust("bob", join_token_secrets=(SECRET,))
    auth = PeerAuth()
    with pytest.raises(Refused):
        accept_hello(ann, auth, bob, join_token=None)
    accept_hello(ann, auth, bob)
    assert not ann.admits(auth)
    accept_hello(ann, auth, bob, HelloAck.kind, auth_after_hello(bob, ann))
    assert ann.admits(auth)
    accept_hello(ann, auth, bob)
    assert ann.admits(auth)
    assert auth.rejected_reason is None
    with pytest.raises(Refused):
        accept_hello(ann, auth, bob, join_token="x")
    assert not ann.admits(auth)


def test_a_stolen_token_does_not_authenticate_without_its_key() -> None:
    ann = trust("ann", enforce_join_token=True, join_token_secrets=(SECRET,))
    bob, mallory = trust("bob", join_token_secrets=(SECRET,)), trust("bob")
    overheard = bob.hello()
    with pytest.raises(Refused, match="join token key mismatch"):
        accept_hello(ann, PeerAuth(), mallory, join_token=overheard["join_token"])
    auth = PeerAuth()
    accept_hello(ann, auth, mallory, **overheard)
    accept_hello(ann, auth, mallory, HelloAck.kind, **overheard)
    accept_hello(ann, auth, mallory, HelloAck.kind, auth_after_hello(mallory, ann), **overheard)
    assert not auth.is_authenticated
    assert not ann.admits(auth)


def test_a_vdo_bridge_token_without_a_key_needs_no_proof() -> None:
    ann, auth = trust("ann", enforce_join_token=True, join_token_secrets=(SECRET,)), PeerAuth()
    token = tokens.mint(SECRET, "r", "bob", int(NOW * 1000) + 1000, "n")
    accept_hello(ann, auth, trust("bob"), join_token=token)
    assert ann.admits(auth)


@pytest.mark.parametrize("key", ["", "AAAA", "é", "MCowBQYDK2VuAyEA" + "A" * 43 + "="])
def test_an_invalid_public_key_is_rejected(key: str) -> None:
    with pytest.raises(Refused, match="invalid public key"):
        accept_hello(trust("ann"), PeerAuth(), trust("bob"), public_key=key)


def test_a_later_hello_without_the_public_key_is_refused() -> None:
    ann, bob, auth = trust("ann"), trust("bob"), PeerAuth()
    accept_hello(ann, auth, bob)
    with pytest.raises(Refused, match="public key missing, but an earlier hello had one"):
        accept_hello(ann, auth, bob, public_key=None)


def test_a_peer_without_a_key_is_not_admitted_if_macs_are_required() -> None:
    ann, auth = trust("ann", require_session_mac=True), PeerAuth()
    accept_hello(ann, auth, trust("bob"), public_key=None)
    assert not ann.admits(auth)


def test_binary_frames_are_valid_in_one_direction_and_once() -> None:
    ann, bob = trust("ann"), trust("bob")
    bob_seen, ann_seen = exchange_hellos(ann, bob)
    frame = bob.sign_bytes(ann_seen, b"data")
    assert ann.verify_bytes(bob_seen, frame) == b"data"
    for bad in (frame, b"", frame[:-1], bytes(len(frame)), ann.sign_bytes(bob_seen, b"data")):
        with pytest.raises(Refused):
            ann.verify_bytes(bob_seen, bad)
    with pytest.raises(Refused):
        bob.sign_bytes(PeerAuth(), b"data")


def test_binary_frames_and_envelopes_have_separate_replay_windows() -> None:
    """A flood of bytes must not make a slow envelope look old."""
    ann, bob = trust("ann"), trust("bob")
    bob_seen, ann_seen = exchange_hellos(ann, bob)
    slow = parse_envelope(bob.frame(ann_seen, "state.patch", PATCH))
    for _ in range(limits.PEER_REPLAY_WINDOW * 2):
        ann.verify_bytes(bob_seen, bob.sign_bytes(ann_seen, b""))
    ann.check_envelope(bob_seen, slow)
