"""Text for pictures: one line, bounded, free of characters that would disturb the layout. No I/O.

Titles of windows come from web pages, so they may contain megabytes, line breaks, controls and bidirectional overrides.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Set as AbstractSet
from typing import Final

from hubbub import bounds

_MAX_COMBINING_MARKS: Final = 4
"""Combining marks on one character; more is an attempt to draw over other labels."""
_MAX_DESCRIBED: Final = 3
"""How many characters without a glyph are described one by one."""
_JOINERS: Final = "\u200c\u200d"
"""They shape letters of Indic and Arabic scripts; between emoji they are left out."""
_SYMBOL_CATEGORIES: Final = ("So", "Sk", "Sm", "Sc")
"""Their names say what they show; those of letters and ideographs do not."""


def clean(text: str, columns: int) -> str:
    """Return a text as one line of at most so many columns; wide characters take two."""
    characters: list[str] = []
    marks = 0
    for character in unicodedata.normalize("NFC", text[: bounds.LABEL_CHARACTERS]):
        kind = unicodedata.category(character)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if kind in ("Zs", "Zl", "Zp", "Cc"):
            if characters and characters[-1] != " ":
                characters.append(" ")
        elif kind == "Cs":
            characters.append("\ufffd")
        elif marks <= _MAX_COMBINING_MARKS and not _is_ignorable(character, kind, characters):
            characters.append(character)
    return cut("".join(characters).strip(), columns, is_cut=len(text) > bounds.LABEL_CHARACTERS)


def _is_ignorable(character: str, kind: str, preceding: list[str]) -> bool:
    """Whether to drop a character: formats, variation selectors, and marks without a character to combine with."""
    if character in _JOINERS:
        return not preceding or unicodedata.category(preceding[-1])[0] not in "LM"
    if "\ufe00" <= character <= "\ufe0f" or "\U0001f3fb" <= character <= "\U0001f3ff":
        return True
    return kind == "Cf" or (kind in ("Mn", "Me") and not preceding)


def cut(text: str, columns: int, *, is_cut: bool = False) -> str:
    """Return the beginning of a text that fits, with an ellipsis if something is left out."""
    if not is_cut and sum(map(_width, text)) <= columns:
        return text
    width = 1
    for index, character in enumerate(text):
        width += _width(character)
        if width > columns:
            return f"{text[:index].rstrip()}…"
    return f"{text}…"


def replace_missing(text: str, missing: AbstractSet[str]) -> str:
    """Write characters that no font has as `[party popper]` or `[U+5FAE U+4FE1]`, because empty boxes say nothing."""
    parts: list[str] = []
    run: list[str] = []
    for character in [*text, ""]:
        if character in missing:
            run.append(character)
        else:
            if run:
                parts.append(f"[{_describe_characters(run)}]")
                run = []
            parts.append(character)
    return "".join(parts)


def _describe_characters(run: list[str]) -> str:
    names = [_name_character(character) for character in run[:_MAX_DESCRIBED]]
    return " ".join(names if len(run) <= _MAX_DESCRIBED else [*names, f"+{len(run) - _MAX_DESCRIBED}"])


def _name_character(character: str) -> str:
    code = f"U+{ord(character):04X}"
    return unicodedata.name(character, code).lower() if unicodedata.category(character) in _SYMBOL_CATEGORIES else code


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
