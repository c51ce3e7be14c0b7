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


def compile_pattern(text: str, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Compile a pattern that is certain to match quickly.

    Raises: BadRequest.
    """
    if len(text) > limits.PATTERN_CHARACTERS:
        raise BadRequest(f"the pattern has {len(text)} characters; the maximum is {limits.PATTERN_CHARACTERS}")
    if _WayCounter(text).count() > limits.PATTERN_WAYS:
        raise BadRequest(
            f"the pattern {text[:80]!r} can match in too many ways; use fewer repeats, options and alternatives"
        )
    try:
        return re.compile(text, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise BadRequest(f"the pattern {text[:80]!r} is not a valid regular expression: {error}") from None


class MatchBudget:
    """Time limit for all pattern matching of one request."""

    def __init__(self, seconds: float | None = None) -> None:
        self._remaining_s = limits.PATTERN_TIMEOUT_S if seconds is None else seconds

    def search(self, pattern: re.Pattern[str], text: str) -> bool:
        """Whether a pattern is found in the first characters of a text.

        Raises: BadRequest, once matching has taken too long.
        """
        started = time.perf_counter()
        is_found = pattern.search(text[: limits.PATTERN_TEXT_CHARACTERS]) is not None
        self._remaining_s -= time.perf_counter() - started
        if self._remaining_s < 0:
            raise BadRequest("matching the patterns takes too long; use simpler ones, or ask for a shorter period")
        return is_found


class _WayCounter:
    """Counts the ways in which a pattern can match, in one pass. Syntax errors are left to `re`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def count(self) -> int:
        """Return an upper bound of the ways to match at one position of a text."""
        total = 0
        while True:
            total += self._count_alternatives()
            if self._position >= len(self._text):
                return total
            self._position += 1  # an unmatched closing bracket

    def _count_alternatives(self) -> int:
        total, product = 0, 1
        while (letter := self._peek()) not in ("", ")"):
            if letter == "|":
                self._position += 1
                total, product = total + product, 1
            else:
                product *= self._apply_quantifier(self._count_part(letter), is_group=letter == "(")
        return total + product

    def _count_part(self, letter: str) -> int:
        if letter == "(":
            return self._count_group()
        if letter == "[":
            self._position += _character_class_length(self._text, self._position)
        elif letter == "\\":
            if self._text[self._position + 1 : self._position + 2].isdigit():
                raise BadRequest("a pattern must not have back references such as \\1; remove them")
            self._position += 2
        else:
            self._position += 1
        return 1

    def _count_group(self) -> int:
        if self._text[self._position + 1 : self._position + 2] == "?":
            if self._text[self._position + 2 : self._position + 3] != ":":
                raise BadRequest("a pattern must not have groups that begin with (? except (?:…); use (?:…) or (…)")
            self._position += 2
        self._position += 1
        count = self._count_alternatives()
        self._position += 1
        return count

    def _apply_quantifier(self, count: int, *, is_group: bool) -> int:
        """Apply a quantifier to the ways of a part; a second mark (`??`, `*+`) only changes the order of attempts."""
        letter = self._peek()
        if letter and letter in _REPEATS:
            if is_group:
                raise BadRequest("a pattern must not repeat a group; repeat a single character or class instead")
            self._position += 1 if letter != "{" else max(self._text.find("}", self._position) + 1 - self._position, 1)
            count = limits.PATTERN_TEXT_CHARACTERS
        elif letter == "?":
            self._position += 1
            count += 1
        else:
            return count
        if self._peek() in ("?", "+"):
            self._position += 1
        return count

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]


def _character_class_length(text: str, start: int) -> int:
    """Return the length of a character class; `]` as its first character is a literal."""
    position = start + 1
    if text[position : position + 1] == "^":
        position += 1
    if text[position : position + 1] == "]":
        position += 1
    while position < len(text) and text[position] != "]":
        position += 2 if text[position] == "\\" else 1
    return position + 1 - start
