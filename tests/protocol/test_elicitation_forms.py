"""Elicitation forms: supported types and their schemas."""

import dataclasses
import datetime
import enum
import uuid
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from hubbub import DefinitionError, InvalidParams
from hubbub.protocol.elicitation_forms import decode_form, form_schema


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Number(enum.IntEnum):
    ONE = 1
    TWO = 2


def field_schema(annotation: Any) -> dict[str, Any]:
    form = msgspec.defstruct("Form", [("field", annotation)])
    field: dict[str, Any] = form_schema(form)["properties"]["field"]
    return field


def test_defaults_of_every_kind_of_field_are_in_the_schema() -> None:
    @dataclasses.dataclass
    class Profile:
        name: str = "John"
        age: int = 30
        score: float = 95.5
        status: Literal["active", "inactive"] = "active"
        verified: bool = True

    assert form_schema(Profile) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": "John"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        },
        "required": [],
    }


@pytest.mark.parametrize("annotation", [Literal["small", "large"], Size])
def test_a_choice_is_an_enum_of_strings(annotation: Any) -> None:
    assert field_schema(annotation) == {"type": "string", "enum": ["small", "large"]}


@pytest.mark.parametrize("annotation", [list[Literal["small", "large"]], list[Size]])
def test_a_multiple_choice_is_an_array_of_an_enum(annotation: Any) -> None:
    assert field_schema(annotation) == {"type": "array", "items": {"type": "string", "enum": ["small", "large"]}}


def test_choices_with_titles_are_unchanged() -> None:
    titled = [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]
    one = Annotated[str, msgspec.Meta(extra_json_schema={"oneOf": titled})]
    several = list[Annotated[str, msgspec.Meta(extra_json_schema={"anyOf": titled})]]
    assert field_schema(one) == {"type": "string", "oneOf": titled}
    assert field_schema(several)["items"]["anyOf"] == titled


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str | None, {"type": "string"}),
        (Size | None, {"type": "string", "enum": ["small", "large"]}),
        (Literal["large", None], {"type": "string", "enum": ["large"]}),
        (Annotated[int, msgspec.Meta(ge=1)] | None, {"type": "integer", "minimum": 1}),
    ],
)
def test_an_optional_field_is_in_the_schema(annotation: Any, schema: dict[str, Any]) -> None:
    assert field_schema(annotation) == schema


def test_an_optional_field_is_not_required_and_has_no_null_default() -> None:
    class Person(msgspec.Struct):
        name: str
        nickname: str | None = None

    schema = form_schema(Person)
    assert schema["required"] == ["name"]
    assert schema["properties"]["nickname"] == {"type": "string"}
    assert decode_form(b'{"name":"Ada"}', Person) == Person("Ada")


def test_pydantic_models_are_forms_too() -> None:
    class Person(pydantic.BaseModel):
        name: str = pydantic.Field("Ada", title="Your name", description="As in your passport")
        age: int | None = None
        size: Size = Size.SMALL

    properties = form_schema(Person)["properties"]
    assert properties["name"] == {
        "type": "string",
        "default": "Ada",
        "title": "Your name",
        "description": "As in your passport",
    }
    assert properties["age"]["type"] == "integer"
    assert "default" not in properties["age"]
    assert sorted(properties["size"]["enum"]) == ["large", "small"]


def test_only_formats_of_the_specification_are_in_the_schema() -> None:
    assert field_schema(datetime.date)["format"] == "date"
    assert "format" not in field_schema(uuid.UUID)


@pytest.mark.parametrize(
    "annotation", [list[str], dict[str, str], Any, str | int, Literal[1, 2], Number, list[Number], list[list[Size]]]
)
def test_a_field_type_that_forms_cannot_have_is_refused_with_its_name(annotation: Any) -> None:
    with pytest.raises(DefinitionError, match="`field`"):
        field_schema(annotation)


def test_a_form_must_have_named_fields() -> None:
    with pytest.raises(DefinitionError, match="named fields"):
        form_schema(str)


def test_content_that_does_not_match_the_form_is_refused() -> None:
    class Person(TypedDict):
        age: int

    assert decode_form(b'{"age":3}', Person) == {"age": 3}
    with pytest.raises(InvalidParams, match="age"):
        decode_form(b'{"age":"three"}', Person)
