"""The registry that a model sees: duplicates, filters, limits."""

import pytest
from tests.agent.fakes import definitions

from hubbub import Definition, DefinitionError, Registry, ToolAnnotations, ToolOrigin, ToolsBuilder, View


def names(**options: object) -> list[str]:
    registry = ToolsBuilder.build(
        definitions("now", "search"),
        mcp_definitions=definitions("mcp_files__read", "mcp_files__write"),
        **options,  # type: ignore[arg-type]
    )
    return [item.name for item in registry.exposed]


def test_local_and_mcp_tools_are_sorted_together() -> None:
    assert names() == ["mcp_files__read", "mcp_files__write", "now", "search"]


def test_the_shape_of_the_chat_api_is_accepted() -> None:
    registry = ToolsBuilder.build([{"type": "function", "function": {"name": "now", "description": "The time."}}])
    assert registry.openai_tools() == [
        {
            "type": "function",
            "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}},
        }
    ]


@pytest.mark.parametrize("shape", [{}, {"function": "now"}, {"function": {"name": 3}}, "now"])
def test_a_shape_without_a_name_is_refused(shape: object) -> None:
    with pytest.raises(DefinitionError, match="A tool must be"):
        ToolsBuilder.build([shape])  # type: ignore[list-item]


def test_duplicate_names_are_refused_and_the_first_ten_are_named() -> None:
    twice = definitions(*(f"t{number:02}" for number in range(12)))
    with pytest.raises(DefinitionError, match=r"t00, t01.* t09 and 2 more") as caught:
        ToolsBuilder.build(twice, mcp_definitions=twice)
    assert "t10" not in caught.value.message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"allow": ["mcp_files__*"]}, ["mcp_files__read", "mcp_files__write"]),
        ({"allow": "now, mcp_*__read"}, ["mcp_files__read", "now"]),
        ({"deny": ["mcp_*"]}, ["now", "search"]),
        ({"allow": ["mcp_*"], "deny": ["*write"]}, ["mcp_files__read"]),
        ({"allow": []}, []),
        ({"allow": ""}, []),
        ({"deny": []}, ["mcp_files__read", "mcp_files__write", "now", "search"]),
        ({"allow": ["MCP_*"]}, []),
        ({"view": View(include=("n*",))}, ["now"]),
        ({"allow": ["s*"], "view": View(include=("n*",))}, []),
    ],
)
def test_patterns_select_the_listed_tools(options: dict[str, object], expected: list[str]) -> None:
    assert names(**options) == expected


def test_a_view_of_read_only_tools_hides_the_others() -> None:
    reader = Definition("read", annotations=ToolAnnotations(read_only_hint=True))
    registry = ToolsBuilder.build([reader, Definition("write")], view=View(read_only=True))
    assert [item.name for item in registry] == ["read"]


def test_more_tools_than_the_limit_are_refused() -> None:
    many = definitions(*(f"t{number}" for number in range(129)))
    with pytest.raises(DefinitionError, match="There are 129 tools, but at most 128"):
        ToolsBuilder.build(many)
    assert len(ToolsBuilder.build(many[:128])) == 128


def test_definitions_over_the_byte_limit_are_refused_with_the_five_largest() -> None:
    big = [Definition(f"big{number}", "x" * (1000 + number)) for number in range(6)]
    with pytest.raises(DefinitionError, match=r"biggest: big5 \(\d+ bytes\), big4 .*big1 \(\d+ bytes\)$") as caught:
        ToolsBuilder.build(big, max_bytes=5000)
    assert "big0" not in caught.value.message


def test_the_limit_counts_encoded_bytes() -> None:
    import msgspec

    tools = definitions("a", "b", "c")
    size = len(msgspec.json.encode([item.openai() for item in tools]))
    assert len(ToolsBuilder.build(tools, max_bytes=size)) == 3
    with pytest.raises(DefinitionError):
        ToolsBuilder.build(tools, max_bytes=size - 1)


def test_filters_come_before_limits() -> None:
    assert len(ToolsBuilder.build(definitions("a", "b", "c"), deny=["c"], max_tools=2)) == 2


def test_hidden_tools_do_not_count_and_cannot_be_called() -> None:
    hidden = [Definition(f"h{number}", exposed_to_model=False) for number in range(200)]
    registry = ToolsBuilder.build([*hidden, Definition("shown")])
    assert [item.name for item in registry.exposed] == ["shown"]
    assert "h1" not in registry
    assert registry.get("h1") is None
    assert len(registry.definitions) == 201


def test_a_name_written_with_dots_finds_its_tool() -> None:
    registry = ToolsBuilder.build(definitions("mcp_a__b_c"))
    found = registry.get("mcp_a__b.c")
    assert found is not None
    assert found.name == "mcp_a__b_c"
    assert registry.get("mcp_a__b") is None


def test_a_definition_keeps_its_origin() -> None:
    remote = Definition("mcp_a__b", origin=ToolOrigin("a", "b"))
    assert ToolsBuilder.build(mcp_definitions=[remote]).exposed[0].origin == ToolOrigin("a", "b")


def test_a_catalog_as_a_collection_contains_the_listed_tools() -> None:
    shown, hidden = Definition("a_b"), Definition("secret", exposed_to_model=False)
    registry = Registry([hidden, shown])
    assert list(registry) == [shown]
    assert len(registry) == 1
    assert registry.definitions == (shown, hidden)
    for name, is_there in {"a_b": True, "a.b": True, "secret": False, "b": False}.items():
        assert (name in registry) is is_there
        assert (registry.get(name) is not None) is is_there
    assert shown in registry
    assert hidden not in registry
    assert Definition("a_b", "another") not in registry
    assert None not in registry
