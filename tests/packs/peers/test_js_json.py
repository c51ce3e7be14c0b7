"""JSON exactly as JavaScript processes it, compared with Node.js."""

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packs.peers.judge import Judge

from hubbub.packs.peers import limits
from hubbub.packs.peers.js_json import JsonError, format_number, parse, stringify

texts = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
doubles = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
numbers = st.integers() | st.floats() | doubles
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            texts | st.integers(0, 2**33).map(str) | st.sampled_from(["-1", "01", "__proto__"]), inner, max_size=5
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (1.5, "1.5"),
        (1e21, "1e+21"),
        (1e20, "100000000000000000000"),
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (0.000001, "0.000001"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 1, "-9007199254740992"),
        (10**400, "null"),
        (float("nan"), "null"),
        (float("-inf"), "null"),
        (123456789012345680000, "123456789012345680000"),
        (True, "true"),
    ],
)
def test_numbers_are_written_as_javascript_writes_them(value: float, text: str) -> None:
    assert stringify(value) == text


def test_integer_like_keys_are_written_first() -> None:
    written = stringify({"b": 1, "2": 1, "a": 1, "10": 1, "1": 1, "01": 1, "-1": 1, "4294967295": 1, "4294967294": 1})
    assert list(json.loads(written)) == ["1", "2", "10", "4294967294", "b", "a", "01", "-1", "4294967295"]


def test_lone_surrogates_are_escaped_and_pairs_are_not() -> None:
    assert stringify("\ud800x\udfff") == '"\\ud800x\\udfff"'
    assert stringify("\ud83d\ude00") == '"😀"'
    assert stringify('\u2028\x7f\x00\n"\\é') == '"\u2028\x7f\\u0000\\n\\"\\\\é"'


@given(value=values)
def test_our_json_equals_that_of_javascript(judge: Judge, value: object) -> None:
    written = stringify(value)
    assert judge.rewrite(written) == written


@given(value=values)
def test_any_json_text_is_rewritten_like_javascript(judge: Judge, value: object) -> None:
    foreign = json.dumps(value).replace("-Infinity", "-1e999").replace("Infinity", "1e999").replace("NaN", "0")
    assert stringify(parse(foreign)) == judge.rewrite(foreign)


@given(value=doubles)
def test_every_double_is_written_like_javascript(judge: Judge, value: float) -> None:
    if math.isfinite(value):
        assert format_number(value) == judge.rewrite(repr(value))


@given(text=st.text('[]{}:,"\\u0123456789abcdeE+-. truefalsn\n\t', max_size=20) | texts)
def test_any_text_is_parsed_or_refused_like_javascript(judge: Judge, text: str) -> None:
    try:
        ours = stringify(parse(text))
    except JsonError:
        ours = None
    assert ours == judge.rewrite(text)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "[1,]", "", "\ufeff1", "{'a':1}", "01", "1.", "\x00"])
def test_text_that_javascript_refuses_is_refused(text: str) -> None:
    with pytest.raises(JsonError):
        parse(text)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused(opening: str) -> None:
    for depth in (limits.PEER_NESTING + 2, 100_000):
        closing = "]" if opening == "[" else "}"
        with pytest.raises(JsonError, match="deep"):
            parse(opening * depth + "1" + closing * depth)


def test_values_nested_too_deep_are_not_written() -> None:
    value: object = 1
    for _ in range(limits.PEER_NESTING + 2):
        value = [value]
    with pytest.raises(JsonError, match="deep"):
        stringify(value)


@pytest.mark.parametrize("value", [b"bytes", {1: 2}, {"a": object()}, {1, 2}])
def test_values_outside_json_are_refused(value: object) -> None:
    with pytest.raises(JsonError):
        stringify(value)


def test_a_number_of_many_digits_is_read_as_a_double() -> None:
    assert parse("1" * 5000) == float("inf")
    assert stringify(parse("12345678901234567890")) == "12345678901234567000"
