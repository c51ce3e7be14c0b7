"""The id of a response that cannot be decoded is salvaged, to fail the request it belongs to."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.protocol.response_salvage import replace_nan, salvage_request_id, salvage_response_id

TEXTS = st.text(max_size=8) | st.sampled_from(["NaN", "-Infinity", '"NaN"', "\\", 'a"NaN', '"id": 5'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
)


def nan_to_null(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case list():
            return [nan_to_null(item) for item in value]
        case dict():
            return {name: nan_to_null(item) for name, item in value.items()}
    return value


@given(VALUES)
def test_nan_and_infinity_become_null_and_nothing_else_changes(value: Any) -> None:
    written = json.dumps(value).encode()
    replaced = replace_nan(written)
    assert json.loads(written if replaced is None else replaced) == nan_to_null(value)


@given(VALUES, st.integers(0, 10**6), st.booleans(), st.booleans())
def test_the_id_is_found_at_any_position(value: Any, number: int, is_text: bool, is_last: bool) -> None:
    identifier: Any = str(number) if is_text else number
    members = {"jsonrpc": "2.0", "id": identifier, "result": value}
    if is_last:
        members = {"result": value, "jsonrpc": "2.0", "id": identifier}
    written = json.dumps(members).encode() + b" \xff"
    assert salvage_response_id(written.replace(b" \xff", b"") if is_last else written) == str(number).encode()


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"a":"\xff"}}', b"7"),
        (b'{"result":' + b"[" * 200_000 + b"]" * 200_000 + b',"jsonrpc":"2.0","id":7}', b"7"),
        (b'{"jsonrpc":"2.0","result":{"id":8},"id":7,"x":\xff}', b"7"),
        (b'{"jsonrpc":"2.0","id":7,"result":{"text":"' + b"x" * 200_000, b"7"),
        (b'{"jsonrpc":"2.0","result":{"text":"\xff"},"error":1}', b""),
        (b'{"jsonrpc":"2.0","result":' + b"[" * 200_000, b""),
        (b'[{"jsonrpc":"2.0","id":7,"result":\xff}]', b""),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":\xff}', None),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"id":7,"x":"\xff"}}', None),
        (b'{"jsonrpc":"2.0","id":7,"params":{"text":"\xff"},"method":"ping"}', None),
        (b'{"level":"error","error":"\xff","id":7}', None),
        (b"starting \xff", None),
        (b'{"jsonrpc":"2.0","id":1e999}', None),
        (b"", None),
    ],
)
def test_only_responses_are_recognised_as_responses(data: bytes, found: bytes | None) -> None:
    assert salvage_response_id(data) == found


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"id":7,"result":{}}', b"7"),
        (b'{"jsonrpc":"2.0","id":7,"result":\xff}', b"7"),
        (b'{"jsonrpc":"2.0","id":7}', None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":\xff}', None),
    ],
)
def test_responses_of_clients_need_a_result_or_an_error_but_no_version(data: bytes, found: bytes | None) -> None:
    assert salvage_response_id(data, is_from_client=True) == found


def test_the_id_is_found_in_a_separate_tail() -> None:
    assert salvage_response_id(b'{"result":"xxx', b'xxx","jsonrpc":"2.0","id":7}') == b"7"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":\xff}', b"7"),
        (b'{"jsonrpc":"2.0","id":"a b","method":"ping","params":\xff}', b'"a b"'),
        (b'{"jsonrpc":"2.0","id":007,"method":"ping","params":\xff}', None),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', None),
        (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"id":7,"x":"\xff"}}', None),
        (b'{"jsonrpc":"2.0","id":7,"result":\xff}', None),
        (b"", None),
    ],
)
def test_requests_are_recognised_if_their_id_is_valid(data: bytes, found: bytes | None) -> None:
    assert salvage_request_id(data) == found


@given(st.binary(max_size=200))
def test_any_bytes_are_salvaged_without_an_exception(data: bytes) -> None:
    salvage_response_id(data)
    salvage_response_id(b'{"jsonrpc"' + data)
    salvage_request_id(b'{"jsonrpc":"2.0","method":"x","id":' + data)
    replace_nan(data)
