"""Changes of a text as a list of replaced spans, and positions in error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from hubbub.errors import SettingsError

_INDENTED_LINE: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class Edit(NamedTuple):
    """Replaces `text[start:end]`; an insertion if both are equal."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits whose spans refer to the same text and do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def detect_newline(text: str) -> str:
    """Return the line ending of a text: that of its first line."""
    at = text.find("\n")
    return "\r\n" if at > 0 and text[at - 1] == "\r" else "\n"


def indent_unit(text: str) -> str:
    """Return the indentation of the first indented line; two spaces if there is none."""
    found = _INDENTED_LINE.search(text)
    return "  " if found is None else "\t" if found[1].startswith("\t") else found[1]


def line_indent(text: str, position: int) -> str:
    """Return the whitespace at the start of the line of this position."""
    start = text.rfind("\n", 0, position) + 1
    line = text[start:position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def syntax_error(text: str, position: int, problem: str) -> SettingsError:
    """Make the error for a text that cannot be parsed, with line and column."""
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return SettingsError(f"line {line}, column {column}: {problem}")
