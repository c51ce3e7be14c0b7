"""Report categories with their rules and time, and the time without a category, so that users can write rules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.categories import SEPARATOR, UNCATEGORIZED, Categories, Rule
from hubbub.packs.activity.periods import Period, zone_name
from hubbub.packs.activity.presence import Records, active_events
from hubbub.packs.activity.summary import Row, format_duration, rank_rows
from hubbub.packs.activity.transforms import total_duration

Source: TypeAlias = Literal["call", "settings", "activitywatch", "none"]


class CategoryRule(msgspec.Struct, frozen=True):
    """A regular expression that is looked for in app and title."""

    pattern: str
    ignore_case: bool
    is_valid: bool
    """Invalid patterns are ignored."""


class CategoryRow(msgspec.Struct, frozen=True):
    """One category and its time."""

    name: str
    rules: list[CategoryRule]
    """Empty for a category that only groups others."""
    seconds: float
    """Without its subcategories."""
    total_s: float
    """With its subcategories."""
    share: float
    """Share of the active time, with its subcategories."""
    duration: str
    """`total_s` as text, such as `2h 05m`."""


class UncategorizedTitle(msgspec.Struct, frozen=True):
    """A window without a category."""

    app: str
    title: str
    seconds: float
    duration: str


class CategoryReport(msgspec.Struct, kw_only=True):
    """All categories in a period."""

    start: str
    end: str
    time_zone: str
    host: str
    source: Source
    """Source of the rules: the arguments of this call, Hubbub's settings, or ActivityWatch."""
    active_s: float
    categories: list[CategoryRow]
    uncategorized_s: float
    uncategorized_share: float
    uncategorized_apps: list[Row]
    uncategorized_titles: list[UncategorizedTitle]
    notes: list[str]


def report_categories(
    records: Records,
    period: Period,
    host: str,
    categories: Categories,
    *,
    source: Source,
    top: int,
    show: Callable[[str], str],
    notes: Sequence[str] = (),
) -> CategoryReport:
    """Add up the time of each category in a period; slow for many events. `show` masks private parts of a pattern.

    Raises: BadRequest, if the patterns take too long.
    """
    active = active_events(records)
    active_s = total_duration(active)
    seconds_by_category: Counter[tuple[str, ...]] = Counter()
    apps: Counter[str] = Counter()
    titles: Counter[tuple[str, str]] = Counter()
    for event in active:
        name = categories.classify(event)
        seconds_by_category[name] += event.duration  # type: ignore[assignment]  # seconds have fractions
        if name == UNCATEGORIZED:
            apps[event.text("app")] += event.duration  # type: ignore[assignment]
            titles[event.text("app"), event.text("title")] += event.duration  # type: ignore[assignment]
    rows = _category_rows(categories.rules, seconds_by_category, active_s, show)
    all_notes = list(notes)
    if len(rows) > limits.CATEGORIES:
        all_notes.append(f"only the first {limits.CATEGORIES} of {len(rows)} categories are listed")
    if len(categories.rules) >= limits.ACTIVITYWATCH_CATEGORIES:
        all_notes.append(f"only the first {limits.ACTIVITYWATCH_CATEGORIES} categories of ActivityWatch are used")
    if any(rule.invalid for rule in categories.rules):
        all_notes.append(
            "some patterns are not valid regular expressions and are ignored; correct them in ActivityWatch"
        )
    zone = period.start.tzinfo
    assert zone is not None
    return CategoryReport(
        start=period.start.isoformat(timespec="seconds"),
        end=period.end.isoformat(timespec="seconds"),
        time_zone=zone_name(zone),
        host=host,
        source=source,
        active_s=round(active_s, 3),
        categories=rows[: limits.CATEGORIES],
        uncategorized_s=round(seconds_by_category[UNCATEGORIZED], 3),
        uncategorized_share=_share(seconds_by_category[UNCATEGORIZED], active_s),
        uncategorized_apps=rank_rows(apps, active_s, top)[0],
        uncategorized_titles=[
            UncategorizedTitle(app, title, round(seconds, 3), format_duration(seconds))
            for (app, title), seconds in titles.most_common(top)
            if seconds > 0
        ],
        notes=all_notes,
    )


def _category_rows(
    rules: Sequence[Rule], seconds_by_category: Counter[tuple[str, ...]], active_s: float, show: Callable[[str], str]
) -> list[CategoryRow]:
    """Return one row for each name, in the order of the rules."""
    by_name: dict[tuple[str, ...], list[CategoryRule]] = {}
    for rule in rules:
        rule_rows = by_name.setdefault(rule.name, [])
        if rule.pattern is not None:
            rule_rows.append(CategoryRule(show(rule.pattern.pattern), bool(rule.pattern.flags & re.IGNORECASE), True))
        elif rule.invalid is not None:
            rule_rows.append(CategoryRule(show(rule.invalid), False, False))
    totals: Counter[tuple[str, ...]] = Counter()
    for name, seconds in seconds_by_category.items():
        for length in range(1, len(name) + 1):
            totals[name[:length]] += seconds
    return [
        CategoryRow(
            SEPARATOR.join(name),
            rule_rows,
            round(seconds_by_category[name], 3),
            round(totals[name], 3),
            _share(totals[name], active_s),
            format_duration(totals[name]),
        )
        for name, rule_rows in by_name.items()
    ]


def _share(seconds: float, total_seconds: float) -> float:
    return round(seconds / total_seconds, 4) if total_seconds else 0.0
