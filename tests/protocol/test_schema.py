"""The schema of a function's arguments: contents, injected parameters, and refused declarations."""

import functools
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional

import jsonschema_rs
import msgspec
import pydantic
import pytest
from tests.protocol.sample_types import Box, Colour, Node, Service, Team, refusal_message

from hubbub import DefinitionError
from hubbub.protocol.schema import Arguments, Output


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    found = Arguments.from_function(function).schema["properties"]
    assert isinstance(found, dict)
    return found


def test_a_function_without_parameters_has_the_schema_of_the_contract() -> None:
    def hello() -> str:
        return "Hello"

    schema = b'{"type":"object","properties":{},"additionalProperties":false}'
    assert msgspec.json.encode(Arguments.from_function(hello).schema) == schema


def test_echo_has_the_schema_of_the_contract() -> None:
    def echo(text: Annotated[str, "Text to echo back"]) -> str:
        return text

    schema = (
        b'{"type":"object","properties":{"text":{"type":"string","description":"Text to echo back"}},'
        b'"required":["text"],"additionalProperties":false}'
    )
    assert msgspec.json.encode(Arguments.from_function(echo).schema) == schema


def test_required_is_left_out_when_every_parameter_has_a_default() -> None:
    def forecast(days: int = 3) -> None: ...

    assert Arguments.from_function(forecast).schema == {
        "type": "object",
        "properties": {"days": {"type": "integer", "default": 3}},
        "additionalProperties": False,
    }


def test_descriptions_come_from_every_kind_of_annotation() -> None:
    def call(
        a: Annotated[str, "bare"],
        b: Annotated[str, msgspec.Meta(description="meta")],
        c: Annotated[str, pydantic.Field(description="field")],
        d: Annotated[str, "inside"] | None = None,
        e: str = pydantic.Field("x", description="default"),
    ) -> None: ...

    descriptions = {name: schema["description"] for name, schema in properties(call).items()}
    assert descriptions == {"a": "bare", "b": "meta", "c": "field", "d": "inside", "e": "default"}
    assert Arguments.from_function(call).decode(b'{"a":"","b":"","c":""}')["e"] == "x"


def test_an_annotation_wins_over_the_docstring() -> None:
    def call(a: Annotated[str, "annotated"], b: str) -> None:
        """Call.

        Args:
            a: documented
            b: also documented
        """

    assert [schema["description"] for schema in properties(call).values()] == ["annotated", "also documented"]


