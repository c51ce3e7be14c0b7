"""Assign activities to categories by regular expressions over the texts of an event. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.safe_regex import MatchBudget, compile_pattern

UNCATEGORIZED: Final = ("Uncategorized",)
SEPARATOR: Final = " > "


class Rule(msgspec.Struct, frozen=True):
    """One category and the pattern of what belongs to it."""

    name: tuple[str, ...]
    pattern: re.Pattern[str] | None
    """None if the rule only names a category, or if its pattern is invalid."""
    invalid: str | None = None
    """A pattern that does not compile; the web UI of ActivityWatch allows people to save such patterns."""

    def matches(self, texts: Iterable[str], budget: MatchBudget) -> bool:
        """Whether the pattern matches one of the texts."""
        pattern = self.pattern
        return pattern is not None and any(budget.search(pattern, text) for text in texts)


class Categories:
    """The rules of the user or of one request."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        usable = (rule for rule in self.rules if rule.pattern is not None)
        # Of several rules that match, the deepest category wins, and among equals the last, as in ActivityWatch.
        self._usable_rules = sorted(usable, key=lambda rule: len(rule.name))[::-1]
        self._budget = MatchBudget()
        self._classify_texts = lru_cache(maxsize=4096)(self._first_match)

    def __bool__(self) -> bool:
        return bool(self._usable_rules)

    def classify(self, event: Event) -> tuple[str, ...]:
        """Return the category of an event."""
        return self._classify_texts(tuple(value for value in event.data.values() if isinstance(value, str)))

    def category_name(self, event: Event) -> str:
        """Return the category of an event as one string, such as `Work > Programming`."""
        return SEPARATOR.join(self.classify(event))

    def _first_match(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        for rule in self._usable_rules:
            if rule.matches(texts, self._budget):
                return rule.name
        return UNCATEGORIZED


def compile_request_rules(pattern_by_name: Mapping[str, str]) -> list[Rule]:
    """Compile rules from a request, such as `{"Work > Programming": "vim|emacs"}`.

    Raises: BadRequest.
    """
    if len(pattern_by_name) > limits.CATEGORIES:
        raise BadRequest(f"at most {limits.CATEGORIES} categories can be used, not {len(pattern_by_name)}")
    return [
        Rule(_split_name(name), compile_pattern(pattern, ignore_case=True)) for name, pattern in pattern_by_name.items()
    ]


def compile_settings_rules(pattern_by_name: Mapping[str, str]) -> list[Rule]:
    """Compile rules from the settings, which were validated when they were loaded."""
    return [Rule(_split_name(name), re.compile(pattern, re.IGNORECASE)) for name, pattern in pattern_by_name.items()]


def compile_activitywatch_rule(name: list[str], rule: Mapping[str, Any]) -> Rule:
    """Compile a rule from the settings of ActivityWatch."""
    parts, text = tuple(name[: limits.DATA_DEPTH]), rule.get("regex")
    if rule.get("type") != "regex" or not isinstance(text, str) or not text:
        return Rule(parts, None)
    try:
        return Rule(parts, re.compile(text, re.IGNORECASE if rule.get("ignore_case") else 0))
    except (re.error, RecursionError, OverflowError):
        return Rule(parts, None, invalid=text)


def _split_name(name: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in name.split(SEPARATOR.strip()))
    if not all(parts):
        raise BadRequest(f"{name!r} is not the name of a category; write it like Work or Work > Programming")
    return parts
