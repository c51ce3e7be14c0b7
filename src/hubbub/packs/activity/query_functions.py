"""Functions of the query language that depend only on their arguments. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

from hubbub.packs.activity import limits, transforms
from hubbub.packs.activity.categories import Categories, Rule
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.patterns import Patience, read_pattern

Events = list[Event]


def _events(value: Any) -> Events:
    if not isinstance(value, list) or not all(isinstance(item, Event) for item in value):
        raise TypeError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    return [_text(item) for item in value]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _merge(events: Any, keys: Any) -> Events:
    wanted = dict.fromkeys(_texts(keys))
    if len(wanted) > limits.KEYS:
        raise BadRequest(f"events can be merged by at most {limits.KEYS} keys")
    return transforms.merge_by(_events(events), list(wanted))


def _regex(events: Any, key: Any, pattern: Any) -> Events:
    read, patience = read_pattern(_text(pattern)), Patience()
    return transforms.matching(_events(events), _text(key), lru_cache(4096)(partial(patience.found, read)))


def _rules(classes: Any) -> list[Rule]:
    """Compile rules such as `[[["Work"], {"type": "regex", "regex": "vim"}], …]`."""
    if len(_list(classes)) > limits.CATEGORIES:
        raise BadRequest(f"at most {limits.CATEGORIES} categories can be given")
    rules = []
    for name, rule in classes:
        names = (_text(name),) if isinstance(name, str) else tuple(_texts(name))
        if rule.get("type") == "regex" and rule.get("regex"):
            rules.append(Rule(names, read_pattern(_text(rule["regex"]), ignore_case=bool(rule.get("ignore_case")))))
    return rules


def _categorize(events: Any, classes: Any) -> Events:
    categories = Categories(_rules(classes))
    return [
        transforms.copy(event, data={**event.data, "$category": list(categories.of(event))})
        for event in _events(events)
    ]


def _tag(events: Any, classes: Any) -> Events:
    rules, patience = _rules(classes), Patience()

    def tags(event: Event) -> list[str]:
        texts = [value for value in event.data.values() if isinstance(value, str)]
        return sorted({"->".join(rule.name) for rule in rules if rule.matches(texts, patience)})

    return [transforms.copy(event, data={**event.data, "$tags": tags(event)}) for event in _events(events)]


def _limit(events: Any, count: Any) -> Events:
    if not isinstance(count, int) or count < 0:
        raise TypeError
    return _events(events)[:count]


def _concat(*many: Any) -> Events:
    if sum(len(_events(events)) for events in many) > limits.EVENTS:
        raise BadRequest(f"concat makes more than {limits.EVENTS} events; ask for less")
    return [event for events in many for event in events]


def _union_no_overlap(first: Any, second: Any) -> Events:
    """Return all of the first events, and the parts of the second that do not overlap with them."""
    return transforms.by_time([*_events(first), *transforms.without(_events(second), _events(first))])


def _flood(events: Any, pulse_s: Any = transforms.FLOOD_S) -> Events:
    return transforms.flood(_events(events), float(pulse_s))


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "categorize": _categorize,
    "chunk_events_by_key": lambda events, key: transforms.chunk_by(_events(events), _text(key)),
    "concat": _concat,
    "exclude_keyvals": lambda events, key, values: transforms.not_having(_events(events), _text(key), _list(values)),
    "filter_keyvals": lambda events, key, values: transforms.having(_events(events), _text(key), _list(values)),
    "filter_keyvals_regex": _regex,
    "filter_period_intersect": lambda events, periods: transforms.intersect(_events(events), _events(periods)),
    "flood": _flood,
    "limit_events": _limit,
    "merge_events_by_keys": _merge,
    "nop": lambda: 1,
    "period_union": lambda first, second: transforms.union(_events(first), _events(second)),
    "simplify_window_titles": lambda events, key: transforms.with_simple_titles(_events(events), _text(key)),
    "sort_by_duration": lambda events: transforms.by_duration(_events(events)),
    "sort_by_timestamp": lambda events: transforms.by_time(_events(events)),
    "split_url_events": lambda events: transforms.with_url_parts(_events(events)),
    "sum_durations": lambda events: round(transforms.total(_events(events)), 6),
    "tag": _tag,
    "union_no_overlap": _union_no_overlap,
}
