import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from hubbub import InvalidRequest, MessageError, MessageTooLarge, ParseError, bounds
from hubbub.protocol.jsonrpc import (
    Envelope,
    ErrorObject,
    decode_envelope,
    encode_batch,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    id_key,
    salvage_id,
)

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
MEMBER_NAMES = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "more"])


def request(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"} | members).encode()


def decode_one(data: bytes) -> Envelope:
    """Decode one message that is not a batch."""
    envelope = decode_envelope(data)
    assert isinstance(envelope, Envelope)
    return envelope


def raw_bytes(part: Raw | UnsetType) -> bytes:
    assert isinstance(part, Raw)
    return bytes(part)


def with_id(identifier: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":' + identifier + b',"method":"ping"}'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n\t",
        b"{",
        b"}",
        b"nul",
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":01,"method":"ping"}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}',
        '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
        b'{"jsonrpc":"2.0","id":1,"method":"p\xffng"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xc3"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xed\xa0\x80"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xc0\xaf"}}',
        rb'{"jsonrpc":"2.0","id":1,"method":"\ud800"}',
        rb'{"jsonrpc":"2.0","id":"\udfff","method":"ping"}',
        rb'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}}',
        rb'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\q"}}',
        b'{"jsonrpc":"2.0","id":"a\nb","method":"ping"}',
        b'{"jsonrpc":1,"id":1,"method":"ping"',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},nul]',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}',
    ],
)
def test_invalid_json_is_a_parse_error(data: bytes) -> None:
    with pytest.raises(ParseError):
        decode_envelope(data)


@pytest.mark.parametrize(
    "data",
    [
        b"1",
        b'"text"',
        b"null",
        b"true",
        b"{}",
        b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":2.0,"id":1,"method":"ping"}',
        b'{"jsonrpc":null,"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":1,"method":null}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        b'{"jsonrpc":"2.0","id":1,"method":["ping"]}',
        b"[]",
    ],
)
def test_json_that_is_not_a_message_is_an_invalid_request(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_envelope(data)


@pytest.mark.parametrize(
    "identifier", [b"1", b"0", b"-7", b"1.5", b"1e3", b"9" * 40, b'"a"', b'""', rb'"\u0061\n"', '"é"'.encode(), b"null"]
)
def test_the_text_of_an_id_is_unchanged(identifier: bytes) -> None:
    assert raw_bytes(decode_one(with_id(identifier)).id) == identifier


@pytest.mark.parametrize("identifier", [b"true", b"false", b"{}", b"[]", b"[1]", b'{"a":1}'])
def test_an_id_of_another_type_is_refused(identifier: bytes) -> None:
    with pytest.raises(InvalidRequest, match="id"):
        decode_envelope(with_id(identifier))


def test_the_length_of_an_id_is_limited() -> None:
    longest = b'"' + b"x" * (bounds.IDENTIFIER_BYTES - 2) + b'"'
    assert raw_bytes(decode_one(with_id(longest)).id) == longest
    with pytest.raises(MessageTooLarge):
        decode_envelope(with_id(longest[:-1] + b'x"'))
    with pytest.raises(MessageTooLarge):
        decode_envelope(with_id(b"9" * (bounds.IDENTIFIER_BYTES + 1)))


def test_a_message_without_an_id_is_a_notification() -> None:
    envelope = decode_one(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert envelope.id is UNSET
    assert envelope.method == "notifications/initialized"


def test_a_response_has_a_result_or_an_error_and_no_method() -> None:
    result = decode_one(b'{"jsonrpc":"2.0","id":3,"result":{"a":[1, 2]}}')
    assert result.method is UNSET
    assert raw_bytes(result.result) == b'{"a":[1, 2]}'
    error = decode_one(b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}')
    assert raw_bytes(error.error) == b'{"code":1,"message":"m"}'


def test_unknown_members_are_ignored() -> None:
    assert decode_one(request(more={"id": 1, "method": "x", "params": []})).method == "ping"


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"params":{"a":1}}',
        b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"error":{},"error":{}}',
        b'{ "jsonrpc" : "2.0" , "id" : 1 , "method" : "ping" , "id" : 2 }',
        rb'{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}',
        rb'{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call","params":{"a":"\\"}}',
        # A value whose text also occurs between the two members must not hide them.
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","result":":1,"}',
        b'{"id":1,"id":2,"jsonrpc":"2.0","result":":1,"}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","params":{"n":' + b"9" * 5000 + b"}}",
    ],
)
def test_a_duplicate_member_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="Duplicate member"):
        decode_envelope(data)


