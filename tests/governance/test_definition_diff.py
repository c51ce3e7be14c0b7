"""Differences between definitions, for people."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hubbub.governance.definition_diff import (
    MAX_DIFFERENCES,
    MAX_VALUE_CHARACTERS,
    diff_definitions,
    render_differences,
)
from hubbub.governance.definitions import definition_digest

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
definitions = st.dictionaries(st.text(max_size=3), values, max_size=4)


def render(old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[str]:
    return render_differences(diff_definitions(old, new))


def test_descriptions_are_compared_word_by_word() -> None:
    old = {"description": "Reads one file from the disk and returns its text."}
    new = {"description": "Reads every file from the disk and returns its text, also hidden ones."}
    assert render(old, new) == [
        "description:",
        '    "Reads"',
        '  - " one"',
        '  + " every"',
        '    " file from the disk and returns its text"',
        '  + ", also hidden ones"',
        '    "."',
    ]


def test_schemas_are_compared_key_by_key() -> None:
    old = {"inputSchema": {"properties": {"path": {"type": "string"}, "n": {"maximum": 1}}, "required": ["path"]}}
    new = {
        "inputSchema": {
            "properties": {"path": {"type": "array"}, "n": {"maximum": True}, "a key": {}},
            "required": ["n", "path"],
        }
    }
    assert render(old, new) == [
        'inputSchema.properties.path.type: "string" -> "array"',
        "inputSchema.properties.n.maximum: 1 -> true",
        'inputSchema.properties."a key": added {}',
        'inputSchema.required[]: added "n"',
    ]


def test_definitions_that_are_new_or_gone_are_shown_as_a_whole() -> None:
    assert render(None, {"name": "a"}) == ['name: added "a"']
    assert render({"name": "a"}, None) == ['name: removed "a"']


def test_hidden_characters_cannot_hide_a_difference() -> None:
    lines = render({"name": "a", "title": "x"}, {"name": "a\u200b", "title": "\x1b\u202ex"})
    assert lines == ['name: "a" -> "a<U+200B>"', 'title: "x" -> "\\u001b<U+202E>x"']


def test_the_output_is_bounded_and_says_what_is_missing() -> None:
    lines = render({}, {f"k{number}": number for number in range(MAX_DIFFERENCES + 7)})
    assert len(lines) == MAX_DIFFERENCES + 1
    assert lines[-1] == "7 more differences are not shown"
    (line,) = render({"d": "a"}, {"d": "b" * 3 * MAX_VALUE_CHARACTERS})
    assert len(line) < 2 * MAX_VALUE_CHARACTERS
    assert line.endswith("more characters)")


def test_long_texts_are_shown_as_a_whole() -> None:
    old, new = "word " * 3000, "other " * 3000
    (difference,) = diff_definitions({"d": old}, {"d": new})
    assert difference.words == ()


@given(definitions, definitions)
def test_there_is_a_difference_exactly_if_the_digests_differ(old: dict[str, Any], new: dict[str, Any]) -> None:
    differences = diff_definitions(old, new)
    assert bool(differences) == (definition_digest(old) != definition_digest(new))
    assert all(line.isprintable() for line in render_differences(differences))


@given(st.text(max_size=60), st.text(max_size=60))
def test_words_add_up_to_both_texts(old: str, new: str) -> None:
    for difference in diff_definitions({"d": old}, {"d": new}):
        if difference.words:
            assert "".join(word.text for word in difference.words if word.change != "added") == old
            assert "".join(word.text for word in difference.words if word.change != "removed") == new
