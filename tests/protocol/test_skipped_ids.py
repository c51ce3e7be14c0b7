"""The id of a message that was too large to keep, found in its first and last bytes or not at all."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import MessageTooLarge, bounds
from hubbub.protocol.framing import Framer
from hubbub.protocol.jsonrpc import salvage_skipped_id

LIMIT = bounds.SALVAGE_BYTES + bounds.HEADER_BYTES
LARGE = "x" * (LIMIT + 1)


def salvaged_id(message: str) -> str:
    [error] = Framer(LIMIT).feed(message.encode() + b"\n")
    assert isinstance(error, MessageTooLarge)
    return bytes(salvage_skipped_id(error)).decode()


@pytest.mark.parametrize(
    ("message", "identifier"),
    [
        ('{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":"%s"}}', "7"),
        ('{"method":"m","params":{"a":"%s"},"jsonrpc":"2.0","id":7}', "7"),
        ('{"method":"m","params":{"a":"%s"},"id":"a \\"b\\" c","jsonrpc":"2.0"}', '"a \\"b\\" c"'),
        ('{ "params" : ["%s"] , "id" : -12 , "x" : null }  ', "-12"),
        ('{"params":"%s","id":7,"method":"a,b}c"}', "7"),
    ],
)
def test_an_id_at_either_end_is_found(message: str, identifier: str) -> None:
    assert salvaged_id(message.replace("%s", LARGE)) == identifier


@pytest.mark.parametrize(
    "message",
    [
        '{"method":"m","params":{"a":"%s","id":7}}',
        '{"method":"m","params":{"id":7,"a":"%s"}}',
        '{"method":"m","params":{"a":"%s"},"more":{"id":7}}',
        '{"method":"m","params":{"a":"%s,\\"id\\":7"}}',
        '{"method":"m","params":{"a":"%s"},"note":"}},\\"id\\":7"}',
        '[{"id":7,"params":"%s"}]',
        '{"params":"%s","id":007}',
        '{"params":"%s","id":{"id":7}}',
        '{"params":"%s","id":null}',
        '{"params":"%s","id":7',
        '"id":7,"%s"',
        "%s",
    ],
)
def test_ids_inside_values_are_not_used(message: str) -> None:
    assert salvaged_id(message.replace("%s", LARGE)) == "null"


def test_an_id_in_the_middle_is_not_found() -> None:
    assert salvaged_id(f'{{"params":"{LARGE}","id":7,"more":["{LARGE}"]}}') == "null"


NAMES = st.sampled_from(["id", "a", '"id":7}'])
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(st.sampled_from('id":,{}[]\\ x7'), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "a", '"id":7}']), inner, max_size=3)
    ),
    max_leaves=12,
)
MEMBERS = st.lists(st.tuples(st.sampled_from(["a", "params", "jsonrpc", "method", 'x","id":5']), VALUES), max_size=4)


@given(MEMBERS, MEMBERS, MEMBERS, st.none() | st.integers() | st.text(max_size=8), st.integers(0, 2))
def test_only_the_real_id_is_found(
    first: list[tuple[str, object]],
    second: list[tuple[str, object]],
    third: list[tuple[str, object]],
    identifier: object,
    place: int,
) -> None:
    parts = [first, [("large", LARGE), *second], third]
    parts[place] = [*parts[place], ("id", identifier)]
    message = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for part in parts for name, value in part) + "}"
    assert salvaged_id(message) in (json.dumps(identifier), "null")


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_give_a_json_scalar(head: bytes, tail: bytes) -> None:
    error = MessageTooLarge("A line", LIMIT)
    error.start, error.end = head, tail
    assert isinstance(json.loads(bytes(salvage_skipped_id(error))), str | int | float | None)


def test_the_search_takes_linear_time_for_any_tail() -> None:
    error = MessageTooLarge("A line", LIMIT)
    for unit in (b',"id":1', b',"id":"', b'{"id":1,', b'"', b"\\", b',"a":1', b" "):
        error.end = (unit * bounds.SALVAGE_TAIL_BYTES)[: bounds.SALVAGE_TAIL_BYTES]
        assert re.fullmatch(rb"null|1", bytes(salvage_skipped_id(error)))
