"""Names, encryption, tokens and MACs, compared with values of the VDO.Ninja bridge."""

import base64
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packs.peers.judge import Judge

from hubbub.packs.peers import encryption, names, session_mac, tokens
from hubbub.packs.peers.wire import Envelope

SECRET = "sek"
TOKEN = (
    "eyJyb29tIjoiciIsInN0cmVhbV9pZCI6ImEiLCJleHAiOjE3MDAwMDA2MDAwMDAsIm5vbmNlIjoiam9pbl8wMDAwMDAwMCJ9"
    ".wLB-NO1836r7lHMNLmcKmuE3uAQrhgCpKu9PkIo1E9k"
)
PATCH = Envelope(
    kind="state.patch",
    ts=1700000000000,
    nonce="p_00000000",
    room="r",
    from_stream_id="a",
    payload={"key": "k", "value": 1, "actor": "a", "clock": 1, "updated_at": "2026-01-01T00:00:00.000Z"},
)


# -- names ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [("my-room", "my_room"), ("  weird!!!id ", "weird_id"), ("__a__", "a"), ("é", ""), ("", ""), ("a b-c", "a_b_c")],
)
def test_names_are_sanitised(text: str, name: str) -> None:
    assert names.sanitize(text) == name


def test_wire_names_equal_those_of_the_vdo_bridge() -> None:
    default_names = names.WireNames()
    assert default_names.room_id("cap1") == "051dccbe9f26fe58"
    assert default_names.wire_stream_id("alice") == "alice808d64"
    assert default_names.plain_stream_id("alice808d64") == "alice"
    assert default_names.plain_stream_id("alice000000") is None
    assert default_names.plain_stream_id("808d64") is None


def test_long_names_are_truncated_before_they_are_hashed() -> None:
    default_names = names.WireNames()
    assert default_names.room_id("r" * 40) == default_names.room_id("r" * 30) != default_names.room_id("r" * 29)
    assert default_names.wire_stream_id("s" * 70) == "s" * 64 + "808d64"


def test_without_a_password_names_are_sent_as_they_are() -> None:
    plain = names.WireNames(False)
    assert (plain.room_id("cap1"), plain.wire_stream_id("alice"), plain.plain_stream_id("alice"), plain.key) == (
        "cap1",
        "alice",
        "alice",
        None,
    )


@pytest.mark.parametrize("password", [None, "", "   "])
def test_no_password_means_the_default_password(password: str | None) -> None:
    assert names.WireNames(password).key == names.WireNames(names.DEFAULT_PASSWORD).key


@given(password=st.text(min_size=1, max_size=12).filter(str.strip))
def test_passwords_are_escaped_like_javascript(judge: Judge, password: str) -> None:
    assert names.WireNames(password).password == judge.escape(password.strip())


def test_session_ids_are_short_and_differ() -> None:
    found = {names.make_session_id() for _ in range(100)}
    assert len(found) == 100
    assert all(len(session) == 8 and session.isalnum() for session in found)


# -- encryption ----------------------------------------------------------------


def test_descriptions_are_encrypted_like_the_vdo_bridge() -> None:
    key = names.WireNames().key
    assert key is not None
    ciphertext, vector = encryption.encrypt(key, {"type": "offer", "sdp": "v=0"}, bytes(16))
    assert ciphertext == "21ef9a455bd1a4162bd10cafa6798b944e8c50cff7e6b35e13716428e49407a3"
    assert encryption.decrypt(key, ciphertext, vector) == {"type": "offer", "sdp": "v=0"}


@given(value=st.dictionaries(st.text(max_size=5), st.text(max_size=40), max_size=4))
def test_encrypted_values_can_be_decrypted(value: dict[str, str]) -> None:
    key = names.WireNames("pass word").key
    assert key is not None
    assert encryption.decrypt(key, *encryption.encrypt(key, value)) == value


def test_another_password_does_not_decrypt() -> None:
    ours, theirs = names.WireNames("a").key, names.WireNames("b").key
    assert ours is not None
    assert theirs is not None
    for _ in range(20):
        with pytest.raises(encryption.DecryptionFailed):
            encryption.decrypt(theirs, *encryption.encrypt(ours, {"type": "offer"}))


@given(
    ciphertext=st.text("0123456789abcdefg", max_size=70) | st.none() | st.integers(),
    vector=st.none() | st.text("0123456789abcdef", max_size=34) | st.just("00" * 16),
)
def test_garbage_is_never_decrypted(ciphertext: object, vector: str | None) -> None:
    with pytest.raises(encryption.DecryptionFailed):
        encryption.decrypt(bytes(32), ciphertext, vector)


# -- keys ----------------------------------------------------------------------


SPKI_HEAD = "MCowBQYDK2VuAyEA"
"""The prefix of every X25519 key in SPKI, in base64 (RFC 8410)."""


def test_two_key_pairs_derive_the_same_secret() -> None:
    ours, theirs, stranger = encryption.KeyPair(), encryption.KeyPair(), encryption.KeyPair()
    assert ours.public.startswith(SPKI_HEAD)
    assert len(base64.b64decode(ours.public)) == 44
    assert ours.derive_secret(theirs.public) == theirs.derive_secret(ours.public)
    assert len(ours.derive_secret(theirs.public)) == 32
    assert stranger.derive_secret(theirs.public) != ours.derive_secret(theirs.public)


