import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import DefinitionError
from hubbub.protocol.tool_names import check_name, safe_name, tool_key

LEGAL = re.compile(r"[A-Za-z0-9_-]+")


@pytest.mark.parametrize("name", ["a", "hello-world", "aw.get_state", "a/b", "A_1", "x" * 128])
def test_a_valid_name_is_accepted(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", "x" * 129, "a b", "a\n", "é", "a:b", "a\0", "a,b", "\N{ARABIC-INDIC DIGIT ONE}"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError):
        check_name(name)


def test_the_error_for_a_very_long_name_cuts_it() -> None:
    with pytest.raises(DefinitionError) as caught:
        check_name("x" * 100_000)
    assert len(caught.value.message) < 500


def test_a_safe_name_replaces_characters_that_providers_refuse() -> None:
    assert safe_name("aw.get_state") == "aw_get_state"
    assert safe_name("a/b:c d") == "a_b_c_d"
    assert safe_name("already-safe_1") == "already-safe_1"
    assert safe_name("天気") == "__"
    assert safe_name(" \n") == safe_name("") == "tool"


def test_a_long_safe_name_ends_in_a_digest() -> None:
    assert safe_name("x" * 64) == "x" * 64
    shortened = safe_name("x" * 65)
    assert len(shortened) == 64
    assert re.fullmatch(r"x{53}_[0-9a-f]{10}", shortened)
    assert safe_name("x" * 66) != shortened


@pytest.mark.parametrize(
    ("server_id", "tool", "key"),
    [
        ("srv.one", "foo.bar", "mcp_srv_one__foo_bar"),
        ("", "", "mcp_server__tool"),
        ("a-b", "c/d", "mcp_a-b__c_d"),
        ("日本", "天気 now", "mcp________now"),
        (" a ", "\tb\n", "mcp_a__b"),
        ("srv", "x" * 119, "mcp_srv__" + "x" * 119),
        ("srv", "x" * 120, "mcp_srv__" + "x" * 108 + "_ade8df238e"),
        ("s" * 80, "t" * 200, "mcp_" + "s" * 80 + "__" + "t" * 31 + "_0e5e7a5e55"),
    ],
)
def test_a_tool_key_has_server_and_tool(server_id: str, tool: str, key: str) -> None:
    assert tool_key(server_id, tool, limit=128) == key
    assert len(key) <= 128


def test_a_tool_key_fits_a_stricter_provider() -> None:
    key = tool_key("server", "t" * 100, limit=64)
    assert len(key) == 64
    assert key.startswith("mcp_server__ttt")


def test_a_limit_without_room_for_the_digest_is_refused() -> None:
    assert len(safe_name("x" * 100, limit=12)) == 12
    with pytest.raises(DefinitionError):
        safe_name("x" * 100, limit=11)


def test_keys_of_different_servers_can_be_the_same() -> None:
    # The separator may be part of a name, so code that builds a list must compare keys.
    assert tool_key("a__b", "c", limit=128) == tool_key("a", "b__c", limit=128)


names = st.text(max_size=200) | st.text(st.sampled_from("ab._/-"), max_size=200)


@given(names, st.integers(12, 200))
def test_a_safe_name_is_legal_within_the_limit_and_stable(name: str, limit: int) -> None:
    safe = safe_name(name, limit)
    assert LEGAL.fullmatch(safe)
    assert len(safe) <= limit
    assert safe_name(name, limit) == safe
    assert safe_name(safe, limit) == safe


@given(names, names, st.integers(12, 200))
def test_a_tool_key_is_legal_within_the_limit_and_stable(server_id: str, tool: str, limit: int) -> None:
    key = tool_key(server_id, tool, limit)
    assert LEGAL.fullmatch(key)
    assert len(key) <= limit
    assert tool_key(server_id, tool, limit) == key
