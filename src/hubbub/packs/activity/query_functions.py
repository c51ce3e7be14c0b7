"""Functions of the query language that depend only on their arguments. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

from hubbub.packs.activity import limits, transforms
from hubbub.packs.activity.categories import Categories, Rule
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.safe_regex import MatchBudget, compile_pattern

Events = list[Event]


def _check_events(value: Any) -> Events:
    if not isinstance(value, list) or not all(isinstance(item, Event) for item in value):
        raise TypeError
    return value


def _check_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _check_texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    return [_check_text(item) for item in value]


def _check_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _merge(events: Any, keys: Any) -> Events:
    unique_keys = dict.fromkeys(_check_texts(keys))
    if len(unique_keys) > limits.MERGE_KEYS:
        raise BadRequest(f"merge_events_by_keys takes at most {limits.MERGE_KEYS} keys, not {len(unique_keys)}")
    return transforms.merge_by_keys(_check_events(events), list(unique_keys))


def _filter_regex(events: Any, key: Any, pattern: Any) -> Events:
    compiled, budget = compile_pattern(_check_text(pattern)), MatchBudget()
    return transforms.filter_matching(
        _check_events(events), _check_text(key), lru_cache(4096)(partial(budget.search, compiled))
    )


def _compile_rules(classes: Any) -> list[Rule]:
    """Compile rules such as `[[["Work"], {"type": "regex", "regex": "vim"}], …]`."""
    if len(_check_list(classes)) > limits.CATEGORIES:
        raise BadRequest(f"at most {limits.CATEGORIES} categories can be used, not {len(classes)}")
    rules = []
    for name, rule in classes:
        names = (_check_text(name),) if isinstance(name, str) else tuple(_check_texts(name))
        if rule.get("type") == "regex" and rule.get("regex"):
            rules.append(
                Rule(names, compile_pattern(_check_text(rule["regex"]), ignore_case=bool(rule.get("ignore_case"))))
            )
    return rules


def _categorize(events: Any, classes: Any) -> Events:
    categories = Categories(_compile_rules(classes))
    return [
        transforms.copy_event(event, data={**event.data, "$category": list(categories.classify(event))})
        for event in _check_events(events)
    ]


def _tag(events: Any, classes: Any) -> Events:
    rules, budget = _compile_rules(classes), MatchBudget()

    def tags(event: Event) -> list[str]:
        texts = [value for value in event.data.values() if isinstance(value, str)]
        return sorted({"->".join(rule.name) for rule in rules if rule.matches(texts, budget)})

    return [transforms.copy_event(event, data={**event.data, "$tags": tags(event)}) for event in _check_events(events)]


def _limit(events: Any, count: Any) -> Events:
    if not isinstance(count, int) or count < 0:
        raise TypeError
    return _check_events(events)[:count]


def _concat(*event_lists: Any) -> Events:
    if sum(len(_check_events(events)) for events in event_lists) > limits.EVENTS:
        raise BadRequest(f"concat makes more than {limits.EVENTS} events; ask for a shorter period")
    return [event for events in event_lists for event in events]


def _union_no_overlap(first: Any, second: Any) -> Events:
    """Return all of the first events, and the parts of the second that do not overlap with them."""
    return transforms.sort_by_time(
        [*_check_events(first), *transforms.subtract_periods(_check_events(second), _check_events(first))]
    )


def _flood(events: Any, pulse_s: Any = transforms.FLOOD_PULSE_S) -> Events:
    return transforms.flood(_check_events(events), float(pulse_s))


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "categorize": _categorize,
    "chunk_events_by_key": lambda events, key: transforms.chunk_by_key(_check_events(events), _check_text(key)),
    "concat": _concat,
    "exclude_keyvals": lambda events, key, values: transforms.exclude_by_values(
        _check_events(events), _check_text(key), _check_list(values)
    ),
    "filter_keyvals": lambda events, key, values: transforms.filter_by_values(
        _check_events(events), _check_text(key), _check_list(values)
    ),
    "filter_keyvals_regex": _filter_regex,
    "filter_period_intersect": lambda events, periods: transforms.intersect(
        _check_events(events), _check_events(periods)
    ),
    "flood": _flood,
    "limit_events": _limit,
    "merge_events_by_keys": _merge,
    "nop": lambda: 1,
    "period_union": lambda first, second: transforms.union(_check_events(first), _check_events(second)),
    "simplify_window_titles": lambda events, key: transforms.simplify_titles(_check_events(events), _check_text(key)),
    "sort_by_duration": lambda events: transforms.sort_by_duration(_check_events(events)),
    "sort_by_timestamp": lambda events: transforms.sort_by_time(_check_events(events)),
    "split_url_events": lambda events: transforms.split_urls(_check_events(events)),
    "sum_durations": lambda events: round(transforms.total_duration(_check_events(events)), 6),
    "tag": _tag,
    "union_no_overlap": _union_no_overlap,
}