@pytest.mark.parametrize(
    "public",
    ["", "x", "é", base64.b64encode(bytes(44)).decode(), SPKI_HEAD + base64.b64encode(bytes(32)).decode()],
)
def test_an_invalid_public_key_is_refused(public: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        encryption.KeyPair().derive_secret(public)


# -- tokens --------------------------------------------------------------------


def test_tokens_equal_those_of_the_vdo_bridge() -> None:
    assert tokens.mint(SECRET, "r", "a", 1700000600000, "join_00000000") == TOKEN
    tokens.check(TOKEN, (SECRET,), "r", "a", 1700000599999)


@pytest.mark.parametrize(
    ("token", "room", "stream", "now", "reason"),
    [
        (TOKEN, "other", "a", 0, "join token room mismatch"),
        (TOKEN, "r", "b", 0, "join token stream mismatch"),
        (TOKEN, "r", "a", 1700000600000, "join token expired"),
        (TOKEN[:-1] + "A", "r", "a", 0, "invalid token signature"),
        (TOKEN + "=", "r", "a", 0, "invalid token signature"),
        ("a" + TOKEN, "r", "a", 0, "invalid token signature"),
        (TOKEN + ".x", "r", "a", 0, "invalid token format"),
        ("", "r", "a", 0, "invalid token format"),
        (".", "r", "a", 0, "invalid token format"),
        ("é.é", "r", "a", 0, "invalid token format"),
        ("a." * 5000, "r", "a", 0, "invalid token format"),
    ],
)
def test_a_bad_token_is_refused(token: str, room: str, stream: str, now: int, reason: str) -> None:
    with pytest.raises(tokens.TokenRefused, match=reason):
        tokens.check(token, (SECRET,), room, stream, now)


@pytest.mark.parametrize("payload", [b"[]", b"not json", b'{"exp":"soon"}', b'{"exp":true}', b"\xff"])
def test_a_signed_token_with_a_wrong_payload_is_refused(payload: bytes) -> None:
    head = base64.urlsafe_b64encode(payload).rstrip(b"=").decode()
    tail = base64.urlsafe_b64encode(hmac.digest(SECRET.encode(), head.encode(), "sha256")).rstrip(b"=").decode()
    with pytest.raises(tokens.TokenRefused, match="invalid token payload"):
        tokens.check(f"{head}.{tail}", (SECRET,), "r", "a", 0)


def test_a_token_of_an_old_secret_is_accepted() -> None:
    tokens.check(TOKEN, ("new", SECRET), "r", "a", 0)
    with pytest.raises(tokens.TokenRefused, match="signature"):
        tokens.check(TOKEN, ("new",), "r", "a", 0)


def test_without_a_secret_any_token_passes() -> None:
    tokens.check("anything", (), "r", "a", 0)


@given(position=st.integers(0, len(TOKEN) - 1), letter=st.sampled_from("ABCxyz019-_."))
def test_a_modified_token_is_refused(position: int, letter: str) -> None:
    forged = TOKEN[:position] + letter + TOKEN[position + 1 :]
    if forged != TOKEN:
        with pytest.raises(tokens.TokenRefused):
            tokens.check(forged, (SECRET,), "r", "a", 0)


# -- MACs ----------------------------------------------------------------------


def test_macs_equal_those_of_the_vdo_bridge() -> None:
    mac = session_mac.sign(bytes([1]) * 32, PATCH.signed_text)
    assert mac == "84c42b030d77668d11c2c5e4897435701c8a5bd3d58d36f2d1ba6c9ccfad8a1c"
    assert session_mac.is_valid_mac(bytes([1]) * 32, PATCH.signed_text, mac)
    assert not session_mac.is_valid_mac(bytes([2]) * 32, PATCH.signed_text, mac)
    assert not session_mac.is_valid_mac(bytes([1]) * 32, PATCH.signed_text + " ", mac)
    assert not session_mac.is_valid_mac(bytes([1]) * 32, PATCH.signed_text, mac.upper())
    assert not session_mac.is_valid_mac(bytes([1]) * 32, PATCH.signed_text, "\ud800é")


@given(order=st.permutations(range(1, 12)), again=st.lists(st.integers(1, 11), max_size=8))
def test_every_number_is_accepted_once_in_any_order(order: list[int], again: list[int]) -> None:
    window = session_mac.ReplayWindow(width=16)
    assert all(window.accept(number) for number in order)
    assert not any(window.accept(number) for number in again)


def test_numbers_older_than_the_window_are_refused() -> None:
    window = session_mac.ReplayWindow(width=8)
    assert [window.accept(number) for number in (100, 93, 92, 10**6, 100)] == [True, True, False, True, False]


@pytest.mark.parametrize(
    "nonce", ["p_00000000", "", "h_1", "h_000000000000000G", "h_0000000000000001 ", "h_٠" + "0" * 15]
)
def test_a_nonce_without_a_counter_is_refused(nonce: str) -> None:
    assert not session_mac.ReplayWindow().accept_nonce(nonce)


def test_a_dropped_counter_restarts_above_its_last_value() -> None:
    uses = session_mac.KeyCounterCache(limit=1)
    window = session_mac.ReplayWindow()
    for moment in (1000, 1001, 1002):
        assert window.accept_nonce(uses.get(b"a", moment).outgoing.nonce())
        assert window.accept_nonce(uses.get(b"a", moment).outgoing.nonce())
        uses.get(b"b", moment)


def test_binary_frames_are_signed_and_numbered() -> None:
    key = session_mac.bulk_key(bytes(32), "alice")
    frame = session_mac.sign_frame(key, 7, b"data")
    assert session_mac.verify_frame(key, frame) == (7, b"data")
    assert session_mac.verify_frame(session_mac.bulk_key(bytes(32), "bob"), frame) is None


@given(frame=st.binary(max_size=60))
def test_forged_binary_frames_are_refused(frame: bytes) -> None:
    assert session_mac.verify_frame(bytes(32), frame) is None
