import base64
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.security.sealer import KEY_BYTES, Sealer

OLD, NEW, OTHER = (bytes([number]) * KEY_BYTES for number in (1, 2, 3))
RECORDS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(RECORDS)
def test_a_sealed_record_opens_again(record: object) -> None:
    sealer = Sealer([NEW])
    assert sealer.open("cursor", sealer.seal("cursor", record)) == record


def test_two_seals_of_the_same_record_differ_and_hide_it() -> None:
    sealer = Sealer([NEW])
    first, second = sealer.seal("p", "hidden"), sealer.seal("p", "hidden")
    assert first != second
    assert b"hidden" not in base64.urlsafe_b64decode(first + "=" * (-len(first) % 4))


def test_a_change_of_any_character_is_refused() -> None:
    sealer = Sealer([NEW])
    text = sealer.seal("p", [1, "name"])
    for position, character in enumerate(text):
        for other in "Aa0-_":
            if other != character:
                with pytest.raises(ValueError, match="not issued by this server"):
                    sealer.open("p", text[:position] + other + text[position + 1 :])


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "A",
        lambda text: text + "=",
        lambda text: text[:-1],
        lambda text: text[1:],
        lambda text: " " + text,
        lambda text: text + "-TAMPERED",
        lambda text: text + "\n",
        lambda text: text * 2,
        lambda text: "",
    ],
)
def test_a_longer_or_shorter_text_is_refused(change: Callable[..., Any]) -> None:
    sealer = Sealer([NEW])
    with pytest.raises(ValueError, match="not issued by this server"):
        sealer.open("p", change(sealer.seal("p", 1)))


@given(st.text(max_size=100))
def test_random_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not issued by this server"):
        Sealer([NEW]).open("p", text)


def test_a_seal_is_valid_for_one_purpose() -> None:
    sealer = Sealer([NEW])
    with pytest.raises(ValueError, match="not issued by this server"):
        sealer.open("round", sealer.seal("cursor", 1))


def test_a_seal_expires() -> None:
    now = [1000.0]
    sealer = Sealer([NEW], clock=lambda: now[0])
    mortal, eternal = sealer.seal("p", 1, lifetime_s=10), sealer.seal("p", 2)
    now[0] = 1010.0
    assert sealer.open("p", mortal) == 1
    now[0] = 1010.1
    with pytest.raises(ValueError, match="has expired"):
        sealer.open("p", mortal)
    assert sealer.open("p", eternal) == 2


def test_keys_can_be_rotated() -> None:
    before = Sealer([OLD]).seal("p", "from before")
    rotated = Sealer([NEW, OLD])
    assert rotated.open("p", before) == "from before"
    after = rotated.seal("p", "from after")
    assert Sealer([NEW]).open("p", after) == "from after"
    with pytest.raises(ValueError, match="not issued by this server"):
        Sealer([OLD]).open("p", after)
    with pytest.raises(ValueError, match="not issued by this server"):
        Sealer([NEW, OTHER]).open("p", before)


def test_without_a_configured_key_each_sealer_has_its_own() -> None:
    with pytest.raises(ValueError, match="not issued by this server"):
        Sealer().open("p", Sealer().seal("p", 1))


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 33])
def test_a_key_of_another_length_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer([NEW, key])
