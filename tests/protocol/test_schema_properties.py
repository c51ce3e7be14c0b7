"""Random types: their values match their schema and decode to equal values, and any other input is refused."""

import contextlib
import dataclasses
import datetime
import decimal
import itertools
import json
import uuid
from collections.abc import Callable
from types import GenericAlias
from typing import Any, Literal

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.sample_types import Box, Colour, Node, Person, Point

from hubbub import ArgumentsInvalid
from hubbub.protocol.schema import Arguments, Output

Case = tuple[Any, st.SearchStrategy[Any]]

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_leaves: list[Case] = [
    (int, st.integers(-(2**63), 2**63)),
    (str, _text),
    (bool, st.booleans()),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (bytes, st.binary(max_size=8)),
    (uuid.UUID, st.uuids()),
    (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    (datetime.date, st.dates()),
    (datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC))),
    (Colour, st.sampled_from(Colour)),
    (Literal["a", "b"], st.sampled_from("ab")),
    (set[int], st.sets(st.integers(0, 9), max_size=3)),
    (Node, st.builds(Node, st.integers(0, 9), st.builds(Node, st.integers(0, 9)))),
    (Box, st.builds(Box, st.builds(Point, st.integers(0, 9), st.integers(0, 9)), st.sampled_from(Colour))),
    (Person, st.builds(Person, name=_text, born=st.dates(), friends=st.just([]))),
]

_numbers = itertools.count()


def _make_class(cases: list[Case]) -> Case:
    # msgspec identifies types by their full name.
    name = f"Generated{next(_numbers)}"
    cls = dataclasses.make_dataclass(name, [(f"field{index}", kind) for index, (kind, _) in enumerate(cases)])
    return cls, st.builds(cls, *(values for _, values in cases))


def _nest_cases(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    return st.one_of(
        inner.map(lambda case: (GenericAlias(list, case[0]), st.lists(case[1], max_size=3))),
        inner.map(lambda case: (GenericAlias(dict, (str, case[0])), st.dictionaries(_text, case[1], max_size=3))),
        inner.map(lambda case: (case[0] | None, st.none() | case[1])),
        st.tuples(inner, inner).map(
            lambda two: (GenericAlias(tuple, (two[0][0], two[1][0])), st.tuples(two[0][1], two[1][1]))
        ),
        st.lists(inner, max_size=3).map(_make_class),
    )


_cases = st.recursive(st.sampled_from(_leaves), _nest_cases, max_leaves=5)


def _function_of_type(kind: Any) -> Callable[..., Any]:
    def call(value: Any) -> None: ...

    call.__annotations__ = {"value": kind, "return": kind}
    return call


@given(st.data())
def test_values_of_any_type_match_its_schema_and_decode_to_equal_values(data: st.DataObject) -> None:
    kind, values = data.draw(_cases)
    function = _function_of_type(kind)
    arguments, output = Arguments.from_function(function), Output.from_function(function)
    jsonschema_rs.meta.validate(arguments.schema)
    value = data.draw(values)
    raw = b'{"value":%b}' % output.encode(value)
    jsonschema_rs.validate(arguments.schema, json.loads(raw))
    assert arguments.decode(raw) == {"value": value}
    if output.schema is not None:
        jsonschema_rs.meta.validate(output.schema)
        jsonschema_rs.validate(output.schema, json.loads(output.encode(value)))
        assert output.wrapped_schema is not None
        jsonschema_rs.validate(output.wrapped_schema, {"result": json.loads(output.encode(value))})


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "x"]) | _text, inner),
    max_leaves=10,
)


@given(_cases, _json.map(json.dumps).map(str.encode) | st.binary())
def test_any_input_is_decoded_or_raises_a_validation_error(case: Case, raw: bytes) -> None:
    arguments = Arguments.from_function(_function_of_type(case[0]))
    for given_bytes in (raw, b'{"value":' + raw + b"}"):
        with contextlib.suppress(ArgumentsInvalid):
            assert list(arguments.decode(given_bytes)) == ["value"]
