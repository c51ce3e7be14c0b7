"""What a tool returns, as each dialect shows it: content, structured content, schemas."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict

import jsonschema_rs
import msgspec
import pydantic
import pytest
from tests.server.raw_client import DIALECTS, LEGACY, MODERN, PLAIN, RawClient, connect_raw_client

from hubbub import (
    Audio,
    Context,
    DefinitionError,
    EmbeddedResource,
    Icon,
    Image,
    ResourceContents,
    ResourceLink,
    Server,
    Text,
    Tool,
    ToolAnnotations,
    ToolResult,
)

STRUCTURED = {PLAIN: "none", "2024-11-05": "none", "2025-03-26": "none", "2025-06-18": "object", "2025-11-25": "object",
              MODERN: "any"}  # fmt: skip


@dataclass
class Point:
    x: int
    y: int = 0


class Model(pydantic.BaseModel):
    x: int


class Record(msgspec.Struct):
    x: int


class Typed(TypedDict):
    x: int


async def an_int() -> int:
    return 3


async def a_bool() -> bool:
    return False


async def a_list() -> list[int]:
    return [1, 2]


async def an_empty_list() -> list[str]:
    return []


async def a_dict() -> dict[str, int]:
    return {"x": 1}


async def an_unannotated_dict():  # type: ignore[no-untyped-def]
    return {"x": 1}


async def a_dataclass() -> Point:
    return Point(1)


async def a_model() -> Model:
    return Model(x=1)


async def a_struct() -> Record:
    return Record(1)


async def a_typed_dict() -> Typed:
    return {"x": 1}


async def points() -> list[Point]:
    return [Point(1), Point(2)]


async def something() -> Point | None:
    return Point(1)


async def nothing_of_something() -> Point | None:
    return None


async def a_point_or_a_number() -> Point | int:
    return Point(1)


async def anything() -> Any:
    return [1, {"a": None}]


async def a_list_of_anything() -> list[Any]:
    return [1, "two"]


# function -> the value that it returns as JSON, and whether every value of its type is an object
DATA = {
    an_int: (3, False),
    a_bool: (False, False),
    a_list: ([1, 2], False),
    an_empty_list: ([], False),
    a_dict: ({"x": 1}, True),
    an_unannotated_dict: ({"x": 1}, True),
    a_dataclass: ({"x": 1, "y": 0}, True),
    a_model: ({"x": 1}, True),
    a_struct: ({"x": 1}, True),
    a_typed_dict: ({"x": 1}, True),
    points: ([{"x": 1, "y": 0}, {"x": 2, "y": 0}], False),
    something: ({"x": 1, "y": 0}, False),
    nothing_of_something: (None, False),
    a_point_or_a_number: ({"x": 1, "y": 0}, False),
    anything: ([1, {"a": None}], False),
    a_list_of_anything: ([1, "two"], False),
}


def server_of(*functions: Callable[..., Any], **options: Any) -> Server:
    server = Server("results")
    for function in functions:
        server.tool(**options)(function)
    return server


async def listed(client: RawClient) -> dict[str, Any]:
    entry: dict[str, Any]
    (entry,) = (await client.result("tools/list"))["tools"]
    return entry


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("function", DATA, ids=lambda function: function.__name__)
async def test_data_is_sent_as_text_and_as_structured_content_if_the_revision_has_it(
    function: Callable[..., Any], dialect: str
) -> None:
    value, is_object = DATA[function]
    async with connect_raw_client(server_of(function), dialect) as client:
        result = await client.call(function.__name__)
        entry = await listed(client)
    indent = 2 if dialect == PLAIN else None
    separators = None if dialect == PLAIN else (",", ":")
    assert result["content"] == [{"type": "text", "text": json.dumps(value, indent=indent, separators=separators)}]
    mode = STRUCTURED[dialect]
    if mode == "none":
        assert "structuredContent" not in result
        assert "outputSchema" not in entry
    else:
        assert result["structuredContent"] == (value if is_object or mode == "any" else {"result": value})
    if "outputSchema" in entry:
        jsonschema_rs.Draft202012Validator(entry["outputSchema"]).validate(result["structuredContent"])
        assert mode == "any" or entry["outputSchema"]["type"] == "object"
    else:
        assert mode == "none" or function in (an_unannotated_dict, anything, a_list_of_anything)


@pytest.mark.parametrize("function", DATA, ids=lambda function: function.__name__)
async def test_a_tool_called_as_a_method_gives_its_bare_value(function: Callable[..., Any]) -> None:
    async with connect_raw_client(server_of(function)) as client:
        assert await client.result(function.__name__) == DATA[function][0]


async def test_a_tool_called_as_a_method_that_returns_nothing_gives_null() -> None:
    async with connect_raw_client(server_of(no_value)) as client:
        assert await client.result("no_value") is None


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_arguments_that_are_null_are_none(dialect: str) -> None:
    async with connect_raw_client(server_of(some_text), dialect) as client:
        result = await client.result("tools/call", {"name": "some_text", "arguments": None})
        assert result["content"] == [{"type": "text", "text": '{"not": "data"}'}]


async def some_text() -> str:
    return '{"not": "data"}'


async def no_value() -> None:
    return None


async def a_picture() -> Image:
    return Image(b"png")


async def mixed() -> list[str | Image | Text]:
    return ["caption", Image(b"png"), Text("end")]


async def loosely_mixed() -> list[Any]:
    return ["caption", Image(b"png"), Text("end")]


async def own_reply() -> ToolResult:
    return ToolResult(content=[Text("words")], structured_content={"x": 1})


PICTURE = {"type": "image", "data": "cG5n", "mimeType": "image/png"}


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_returned_content_is_sent_unchanged(dialect: str) -> None:
    tools = (some_text, no_value, a_picture, mixed, loosely_mixed, own_reply)
    async with connect_raw_client(server_of(*tools), dialect) as client:
        assert (await client.call("some_text"))["content"] == [{"type": "text", "text": '{"not": "data"}'}]
        assert (await client.call("no_value"))["content"] == []
        assert (await client.call("a_picture"))["content"] == [PICTURE]
        for tool in ("mixed", "loosely_mixed"):
            assert (await client.call(tool))["content"] == [
                {"type": "text", "text": "caption"},
                PICTURE,
                {"type": "text", "text": "end"},
            ]
        for tool in ("some_text", "no_value", "a_picture", "mixed", "loosely_mixed"):
            assert "structuredContent" not in await client.call(tool)
        own = await client.call("own_reply")
        assert own["content"] == [{"type": "text", "text": "words"}]
        assert ("structuredContent" in own) == (STRUCTURED[dialect] != "none")
        assert all("outputSchema" not in entry for entry in (await client.result("tools/list"))["tools"])


async def test_plain_results_have_only_content() -> None:
    async with connect_raw_client(server_of(some_text, no_value, a_picture, mixed, own_reply, *DATA)) as client:
        for tool in (await client.result("tools/list"))["tools"]:
            assert list(await client.call(tool["name"])) == ["content"]


async def newer_content() -> list[Any]:
    return [
        Audio(b"wav"),
        ResourceLink("file:///a", "A"),
        EmbeddedResource(ResourceContents("file:///b", text="b")),
    ]


@pytest.mark.parametrize(
    ("dialect", "kinds"),
    [
        ("2024-11-05", ["resource", "text", "resource"]),
        ("2025-03-26", ["audio", "text", "resource"]),
        ("2025-06-18", ["audio", "resource_link", "resource"]),
        ("2025-11-25", ["audio", "resource_link", "resource"]),
        (MODERN, ["audio", "resource_link", "resource"]),
    ],
)
async def test_content_types_of_later_revisions_are_converted(dialect: str, kinds: list[str]) -> None:
    async with connect_raw_client(server_of(newer_content), dialect) as client:
        content = (await client.call("newer_content"))["content"]
    assert [item["type"] for item in content] == kinds
    if kinds[1] == "text":
        assert content[1]["text"] == "A: file:///a"
    if kinds[0] == "resource":
        assert content[0]["resource"]["blob"] == "d2F2"


KEPT = ToolResult(structured_content={"x": 1})


async def kept() -> ToolResult:
    return KEPT


@pytest.mark.parametrize("first", DIALECTS)
@pytest.mark.parametrize("second", DIALECTS)
async def test_shaping_does_not_change_a_result_that_a_tool_reuses(first: str, second: str) -> None:
    server = server_of(kept)
    async with connect_raw_client(server, second) as client:
        expected = await client.call("kept")
    async with connect_raw_client(server, first) as client:
        await client.call("kept")
    async with connect_raw_client(server, second) as client:
        assert await client.call("kept") == expected
    assert ToolResult(structured_content={"x": 1}) == KEPT


@pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "integer"}}, {"type": "integer"}, {}])
@pytest.mark.parametrize("dialect", ["2025-06-18", "2025-11-25", MODERN])
async def test_an_output_schema_given_as_data_fits_its_results(schema: dict[str, Any], dialect: str) -> None:
    async def given():  # type: ignore[no-untyped-def]
        return 5 if schema.get("type") == "integer" else [5]

    async with connect_raw_client(server_of(given, output_schema=schema), dialect) as client:
        entry, result = await listed(client), await client.call("given")
    jsonschema_rs.Draft202012Validator(entry["outputSchema"]).validate(result["structuredContent"])
    if dialect in LEGACY:
        assert entry["outputSchema"]["type"] == "object"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_entry_has_the_fields_of_its_revision(dialect: str) -> None:
    server = server_of(
        a_dict,
        title="Title",
        annotations=ToolAnnotations(read_only_hint=True),
        icons=[Icon("https://example.com/icon.png")],
        meta={"k": 1},
    )
    async with connect_raw_client(server, dialect) as client:
        fields = set(await listed(client)) - {"name", "inputSchema"}
    assert (
        fields
        == {
            PLAIN: set(),
            "2024-11-05": set(),
            "2025-03-26": {"annotations"},
            "2025-06-18": {"annotations", "title", "_meta", "outputSchema"},
            "2025-11-25": {"annotations", "title", "_meta", "outputSchema", "icons"},
            MODERN: {"annotations", "title", "_meta", "outputSchema", "icons"},
        }[dialect]
    )


async def test_a_tool_may_check_its_arguments_itself() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}

    async def take(given: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"given": given, "has_context": context.caller is not None}

    server = Server("s")
    server.tools.register(Tool(take, input_schema=schema, checks_arguments=False))
    async with connect_raw_client(server) as client:
        assert (await listed(client))["inputSchema"] == schema
        assert await client.result("take", {"n": "x", "m": 1}) == {"given": {"n": "x", "m": 1}, "has_context": True}
        assert (await client.error("tools/call", {"name": "take", "arguments": [1]}))["code"] == -32003


@pytest.mark.parametrize("schema", [None, {"type": "object"}])
def test_unchecked_arguments_need_a_schema_and_one_parameter(schema: dict[str, Any] | None) -> None:
    async def take(one: Any, other: Any) -> None: ...

    with pytest.raises(DefinitionError, match="take: "):
        Tool(take, input_schema=schema, checks_arguments=False)


async def test_a_schema_given_as_data_is_listed_and_checked() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}

    async def check(**arguments: Any) -> dict[str, Any]:
        return arguments

    server = Server("s")
    server.tools.register(Tool(check, input_schema=schema))
    async with connect_raw_client(server) as client:
        assert (await listed(client))["inputSchema"] == schema
        assert await client.result("check", {"n": 4}) == {"n": 4}
        assert (await client.error("check", {"n": 2}))["code"] == -32003
