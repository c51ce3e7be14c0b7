"""Regular expressions that a caller gives, checked so that none can run for long. Pure.

Python's own engine tries every way to match. What makes that explode are repeated groups and
references back, so neither is taken, and of simple repeats only a few in each alternative.
"""

from __future__ import annotations

import re
from typing import Final

from hubbub import bounds
from hubbub.packs.activity.failures import BadRequest

_REPEATS: Final = "*+{"


def read_pattern(text: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """The pattern, if it is one that cannot take long.

    Raises: BadRequest.
    """
    if len(text) > bounds.PATTERN_CHARACTERS:
        raise BadRequest(f"a pattern has at most {bounds.PATTERN_CHARACTERS} characters")
    _check(text)
    try:
        return re.compile(text, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadRequest(f"the pattern {text[:80]!r} cannot be read: {error}") from None


def found(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern is found in the beginning of a text, where titles say what they are."""
    return pattern.search(text[: bounds.PATTERN_TEXT_CHARACTERS]) is not None


def _check(text: str) -> None:
    repeats, previous, position = 0, "", 0
    while position < len(text):
        letter = text[position]
        width = 1
        if letter == "\\":
            width = 2
            if text[position + 1 : position + 2].isdigit():
                raise BadRequest("a pattern must not refer back to its own groups")
        elif letter == "[":
            width = _class_width(text, position)
        elif letter == "(" and text[position + 1 : position + 2] == "?" and text[position + 2 : position + 3] != ":":
            raise BadRequest("of the groups that begin with (? only (?:…) can be used in a pattern")
        elif letter == "|":
            repeats = 0
        elif letter in _REPEATS:
            repeats += 1
            if previous == ")":
                raise BadRequest("a pattern must not repeat a group; repeat a single letter or class")
            if repeats > bounds.PATTERN_REPEATS:
                raise BadRequest(
                    f"at most {bounds.PATTERN_REPEATS} repeats can be used in one alternative of a pattern"
                )
        previous, position = letter, position + width


def _class_width(text: str, start: int) -> int:
    """How long `[…]` is; a bracket that comes first in it is one of its letters."""
    position = start + 1
    if text[position : position + 1] == "^":
        position += 1
    if text[position : position + 1] == "]":
        position += 1
    while position < len(text) and text[position] != "]":
        position += 2 if text[position] == "\\" else 1
    return position + 1 - start
