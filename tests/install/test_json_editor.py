"""Edits of random JSON with comments, in random layouts: nothing but the member changes."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub import SettingsError
from hubbub.install.documents import find_entry, parse, remove_entry, set_entry

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)
)
VALUES = st.recursive(
    SCALARS,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
    max_leaves=9,
)
TRIVIA = st.sampled_from(
    ["", "", " ", "\n", "\n\t", "\r\n  ", " // it's } \" {\n", "/* , } */", "\n/* two\nlines */\n  "]
)
ENTRY = {"command": "/p", "args": ["é", 'quo"te']}
PATH = ("mcpServers", "hubbub")


@st.composite
def layouts(draw: st.DrawFn, values: st.SearchStrategy[Any] = VALUES) -> str:
    """Render a random object with random whitespace, comments and trailing commas."""

    def render(value: Any) -> str:
        if isinstance(value, dict):
            items = [f"{json.dumps(key)}{draw(TRIVIA)}:{draw(TRIVIA)}{render(item)}" for key, item in value.items()]
            return f"{{{join(items)}}}"
        if isinstance(value, list):
            return f"[{join([render(item) for item in value])}]"
        return json.dumps(value)

    def join(items: list[str]) -> str:
        text = draw(TRIVIA) + ",".join(f"{draw(TRIVIA)}{item}{draw(TRIVIA)}" for item in items)
        return text + draw(st.sampled_from(["", ","])) + draw(TRIVIA) if items else text

    tree = draw(st.dictionaries(st.text(max_size=5), values, max_size=3))
    if draw(st.booleans()):
        tree["mcpServers"] = draw(st.dictionaries(st.text(max_size=5), values, max_size=3))
    return f"{draw(TRIVIA)}{render(tree)}{draw(TRIVIA)}"


@given(layouts())
def test_an_entry_is_set_and_removed(text: str) -> None:
    values = parse(text, "json")
    servers = values.get("mcpServers")
    after = set_entry(text, "json", PATH, ENTRY)
    assert find_entry(parse(after, "json"), PATH) == ENTRY
    assert set_entry(after, "json", PATH, ENTRY) == after
    removed = remove_entry(after, "json", PATH)
    if servers:
        assert removed == text
    assert parse(removed, "json") == values | {"mcpServers": servers or {}}
    assert parse(remove_entry(after, "json", PATH, 1), "json") == (values if servers else _without_servers(values))


def _without_servers(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "mcpServers"}


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.sampled_from([None, 1, "\t"]))
def test_what_is_read_is_what_python_reads(tree: dict[str, Any], indent: int | str | None) -> None:
    assert parse(json.dumps(tree, indent=indent), "json") == tree


@given(st.text(alphabet='{}[]",:/*\\\n 1ae-', max_size=30))
def test_broken_text_is_refused_or_is_an_object(text: str) -> None:
    try:
        strict = json.loads(text)
    except ValueError:
        strict = None
    if isinstance(strict, dict):
        assert parse(text, "json") == strict
    else:
        with suppress(SettingsError):
            assert isinstance(parse(text, "json"), dict)


@pytest.mark.parametrize(
    "text", ['{"a": 01}', '{"a": "\t"}', '{"a": "\\x"}', "{'a': 1}", '{"a": 1} {}', "{/* }", "{a: 1}", '{"a": NaN}']
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"^line 1, column \d+: "):
        parse(text, "json")
