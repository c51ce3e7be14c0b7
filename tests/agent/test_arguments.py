"""Parsing of arguments as models write them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.json_strategies import JSON_VALUES

from hubbub import bounds
from hubbub.agent.arguments import parse_arguments

LIMIT = bounds.ARGUMENT_BYTES
OBJECT = st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=3)


@pytest.mark.parametrize("raw", [None, "", "  \n"])
def test_blank_arguments_are_an_empty_object(raw: object) -> None:
    found = parse_arguments(raw, LIMIT)
    assert (found.value, found.status, found.is_usable) == ({}, "blank", True)


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        ('{"a": 1}', "ok"),
        ({"a": 1}, "ok"),
        ('```json\n{"a": 1}\n```', "repaired"),
        ('```\n{"a": 1}```', "repaired"),
        (' ```{"a": 1}``` ', "repaired"),
        ('"{\\"a\\": 1}"', "repaired"),
        (json.dumps('```json\n{"a": 1}\n```'), "repaired"),
        ('```json\n"{\\"a\\": 1}"\n```', "repaired"),
    ],
)
def test_common_mistakes_of_models_are_repaired(raw: object, status: str) -> None:
    found = parse_arguments(raw, LIMIT)
    assert (found.value, found.status) == ({"a": 1}, status)


def test_an_empty_string_is_an_empty_object() -> None:
    assert parse_arguments('""', LIMIT).value == {}
    assert parse_arguments('""', LIMIT).is_usable


@pytest.mark.parametrize(
    "raw", ["{", "[1]", "3", "null", '"text"', '"[1]"', "```json\n{\n```", '{"a": NaN}', [1], 3, '"\\"{}\\""', "{}{}"]
)
def test_arguments_that_are_not_an_object_are_reported_to_the_model(raw: object) -> None:
    found = parse_arguments(raw, LIMIT)
    assert not found.is_usable
    assert found.code == "ARGUMENTS_JSON_PARSE_ERROR"
    assert found.value == {}
    assert found.message


@pytest.mark.parametrize("raw", ['{"a": "' + "x" * 100 + '"}', {"a": "x" * 100}, '{"a": "' + "é" * 50 + '"}'])
def test_arguments_over_the_limit_are_not_parsed(raw: object) -> None:
    found = parse_arguments(raw, 90)
    assert (found.code, found.value, found.is_usable) == ("ARGUMENTS_TOO_LARGE", {}, False)
    assert "at most 90" in found.message
    assert parse_arguments(raw, 110).is_usable


@pytest.mark.parametrize("depth", [65, 5000, 200_000])
def test_arguments_nested_too_deep_are_an_error(depth: int) -> None:
    found = parse_arguments('{"a":' + "[" * depth + "]" * depth + "}", 10_000_000)
    assert (found.status, found.value) == ("invalid", {})


def test_a_lone_surrogate_is_an_error() -> None:
    assert not parse_arguments('{"a": "\ud800"}', LIMIT).is_usable
    assert not parse_arguments({"a": "\ud800"}, LIMIT).is_usable


@given(OBJECT)
def test_an_object_is_parsed_from_every_form(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    for raw in (value, text, f"```json\n{text}\n```", json.dumps(text), f"\n{text}\n"):
        assert parse_arguments(raw, LIMIT).value == value


@given(st.one_of(st.text(), JSON_VALUES, st.binary().map(lambda data: data.decode("latin-1"))))
def test_parsing_any_arguments_raises_nothing(raw: Any) -> None:
    found = parse_arguments(raw, 64)
    assert isinstance(found.value, dict)
    assert found.is_usable or (found.message and not found.value)
