"""Local names and definitions of remote tools, with the test vectors of the naming rule."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import DefinitionError, SettingsError, ToolAnnotations, ToolEntry, ToolOrigin, bounds
from hubbub.agent.tool_adapter import adapt_tool, adapt_tools

LIMIT = bounds.TOOL_KEY_CHARACTERS

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def entry(name: str, **more: object) -> ToolEntry:
    return ToolEntry(name, **{"input_schema": SCHEMA, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("server", "tool", "local"),
    [
        ("srv.one", "foo.bar", "mcp_srv_one__foo_bar"),
        ("a-b", "c/d", "mcp_a-b__c_d"),
        ("日本", "天気 now", "mcp________now"),
        ("srv", "x" * 119, f"mcp_srv__{'x' * 119}"),
    ],
)
def test_a_local_name_consists_of_server_and_tool(server: str, tool: str, local: str) -> None:
    assert adapt_tool(server, entry(tool), LIMIT).name == local


def test_a_name_that_is_too_long_ends_with_a_digest() -> None:
    first = adapt_tool("srv", entry("x" * 120), LIMIT).name
    second = adapt_tool("s" * 80, entry("t" * 200), LIMIT).name
    assert (len(first), first[-11:]) == (128, "_ade8df238e")
    assert (len(second), second[-11:]) == (128, "_0e5e7a5e55")


def test_a_lower_limit_shortens_more() -> None:
    names = {adapt_tool("srv", entry("x" * count), 64).name for count in (60, 61)}
    assert len(names) == 2
    assert all(len(name) == 64 for name in names)


@pytest.mark.parametrize("limit", [63, 129, True, 64.0])
def test_an_impossible_name_limit_is_refused(limit: int) -> None:
    with pytest.raises(SettingsError, match="64 to 128"):
        adapt_tools({}, limit)


@given(server=st.text(min_size=1), tool=st.text(min_size=1).filter(str.strip), limit=st.integers(64, 128))
def test_every_local_name_is_valid_for_providers(server: str, tool: str, limit: int) -> None:
    name = adapt_tool(server, entry(tool), limit).name
    assert re.fullmatch(r"[A-Za-z0-9_-]+", name)
    assert len(name) <= limit
    assert name == adapt_tool(server, entry(tool), limit).name


def test_the_mapping_gives_the_server_and_its_own_tool_name() -> None:
    adapted = adapt_tools({"srv.one": [entry("foo.bar")]}, LIMIT)
    assert adapted.mapping == {"mcp_srv_one__foo_bar": ToolOrigin("srv.one", "foo.bar")}


def test_definitions_are_sorted_by_local_name() -> None:
    adapted = adapt_tools({"z": [entry("b"), entry("a")], "a": [entry("c")]}, LIMIT)
    assert [item.name for item in adapted.definitions] == ["mcp_a__c", "mcp_z__a", "mcp_z__b"]


@pytest.mark.parametrize(
    ("tools", "local"),
    [
        ({"a.b": ["c"], "a_b": ["c"]}, "mcp_a_b__c"),
        ({"a__b": ["c"], "a": ["b__c"]}, "mcp_a__b__c"),
    ],
)
def test_a_name_collision_of_two_servers_is_reported_with_the_name(tools: dict[str, list[str]], local: str) -> None:
    with pytest.raises(DefinitionError, match=f"would have the local name '{local}"):
        adapt_tools({server: [entry(name) for name in names] for server, names in tools.items()}, LIMIT)


@pytest.mark.parametrize(
    ("names", "local"),
    [
        (["a.b", "a_b"], "mcp_a__a_b"),
        (["日本", "天気"], "mcp_a____"),
        (["é" * 200, "è" * 200], "mcp_a_"),
    ],
)
def test_the_first_of_two_tools_of_a_server_with_the_same_name_is_kept(names: list[str], local: str) -> None:
    adapted = adapt_tools({"a": [*map(entry, names), entry("z")], "b": [entry("t")]}, LIMIT)
    assert [item.origin.remote_tool_name for item in adapted.definitions if item.origin] == [names[0], "z", "t"]
    assert list(adapted.skipped) == ["a"]
    (reason,) = adapted.skipped["a"]
    assert names[1][:80] in reason
    assert f"its local name '{local}" in reason


def test_a_tool_listed_twice_is_taken_once() -> None:
    adapted = adapt_tools({"a": [entry("t", description="first"), entry("t", description="second")]}, LIMIT)
    assert [item.description for item in adapted.definitions] == ["first (MCP: a)"]


def test_an_unusable_tool_does_not_affect_others() -> None:
    deep: dict[str, object] = {"type": "object"}
    for _ in range(100):
        deep = {"type": "object", "properties": {"x": deep}}
    adapted = adapt_tools({"a": [entry(""), entry("x" * 2000), entry("deep", input_schema=deep), entry("good")]}, LIMIT)
    assert [item.name for item in adapted.definitions] == ["mcp_a__good"]
    assert len(adapted.skipped["a"]) == 3


def test_the_description_names_the_server() -> None:
    assert adapt_tool("files", entry("t", description=" Reads. "), LIMIT).description == "Reads. (MCP: files)"
    assert adapt_tool("files", entry("t"), LIMIT).description == "(MCP: files)"


def test_a_very_long_description_is_cut_and_names_the_server() -> None:
    description = adapt_tool("files", entry("t", description="x" * 100_000), LIMIT).description
    assert len(description) < 4200
    assert description.endswith("… (MCP: files)")


def test_invisible_characters_are_removed_from_descriptions() -> None:
    hidden = "Adds\u202e two\u200b numbers\U000e0041.\x1b[31m\nReally."
    assert (
        adapt_tool("m", entry("t", description=hidden), LIMIT).description == "Adds two numbers.[31m\nReally. (MCP: m)"
    )


def test_descriptions_in_schemas_are_cleaned_and_values_are_not() -> None:
    schema = {
        "type": "object",
        "properties": {
            "description": {"type": "string", "description": "a\u200bb", "enum": ["x\u200by"], "default": "x\u200by"}
        },
    }
    (field,) = adapt_tool("m", entry("t", input_schema=schema), LIMIT).parameters["properties"].values()
    assert field == {"type": "string", "description": "ab", "enum": ("x\u200by",), "default": "x\u200by"}


@pytest.mark.parametrize("schema", [None, "object", ["object"]])
def test_an_invalid_schema_is_replaced_by_an_object_without_properties(schema: object) -> None:
    assert adapt_tool("m", entry("t", input_schema=schema), LIMIT).parameters == {"type": "object", "properties": {}}


def test_title_annotations_and_output_schema_are_kept_separately() -> None:
    hints = ToolAnnotations(read_only_hint=True, title="From the hints")
    found = adapt_tool("m", entry("t", annotations=hints, output_schema={"type": "object"}), LIMIT)
    assert (found.title, found.annotations, found.output_schema) == ("From the hints", hints, {"type": "object"})
    assert adapt_tool("m", entry("t", title="Own\u200b", annotations=hints), LIMIT).title == "Own"
    assert "title" not in found.openai()["function"]


def test_the_schema_of_the_server_is_not_changed() -> None:
    schema = {"type": "object", "required": [], "description": "a\u200b"}
    adapt_tool("m", entry("t", input_schema=schema), LIMIT)
    assert schema == {"type": "object", "required": [], "description": "a\u200b"}
