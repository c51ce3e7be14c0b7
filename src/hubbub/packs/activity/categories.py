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
from hubbub.packs.activity.patterns import Patience, read_pattern

UNCATEGORIZED: Final = ("Uncategorized",)
SEPARATOR: Final = " > "


class Rule(msgspec.Struct, frozen=True):
    """One category and the pattern of what belongs to it."""

    name: tuple[str, ...]
    pattern: re.Pattern[str] | None
    """None if the rule only names a category, or if its pattern is invalid."""
    invalid: str | None = None
    """A pattern that does not compile; the web UI of ActivityWatch allows people to save such patterns."""

    def matches(self, texts: Iterable[str], patience: Patience) -> bool:
        """Whether the pattern matches one of the texts."""
        pattern = self.pattern
        return pattern is not None and any(patience.found(pattern, text) for text in texts)


class Categories:
    """The rules of the user or of one request."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        usable = (rule for rule in self.rules if rule.pattern is not None)
        # Of several rules that match, the deepest category wins, and among equals the last, as in ActivityWatch.
        self._usable = sorted(usable, key=lambda rule: len(rule.name))[::-1]
        self._patience = Patience()
        self._find = lru_cache(maxsize=4096)(self._first_fit)

    def __bool__(self) -> bool:
        return bool(self._usable)

    def of(self, event: Event) -> tuple[str, ...]:
        """Return the category of an event."""
        return self._find(tuple(value for value in event.data.values() if isinstance(value, str)))

    def named(self, event: Event) -> str:
        """Return the category of an event as one string, such as `Work > Programming`."""
        return SEPARATOR.join(self.of(event))

    def _first_fit(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        for rule in self._usable:
            if rule.matches(texts, self._patience):
                return rule.name
        return UNCATEGORIZED


def given_rules(given: Mapping[str, str]) -> list[Rule]:
    """Compile rules from a request, such as `{"Work > Programming": "vim|emacs"}`.

    Raises: BadRequest.
    """
    if len(given) > limits.CATEGORIES:
        raise BadRequest(f"at most {limits.CATEGORIES} categories can be given")
    return [Rule(_split(name), read_pattern(pattern, ignore_case=True)) for name, pattern in given.items()]


def own_rules(given: Mapping[str, str]) -> list[Rule]:
    """Compile rules from the settings, which were validated when they were loaded."""
    return [Rule(_split(name), re.compile(pattern, re.IGNORECASE)) for name, pattern in given.items()]


def recorded_rule(name: list[str], rule: Mapping[str, Any]) -> Rule:
    """Compile a rule from the settings of ActivityWatch."""
    parts, text = tuple(name[: limits.DEPTH]), rule.get("regex")
    if rule.get("type") != "regex" or not isinstance(text, str) or not text:
        return Rule(parts, None)
    try:
        return Rule(parts, re.compile(text, re.IGNORECASE if rule.get("ignore_case") else 0))
    except (re.error, RecursionError, OverflowError):
        return Rule(parts, None, invalid=text)


def _split(name: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in name.split(SEPARATOR.strip()))
    if not all(parts):
        raise BadRequest(f"{name!r} is no category; it looks like Work, or Work > Programming")
    return parts
