"""Definitions have the format of endpoints, and are immutable."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.json_strategies import JSON_VALUES

from hubbub import Definition, DefinitionError
from hubbub.agent.frozen import freeze, thaw


def test_a_definition_has_the_shape_of_the_chat_api() -> None:
    assert Definition("now", "The time.", {"type": "object"}).openai() == {
        "type": "function",
        "function": {"name": "now", "description": "The time.", "parameters": {"type": "object"}},
    }


def test_an_empty_required_is_removed_at_every_depth() -> None:
    nested = {"type": "object", "required": [], "properties": {}}
    schema = {
        "type": "object",
        "required": ["a"],
        "properties": {"a": nested, "required": {"type": "array", "items": nested}},
        "$defs": {"one": nested},
        "anyOf": [nested],
    }
    shown = Definition("t", "", schema).openai()["function"]["parameters"]
    bare = {"type": "object", "properties": {}}
    assert shown == {
        "type": "object",
        "required": ["a"],
        "properties": {"a": bare, "required": {"type": "array", "items": bare}},
        "$defs": {"one": bare},
        "anyOf": [bare],
    }


def test_an_empty_required_inside_a_value_stays() -> None:
    schema = {"type": "object", "properties": {"a": {"default": {"required": []}}}}
    assert Definition("t", "", schema).openai()["function"]["parameters"] == schema


def test_a_name_is_trimmed() -> None:
    assert Definition(" now ").name == "now"


@pytest.mark.parametrize("name", ["", " ", "a.b", "a b", "x" * 129, "ä"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError, match="letters"):
        Definition(name)


def test_invalid_parameter_schemas_are_refused() -> None:
    with pytest.raises(DefinitionError, match="JSON Schema"):
        Definition("t", "", ["object"])  # type: ignore[arg-type]


def test_a_definition_is_immutable() -> None:
    definition = Definition("t", "", {"type": "object", "properties": {"a": {"enum": ["x"]}}})
    with pytest.raises(AttributeError):
        definition.name = "u"  # type: ignore[misc]
    with pytest.raises(TypeError):
        definition.parameters["type"] = "array"  # type: ignore[index]
    with pytest.raises(AttributeError):
        definition.parameters["properties"]["a"]["enum"].append("y")


def test_changing_the_source_of_a_definition_changes_nothing() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    definition = Definition("t", "", schema)
    schema["properties"]["a"]["type"] = "integer"
    shown = definition.openai()
    shown["function"]["parameters"]["properties"]["a"]["type"] = "number"
    assert definition.parameters["properties"]["a"]["type"] == "string"


@given(JSON_VALUES)
def test_freezing_and_thawing_gives_the_same_value(value: Any) -> None:
    assert thaw(freeze(value)) == value


@given(st.dictionaries(st.text(max_size=5), JSON_VALUES, min_size=1, max_size=3))
def test_nothing_inside_a_frozen_value_can_be_changed(value: dict[str, Any]) -> None:
    stack = [freeze(value)]
    while stack:
        item = stack.pop()
        assert not isinstance(item, dict | list)
        stack.extend(item.values() if hasattr(item, "values") else item if isinstance(item, tuple) else ())
