"""How a period was spent: added up by app, title, site or category, without the time nobody was there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.now import NOT_AFK
from hubbub.packs.activity.periods import Period, zone_name
from hubbub.packs.activity.sources import Records
from hubbub.packs.activity.transforms import domain_of, flood, having, intersect, total, union, without

By: TypeAlias = Literal["app", "title", "domain", "category"]
_BROWSER: Final = re.compile(
    r"(?i)chrom|firefox|safari|edge|brave|opera|vivaldi|browser|librewolf|arc\b|waterfox|epiphany|falkon"
)


class Row(msgspec.Struct, frozen=True):
    """One line of a summary."""

    name: str
    seconds: float
    share: float
    """Of the time that somebody was there."""
    duration: str
    """For people."""


class Summary(msgspec.Struct, kw_only=True):
    """A period, added up."""

    start: str
    end: str
    time_zone: str
    host: str
    by: By
    active_s: float
    """How long somebody was there."""
    afk_s: float
    """How long nobody was, as far as that is known."""
    rows: list[Row]
    other_s: float
    """Of those that are not among the rows."""
    notes: list[str]


def active_events(records: Records) -> list[Event]:
    """The windows that were in front while somebody was there."""
    windows = flood(records.window)
    return intersect(windows, present(records)) if records.afk else windows


def present(records: Records) -> list[Event]:
    """When somebody was there: there was input, or a page could be heard."""
    return union(having(flood(records.afk), "status", [NOT_AFK]), having(records.web, "audible", [True]))


def absent_s(records: Records) -> float:
    """How long nobody was."""
    return total(without(_not(flood(records.afk)), present(records)))


def _not(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.text("status") != NOT_AFK]


def add_up(events: Sequence[Event], name_of: Callable[[Event], str]) -> Counter[str]:
    """Seconds by name."""
    seconds: Counter[str] = Counter()
    for event in events:
        seconds[name_of(event)] += event.duration  # type: ignore[assignment]  # seconds have fractions
    return seconds


def spent(records: Records, by: By, categories: Categories) -> tuple[Counter[str], float]:
    """Seconds by name, and in all."""
    active = active_events(records)
    if by == "domain":
        return add_up(_tabs(records, active), lambda event: domain_of(event.text("url"))), total(active)
    names: dict[str, Callable[[Event], str]] = {
        "app": lambda event: event.text("app"),
        "title": lambda event: event.text("title"),
        "category": categories.named,
    }
    return add_up(active, names[by]), total(active)


def _tabs(records: Records, active: Sequence[Event]) -> list[Event]:
    """Pages count while their browser is in front; where no window looks like one, whenever they were shown."""
    in_browser = [event for event in active if _BROWSER.search(event.text("app"))]
    return intersect(flood(records.web), in_browser or active)


def summarize(
    records: Records, period: Period, host: str, by: By, *, top: int, categories: Categories, notes: Sequence[str] = ()
) -> Summary:
    """The summary; takes a while for many events."""
    seconds, active_s = spent(records, by, categories)
    ranked = [(name, value) for name, value in seconds.most_common() if value > 0]
    zone = period.start.tzinfo
    assert zone is not None
    return Summary(
        start=period.start.isoformat(timespec="seconds"),
        end=period.end.isoformat(timespec="seconds"),
        time_zone=zone_name(zone),
        host=host,
        by=by,
        active_s=round(active_s, 3),
        afk_s=round(absent_s(records), 3),
        rows=[
            Row(name or "(none)", round(value, 3), round(value / active_s, 4) if active_s else 0.0, in_words(value))
            for name, value in ranked[:top]
        ],
        other_s=round(sum(value for _, value in ranked[top:]), 3),
        notes=list(notes),
    )


def in_words(seconds: float) -> str:
    """`2h 05m`, as people say it."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    hours, minutes = divmod(round(whole / 60), 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m"
