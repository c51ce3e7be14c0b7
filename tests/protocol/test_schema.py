import contextlib
import dataclasses
import datetime
import decimal
import enum
import functools
import itertools
import json
import pathlib
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.errors import ArgumentsInvalid, DefinitionError, ToolError
from hubbub.protocol.schema import Arguments, Output


class Service:
    """Stands for what a server injects."""


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Node:
    value: int
    below: "Node | None" = None


class Place(TypedDict):
    city: str
    days: int


class Point(NamedTuple):
    x: int
    y: int = 0


class Box(msgspec.Struct):
    point: Point
    colour: Colour = Colour.RED


class Person(pydantic.BaseModel):
    name: str
    born: datetime.date
    friends: "list[Person]" = []


class StrictPerson(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    born: datetime.date


@dataclasses.dataclass
class Team:
    lead: Person
    others: list[Person] = dataclasses.field(default_factory=list)


def properties(function: Callable[..., Any]) -> dict[str, Any]:
    found = Arguments.of(function).schema["properties"]
    assert isinstance(found, dict)
    return found


def refusal(function: Callable[..., Any], raw: bytes) -> str:
    with pytest.raises(ArgumentsInvalid) as caught:
        Arguments.of(function).decode(raw)
    return caught.value.message


# -- the schema ----------------------------------------------------------------


def test_a_function_without_parameters_has_the_schema_of_the_contract() -> None:
    def hello() -> str:
        return "Hello"

    schema = b'{"type":"object","properties":{},"additionalProperties":false}'
    assert msgspec.json.encode(Arguments.of(hello).schema) == schema


def test_echo_has_the_schema_of_the_contract() -> None:
    def echo(text: Annotated[str, "Text to echo back"]) -> str:
        return text

    schema = (
        b'{"type":"object","properties":{"text":{"type":"string","description":"Text to echo back"}},'
        b'"required":["text"],"additionalProperties":false}'
    )
    assert msgspec.json.encode(Arguments.of(echo).schema) == schema


def test_required_is_left_out_when_every_parameter_has_a_default() -> None:
    def forecast(days: int = 3) -> None: ...

    assert Arguments.of(forecast).schema == {
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

    said = {name: schema["description"] for name, schema in properties(call).items()}
    assert said == {"a": "bare", "b": "meta", "c": "field", "d": "inside", "e": "default"}
    assert Arguments.of(call).decode(b'{"a":"","b":"","c":""}')["e"] == "x"


def test_an_annotation_wins_over_the_docstring() -> None:
    def call(a: Annotated[str, "annotated"], b: str) -> None:
        """Call.

        Args:
            a: documented
            b: also documented
        """

    assert [schema["description"] for schema in properties(call).values()] == ["annotated", "also documented"]


def test_a_header_extension_stays_in_its_property() -> None:
    def call(region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> None: ...

    assert list(properties(call)["region"].items()) == [("type", "string"), ("x-mcp-header", "Region")]


def test_limits_of_pydantic_fields_hold_in_schema_and_decoder() -> None:
    def call(days: Annotated[int | None, pydantic.Field(ge=1, le=9)] = None) -> None: ...

    assert properties(call)["days"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert refusal(call, b'{"days":0}') == "days: expected `int` >= 1"
    assert Arguments.of(call).decode(b'{"days":null}') == {"days": None}


def test_choices_are_written_where_they_are_used() -> None:
    def paint(colour: Colour, finish: Literal["matt", "gloss"] = "matt") -> None: ...

    schema = Arguments.of(paint).schema
    assert schema["properties"] == {
        "colour": {"enum": ["blue", "red"]},
        "finish": {"enum": ["gloss", "matt"], "default": "matt"},
    }
    assert "$defs" not in schema


def test_nested_types_share_definitions_at_the_end() -> None:
    def call(node: Node, nodes: list[Node], team: Team) -> None: ...

    schema = Arguments.of(call).schema
    assert list(schema) == ["type", "properties", "required", "additionalProperties", "$defs"]
    assert set(schema["$defs"]) == {"Node", "Team", "Person"}
    jsonschema_rs.meta.validate(schema)


def test_a_model_and_a_dataclass_of_one_name_do_not_mix() -> None:
    model = pydantic.create_model("Node", text=(str, ...))

    def call(node: Node, other: Any) -> None: ...

    call.__annotations__["other"] = model
    arguments = Arguments.of(call)
    raw = b'{"node":{"value":1},"other":{"text":"a"}}'
    jsonschema_rs.validate(arguments.schema, json.loads(raw))
    assert not jsonschema_rs.is_valid(arguments.schema, {"node": {"text": "a"}, "other": {"value": 1}})
    assert arguments.decode(raw) == {"node": Node(1), "other": model(text="a")}


def test_a_parameter_without_annotation_takes_any_json() -> None:
    def call(anything) -> None: ...  # type: ignore[no-untyped-def]

    assert properties(call) == {"anything": {}}
    assert Arguments.of(call).decode(b'{"anything":[1,{"a":null}]}') == {"anything": [1, {"a": None}]}


def test_a_default_of_none_lets_callers_send_null() -> None:
    def call(days: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    assert Arguments.of(call).decode(b'{"days":null}') == {"days": None}
    assert Arguments.of(call).decode(b"{}") == {"days": None}


def test_defaults_that_are_no_json_are_given_but_not_told() -> None:
    marker = object()

    def call(a: Any = marker, b: list[int] = [1, 2]) -> None: ...  # noqa: B006

    assert properties(call)["a"] == {}
    assert properties(call)["b"]["default"] == [1, 2]
    assert Arguments.of(call).decode(b"{}") == {"a": marker, "b": [1, 2]}


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

    arguments = Arguments.of(call, skip=[Service])
    assert arguments.injected == dict.fromkeys("abcde", Service)
    assert list(arguments.schema["properties"]) == ["text"]


def test_a_service_imported_for_type_checkers_only_is_found_by_its_name() -> None:
    def call(service, text) -> None: ...  # type: ignore[no-untyped-def]

    call.__annotations__ = {"service": "Elsewhere", "text": "str"}
    elsewhere = type("Elsewhere", (), {})
    assert Arguments.of(call, skip=[elsewhere]).injected == {"service": elsewhere}


def test_methods_partials_and_callable_objects_are_read() -> None:
    class Caller:
        def method(self, text: str) -> int:
            return len(text)

        def __call__(self, text: str) -> int:
            return len(text)

    caller = Caller()
    for function in (caller.method, caller, functools.partial(caller.method)):
        assert Arguments.of(function).decode(b'{"text":"a"}') == {"text": "a"}
        assert Output.of(function).schema == {"type": "integer"}


# -- declared wrongly ----------------------------------------------------------


def test_parameters_that_json_cannot_fill_are_named() -> None:
    def stars(*parts: str) -> None: ...
    def options(**parts: str) -> None: ...
    def positional(parts: str, /) -> None: ...
    def unsupported(fine: int, parts: complex) -> None: ...
    def ambiguous(fine: int, parts: Node | Box) -> None: ...
    def limited(parts: Annotated[str, pydantic.Field(ge=1)]) -> None: ...

    for function in (stars, options, positional, unsupported, ambiguous, limited):
        with pytest.raises(DefinitionError) as caught:
            Arguments.of(function)
        assert function.__name__ in caught.value.message
        assert "parts`" in caught.value.message


def test_hints_that_cannot_be_resolved_are_told_with_a_way_out() -> None:
    def call(text) -> None: ...  # type: ignore[no-untyped-def]

    call.__annotations__ = {"text": "NowhereDefined"}
    with pytest.raises(DefinitionError, match=r"call: .*NowhereDefined.*top level"):
        Arguments.of(call)


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
    decoded = Arguments.of(postponed_trip.plan).decode(b'{"trip":{"days":2}}')
    assert decoded == {"trip": postponed_trip.Trip(2), "note": None}
    assert Output.of(postponed_trip.plan).is_object
    with pytest.raises(DefinitionError, match="Inner"):
        Arguments.of(postponed_trip.local())


# -- decoding ------------------------------------------------------------------


def test_arguments_become_typed_values() -> None:
    def call(node: Node, place: Place, box: Box, team: Team, path: pathlib.Path, born: StrictPerson) -> None: ...

    raw = (
        b'{"node":{"value":1,"below":{"value":2}},"place":{"city":"Oslo","days":1},"box":{"point":[1]},'
        b'"team":{"lead":{"name":"A","born":"2000-01-02"}},"path":"a/b","born":{"born":"2000-01-02"}}'
    )
    day = datetime.date(2000, 1, 2)
    assert Arguments.of(call).decode(msgspec.Raw(raw)) == {
        "node": Node(1, Node(2)),
        "place": {"city": "Oslo", "days": 1},
        "box": Box(Point(1, 0)),
        "team": Team(Person(name="A", born=day)),
        "path": pathlib.Path("a/b"),
        "born": StrictPerson(born=day),
    }


def test_a_whole_number_may_be_written_as_a_float() -> None:
    def call(days: int, node: Node) -> None: ...

    assert Arguments.of(call).decode(b'{"days":3.0,"node":{"value":1e2}}') == {"days": 3, "node": Node(100)}
    assert refusal(call, b'{"days":3.5,"node":{"value":1}}') == "days: expected `int`, got `float`"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"days":"2"}', "days: expected `int`, got `str`"),
        (b'{"days":1,"nodes":[{"value":1},{"value":"x"}]}', "nodes[1].value: expected `int`, got `str`"),
        (b'{"days":1,"colour":"green"}', "colour: invalid enum value 'green'; allowed values: 'blue', 'red'"),
        (b'{"days":1,"hours":2}', "unknown argument `hours`; allowed arguments: days, nodes, colour, person"),
        (b'{"colour":"red"}', "missing required argument `days`; allowed arguments: days, nodes, colour, person"),
        (b'{"days":1,"nodes":[{}]}', "nodes[0]: missing required field `value`"),
        (b"[]", "arguments: expected `object`, got `array`"),
        (b'{"days":1', "the arguments are not valid JSON (Input data was truncated)"),
        (b"", "the arguments are not valid JSON (Input data was truncated)"),
        (b'{"days":1,"person":{"name":1}}', "person.name: Input should be a valid string; person.born: Field required"),
    ],
)
def test_refusals_say_where_and_why(raw: bytes, message: str) -> None:
    def call(
        days: int, nodes: list[Node] | None = None, colour: Colour = Colour.RED, person: Person | None = None
    ) -> None: ...

    assert refusal(call, raw) == message


def test_broken_text_and_endless_nesting_are_refused() -> None:
    def call(text: str, data: Any = None) -> None: ...

    assert refusal(call, b'{"text":"\xff"}') == "the arguments are not valid UTF-8"
    assert "not valid JSON" in refusal(call, b'{"text":"\\ud800"}')
    assert refusal(call, b'{"text":"","data":' + b"[" * 100_000) == "the arguments are nested too deep"


def test_whatever_a_validator_raises_is_a_refusal() -> None:
    @dataclasses.dataclass
    class Picky:
        value: int

        def __post_init__(self) -> None:
            raise ValueError("Too picky") if self.value else KeyError("surprise")

    def call(picky: Picky) -> None: ...

    assert refusal(call, b'{"picky":{"value":1}}') == "picky: Too picky"
    assert "KeyError" in refusal(call, b'{"picky":{"value":0}}')


def test_a_refusal_quotes_only_so_much() -> None:
    def call(colour: Colour) -> None: ...

    assert len(refusal(call, b'{"colour":"' + b"x" * 100_000 + b'"}')) <= 400
    assert "allowed arguments: colour" in refusal(call, b'{"colour":"red","' + b"x" * 100_000 + b'":1}')


# -- results -------------------------------------------------------------------


def test_text_and_anything_have_no_output_schema() -> None:
    for annotation in (None, str, bytes, Any, str | None, Annotated[str, "a"], Service, list[Service | str]):

        def call() -> None: ...

        call.__annotations__["return"] = annotation
        assert Output.of(call, skip=[Service]).schema is None
    assert Output.of(lambda: 1).wrapped_schema is None


def test_objects_are_told_from_other_results() -> None:
    objects = [Node, Place, Box, Person, Team, dict[str, int], dict[str, Any]]
    others = [list[int], int, bool, Node | None, Point, Colour]
    for annotation in [*objects, *others]:

        def call() -> None: ...

        call.__annotations__["return"] = annotation
        output = Output.of(call)
        assert output.is_object == (annotation in objects), annotation
        assert output.schema is not None
        assert "$ref" not in output.schema
        jsonschema_rs.meta.validate(output.schema)
        jsonschema_rs.meta.validate(output.wrapped_schema)


def test_a_recursive_result_keeps_its_definition_under_an_inlined_root() -> None:
    def call() -> Node:
        return Node(1, Node(2))

    output = Output.of(call)
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
    output = Output.of(lambda: None)
    person = Person(name="A", born=datetime.date(2000, 1, 2))
    assert output.encode({"a": {1}, "b": pathlib.Path("x")}) == b'{"a":[1],"b":"x"}'
    assert output.encode([person]) == b'[{"name":"A","born":"2000-01-02","friends":[]}]'
    assert output.encode({}.keys()) == b"[]"


def test_results_that_are_no_json_are_tool_errors() -> None:
    circle: list[Any] = []
    circle.append(circle)

    def call() -> None: ...

    for value in (object(), 1j, "\ud800", circle, {(1, 2): 3}):
        with pytest.raises(ToolError, match="call returned a value that is not JSON"):
            Output.of(call).encode(value)


def test_an_unsupported_return_type_is_a_definition_error() -> None:
    def call() -> complex:
        return 1j

    with pytest.raises(DefinitionError, match="call: its return type"):
        Output.of(call)


# -- properties ----------------------------------------------------------------

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


def _made(cases: list[Case]) -> Case:
    # msgspec tells types apart by their full name.
    name = f"Made{next(_numbers)}"
    made = dataclasses.make_dataclass(name, [(f"field{index}", kind) for index, (kind, _) in enumerate(cases)])
    return made, st.builds(made, *(values for _, values in cases))


def _wider(inner: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    return st.one_of(
        inner.map(lambda case: (list[case[0]], st.lists(case[1], max_size=3))),
        inner.map(lambda case: (dict[str, case[0]], st.dictionaries(_text, case[1], max_size=3))),
        inner.map(lambda case: (case[0] | None, st.none() | case[1])),
        st.tuples(inner, inner).map(lambda two: (tuple[two[0][0], two[1][0]], st.tuples(two[0][1], two[1][1]))),
        st.lists(inner, max_size=3).map(_made),
    )


_cases = st.recursive(st.sampled_from(_leaves), _wider, max_leaves=5)


def _taking(kind: Any) -> Callable[..., Any]:
    def call(value: Any) -> None: ...

    call.__annotations__ = {"value": kind, "return": kind}
    return call


@given(st.data())
def test_values_of_any_type_fit_its_schema_and_come_back_equal(data: st.DataObject) -> None:
    kind, values = data.draw(_cases)
    function = _taking(kind)
    arguments, output = Arguments.of(function), Output.of(function)
    jsonschema_rs.meta.validate(arguments.schema)
    value = data.draw(values)
    raw = output.encode({"value": value})
    jsonschema_rs.validate(arguments.schema, json.loads(raw))
    assert arguments.decode(raw) == {"value": value}
    if output.schema is not None:
        jsonschema_rs.meta.validate(output.schema)
        jsonschema_rs.validate(output.schema, json.loads(output.encode(value)))
        jsonschema_rs.validate(output.wrapped_schema, {"result": json.loads(output.encode(value))})


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "x"]) | _text, inner),
    max_leaves=10,
)


@given(_cases, _json.map(json.dumps).map(str.encode) | st.binary())
def test_no_input_raises_anything_but_a_refusal(case: Case, raw: bytes) -> None:
    arguments = Arguments.of(_taking(case[0]))
    for given_bytes in (raw, b'{"value":' + raw + b"}"):
        with contextlib.suppress(ArgumentsInvalid):
            assert list(arguments.decode(given_bytes)) == ["value"]


def test_pydantic_is_not_loaded_for_functions_without_models() -> None:
    code = (
        "import sys; from hubbub.protocol.schema import Arguments, Output\n"
        "def call(a: int, b: list[str] = []) -> dict[str, int]: ...\n"
        "Arguments.of(call).decode(b'{\"a\":1}'); Output.of(call)\n"
        "print([name for name in ('pydantic', 'jsonschema_rs', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"
