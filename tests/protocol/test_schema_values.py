"""Values and a function's schema: JSON decoded to arguments, results encoded to JSON, and refused values."""

import dataclasses
import datetime
import json
import pathlib
from typing import Annotated, Any

import jsonschema_rs
import msgspec
import pytest
from tests.protocol.sample_types import (
    Box,
    Colour,
    Node,
    Person,
    Place,
    Point,
    Service,
    StrictPerson,
    Team,
    refusal_message,
)

from hubbub import DefinitionError, ToolError
from hubbub.protocol.schema import Arguments, Output

# -- arguments -----------------------------------------------------------------


def test_arguments_become_typed_values() -> None:
    def call(node: Node, place: Place, box: Box, team: Team, path: pathlib.Path, born: StrictPerson) -> None: ...

    raw = (
        b'{"node":{"value":1,"below":{"value":2}},"place":{"city":"Oslo","days":1},"box":{"point":[1]},'
        b'"team":{"lead":{"name":"A","born":"2000-01-02"}},"path":"a/b","born":{"born":"2000-01-02"}}'
    )
    day = datetime.date(2000, 1, 2)
    assert Arguments.from_function(call).decode(msgspec.Raw(raw)) == {
        "node": Node(1, Node(2)),
        "place": {"city": "Oslo", "days": 1},
        "box": Box(Point(1, 0)),
        "team": Team(Person(name="A", born=day)),
        "path": pathlib.Path("a/b"),
        "born": StrictPerson(born=day),
    }


def test_a_whole_number_may_be_written_as_a_float() -> None:
    def call(days: int, node: Node) -> None: ...

    assert Arguments.from_function(call).decode(b'{"days":3.0,"node":{"value":1e2}}') == {"days": 3, "node": Node(100)}
    assert refusal_message(call, b'{"days":3.5,"node":{"value":1}}') == "days: expected `int`, got `float`"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"days":"2"}', "days: expected `int`, got `str`"),
        (b'{"days":1,"nodes":[{"value":1},{"value":"x"}]}', "nodes[1].value: expected `int`, got `str`"),
        (b'{"days":1,"colour":"green"}', "colour: invalid enum value 'green'; allowed values: 'red', 'blue'"),
        (b'{"days":1,"hours":2}', "unknown argument `hours`; allowed arguments: days, nodes, colour, person"),
        (b'{"colour":"red"}', "missing required argument `days`; allowed arguments: days, nodes, colour, person"),
        (b'{"days":1,"nodes":[{}]}', "nodes[0]: missing required field `value`"),
        (b"[]", "arguments: expected `object`, got `array`"),
        (b'{"days":1', "the arguments are not valid JSON (Input data was truncated)"),
        (b"", "the arguments are not valid JSON (Input data was truncated)"),
        (b'{"days":1,"person":{"name":1}}', "person.name: Input should be a valid string; person.born: Field required"),
    ],
)
def test_validation_errors_say_where_and_why(raw: bytes, message: str) -> None:
    def call(
        days: int, nodes: list[Node] | None = None, colour: Colour = Colour.RED, person: Person | None = None
    ) -> None: ...

    assert refusal_message(call, raw) == message


def test_invalid_json_and_deep_nesting_are_refused() -> None:
    def call(text: str, data: Any = None) -> None: ...

    assert refusal_message(call, b'{"text":"\xff"}') == "the arguments are not valid UTF-8"
    assert "not valid JSON" in refusal_message(call, b'{"text":"\\ud800"}')
    assert refusal_message(call, b'{"text":"","data":' + b"[" * 100_000) == "the arguments are nested too deep"


def test_any_exception_of_a_validator_is_a_validation_error() -> None:
    @dataclasses.dataclass
    class Picky:
        value: int

        def __post_init__(self) -> None:
            raise ValueError("Too picky") if self.value else KeyError("surprise")

    def call(picky: Picky) -> None: ...

    assert refusal_message(call, b'{"picky":{"value":1}}') == "picky: Too picky"
    assert "KeyError" in refusal_message(call, b'{"picky":{"value":0}}')


def test_a_validation_error_quotes_a_limited_part_of_the_value() -> None:
    def call(colour: Colour) -> None: ...

    assert len(refusal_message(call, b'{"colour":"' + b"x" * 100_000 + b'"}')) <= 400
    assert "allowed arguments: colour" in refusal_message(call, b'{"colour":"red","' + b"x" * 100_000 + b'":1}')


# -- results -------------------------------------------------------------------


def test_str_and_any_have_no_output_schema() -> None:
    for annotation in (None, str, bytes, Any, str | None, Annotated[str, "a"], Service, list[Service | str]):

        def call() -> None: ...

        call.__annotations__["return"] = annotation
        assert Output.from_function(call, skip=[Service]).schema is None
    assert Output.from_function(lambda: 1).wrapped_schema is None


def test_object_results_are_distinguished_from_other_results() -> None:
    objects = [Node, Place, Box, Person, Team, dict[str, int], dict[str, Any]]
    others = [list[int], int, bool, Node | None, Point, Colour]
    for annotation in [*objects, *others]:

        def call() -> None: ...

        call.__annotations__["return"] = annotation
        output = Output.from_function(call)
        assert output.is_object == (annotation in objects), annotation
        assert output.schema is not None
        assert "$ref" not in output.schema
        jsonschema_rs.meta.validate(output.schema)
        assert output.wrapped_schema is not None
        jsonschema_rs.meta.validate(output.wrapped_schema)


def test_a_recursive_result_keeps_its_definition_under_an_inlined_root() -> None:
    def call() -> Node:
        return Node(1, Node(2))

    output = Output.from_function(call)
    assert output.schema is not None
    assert output.wrapped_schema is not None
    assert list(output.schema) == ["type", "properties", "required", "$defs"]
    assert list(output.wrapped_schema) == ["type", "properties", "required", "$defs"]
    value = json.loads(output.encode(call()))
    jsonschema_rs.validate(output.schema, value)
    jsonschema_rs.validate(output.wrapped_schema, {"result": value})
    wrong = {"value": 1, "below": {"value": "x"}}
    assert not jsonschema_rs.is_valid(output.schema, wrong)
    assert not jsonschema_rs.is_valid(output.wrapped_schema, {"result": wrong})


def test_results_of_every_kind_are_encoded() -> None:
    output = Output.from_function(lambda: None)
    person = Person(name="A", born=datetime.date(2000, 1, 2))
    assert output.encode({"a": {1}, "b": pathlib.Path("x")}) == b'{"a":[1],"b":"x"}'
    assert output.encode([person]) == b'[{"name":"A","born":"2000-01-02","friends":[]}]'
    assert output.encode({}.keys()) == b"[]"


def test_results_without_a_json_form_are_tool_errors() -> None:
    circle: list[Any] = []
    circle.append(circle)

    def call() -> None: ...

    for value in (object(), 1j, "\ud800", circle, {(1, 2): 3}):
        with pytest.raises(ToolError, match="call returned a value that JSON cannot represent"):
            Output.from_function(call).encode(value)


def test_an_unsupported_return_type_is_a_definition_error() -> None:
    def call() -> complex:
        return 1j

    with pytest.raises(DefinitionError, match="call: its return type"):
        Output.from_function(call)
