"""Results that do not have the declared type: an error for the caller, the reason in the log."""

import math
import pathlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest
from tests.server.raw_client import ERAS, MODERN, connect_raw_client

from hubbub import DefinitionError, Server, Tool, ToolResult

SECRET = "hunter2"
made: list[str] = []


class Mood(Enum):
    GOOD = "good"


@dataclass
class Order:
    item: str
    total: float
    parts: list["Order"] = field(default_factory=list)

    def __post_init__(self) -> None:
        made.append(self.item)


class Point(NamedTuple):
    x: int
    y: int = 0


class Place(TypedDict, total=False):
    city: str


class Dog(msgspec.Struct, tag=True, rename="camel", omit_defaults=True):
    tail_cm: int = 30


class Cat(msgspec.Struct, tag=True):
    lives: int


class Row(msgspec.Struct, array_like=True):
    name: str
    size: float | None = None


class Model(pydantic.BaseModel):
    size: float = pydantic.Field(serialization_alias="Size")


def returning(declared: Any, value: Any, **options: Any) -> Server:
    server = Server("s")

    def give() -> Any:
        return value

    give.__annotations__["return"] = declared
    server.tool(**options)(give)
    return server


RIGHT: list[tuple[Any, Any]] = [
    (int, 3),
    (int, 3.0),
    (bool, True),
    (float, 3),
    (float, 2.5),
    (float | None, None),
    (list[int], [1, 2]),
    (list[int], (1, 2)),
    (set[str], {"a"}),
    (dict[str, float], {"a": 1}),
    (dict[int, str], {1: "a"}),
    (Mapping[str, int], {"a": 1}),
    (Order, Order("a", 1.5, [Order("b", 2)])),
    (Order, {"item": "a", "total": 1}),
    (Order | None, None),
    (list[Order], [Order("a", 1.5)]),
    (Place, {}),
    (Point, Point(1)),
    (Row, Row("a")),
    (list[Dog | Cat], [Dog(), Cat(9)]),
    (Mood, Mood.GOOD),
    (Literal["a", "b"], "b"),
    (tuple[int, str], (1, "a")),
    (date, date(2026, 1, 2)),
    (datetime, datetime(2026, 1, 2)),
    (Annotated[datetime, msgspec.Meta(tz=True)], datetime(2026, 1, 2, tzinfo=UTC)),
    (Decimal, Decimal("1.5")),
    (pathlib.PurePath, pathlib.PurePath("a")),
    (Model, Model(size=1.5)),
    (list[Model], [Model(size=1.5)]),
    (dict[str, Any], {"a": [None, {"b": 1}]}),
    (dict, {}),
    (Annotated[int, msgspec.Meta(ge=1)], 1),
]


@pytest.mark.parametrize(("declared", "value"), RIGHT)
async def test_results_of_the_declared_type_are_sent(declared: Any, value: Any) -> None:
    async with connect_raw_client(returning(declared, value), MODERN) as client:
        result = await client.call("give")
    assert "isError" not in result, result
    assert "structuredContent" in result


