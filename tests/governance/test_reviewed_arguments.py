"""What an approver reads, and what an approval is bound to, describe what the server will get."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import ArgumentsInvalid
from hubbub.governance.reviewed_arguments import MAX_REVIEWED_BYTES, review_arguments


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (b'{"name": "a", "name": "b"}', "The argument 'name' is given twice; send it once"),
        (b'{"a": {"b": 1, "\\u0062": 2}}', "The argument 'b' is given twice; send it once"),
        (b'{"n": 1e999}', "the number 1e999 is too large"),
        (b'{"n": NaN}', "NaN is not JSON"),
        (b'{"n": "\\ud800"}', "surrogates not allowed"),
        (b"[1]", "must be an object, not list"),
        (b'{"n": "%s"}' % (b"x" * MAX_REVIEWED_BYTES), "too large to be reviewed"),
        (b'{"n": ' + b"[" * 50_000, "recursion"),
    ],
    ids=["twice", "twice inside", "infinite", "NaN", "surrogate", "list", "large", "deep"],
)
def test_arguments_that_programs_read_differently_cannot_be_approved(arguments: bytes, problem: str) -> None:
    with pytest.raises(ArgumentsInvalid, match=problem):
        review_arguments("delete", arguments)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.dictionaries(st.text(), json_values, max_size=4))
def test_arguments_have_the_same_digest_only_if_they_are_equal(
    one: dict[str, object], other: dict[str, object]
) -> None:
    first, second = (review_arguments("t", msgspec.json.encode(each)) for each in (one, other))
    backwards = review_arguments("t", msgspec.json.encode(dict(reversed(one.items()))))
    assert first.digest == backwards.digest
    assert (first.digest == second.digest) == (normalize(one) == normalize(other))
    assert first.digest != review_arguments("u", msgspec.json.encode(one)).digest
    assert all(character.isprintable() or character == "\n" for character in first.preview)


def normalize(value: object) -> object:
    """Equal for equal JSON values: True is not 1, but 1.0 is."""
    match value:
        case bool():
            return str(value)
        case dict():
            return {"object": {name: normalize(member) for name, member in value.items()}}
        case list():
            return [normalize(item) for item in value]
        case str():
            return f"text {value}"
    return value


def test_a_long_argument_does_not_hide_the_others() -> None:
    arguments = msgspec.json.encode({"body": "x" * 50_000, "to": "everyone", "token": "hunter2", "note": "\u202eabc"})
    reviewed = review_arguments("send", arguments)
    assert not reviewed.is_complete
    first, second, third, fourth = reviewed.preview.splitlines()
    assert [first, second, third] == ['"note": "\\u202eabc"', '"to": "everyone"', '"token": ***']
    assert fourth.startswith('"body": "xxx')
    assert fourth.endswith(" ... (50010 characters)")


def test_many_arguments_are_shortened() -> None:
    arguments = msgspec.json.encode({f"argument-{number}": "x" * 50 for number in range(200)})
    reviewed = review_arguments("send", arguments)
    assert len(reviewed.preview) < 4100
    assert re.search(r"\n\.\.\. and \d+ more arguments$", reviewed.preview)
    assert not reviewed.is_complete


def test_characters_that_a_terminal_interprets_are_escaped() -> None:
    reviewed = review_arguments("t", '{"name": "a\x7fb\u202ec\u009bd"}'.encode())
    assert reviewed.preview == r'"name": "a\u007fb\u202ec\u009bd"'
