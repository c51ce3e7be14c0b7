"""Values of secrets are masked in every form in which programs print them."""

import base64
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.security.known_values import KNOWN_VALUES, MIN_CHARACTERS, KnownValues
from hubbub.security.redact import redact

pytestmark = pytest.mark.requirement("K3")

VALUES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=MIN_CHARACTERS, max_size=40)
SURROUNDINGS = st.text("ab {}:\n", max_size=12)


def known(*values: str, limit: int = 100) -> KnownValues:
    found = KnownValues(limit)
    for value in values:
        found.add(value)
    return found


@given(VALUES, SURROUNDINGS, SURROUNDINGS)
def test_a_value_is_masked_as_itself_escaped_and_url_encoded(value: str, before: str, after: str) -> None:
    values = known(value)
    quoted = quote(value, safe="")
    in_lower_case = re.sub("%..", lambda escape: escape[0].lower(), quoted)
    for form in (value, json.dumps(value)[1:-1], quoted, in_lower_case):
        assert values.mask(f"{before}|{form}|{after}") == f"{before}|***|{after}"


@given(
    st.binary(max_size=5), st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=16), st.binary()
)
def test_a_value_is_masked_in_base64_at_any_offset(before: bytes, value: str, after: bytes) -> None:
    values = known(value)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        encoded = encode(before + value.encode() + after).decode()
        masked = values.mask(encoded)
        assert "***" in masked
        # What is left of it at the ends are at most two characters, which encode neighbouring bytes, too.
        assert len(masked) <= len(encode(before)) + len(encode(after)) + 8


@given(st.lists(VALUES, min_size=1, max_size=20, unique=True), SURROUNDINGS)
def test_the_first_of_many_values_is_masked_too(values: list[str], between: str) -> None:
    masked = known(*values).mask(between.join(f"<{value}>" for value in values))
    assert not any(f"<{value}>" in masked for value in values)


@given(st.text(max_size=60))
def test_other_text_stays_as_it_is(text: str) -> None:
    assert known("correct-horse-battery").mask(text) == text


def test_each_line_of_a_long_value_is_masked() -> None:
    key = "-----BEGIN THING-----\nabcdefghijklmnop\nqrstuvwxyz012345\n-----END THING-----"
    assert known(key).mask("line abcdefghijklmnop of it") == "line *** of it"


def test_the_oldest_of_too_many_values_is_forgotten() -> None:
    values = known("first-secret", "second-secret", "third-secret", limit=2)
    assert values.mask("first-secret second-secret third-secret") == "first-secret *** ***"
    assert len(values) == 2


def test_redaction_masks_values_that_do_not_look_like_secrets() -> None:
    assert redact("the plain words of a poem") == "the plain words of a poem"
    KNOWN_VALUES.add("plain words of a poem")
    assert redact("the plain words of a poem") == "the ***"
