"""Active time of a period, added up by app, page, file or category."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.breakdown import Interval, Unit, break_down
from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.period_format import format_weekday
from hubbub.packs.activity.periods import Period, zone_name
from hubbub.packs.activity.presence import Records, active_events, total_away_s
from hubbub.packs.activity.transforms import extract_domain, flood, intersect, total_duration

GroupBy: TypeAlias = Literal["app", "title", "domain", "category", "url", "project", "file", "language"]
PAGE_GROUPS: Final = ("domain", "url")
"""These need a browser watcher."""
FILE_GROUPS: Final = ("project", "file", "language")
"""These need an editor watcher."""
_BROWSER: Final = re.compile(
    r"(?i)chrom|firefox|safari|edge|brave|opera|vivaldi|browser|librewolf|arc\b|waterfox|epiphany|falkon"
)


class Row(msgspec.Struct, frozen=True):
    """One line of a summary."""

    name: str
    seconds: float
    share: float
    """Share of the active time."""
    duration: str
    """`seconds` as text, such as `2h 05m`."""


class IntervalSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One hour, day, week or month of a period."""

    label: str
    """Text for the interval: `2026-11-15 14:00`, `2026-11-15 Sun`, `2026-W46` or `2026-11`."""
    start: str
    end: str
    active_s: float
    duration: str
    rows: list[Row]
    """The longest names of this interval; `share` is of the interval's active time."""
    other_s: float


class Summary(msgspec.Struct, kw_only=True):
    """A period, added up."""

    start: str
    end: str
    time_zone: str
    host: str
    by: GroupBy
    active_s: float
    """Seconds of active time."""
    afk_s: float
    """Seconds away, as far as recorded."""
    rows: list[Row]
    other_s: float
    """Seconds of names that are not among the rows."""
    per: Unit | None = None
    intervals: list[IntervalSummary] = []
    """In order, without intervals that have no active time; they add up to the totals of the period."""
    notes: list[str]


def add_up(events: Sequence[Event], name_of: Callable[[Event], str]) -> Counter[str]:
    """Return the seconds of each name."""
    seconds: Counter[str] = Counter()
    for event in events:
        seconds[name_of(event)] += event.duration  # type: ignore[assignment]  # seconds have fractions
    return seconds


def select_events(
    records: Records, by: GroupBy, categories: Categories
) -> tuple[list[Event], list[Event], Callable[[Event], str]]:
    """Return the windows of active time, the events that a summary adds up, and a function that names each event."""
    active = active_events(records)
    if by in PAGE_GROUPS:
        found = _page_events(records, active)
    elif by in FILE_GROUPS:
        found = intersect(flood(records.editor), active)
    else:
        found = active
    names: dict[str, Callable[[Event], str]] = {
        "domain": lambda event: extract_domain(event.text("url")),
        "category": categories.category_name,
    }
    return active, found, names.get(by, lambda event: event.text(by))


def _page_events(records: Records, active: Sequence[Event]) -> list[Event]:
    """Return pages while a browser was in front; if no window looks like a browser, pages during active time."""
    in_browser = [event for event in active if _BROWSER.search(event.text("app"))]
    return intersect(flood(records.web), in_browser or active)


def summarize(
    records: Records,
    period: Period,
    host: str,
    by: GroupBy,
    *,
    top: int,
    categories: Categories,
    per: Unit | None = None,
    notes: Sequence[str] = (),
) -> Summary:
    """Add up a period; slow for many events.

    Raises: BadRequest, if the period has too many intervals.
    """
    active, found, name_of = select_events(records, by, categories)
    active_s = total_duration(active)
    rows, other_s = rank_rows(add_up(found, name_of), active_s, top)
    summary = Summary(
        start=period.start.isoformat(timespec="seconds"),
        end=period.end.isoformat(timespec="seconds"),
        time_zone=zone_name(_zone(period)),
        host=host,
        by=by,
        active_s=round(active_s, 3),
        afk_s=round(total_away_s(records), 3),
        rows=rows,
        other_s=other_s,
        per=per,
        notes=list(notes),
    )
    if per is not None:
        all_active = break_down(active, period, per, lambda _: "")
        _add_intervals(summary, all_active, break_down(found, period, per, name_of), per, top)
    return summary


def _zone(period: Period) -> tzinfo:
    assert period.start.tzinfo is not None
    return period.start.tzinfo


def rank_rows(seconds: Mapping[str, float], active_s: float, top: int) -> tuple[list[Row], float]:
    """Return a row for each of the `top` longest names, and the seconds of the others."""
    ranked = [(name, value) for name, value in Counter(seconds).most_common() if value > 0]
    rows = [
        Row(name or "(none)", round(value, 3), round(value / active_s, 4) if active_s else 0.0, format_duration(value))
        for name, value in ranked[:top]
    ]
    return rows, round(sum(value for _, value in ranked[top:]), 3)


def _add_intervals(
    summary: Summary, active: Sequence[Interval], found: Sequence[Interval], unit: Unit, top: int
) -> None:
    active_intervals = [(whole, part) for whole, part in zip(active, found, strict=True) if whole.seconds]
    share = max(1, limits.INTERVAL_ROWS // max(1, len(active_intervals)))
    for whole, part in active_intervals:
        rows, other_s = rank_rows(part.seconds, whole.total_s, min(top, share))
        summary.intervals.append(
            IntervalSummary(
                label=_format_label(whole.start, unit),
                start=whole.start.isoformat(timespec="seconds"),
                end=whole.end.isoformat(timespec="seconds"),
                active_s=round(whole.total_s, 3),
                duration=format_duration(whole.total_s),
                rows=rows,
                other_s=other_s,
            )
        )
    if share < top and any(each.other_s and len(each.rows) == share for each in summary.intervals):
        message = f"each {unit} has at most {share} rows here; ask for a shorter period or a longer unit to see more"
        summary.notes.append(message)


def _format_label(start: datetime, unit: Unit) -> str:
    if unit == "week":
        year, week, _ = start.isocalendar()
        return f"{year:04}-W{week:02}"
    if unit == "month":
        return f"{start:%Y-%m}"
    return f"{start:%Y-%m-%d} {format_weekday(start.weekday())}" if unit == "day" else f"{start:%Y-%m-%d %H}:00"


def format_duration(seconds: float) -> str:
    """Format seconds, such as `2h 05m`."""
    rounded_s = round(seconds)
    if rounded_s < 60:
        return f"{rounded_s}s"
    hours, minutes = divmod(round(rounded_s / 60), 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m"
