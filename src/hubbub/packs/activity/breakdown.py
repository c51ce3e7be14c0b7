"""Split events at the hours, days, weeks or months of a time zone and add up each part. Pure.

All arithmetic is in UTC: on the days when clocks change, a wall clock skips or repeats times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from itertools import pairwise
from typing import Literal, TypeAlias

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.periods import Period

Unit: TypeAlias = Literal["hour", "day", "week", "month"]


class Interval(msgspec.Struct, frozen=True):
    """One hour, day, week or month of a period, with the seconds of each name."""

    start: datetime
    end: datetime
    """In the time zone of the period. The first and the last interval are cut to the period."""
    seconds: dict[str, float]

    @property
    def total_s(self) -> float:
        """Return the seconds of all names together."""
        return sum(self.seconds.values())


def break_down(events: Iterable[Event], period: Period, unit: Unit, name_of: Callable[[Event], str]) -> list[Interval]:
    """Return every interval of the period in order, also those in which nothing happened.

    Time outside the period is ignored. Weeks begin on Monday.

    Raises: BadRequest, if the period has too many such intervals.
    """
    edges = interval_edges(period, unit)
    seconds: list[dict[str, float]] = [{} for _ in edges[1:]]
    for event in events:
        start, end = event.timestamp.astimezone(UTC), event.end.astimezone(UTC)
        name = None
        index = max(bisect_right(edges, start) - 1, 0)
        while index < len(seconds) and edges[index] < end:
            length = (min(end, edges[index + 1]) - max(start, edges[index])).total_seconds()
            if length > 0:
                name = name_of(event) if name is None else name
                seconds[index][name] = seconds[index].get(name, 0.0) + length
            index += 1
    zone = period.start.tzinfo
    return [
        Interval(start.astimezone(zone), end.astimezone(zone), found)
        for (start, end), found in zip(pairwise(edges), seconds, strict=True)
    ]


def interval_edges(period: Period, unit: Unit) -> list[datetime]:
    """Return where the intervals of a period begin, and where the last one ends, in UTC.

    Raises: BadRequest, if there are too many.
    """
    zone = period.start.tzinfo
    assert zone is not None
    start, end = period.start.astimezone(UTC), period.end.astimezone(UTC)
    edges = [start]
    for edge in _hours(start, zone) if unit == "hour" else _midnights(period.start, unit, zone):
        if edge >= end:
            break
        if edge > edges[-1]:
            edges.append(edge)
        if len(edges) > limits.INTERVALS:
            longer = "ask for a shorter period" if unit == "month" else "ask for a shorter period or a longer unit"
            raise BadRequest(f"the period has more than {limits.INTERVALS} intervals of one {unit}; {longer}")
    return [*edges, end]


def _hours(start: datetime, zone: tzinfo) -> Iterator[datetime]:
    """Yield the full hours of the wall clock after a moment, also in zones that are off, or shift, by half an hour."""
    edge = start
    while True:
        wall = edge.astimezone(zone)
        into_hour = timedelta(minutes=wall.minute, seconds=wall.second, microseconds=wall.microsecond)
        edge += timedelta(hours=1) - into_hour
        yield edge


def _midnights(start: datetime, unit: Unit, zone: tzinfo) -> Iterator[datetime]:
    """Yield the midnights after a moment at which a day, week or month begins."""
    day = start.date()
    while True:
        day = _next_first_day(day, unit)
        # If midnight is skipped, this is the moment of the clock change; if it occurs twice, the first one.
        yield datetime.combine(day, time(), zone).astimezone(UTC)


def _next_first_day(day: date, unit: Unit) -> date:
    if unit == "month":
        return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return day + timedelta(days=7 - day.weekday() if unit == "week" else 1)
