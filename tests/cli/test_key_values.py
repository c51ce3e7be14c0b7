"""`key=value` arguments, converted by the tool's schema."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import SettingsError
from hubbub.cli.key_values import describe_arguments, list_parameters, read_arguments, read_object

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "loud": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "filter": {"type": "object"},
        "either": {"type": ["integer", "string"]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "list_or_text": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]},
        "level": {"enum": ["low", "high"]},
        "rank": {"enum": [1, 2]},
        "referred": {"$ref": "#/$defs/Size", "description": "How large."},
        "free": {},
        "odd:": {"type": "string"},
    },
    "required": ["text"],
    "$defs": {"Size": {"type": "integer", "description": "How large."}},
}


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["text=a=b"], {"text": "a=b"}),
        (["text="], {"text": ""}),
        (["text=12"], {"text": "12"}),
        (["text=null"], {"text": "null"}),
        (["count=-3"], {"count": -3}),
        (["ratio=3", "count=4"], {"ratio": 3, "count": 4}),
        (["loud=NO"], {"loud": False}),
        (["tags=[a"], None),
        (["tags=a", "tags=b"], {"tags": ["a", "b"]}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["sizes=1", "sizes=2"], {"sizes": [1, 2]}),
        (["sizes=one"], None),
        (['filter={"a": [1]}'], {"filter": {"a": [1]}}),
        (["filter=[1]"], None),
        (["either=5"], {"either": 5}),
        (["either=five"], {"either": "five"}),
        (["maybe=null"], {"maybe": None}),
        (["maybe=7"], {"maybe": 7}),
        (["maybe=seven"], None),
        (["list_or_text=[1,2]"], {"list_or_text": [1, 2]}),
        (["list_or_text=words"], {"list_or_text": "words"}),
        (["level=high"], {"level": "high"}),
        (["rank=2"], {"rank": 2}),
        (["referred=3"], {"referred": 3}),
        (["referred=big"], None),
        (["free=3"], {"free": 3}),
        (["free=three"], {"free": "three"}),
        (["unknown=true"], {"unknown": True}),
        (['text:={"any": "JSON"}'], {"text": {"any": "JSON"}}),
        (["odd:=text"], {"odd:": "text"}),
        (["count=1", "count=2"], None),
        (["count=true"], None),
        (["loud=1"], None),
        (["=x"], None),
        (["text"], None),
    ],
)
def test_a_value_is_converted_to_the_type_of_its_schema(words: list[str], arguments: dict[str, Any] | None) -> None:
    if arguments is None:
        with pytest.raises(SettingsError):
            read_arguments(words, SCHEMA)
    else:
        assert read_arguments(words, SCHEMA) == arguments


def test_a_key_that_the_schema_excludes_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="unknown argument 'cuont'; did you mean 'count'"):
        read_arguments(["cuont=3"], SCHEMA | {"additionalProperties": False})


def test_a_schema_is_described_in_one_line() -> None:
    shown = {key: SCHEMA["properties"][key] for key in ("text", "tags", "level", "maybe", "referred", "free")}
    assert describe_arguments(SCHEMA | {"properties": shown}) == (
        "text: string, tags?: string[], level?: low|high, maybe?: integer|null, referred?: integer, free?: any"
    )
    assert ("referred", "integer", False, "How large.") in list_parameters(SCHEMA)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
schema_words = st.sampled_from(
    ["$ref", "anyOf", "oneOf", "type", "properties", "items", "enum", "const", "required", "a", "#", "#/a", "string"]
)
schemas = st.recursive(
    st.none() | st.booleans() | st.integers() | schema_words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(schema_words, inner, max_size=4),
    max_leaves=20,
)


@given(schemas, st.lists(st.text(max_size=12), max_size=3))
def test_no_schema_raises_an_unexpected_error(schema: Any, words: list[str]) -> None:
    whole = {"properties": {"a": schema}, "a": schema}
    for each in (schema, whole):
        describe_arguments(each)
        list_parameters(each)
        with suppress(SettingsError):
            read_arguments([*words, "a=1", "b=[]"], each)


def test_a_recursive_schema_is_described() -> None:
    itself = {"$ref": "#/$defs/A"}
    chain = {f"C{at}": {"anyOf": [{"$ref": f"#/$defs/C{at + 1}"}] * 50} for at in range(30)}
    definitions = {"A": {"anyOf": [itself] * 50 + [{"$ref": "#/$defs/C0"}] * 50}, **chain}
    nested = {"type": "array", "items": {"$ref": "#/$defs/N"}}
    schema = {"properties": {"a": itself, "n": nested}, "$defs": definitions | {"N": nested}}
    assert describe_arguments(schema) == "a?: any, n?: any[][][][]"
    assert read_arguments(["a=1", "n=[[[]]]"], schema) == {"a": 1, "n": [[[]]]}


@given(json_values)
def test_values_after_a_colon_are_parsed_as_json(value: Any) -> None:
    text = json.dumps(value)
    assert read_arguments([f"x:={text}"], SCHEMA) == {"x": value}
    if isinstance(value, dict):
        assert read_object(text, "it") == value
    else:
        with pytest.raises(SettingsError, match="it must be a JSON object"):
            read_object(text, "it")


@given(st.text())
def test_text_is_never_changed(value: str) -> None:
    assert read_arguments([f"text={value}"], SCHEMA) == {"text": value}
