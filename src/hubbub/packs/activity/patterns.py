"""Compile regular expressions from requests, and refuse those that could run for long. Pure but for the clock.

Python's engine tries every way to match and cannot be interrupted. So the possible ways are counted first: those of
consecutive parts multiply, those of alternatives add up. Repeated groups and back references cannot be counted, and are
refused.
"""

from __future__ import annotations

import re
import time
from typing import Final

from hubbub.packs.activity import limits
from hubbub.packs.activity.failures import BadRequest

_REPEATS: Final = "*+{"


def read_pattern(text: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Compile a pattern that is certain to match quickly.

    Raises: BadRequest.
    """
    if len(text) > limits.PATTERN_CHARACTERS:
        raise BadRequest(f"a pattern has at most {limits.PATTERN_CHARACTERS} characters")
    if _Counting(text).ways() > limits.PATTERN_WAYS:
        raise BadRequest("the pattern can match in too many ways; use fewer repeats, options and alternatives")
    try:
        return re.compile(text, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadRequest(f"the pattern {text[:80]!r} cannot be read: {error}") from None


class Patience:
    """Time limit for all pattern matching of one request."""

    def __init__(self, seconds: float | None = None) -> None:
        self._left_s = limits.PATTERN_S if seconds is None else seconds

    def found(self, pattern: re.Pattern[str], text: str) -> bool:
        """Whether a pattern is found in the first characters of a text.

        Raises: BadRequest, once matching has taken too long.
        """
        started = time.perf_counter()
        is_found = pattern.search(text[: limits.PATTERN_TEXT_CHARACTERS]) is not None
        self._left_s -= time.perf_counter() - started
        if self._left_s < 0:
            raise BadRequest("the patterns take too long; use simpler ones, or ask for a shorter period")
        return is_found


class _Counting:
    """Counts the ways in which a pattern can match, in one pass. Syntax errors are left to `re`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0

    def ways(self) -> int:
        """Return an upper bound of the ways to match at one position of a text."""
        total = 0
        while True:
            total += self._alternatives()
            if self._place >= len(self._text):
                return total
            self._place += 1  # an unmatched closing bracket

    def _alternatives(self) -> int:
        total, product = 0, 1
        while (letter := self._peek()) not in ("", ")"):
            if letter == "|":
                self._place += 1
                total, product = total + product, 1
            else:
                product *= self._repeated(self._part(letter), is_group=letter == "(")
        return total + product

    def _part(self, letter: str) -> int:
        if letter == "(":
            return self._group()
        if letter == "[":
            self._place += _class_width(self._text, self._place)
        elif letter == "\\":
            if self._text[self._place + 1 : self._place + 2].isdigit():
                raise BadRequest("a pattern must not refer back to its own groups")
            self._place += 2
        else:
            self._place += 1
        return 1

    def _group(self) -> int:
        if self._text[self._place + 1 : self._place + 2] == "?":
            if self._text[self._place + 2 : self._place + 3] != ":":
                raise BadRequest("of the groups that begin with (? only (?:…) can be used in a pattern")
            self._place += 2
        self._place += 1
        ways = self._alternatives()
        self._place += 1
        return ways

    def _repeated(self, ways: int, *, is_group: bool) -> int:
        """Apply a quantifier to the ways of a part; a second mark (`??`, `*+`) only changes the order of attempts."""
        letter = self._peek()
        if letter and letter in _REPEATS:
            if is_group:
                raise BadRequest("a pattern must not repeat a group; repeat a single letter or class")
            self._place += 1 if letter != "{" else max(self._text.find("}", self._place) + 1 - self._place, 1)
            ways = limits.PATTERN_TEXT_CHARACTERS
        elif letter == "?":
            self._place += 1
            ways += 1
        else:
            return ways
        if self._peek() in ("?", "+"):
            self._place += 1
        return ways

    def _peek(self) -> str:
        return self._text[self._place : self._place + 1]


def _class_width(text: str, start: int) -> int:
    """Return the length of a character class; `]` as its first character is a literal."""
    position = start + 1
    if text[position : position + 1] == "^":
        position += 1
    if text[position : position + 1] == "]":
        position += 1
    while position < len(text) and text[position] != "]":
        position += 2 if text[position] == "\\" else 1
    return position + 1 - start