@pytest.mark.parametrize(
    "data",
    [
        request(params={"id": 1, "method": "x", "jsonrpc": "2.0", "params": {"id": 2}}),
        b'{"jsonrpc":"2.0","id":"id","method":"method","params":{"id":"id","method":"method"}}',
        b'{"jsonrpc":"2.0","id":1,"result":{"id":1,"result":{"id":1}}}',
        rb'{"jsonrpc":"2.0","id":"\"id\"","method":"\"id\""}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":' + b"9" * 5000 + b'},"more":{"id":1}}',
    ],
)
def test_names_that_repeat_inside_values_are_not_duplicates(data: bytes) -> None:
    assert isinstance(decode_envelope(data), Envelope)


def with_unknown_members(count: int, more: bytes = b"") -> bytes:
    members = b",".join(b'"a%d":1' % number for number in range(count))
    return b'{"jsonrpc":"2.0","id":1,"method":"ping",' + members + more + b"}"


def test_any_number_of_unknown_members_is_ignored() -> None:
    assert decode_one(with_unknown_members(100_000)).method == "ping"


def test_unknown_members_are_limited_in_messages_with_escapes() -> None:
    escaped = rb',"b":"\n"'
    assert decode_one(with_unknown_members(5_000, escaped)).method == "ping"
    with pytest.raises(InvalidRequest, match=str(bounds.UNKNOWN_MEMBERS_BYTES)):
        decode_envelope(with_unknown_members(100_000, escaped))


@pytest.mark.parametrize("member", [rb'"\u0069d":2', b'"method":"x"', rb'"params":{"id":2}'])
@pytest.mark.parametrize("value", [b"1", b"[]", rb'{"params":[1,"]\""]}', rb'"\"}"'])
def test_duplicate_members_are_found_after_values_of_every_kind(member: bytes, value: bytes) -> None:
    message = b'{ "jsonrpc" : "2.0" ,"a":%b,"id":1,"method":"ping","params": {"id":[3]} , %b}' % (value, member)
    with pytest.raises(InvalidRequest, match="Duplicate member"):
        decode_envelope(message)


def cpu_s(data: bytes) -> float:
    def once() -> float:
        start = time.thread_time()
        try:
            decode_envelope(data)
        except MessageError:
            salvage_id(data)
        return time.thread_time() - start

    return min(once() for _ in range(3))


DEEP_BRACKETS = b"[" * 120 + b"]" * 120
SHALLOW_BRACKETS = b"[[[]]]"


