"""Finds the lines of keys and tables in the text of a settings file, because tomllib does not report lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

_HEADER: Final = re.compile(r"\s*\[(\[?)\s*([^\[\]]+?)\s*\]")
_KEY: Final = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_KEY_PART: Final = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")

Path = tuple[str, ...]


def find_line(text: str, path: Sequence[str]) -> int | None:
    """Return the line of a value, or else that of the innermost table or array around it.

    A number in the path is an index in an array: `("tenants", "2", "name")`.
    """
    lines = _index_lines(text)
    for length in range(len(path), 0, -1):
        line = lines.get(tuple(path[:length]))
        if line is not None:
            return line
    return None


@lru_cache(maxsize=8)  # called for each value of a file, which may have thousands
def _index_lines(text: str) -> dict[Path, int]:
    lines: dict[Path, int] = {}
    lengths: dict[Path, int] = {}
    section: Path = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header is not None:
            section = _resolve_indexes(_split_key(header[2]), lengths)
            if header[1]:
                index = lengths[section] = lengths.get(section, -1) + 1
                lines.setdefault(section, number)
                section = (*section, str(index))
            lines.setdefault(section, number)
            continue
        key = _KEY.match(line)
        if key is not None:
            lines.setdefault((*section, *_split_key(key[1])), number)
    return lines


def _resolve_indexes(path: Path, lengths: dict[Path, int]) -> Path:
    """Add the index of the last table of each array before the last name: `[a.b]` is in the last `[[a]]`."""
    found: Path = ()
    for name in path[:-1]:
        found = (*found, name)
        if found in lengths:
            found = (*found, str(lengths[found]))
    return (*found, path[-1])


def _split_key(text: str) -> Path:
    return tuple(part.strip("\"'") for part in _KEY_PART.findall(text))
