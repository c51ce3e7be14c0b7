"""Edits of random YAML and TOML: nothing but the member changes."""

import string
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hubbub import SettingsError
from hubbub.install.documents import Format, find_entry, parse, remove_entry, set_entry

NAMES = st.text(alphabet=string.ascii_letters, min_size=1, max_size=6)
TEXTS = st.text(alphabet=st.characters(codec="utf-8", categories=("L", "N", "P", "Z")), max_size=40)
LINES = st.sampled_from(["one\ntwo\n", "one\n\ntwo", "# no comment", "", "- x", "{", "a: b", "[t]", '"""', "'", "|"])
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS | LINES
TREES = st.recursive(
    SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=3), max_leaves=8
)
FILES = st.dictionaries(NAMES, TREES, max_size=3)
ENTRY = {"cmd": "/p", "args": ["é", 'quo"te'], "enabled": True}


def check(text: str, form: Format, path: tuple[str, str]) -> None:
    """An entry is added, replaced and removed; beside other entries, by the text alone, the bytes are the same then."""
    values = parse(text, form)
    servers = values.get(path[0])
    after = set_entry(text, form, path, ENTRY)
    assert find_entry(parse(after, form), path) == ENTRY
    assert find_entry(parse(set_entry(after, form, path, {"cmd": "b"}), form), path) == {"cmd": "b"}
    removed = remove_entry(after, form, path)
    if servers and (form != "toml" or text.endswith("\n")):
        assert removed == text
    assert parse(removed, form) in (values, values | {path[0]: {}})


@settings(max_examples=40)
@given(FILES, FILES | st.none(), FILES, st.booleans(), st.sampled_from([2, 4]), st.sampled_from(["\n", "\r\n"]))
def test_an_entry_of_yaml(
    before: dict[str, Any], servers: dict[str, Any] | None, after: dict[str, Any], is_flow: bool, indent: int, end: str
) -> None:
    tree = {**before, "extensions": servers, **after}
    text = yaml.safe_dump(tree, sort_keys=False, default_flow_style=is_flow or None, indent=indent, allow_unicode=True)
    text = text.replace("\n", end)
    if parse(text, "yaml") != tree:
        return  # A line ending inside a text became another one.
    check(text, "yaml", ("extensions", "hubbub"))


def test_a_top_level_mapping_in_braces_is_not_extended() -> None:
    with pytest.raises(SettingsError, match="edit the file by hand"):
        set_entry("{GOOSE_MODE: auto}\n", "yaml", ("extensions", "hubbub"), ENTRY)


PARTS = st.sampled_from(
    [
        "# a comment\n",
        "\n",
        "[a]\n",
        '[mcp_servers.x]\ncommand = "y"\n',
        '[ mcp_servers . "z.z" ]\nargs = [\n  "a", # b\n]\n',
        "[[list]]\nk = '''\n[mcp_servers.hubbub]\n'''\n",
        '[b."[c]"]\nt = "# \\" ["\n',
        "[d] # [e]\ni = { a = [1, 2], b = '}' }\n",
    ]
)


@given(st.lists(PARTS, unique=True), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_an_entry_of_toml(parts: list[str], end: str, is_cut: bool) -> None:
    text = "".join(["top = 1\n", *parts]).replace("\n", end)
    check(text.rstrip() if is_cut else text, "toml", ("mcp_servers", "hubbub"))
