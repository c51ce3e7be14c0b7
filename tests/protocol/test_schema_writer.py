"""Schemas of types: declared order, types of choices, formats, and closed objects."""

import datetime
import decimal
import enum
import json
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import jsonschema_rs
import msgspec
import pytest

from hubbub.protocol.elicitation_forms import form_schema
from hubbub.protocol.schema import Arguments, Output
from hubbub.protocol.type_schema import describe_types

T = TypeVar("T")
HIDDEN = object()
Level = Literal["low", "medium", "high"]


class Shade(enum.Enum):
    WHITE = "white"
    GREY = "grey"
    BLACK = "black"


class Rank(enum.IntEnum):
    SECOND = 2
    FIRST = 1


class Visit(TypedDict):
    place: str
    day: datetime.date
    level: NotRequired[Level]


@dataclass
class Order:
    level: Level
    tags: list[str] = field(default_factory=list)
    made: Any = datetime.date(2026, 1, 2)
    hidden: Any = HIDDEN


class Dog(msgspec.Struct, tag="dog"):
    size: Literal["small", "big"]


class Cat(msgspec.Struct, tag="cat"):
    size: Literal["thin", "fat"]


class Boxed(msgspec.Struct, Generic[T]):
    item: T


class Spot(NamedTuple):
    level: Level
    x: int = 0


def schema_of(kind: Any, mode: Literal["validation", "serialization"] = "validation") -> dict[str, Any]:
    (schema,), definitions = describe_types([kind], mode)
    whole = {**schema, "$defs": definitions} if definitions else schema
    jsonschema_rs.meta.validate(whole)
    return whole


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Level, {"type": "string", "enum": ["low", "medium", "high"]}),
        (Literal[3, 1, 2], {"type": "integer", "enum": [3, 1, 2]}),
        (Literal["b", "a", None], {"enum": ["b", "a", None]}),
        (Literal["b", 1], {"enum": ["b", 1]}),
        (list[Level], {"type": "array", "items": {"type": "string", "enum": ["low", "medium", "high"]}}),
        (NewType("Named", Level), {"type": "string", "enum": ["low", "medium", "high"]}),
    ],
)
def test_literals_keep_their_order_and_have_a_type(kind: Any, schema: dict[str, Any]) -> None:
    assert schema_of(kind) == schema


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Shade, {"title": "Shade", "type": "string", "enum": ["white", "grey", "black"]}),
        (Rank, {"title": "Rank", "type": "integer", "enum": [2, 1]}),
    ],
)
def test_enumerations_keep_the_order_of_their_members(kind: Any, schema: dict[str, Any]) -> None:
    assert schema_of(kind)["$defs"] == {kind.__name__: schema}


@pytest.mark.parametrize("kind", [Visit, Order, Boxed[Level], Spot])
def test_literals_inside_classes_keep_their_order(kind: Any) -> None:
    assert '"enum": ["low", "medium", "high"]' in json.dumps(schema_of(kind))


def test_a_typed_dict_keeps_the_order_of_its_members() -> None:
    (definition,) = schema_of(Visit)["$defs"].values()
    assert list(definition["properties"]) == ["place", "day", "level"]
    assert definition["required"] == ["place", "day"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (datetime.datetime, "date-time"),
        (datetime.date, "date"),
        (datetime.time, "time"),
        (datetime.timedelta, "duration"),
        (uuid.UUID, "uuid"),
        (decimal.Decimal, "decimal"),
        (Annotated[datetime.datetime, msgspec.Meta(tz=True)], "date-time"),
    ],
)
def test_argument_schemas_have_a_format(kind: Any, name: str) -> None:
    assert schema_of(kind) == {"type": "string", "format": name}


def test_a_result_has_the_date_time_format_only_with_a_declared_time_zone() -> None:
    assert schema_of(datetime.datetime, "serialization") == {"type": "string"}
    aware = Annotated[datetime.datetime, msgspec.Meta(tz=True)]
    assert schema_of(aware, "serialization") == {"type": "string", "format": "date-time"}
    assert schema_of(datetime.date, "serialization") == {"type": "string", "format": "date"}


def test_a_form_has_formats_and_keeps_the_order_of_choices() -> None:
    @dataclass
    class Form:
        when: datetime.datetime
        shade: Shade
        level: Level = "medium"

    assert form_schema(Form)["properties"] == {
        "when": {"type": "string", "format": "date-time"},
        "shade": {"type": "string", "enum": ["white", "grey", "black"]},
        "level": {"type": "string", "enum": ["low", "medium", "high"], "default": "medium"},
    }


def test_input_objects_are_closed_and_output_objects_are_open() -> None:
    def call(order: Order) -> Order:
        return order

    definition = Arguments.from_function(call).schema["$defs"]["Order"]
    assert definition["additionalProperties"] is False
    output = Output.from_function(call).schema
    assert output is not None
    assert "additionalProperties" not in output


def test_defaults_with_a_json_form_are_in_the_schema() -> None:
    (definition,) = schema_of(Order)["$defs"].values()
    assert definition["properties"]["tags"] == {"type": "array", "items": {"type": "string"}, "default": []}
    assert definition["properties"]["made"] == {"default": "2026-01-02"}
    assert definition["properties"]["hidden"] == {}


def test_tagged_structs_have_a_discriminator_and_null_comes_last() -> None:
    schema = schema_of(Dog | Cat | None)
    first, last = schema["anyOf"]
    assert last == {"type": "null"}
    assert first["discriminator"] == {
        "propertyName": "type",
        "mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"},
    }
    assert schema["$defs"]["Dog"]["properties"]["type"] == {"type": "string", "enum": ["dog"]}
    assert schema["$defs"]["Cat"]["properties"]["size"]["enum"] == ["thin", "fat"]


@pytest.mark.parametrize("kind", [int | None, dict[str, list[Level]], tuple[int, str], set[Shade], bytes, Boxed[int]])
def test_every_schema_accepts_what_the_decoder_accepts(kind: Any) -> None:
    samples = [None, 3, "AA==", [1, "a"], ["white"], {"a": ["low"]}, {"item": 3}, {"item": "3"}]
    schema = schema_of(kind)
    for sample in samples:
        try:
            msgspec.json.decode(json.dumps(sample), type=kind)
        except msgspec.ValidationError:
            continue
        assert jsonschema_rs.is_valid(schema, sample), sample
