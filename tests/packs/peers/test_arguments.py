"""Lenient parsing of arguments, and the contract's error messages for invalid ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import ArgumentsInvalid, Server, ToolError
from hubbub.packs.peers.arguments import Arguments, Target, parse_int
from hubbub.packs.peers.contract_tool import READ_ONLY, ContractTool, Result

KNOWN = ("a", "target", "uuid", "session_id")


def read(**given: Any) -> Arguments:
    return Arguments("vdo_x", given, KNOWN)


def test_unknown_fields_are_named() -> None:
    with pytest.raises(ArgumentsInvalid, match=r"^vdo_x received unsupported fields: b, c$"):
        Arguments("vdo_x", {"b": 1, "a": 2, "c": 3}, KNOWN)


@pytest.mark.parametrize(
    ("value", "number"),
    [(7, 7), ("7", 7), (" 12abc", 12), (1.9, 1), ("1e3", 1), (-5, 15), (0, 15), (None, 15), ("x", 15), (True, 15),
     ([3], 15), ({}, 15), (10**30, 1), (10**20, 100), ("99999999999999999999999", 100), (101, 100), (100, 100)],
)  # fmt: skip
def test_counts_are_parsed_leniently_or_fall_back_to_the_default(value: Any, number: int) -> None:
    assert read(a=value).count("a", 15, 100) == number


def test_a_missing_count_is_the_default_and_zero_needs_minimum_0() -> None:
    assert read().count("a", 6, 100) == 6
    assert read(a=0).count("a", 6, 100, minimum=0) == 0
    assert read(a="-1").count("a", 6, 100, minimum=0) == 6


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=4))
def test_any_value_gives_a_count_within_bounds(value: Any) -> None:
    assert 1 <= read(a=value).count("a", 15, 100) <= 100
    assert parse_int(value) is None or isinstance(parse_int(value), int)


@pytest.mark.parametrize(
    ("value", "is_so"),
    [(True, True), (False, False), ("YES", True), ("y", True), (" on ", True), (1, True), ("1", True), ("off", False),
     ("N", False), (0, False), ("maybe", None), (2, None), (None, None), ([], None)],
)  # fmt: skip
def test_flags_accept_words_numbers_and_booleans(value: Any, is_so: bool | None) -> None:
    for default in (True, False):
        assert read(a=value).flag("a", default) is (default if is_so is None else is_so)


@pytest.mark.parametrize(
    ("value", "name"),
    [("my-room", "my_room"), ("  weird!!!id ", "weird_id"), ("__a__", "a"), ("é", None), ("", None), (12, "12"),
     (None, None), ({}, None)],
)  # fmt: skip
def test_identifiers_are_sanitised(value: Any, name: str | None) -> None:
    assert read(a=value).identifier("a") == name


def test_identifier_lists_are_arrays_or_comma_separated_text() -> None:
    assert read(a=["x-y", "", 3, None]).identifiers("a", ()) == ("x_y", "3", "null")
    assert read(a="x, y").identifiers("a", ()) == ("x", "y")
    assert read(a=[]).identifiers("a", ("z",)) == ()
    assert read().identifiers("a", ("z",)) == read(a=None).identifiers("a", ("z",)) == ("z",)
    for value in (5, {"x": 1}, True):
        with pytest.raises(ArgumentsInvalid, match=r"^invalid a: it must be a list"):
            read(a=value).identifiers("a", ("z",))


def test_text_arguments_must_be_strings() -> None:
    assert read(a=" x ").text("a") == " x "
    assert read(a=None).text("a") is None
    with pytest.raises(ToolError, match=r"^a must be a string$"):
        read(a=1).text("a")
    for value in (None, "", "  "):
        with pytest.raises(ArgumentsInvalid, match=r"^a is required$"):
            read(a=value).required_text("a")


def test_a_required_value_of_any_type_may_be_null() -> None:
    assert read(a=None).require("a") is None
    with pytest.raises(ArgumentsInvalid, match=r"^a is required$"):
        read().require("a")


def test_a_choice_outside_the_options_is_refused() -> None:
    assert read().choice("a", ("x", "y"), "y") == "y"
    assert read(a="x").choice("a", ("x", "y"), "y") == "x"
    with pytest.raises(ToolError, match=r"^a must be x or y$"):
        read(a="z").choice("a", ("x", "y"), "y")
    with pytest.raises(ToolError, match=r"^a must be x, y or z$"):
        read(a=[]).choice("a", ("x", "y", "z"), "y")


def test_a_target_is_a_name_a_uuid_or_an_object() -> None:
    assert read().target() == Target()
    assert read(target="ann").target() == Target("ann", "ann")
    assert read(uuid="u-1").target() == Target("u-1", "u-1")
    assert read(target={"uuid": "u-1", "type": "viewer"}).target() == Target({"uuid": "u-1", "type": "viewer"}, "u-1")
    assert read(target={"streamID": "ann"}).target() == Target({"streamID": "ann"}, "ann")
    assert read(target={"UUID": "u-1"}).target() == Target({"UUID": "u-1"}, "u-1")
    assert read(target={"uuid": None, "stream_id": " ann "}).target().name == "ann"
    assert read(target={"uuid": "u-1", "streamID": "ann"}).target().name == "u-1"
    assert read(target="", uuid=" ").target() == Target()
    with pytest.raises(ToolError, match=r"^provide target or uuid, not both$"):
        read(target="ann", uuid="u-1").target()


@pytest.mark.parametrize(
    "target",
    [{}, {"preference": "all"}, {"type": "viewer", "allowFallback": True}, {"name": "ann"}, {"uuid": None},
     {"uuid": ""}, {"uuid": 7, "streamID": "ann"}, {"UUID": ["u-1"]}, {"streamID": " "}, {"uuid": {"uuid": "u-1"}},
     [], ["ann"], 0, 7, 1.5, True, False],
)  # fmt: skip
def test_a_target_that_names_no_peer_is_refused(target: object) -> None:
    with pytest.raises(ArgumentsInvalid, match=r"^invalid target: "):
        read(target=target).target()


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.text()),
                 st.dictionaries(st.sampled_from(["uuid", "UUID", "streamID", "stream_id", "type", "x"]),
                                 st.one_of(st.none(), st.text(), st.integers(), st.lists(st.text())))))  # fmt: skip
def test_only_a_missing_or_empty_target_means_all_peers(target: object) -> None:
    try:
        found = read(target=target).target()
    except ArgumentsInvalid:
        return
    is_empty = target is None or (isinstance(target, str) and not target.strip())
    assert (found.name is None) == is_empty


def test_a_contract_tool_has_an_input_schema_and_no_output_schema() -> None:
    server = Server("x")

    @ContractTool("vdo_x", {"a": {"type": "integer"}}, ("a",), READ_ONLY).register(server)
    async def run(arguments: Arguments) -> Result:
        """Do it."""
        return {}

    tool = server.tools.get("vdo_x")
    assert tool is not None
    assert (tool.description, tool.has_output_schema, tool.errors.as_result) == ("Do it.", False, True)
    assert tool.input_schema == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": False,
        "required": ["a"],
    }