@pytest.mark.parametrize(
    "data",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":[' + b",".join([DEEP_BRACKETS] * 4000) + b"]}",
        b'{"jsonrpc":"2.0","id":1,"method":5,"params":[' + b",".join([SHALLOW_BRACKETS] * 140_000) + b"]}",
        b'{"jsonrpc":"2.0","id":1,"method":"m","\\u0061":[' + b",".join([SHALLOW_BRACKETS] * 140_000) + b"]}",
        b"[" + b",".join([b"1"] * 500_000) + b"]",
    ],
    ids=["deep", "wrong type", "escaped name", "batch"],
)
def test_the_cost_of_decoding_depends_only_on_the_size(data: bytes) -> None:
    usual = b'{"jsonrpc":"2.0","id":1,"method":"m","params":[' + b",".join([b"[]"] * (len(data) // 3)) + b"]}"
    assert cpu_s(data) < 8 * cpu_s(usual)


@pytest.mark.parametrize(
    ("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b'{"a":[', b"]}")]
)
def test_nesting_has_one_limit_for_every_mixture_of_brackets(opening: bytes, closing: bytes) -> None:
    levels = opening.count(b"[") + opening.count(b"{")

    def nested(depth: int) -> bytes:
        inside = opening * (depth // levels) + b"1" + closing * (depth // levels)
        return b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[' + inside + b"]}"

    assert decode_one(nested(bounds.NESTING_DEPTH - 2)).method == "ping"
    for depth in (bounds.NESTING_DEPTH, bounds.NESTING_DEPTH + 20, 100_000):
        with pytest.raises(ParseError):
            decode_envelope(nested(depth))


def test_brackets_in_strings_and_side_by_side_are_not_nesting() -> None:
    wide = request(params={"text": "[{" * 1000, "escaped": '"[\\' * 500, "items": [[]] * 1000})
    assert isinstance(decode_envelope(wide), Envelope)


def _depth(value: object) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(_depth, inside), default=0)


@given(
    st.lists(st.text(alphabet='[]{}"\\\\ab\n', max_size=12), min_size=1, max_size=8),
    st.integers(bounds.NESTING_DEPTH - 20, bounds.NESTING_DEPTH + 20),
    st.integers(0, 2**32 - 1),
)
def test_strings_neither_hide_nor_add_a_level_of_nesting(texts: list[str], depth: int, mixture: int) -> None:
    value: object = texts[0]
    for level in range(depth):
        text = texts[level % len(texts)]
        value = [text, value, [text]] if mixture >> level % 32 & 1 else {text + "1": text, text + "2": value}
    data = request(params={"value": value})
    if _depth(json.loads(data)) <= bounds.NESTING_DEPTH:
        assert isinstance(decode_envelope(data), Envelope)
    else:
        with pytest.raises(ParseError):
            decode_envelope(data)


def test_very_deep_input_is_a_parse_error() -> None:
    for data in (b"[" * 1_000_000, b'{"a":' * 1_000_000, b"[" * 500_000 + b"]" * 500_000):
        with pytest.raises(ParseError):
            decode_envelope(data)


def test_a_batch_returns_its_items_undecoded() -> None:
    items = decode_envelope(b' [ {"jsonrpc":"2.0","id":1,"method":"ping"} , 1, [] ,"x" ] ')
    assert items == [b'{"jsonrpc":"2.0","id":1,"method":"ping"}', b"1", b"[]", b'"x"']


def test_the_size_of_a_batch_is_limited() -> None:
    def message_of_size(size: int) -> bytes:
        return b"[" + b",".join([b"1"] * size) + b"]"

    batch = decode_envelope(message_of_size(bounds.BATCH_ITEMS))
    assert isinstance(batch, list)
    assert len(batch) == bounds.BATCH_ITEMS
    with pytest.raises(InvalidRequest, match="batch"):
        decode_envelope(message_of_size(bounds.BATCH_ITEMS + 1))


@pytest.mark.parametrize(
    ("data", "identifier"),
    [
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', b"7"),
        (b'{"id":"a","method":5}', b'"a"'),
        (b'{"jsonrpc":"2.0","id":3,"params":3}', b"3"),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', b"null"),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', b"null"),
        (b'{"jsonrpc":"2.0","method":5}', b"null"),
        (b'{"id":' + b"9" * 2000 + b"}", b"null"),
        (b"{", b"null"),
        (b'{"id":1', b"null"),
        (b'{"id":"\xff"}', b"null"),
        (b"[" * 100_000, b"null"),
        (b"7", b"null"),
        (b"", b"null"),
    ],
)
def test_the_id_of_an_invalid_message_is_salvaged(data: bytes, identifier: bytes) -> None:
    assert bytes(salvage_id(data)) == identifier


@pytest.mark.parametrize(
    "identifier",
    [b"007", b"-01", b"-", b"1.", b"1e", b'"\\x"', b'"\x01"', b'"a\tb"', rb'"\u00zz"', rb'"\ud800"', b"tru", b"NaN"],
)
@pytest.mark.parametrize("rest", [b',"method":"ping"}', b',"method":5}', b',"method":'])
def test_an_invalid_id_is_not_salvaged(identifier: bytes, rest: bytes) -> None:
    assert bytes(salvage_id(b'{"jsonrpc":"2.0","id":' + identifier + rest)) == b"null"


def test_equal_ids_have_equal_keys_with_any_escaping() -> None:
    assert id_key(rb'"\u0061b"') == id_key(b'"ab"') == b'"ab"'
    assert id_key(b"1") != id_key(b'"1"')


@pytest.mark.parametrize("identifier", [rb'{"a":"\\"}', rb'["\n"]', b"true", b"1.5"])
def test_every_json_value_has_a_key(identifier: bytes) -> None:
    assert id_key(identifier) == identifier


def test_encoded_messages_have_exactly_these_bytes() -> None:
    assert encode_result(Raw(b"1"), {"a": 1}) == b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}'
    assert encode_error(Raw(b'"x"'), ErrorObject(-1, "m")) == (
        b'{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"m"}}'
    )
    assert encode_error(Raw(b"null"), ErrorObject(-1, "m", {"k": None})) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m","data":{"k":null}}}'
    )
    assert encode_request(4, "roots/list", {}) == b'{"jsonrpc":"2.0","id":4,"method":"roots/list","params":{}}'
    assert encode_notification("n") == b'{"jsonrpc":"2.0","method":"n"}'
    assert encode_notification("n", {"a": "\n"}) == rb'{"jsonrpc":"2.0","method":"n","params":{"a":"\n"}}'
    assert encode_batch([b"1", b"2"]) == b"[1,2]"


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_raise_a_message_error(data: bytes) -> None:
    try:
        decode_envelope(data)
    except MessageError:
        pass
    salvage_id(data)


