"""Changes one table of a TOML text and keeps all other bytes.

`tomllib` reads the values. To edit, only the places of the table headers are needed, which a scan over strings,
comments and brackets finds.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hubbub.errors import SettingsError
from hubbub.install.edits import Edit, detect_newline, syntax_error

_TOKEN: Final = re.compile(
    r'#[^\n]*|"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|[\[\]{}\n]', re.DOTALL
)
_HEADER: Final = re.compile(r"[ \t]*\[\[?(?:[^\]\n\"']|\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*')*\]\]?")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLACE: Final = re.compile(r" \(at (?:line \d+, column \d+|end of document)\)\Z")
_LINE_AND_COLUMN: Final = re.compile(r"line (\d+), column (\d+)")


class _Section(NamedTuple):
    """A table header with the lines up to the next one."""

    path: tuple[str, ...]
    start: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """Parse a text.

    Raises: SettingsError, with line and column.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, place = _PLACE.sub("", str(error)), _LINE_AND_COLUMN.search(str(error))
        if place is None:
            raise syntax_error(text, len(text), problem) from None
        raise SettingsError(f"line {place[1]}, column {place[2]}: {problem}") from None
    except RecursionError:
        raise SettingsError("line 1, column 1: nested too deeply") from None


def set_member(text: str, path: Sequence[str], value: dict[str, Any]) -> list[Edit]:
    """Return the edits that write a table: in its place if there is one, else at the end.

    Raises: SettingsError.
    """
    newline = detect_newline(text)
    block = newline.join([f"[{'.'.join(map(_format_key, path))}]", *_format_table(value)])
    sections = _find_sections(text, path)
    if sections:
        first, *others = sections
        return [Edit(first.start, first.end, block), *(_make_removal(text, each) for each in others)]
    if not text:
        return [Edit(0, 0, block + newline)]
    separator = newline if text.endswith("\n") else newline * 2
    return [Edit(len(text), len(text), f"{separator}{block}{newline}")]


def remove_member(text: str, path: Sequence[str], prunable: int = 0) -> list[Edit]:
    """Return the edits that remove a table and the tables below it. There is nothing to prune in TOML."""
    return [_make_removal(text, section) for section in _find_sections(text, path)]


def _make_removal(text: str, section: _Section) -> Edit:
    """Remove a table with its last line ending and one blank line before it."""
    start, end = section.start, section.end
    for ending in ("\r\n", "\n"):
        if text.startswith(ending, end):
            end += len(ending)
            break
    for blank in ("\r\n\r\n", "\n\n"):
        if text.endswith(blank, 0, start):
            start -= len(blank) // 2
            break
    return Edit(start, end, "")


def _find_sections(text: str, path: Sequence[str]) -> list[_Section]:
    """Find a table and those below it, each up to its last line with a value."""
    headers: list[tuple[tuple[str, ...], int]] = []
    depth, at = 0, 0
    while (token := _TOKEN.search(text, at)) is not None:
        at = token.end()
        line_start = text.rfind("\n", 0, token.start()) + 1
        if token[0] == "[" and depth == 0 and not text[line_start : token.start()].strip():
            header = _HEADER.match(text, line_start)
            if header is not None:
                headers.append((_parse_header(header[0]), line_start))
                at = header.end()
                continue
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
    starts = [start for _, start in headers] + [len(text)]
    return [
        _Section(found, start, start + len(_without_trailing_comments(text[start : starts[number + 1]])))
        for number, (found, start) in enumerate(headers)
        if found[: len(path)] == tuple(path)
    ]


def _without_trailing_comments(section: str) -> str:
    """Cut the blank lines and comments at the end: they belong to the next table, or to the file."""
    lines = section.splitlines(keepends=True)
    while len(lines) > 1 and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return "".join(lines).rstrip("\r\n")


def _parse_header(header: str) -> tuple[str, ...]:
    table: Any = tomllib.loads(header)
    path: list[str] = []
    while table:
        table = table[0] if isinstance(table, list) else table
        if not table:
            break
        ((key, table),) = table.items()
        path.append(key)
    return tuple(path)


def _format_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _format_value(key)


def _format_table(table: dict[str, Any]) -> list[str]:
    return [f"{_format_key(key)} = {_format_value(value)}" for key, value in table.items()]


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(_format_table(value))} }}" if value else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    # JSON writes text, numbers and booleans as TOML does, but leaves DEL unescaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