WRONG: list[tuple[Any, Any, str]] = [
    (int, SECRET, "does not match `int`: Expected `int`, got `str`"),
    (int, True, "Expected `int`, got `bool`"),
    (int, 2.5, "Expected `int`, got `float`"),
    (int, None, "Expected `int`, got `null`"),
    (bool, 1, "Expected `bool`, got `int`"),
    (float, SECRET, "Expected `float`, got `str`"),
    (float, math.nan, "NaN or an infinite number"),
    (float, -math.inf, "NaN or an infinite number"),
    (float | None, math.nan, "NaN or an infinite number"),
    (dict[str, Any], {"a": [math.inf]}, "NaN or an infinite number"),
    (list[float], [1.0, math.nan], "NaN or an infinite number"),
    (Model, Model(size=math.nan), "NaN or an infinite number"),
    (list[int], [1, SECRET], "Expected `int`, got `str` - at `$[1]`"),
    (dict[str, int], {SECRET: "x"}, "Expected `int`, got `str` - at `$[...]`"),
    (Order, {"item": "a"}, "missing required field `total`"),
    (Order, Order("a", SECRET), "Expected `float`, got `str` - at `$.total`"),  # type: ignore[arg-type]
    (Order, Order("a", 1, [Order("b", math.nan)]), "NaN or an infinite number"),
    (Order, Order("a", 1, [Order("b", SECRET)]), "- at `$.parts[0].total`"),  # type: ignore[arg-type]
    (Order, None, "does not match `Order`: Expected `object`, got `null`"),
    (list[Dog | Cat], [Cat(SECRET)], "Expected `int`, got `str` - at `$[0].lives`"),  # type: ignore[arg-type]
    (Mood, SECRET, "Invalid enum value"),
    (Literal["a"], SECRET, "Invalid enum value"),
    (tuple[int, str], (1,), "Expected `array` of length 2"),
    (Annotated[int, msgspec.Meta(ge=1)], 0, "Expected `int` >= 1"),
    (Annotated[datetime, msgspec.Meta(tz=True)], datetime(2026, 1, 2), "timezone"),
    (date, SECRET, "Invalid RFC3339 encoded date"),
    (float, Decimal("1.5"), "Expected `float`, got `str`"),
]


@pytest.mark.parametrize(("declared", "value", "reason"), WRONG)
async def test_results_of_another_type_are_tool_errors_and_the_reason_is_logged(
    declared: Any, value: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_raw_client(returning(declared, value), MODERN) as client:
        result = await client.call("give")
    assert result["isError"] is True
    text = result["content"][0]["text"]
    assert "does not match its output schema" in text
    assert "tool_error" in text
    assert "structuredContent" not in result
    assert "give returned a result that does not match" in caplog.text
    assert reason in caplog.text
    assert SECRET not in text + caplog.text


@pytest.mark.parametrize("era", ERAS)
async def test_the_check_holds_in_every_era(era: str) -> None:
    async with connect_raw_client(returning(int, "text"), ERAS[era]) as client:
        if era == "plain":
            assert (await client.error("give"))["code"] == -32002
        else:
            assert (await client.call("give"))["isError"] is True


async def test_results_without_a_declared_type_are_sent_unchecked() -> None:
    for declared, value in ((Any, {"a": math.nan}), (str, 3), (None, "text")):
        async with connect_raw_client(returning(declared, value), MODERN) as client:
            assert "isError" not in await client.call("give")


async def test_the_check_runs_no_constructor_of_the_declared_type() -> None:
    order = Order("once", 1.0)
    made.clear()
    async with connect_raw_client(returning(Order, order), MODERN) as client:
        await client.call("give")
    assert made == []


SCHEMA = {"type": "object", "properties": {"size": {"type": "number"}}, "required": ["size"]}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"size": SECRET}, "its output schema: size violates the rule properties/size/type"),
        ({}, "the root violates the rule required"),
        ({"size": 1, "more": math.nan}, "NaN or an infinite number"),
        (ToolResult(structured_content={"size": SECRET}), "size violates the rule properties/size/type"),
    ],
)
async def test_a_result_is_checked_against_a_schema_given_as_data(
    value: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect_raw_client(returning(Any, value, output_schema=SCHEMA), MODERN) as client:
        result = await client.call("give")
    assert result["isError"] is True
    assert reason in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("value", [{"size": 1}, ToolResult(structured_content={"size": 1})])
async def test_a_result_that_fits_a_schema_given_as_data_is_sent(value: Any) -> None:
    async with connect_raw_client(returning(Any, value, output_schema=SCHEMA), MODERN) as client:
        assert (await client.call("give"))["structuredContent"] == {"size": 1}


async def test_a_failed_result_is_not_checked_against_the_output_schema() -> None:
    reply = ToolResult(structured_content={"why": 1}, is_error=True)
    async with connect_raw_client(returning(Any, reply, output_schema=SCHEMA), MODERN) as client:
        assert (await client.call("give"))["structuredContent"] == {"why": 1}


def test_an_invalid_output_schema_is_refused_at_registration() -> None:
    function: Callable[[], int] = lambda: 1  # noqa: E731
    with pytest.raises(DefinitionError, match="not valid"):
        Tool(function, name="give", output_schema={"type": 3})
