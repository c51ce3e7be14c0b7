import json
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import InvalidParams
from hubbub.protocol.canonical_json import canonical_digest, encode_canonical


def test_keys_are_sorted_by_their_utf_16_code_units() -> None:
    # The example of RFC 8785, section 3.2.3: U+1F600 sorts before U+FB33.
    names = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\x80", "\u00f6"]
    ordered = ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(encode_canonical(dict.fromkeys(names, 0)))) == ordered


def test_the_example_of_the_rfc_gives_the_output_of_the_rfc() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert encode_canonical(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x41B3DE4355555553, "333333333.3333332"),
        (0x41B3DE4355555554, "333333333.33333325"),
        (0xBECBF647612F3696, "-0.0000033333333333333333"),
    ],
)
def test_numbers_are_written_as_in_ecmascript(bits: int, text: str) -> None:
    [number] = struct.unpack(">d", bits.to_bytes(8))
    assert encode_canonical(number).decode() == text


def test_the_order_of_keys_does_not_change_the_digest() -> None:
    assert canonical_digest({"a": 1, "b": [2]}) == canonical_digest({"b": [2], "a": 1})
    assert canonical_digest({"a": 1}) != canonical_digest({"a": 2})


def test_the_digest_is_sha_256_in_hexadecimal() -> None:
    assert canonical_digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused(number: float) -> None:
    with pytest.raises(InvalidParams, match="NaN"):
        encode_canonical([number])


@pytest.mark.parametrize("number", [2**53, -(2**53), pytest.param(10**5000, id="5001 digits")])
def test_integers_without_an_exact_double_are_refused(number: int) -> None:
    with pytest.raises(InvalidParams, match="as a string"):
        encode_canonical({"id": number})
    assert encode_canonical(2**53 - 1) == b"9007199254740991"


@pytest.mark.parametrize("value", ["\ud800", ["a\udc00"], {"\ud800": 1}, {"a": "\udfff"}])
def test_lone_surrogates_are_refused(value: object) -> None:
    with pytest.raises(InvalidParams):
        encode_canonical(value)


@pytest.mark.parametrize("value", [{1: 2}, {None: 1, "a": 2}, b"bytes", {1, 2}, object()])
def test_values_without_a_json_form_are_refused(value: object) -> None:
    with pytest.raises(InvalidParams):
        encode_canonical(value)


def test_a_value_nested_too_deep_is_refused() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidParams, match="deep"):
        encode_canonical(value)


def test_the_library_is_not_loaded_before_it_is_needed() -> None:
    script = "import sys, hubbub.protocol.canonical_json; sys.exit('rfc8785' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0


scalars = (
    st.none() | st.booleans() | st.integers(1 - 2**53, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
texts = st.text(st.characters(codec="utf-8"))
values = st.recursive(
    scalars | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_canonical_json_decodes_to_the_same_value_and_is_idempotent(value: object) -> None:
    encoded = encode_canonical(value)
    # A double that happens to be whole is written like an integer, and may be too large for one.
    again = json.loads(encoded, parse_int=float)
    assert again == value
    assert encode_canonical(again) == encoded