def test_the_header_annotation_is_in_the_schema_of_its_property() -> None:
    def call(region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> None: ...

    assert list(properties(call)["region"].items()) == [("type", "string"), ("x-mcp-header", "Region")]


def test_constraints_of_pydantic_fields_apply_to_schema_and_decoder() -> None:
    def call(days: Annotated[int | None, pydantic.Field(ge=1, le=9)] = None) -> None: ...

    assert properties(call)["days"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert refusal_message(call, b'{"days":0}') == "days: expected `int` >= 1"
    assert Arguments.from_function(call).decode(b'{"days":null}') == {"days": None}


def test_enums_are_inlined() -> None:
    def paint(colour: Colour, finish: Literal["matt", "gloss"] = "matt") -> None: ...

    schema = Arguments.from_function(paint).schema
    assert schema["properties"] == {
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "finish": {"type": "string", "enum": ["matt", "gloss"], "default": "matt"},
    }
    assert "$defs" not in schema


def test_nested_types_share_definitions_at_the_end() -> None:
    def call(node: Node, nodes: list[Node], team: Team) -> None: ...

    schema = Arguments.from_function(call).schema
    assert list(schema) == ["type", "properties", "required", "additionalProperties", "$defs"]
    assert set(schema["$defs"]) == {"Node", "Team", "Person"}
    jsonschema_rs.meta.validate(schema)


def test_a_model_and_a_dataclass_with_the_same_name_have_separate_definitions() -> None:
    model = pydantic.create_model("Node", text=(str, ...))

    def call(node: Node, other: Any) -> None: ...

    call.__annotations__["other"] = model
    arguments = Arguments.from_function(call)
    raw = b'{"node":{"value":1},"other":{"text":"a"}}'
    jsonschema_rs.validate(arguments.schema, json.loads(raw))
    assert not jsonschema_rs.is_valid(arguments.schema, {"node": {"text": "a"}, "other": {"value": 1}})
    assert arguments.decode(raw) == {"node": Node(1), "other": model(text="a")}


def test_a_parameter_without_annotation_accepts_any_json() -> None:
    def call(anything) -> None: ...  # type: ignore[no-untyped-def]

    assert properties(call) == {"anything": {}}
    assert Arguments.from_function(call).decode(b'{"anything":[1,{"a":null}]}') == {"anything": [1, {"a": None}]}


def test_a_default_of_none_lets_callers_send_null() -> None:
    def call(days: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert Arguments.from_function(call).decode(b'{"days":null}') == {"days": None}
    assert Arguments.from_function(call).decode(b"{}") == {"days": None}


def test_defaults_without_a_json_form_are_used_but_not_in_the_schema() -> None:
    marker = object()

    def call(a: Any = marker, b: list[int] = [1, 2]) -> None: ...  # noqa: B006

    assert properties(call)["a"] == {}
    assert properties(call)["b"]["default"] == [1, 2]
    assert Arguments.from_function(call).decode(b"{}") == {"a": marker, "b": [1, 2]}


def test_pydantic_is_not_loaded_for_functions_without_models() -> None:
    code = (
        "import sys; from hubbub.protocol.schema import Arguments, Output\n"
        "def call(a: int, b: list[str] = []) -> dict[str, int]: ...\n"
        "Arguments.from_function(call).decode(b'{\"a\":1}'); Output.from_function(call)\n"
        "print([name for name in ('pydantic', 'jsonschema_rs', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


# -- injection -----------------------------------------------------------------


def test_services_are_injected_in_every_spelling() -> None:
    def call(
        a: Service,
        b: "Service",
        c: Service | None,
        d: Optional[Service],  # noqa: UP045
        e: Annotated[Service, "why"],
        text: str,
    ) -> None: ...

    arguments = Arguments.from_function(call, skip=[Service])
    assert arguments.injected == dict.fromkeys("abcde", Service)
    assert list(arguments.schema["properties"]) == ["text"]


def test_a_service_imported_for_type_checkers_only_is_found_by_its_name() -> None:
    def call(service, text) -> None: ...  # type: ignore[no-untyped-def]

    call.__annotations__ = {"service": "Elsewhere", "text": "str"}
    elsewhere = type("Elsewhere", (), {})
    assert Arguments.from_function(call, skip=[elsewhere]).injected == {"service": elsewhere}


def test_methods_partials_and_callable_objects_have_schemas() -> None:
    class Caller:
        def method(self, text: str) -> int:
            return len(text)

        def __call__(self, text: str) -> int:
            return len(text)

    caller = Caller()
    for function in (caller.method, caller, functools.partial(caller.method)):
        assert Arguments.from_function(function).decode(b'{"text":"a"}') == {"text": "a"}
        assert Output.from_function(function).schema == {"type": "integer"}


# -- invalid declarations ----------------------------------------------------------


def test_the_error_for_unsupported_parameters_names_them() -> None:
    def stars(*parts: str) -> None: ...
    def options(**parts: str) -> None: ...
    def positional(parts: str, /) -> None: ...
    def unsupported(fine: int, parts: complex) -> None: ...
    def ambiguous(fine: int, parts: Node | Box) -> None: ...
    def limited(parts: Annotated[str, pydantic.Field(ge=1)]) -> None: ...

    for function in (stars, options, positional, unsupported, ambiguous, limited):
        with pytest.raises(DefinitionError) as caught:
            Arguments.from_function(function)
        assert function.__name__ in caught.value.message
        assert "parts`" in caught.value.message


def test_the_error_for_unresolvable_hints_says_what_to_do() -> None:
    def call(text) -> None: ...  # type: ignore[no-untyped-def]

    call.__annotations__ = {"text": "NowhereDefined"}
    with pytest.raises(DefinitionError, match=r"call: .*NowhereDefined.*top level"):
        Arguments.from_function(call)


def test_a_module_with_postponed_annotations_works(tmp_path: pathlib.Path) -> None:
    source = (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Trip:\n    days: int\n"
        "def plan(trip: Trip, note: str | None = None) -> Trip: ...\n"
        "def local():\n    class Inner: ...\n    def plan(inner: Inner): ...\n    return plan\n"
    )
    (tmp_path / "postponed_trip.py").write_text(source)
    sys.path.insert(0, str(tmp_path))
    try:
        import postponed_trip  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
    decoded = Arguments.from_function(postponed_trip.plan).decode(b'{"trip":{"days":2}}')
    assert decoded == {"trip": postponed_trip.Trip(2), "note": None}
    assert Output.from_function(postponed_trip.plan).is_object
    with pytest.raises(DefinitionError, match="Inner"):
        Arguments.from_function(postponed_trip.local())