@given(st.dictionaries(MEMBER_NAMES, VALUES | st.just("2.0")), st.booleans())
def test_any_object_is_a_message_or_a_message_error(members: dict[str, Any], is_compact: bool) -> None:
    data = json.dumps(members, separators=(",", ":") if is_compact else None).encode()
    try:
        envelope = decode_one(data)
    except MessageError:
        return
    assert envelope.jsonrpc == members["jsonrpc"] == "2.0"
    for name in ("id", "params", "result", "error"):
        part = getattr(envelope, name)
        assert (part is UNSET) == (name not in members)
        assert part is UNSET or json.loads(bytes(part)) == members[name]


@given(
    st.lists(st.tuples(MEMBER_NAMES, st.sampled_from([1, "2.0", ":1,", '"id"', {}, [], {"id": 1}, "id"])), max_size=8)
)
def test_two_equal_members_are_refused(pairs: list[tuple[str, object]]) -> None:
    data = ("{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}").encode()
    names = [name for name, _ in pairs if name != "more"]
    if len(names) != len(set(names)):
        with pytest.raises(InvalidRequest):
            decode_envelope(data)


@given(VALUES.filter(lambda value: not isinstance(value, float)), st.text())
def test_encoded_messages_can_be_decoded(value: object, method: str) -> None:
    data = encode_request(1, method, [value])
    envelope = decode_one(data)
    assert envelope.method == method
    assert json.loads(raw_bytes(envelope.params)) == [value]
    assert b"\n" not in data


@pytest.mark.parametrize(
    "message",
    [
        rb'{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"ab\ud83d"}}',
        rb'{"jsonrpc":"2.0","method":"x","params":{"text":"\udc00", "id": 1},"id": 7}',
        b'{"jsonrpc":"2.0","id":7,"params":' + b"[" * 5000 + b"]" * 5000 + b',"method":"x"}',
    ],
    ids=["half a pair", "the other half", "nested too deep for any parser"],
)
def test_the_id_of_an_undecodable_message_is_reported(message: bytes) -> None:
    with pytest.raises(ParseError):
        decode_envelope(message)
    assert bytes(salvage_id(message)) == b"7"


def test_the_error_for_a_lone_surrogate_names_it() -> None:
    with pytest.raises(ParseError, match="lone surrogate"):
        decode_envelope(rb'{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"ab\ud83d"}}')
    whole = rb'{"jsonrpc":"2.0","id":7,"method":"x","params":{"text":"ab\ud83d\ude00"}}'
    assert decode_one(whole).method == "x"
