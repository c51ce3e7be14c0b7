"""Categories: which kind of thing the person does, by patterns over what its window says. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from hubbub import bounds
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.patterns import Patience, read_pattern

UNCATEGORIZED: Final = ("Uncategorized",)
SEPARATOR: Final = " > "


class Rule(msgspec.Struct, frozen=True):
    """One category."""

    name: tuple[str, ...]
    pattern: re.Pattern[str]


class Categories:
    """The rules of one person, or of one question."""

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        # Of several that fit, the most particular wins, and of equals the last, as in ActivityWatch.
        self._rules = sorted(rules, key=lambda rule: len(rule.name))[::-1]
        self._patience = Patience()
        self._find = lru_cache(maxsize=4096)(self._first_fit)

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, event: Event) -> tuple[str, ...]:
        """The category of an event."""
        return self._find(tuple(value for value in event.data.values() if isinstance(value, str)))

    def named(self, event: Event) -> str:
        """The same, as one text."""
        return SEPARATOR.join(self.of(event))

    def _first_fit(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        for rule in self._rules:
            if any(self._patience.found(rule.pattern, text) for text in texts):
                return rule.name
        return UNCATEGORIZED


def given_rules(given: Mapping[str, str]) -> list[Rule]:
    """Rules that a caller gives: `{"Work > Programming": "vim|emacs"}`.

    Raises: BadRequest.
    """
    if len(given) > bounds.ACTIVITY_CATEGORIES:
        raise BadRequest(f"at most {bounds.ACTIVITY_CATEGORIES} categories can be given")
    return [Rule(_split(name), read_pattern(pattern, ignore_case=True)) for name, pattern in given.items()]


def own_rules(given: Mapping[str, str]) -> list[Rule]:
    """Rules from the settings, which the person wrote and which were checked there."""
    return [Rule(_split(name), re.compile(pattern, re.IGNORECASE)) for name, pattern in given.items()]


def recorded_rule(name: list[str], rule: Mapping[str, Any]) -> Rule | None:
    """A rule from the settings of ActivityWatch; None where it only names a category."""
    text = rule.get("regex")
    if rule.get("type") != "regex" or not isinstance(text, str) or not text or not name:
        return None
    try:
        return Rule(tuple(name), re.compile(text, re.IGNORECASE if rule.get("ignore_case") else 0))
    except re.error:
        return None  # ActivityWatch's page lets people save those


def _split(name: str) -> tuple[str, ...]:
    parts = tuple(part.strip() for part in name.split(SEPARATOR.strip()))
    if not all(parts):
        raise BadRequest(f"{name!r} is no category; it looks like Work, or Work > Programming")
    return parts
