import contextlib
import copy
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import ArgumentsInvalid, DefinitionError
from hubbub.bounds import PROBLEM_CHARACTERS, PROBLEMS, SCHEMA_BYTES, SCHEMA_DEPTH
from hubbub.protocol.schema_data import DataArguments, SchemaValidator, UncheckedArguments, check_input_schema

CITY: dict[str, Any] = {
    "additionalProperties": False,
    "type": "object",
    "x-order": {"z": 1, "a": 2},
    "required": ["city"],
    "properties": {"city": {"type": "string"}, "days": {"maximum": 9, "type": "integer"}},
}


def refusal(schema: dict[str, Any], value: Any) -> str:
    with pytest.raises(ArgumentsInvalid) as caught:
        SchemaValidator(schema).validate(value)
    return caught.value.message


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth - 1):
        schema = {"not": schema}
    return schema


def test_a_schema_is_kept_exactly_as_given() -> None:
    given_schema = copy.deepcopy(CITY)
    arguments = DataArguments(given_schema)
    given_schema["properties"].clear()
    assert json.dumps(arguments.schema) == json.dumps(CITY)
    assert arguments.injected == {}


def test_arguments_are_decoded_to_plain_values_and_checked() -> None:
    arguments = DataArguments(CITY)
    assert arguments.decode(b'{"city":"Oslo","days":3}') == {"city": "Oslo", "days": 3}
    with pytest.raises(ArgumentsInvalid, match="days: 10 is greater than the maximum of 9"):
        arguments.decode(b'{"city":"Oslo","days":10}')


def test_validation_errors_name_the_paths() -> None:
    message = refusal({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1, 2]})
    assert message == 'a[1]: 1 is not of type "string"; a[2]: 2 is not of type "string"'
    assert refusal(CITY, {}) == '"city" is a required property'


def test_only_the_first_problems_are_reported_and_each_is_short() -> None:
    message = refusal({"items": {"type": "string"}}, list(range(1000)))
    assert message.count("is not of type") == PROBLEMS
    assert len(refusal({"maxLength": 3}, "x" * 100_000)) <= PROBLEM_CHARACTERS


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'{"city":"\xff"}', b'{"city":' + b"[" * 100_000])
def test_arguments_that_are_not_an_object_are_refused(raw: bytes) -> None:
    with pytest.raises(ArgumentsInvalid):
        DataArguments(CITY).decode(raw)


@pytest.mark.parametrize("reference", ["http://localhost:9/x", "https://example.com/x", "file:///etc/hosts", "x.json"])
def test_remote_references_are_never_fetched(reference: str) -> None:
    with pytest.raises(DefinitionError, match="remote reference, which is never fetched"):
        SchemaValidator({"type": "object", "properties": {"a": {"$ref": reference}}})


def test_local_references_are_resolved() -> None:
    schema = {"$defs": {"a": {"type": "array", "items": {"$ref": "#"}}}, "$ref": "#/$defs/a"}
    SchemaValidator(schema).validate([[], [[]]])
    assert refusal(schema, [[1]]) == '[0][0]: 1 is not of type "array"'


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nothing"},
        {"properties": []},
        {"$ref": "#/$defs/missing"},
        {"pattern": "("},
        {"$schema": "https://example.com/own"},
        {"const": object()},
        {"enum": {1, 2}},
        {1: 2},
        [],
        True,
    ],
)
def test_an_invalid_schema_is_a_definition_error(schema: Any) -> None:
    with pytest.raises(DefinitionError):
        SchemaValidator(schema)


def test_older_drafts_are_supported() -> None:
    pair = {"items": [{"type": "string"}, {"type": "integer"}]}
    for draft in ("http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"):
        assert refusal({"$schema": draft, **pair}, ["a", "b"]) == '[1]: "b" is not of type "integer"'
    with pytest.raises(DefinitionError):
        SchemaValidator(pair)


def test_the_depth_of_a_schema_is_limited() -> None:
    SchemaValidator(nested(SCHEMA_DEPTH))
    for depth in (SCHEMA_DEPTH + 1, 100_000):
        with pytest.raises(DefinitionError, match="nests deeper"):
            SchemaValidator(nested(depth))


def test_the_size_of_a_schema_is_limited_even_with_shared_or_circular_parts() -> None:
    with pytest.raises(DefinitionError, match="larger than"):
        SchemaValidator({"description": "x" * SCHEMA_BYTES})
    shared: dict[str, Any] = {}
    for _ in range(SCHEMA_DEPTH - 1):
        shared = {"allOf": [shared] * 10} if _ % 2 else {"not": shared}
    with pytest.raises(DefinitionError, match=r"larger than|nests deeper"):
        SchemaValidator(shared)
    circular: dict[str, Any] = {}
    circular["not"] = circular
    with pytest.raises(DefinitionError, match="nests deeper"):
        SchemaValidator(circular)


def test_a_pattern_that_backtracks_too_long_is_an_error() -> None:
    assert refusal({"pattern": "^(?=a)(a+)+\\1$"}, "a" * 5000 + "b")


def test_a_value_without_a_json_form_is_refused() -> None:
    assert "not JSON" in refusal({"type": "object"}, {1: 2})
    assert "not JSON" in refusal({"type": "string"}, "\ud800")


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"type": ["object", "null"]}, [], None, True])
def test_an_input_schema_must_describe_an_object(schema: Any) -> None:
    with pytest.raises(DefinitionError, match='"type": "object"'):
        check_input_schema(schema)
    with pytest.raises(DefinitionError):
        DataArguments(schema)


_keywords = st.sampled_from(["type", "properties", "items", "required", "$ref", "$defs", "allOf", "minimum", "pattern"])
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["object", "string", "#", "a"])
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keywords | st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(_json, _json)
def test_any_schema_and_value_give_a_result_or_our_errors(schema: Any, value: Any) -> None:
    with contextlib.suppress(DefinitionError, ArgumentsInvalid):
        SchemaValidator(schema).validate(value)


@given(_json.map(json.dumps).map(str.encode) | st.binary())
def test_any_bytes_give_arguments_or_a_validation_error(raw: bytes) -> None:
    with contextlib.suppress(ArgumentsInvalid):
        assert isinstance(DataArguments({"type": "object"}).decode(raw), dict)


def test_the_validator_library_is_loaded_for_the_first_schema_only() -> None:
    code = (
        "import sys, hubbub.protocol.schema_data as data\n"
        "before = 'jsonschema_rs' in sys.modules\n"
        "data.SchemaValidator({})\n"
        "print(before, 'jsonschema_rs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_unchecked_arguments_are_passed_unchanged_in_one_parameter() -> None:
    arguments = UncheckedArguments(CITY, "given")
    assert arguments.decode(b'{"city":1,"more":[null]}') == {"given": {"city": 1, "more": [None]}}
    assert arguments.schema == CITY
    for wrong in (b"[]", b"1", b"{", b"\xff", b"[" * 100_000):
        with pytest.raises(ArgumentsInvalid):
            arguments.decode(wrong)
    with pytest.raises(DefinitionError, match='"type": "object"'):
        UncheckedArguments({"type": "array"}, "given")
