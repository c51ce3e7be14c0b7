"""Draw a timeline: a lane for each name over one day, or a lane for each day with the names in order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import ceil
from typing import Final

from hubbub.pack.charts import (
    FAINT,
    GREY,
    LANE_IN,
    PALE,
    Canvas,
    Lane,
    Look,
    Span,
    Tick,
    draw_key,
    draw_lanes,
    key_height_in,
)
from hubbub.packs.activity import limits
from hubbub.packs.activity.breakdown import break_down, interval_edges
from hubbub.packs.activity.chart_subject import Subject
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.period_words import mark_hours, short_day
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.summary import in_words
from hubbub.packs.activity.timeline import away_events, partial_events, unrecorded_events
from hubbub.packs.activity.transforms import by_time, total

_AWAY: Final = Look(GREY, "///")
_PARTIAL: Final = Look(PALE, "xxx")
_UNRECORDED: Final = Look(FAINT)
_BY_NAME: Final = timedelta(hours=26)
"""The longest period with a lane for each name."""
_AXIS_IN: Final = 0.4
_SLOT_S: Final = 120
"""Length of a slot: two minutes of a day are narrower than a point."""
_POINTS: Final = 600
"""Parts of the axis. Spans are drawn at least one part wide, or they would be invisible; smaller gaps are closed."""


def draw(subject: Subject) -> Canvas:
    """Draw the names in order of time, with the times away.

    Raises: NoCharts, if matplotlib is not installed.
    """
    length = _length(subject.period)
    return _draw_names(subject, length.total_seconds()) if length <= _BY_NAME else _draw_days(subject)


def check_length(period: Period) -> None:
    """Raises: BadRequest, if a period is too long for a timeline."""
    days = limits.TIMELINE_DAYS
    if _length(period) > timedelta(days=days, hours=2):  # The clocks may change within the period.
        raise BadRequest(f"a timeline shows at most {days} days; ask for a shorter period, or for the kind heatmap")


def _length(period: Period) -> timedelta:
    return period.end.astimezone(UTC) - period.start.astimezone(UTC)


def _draw_names(subject: Subject, length_s: float) -> Canvas:
    together: dict[str, list[Event]] = {name: [] for name in subject.names}
    for event in subject.found:
        together.setdefault(subject.drawn_name(event), []).append(event)
    found = [(subject.label(name), subject.look(name), events) for name, events in together.items()]
    found += _absences(subject)
    lanes = [Lane(label, in_words(total(events))) for label, _, events in found]
    start = subject.period.start.astimezone(UTC)
    spans = [
        Span(place, *span, Look(look.colour))  # lanes differ by position, so they need no texture
        for place, (_, look, events) in enumerate(found)
        for span in _visible(_offsets(events, start, length_s), length_s)
    ]
    canvas = subject.canvas(f"Timeline by {subject.by}", heights_in=[LANE_IN * len(lanes) + _AXIS_IN])
    edges = [edge.astimezone(subject.period.start.tzinfo) for edge in interval_edges(subject.period, "hour")]
    ticks = [Tick((edges[place] - start).total_seconds(), text) for place, text in mark_hours(edges, 13)]
    draw_lanes(canvas, canvas.panels[0], lanes, spans, width=length_s, x_ticks=ticks)
    return canvas


def _absences(subject: Subject) -> list[tuple[str, Look, list[Event]]]:
    away = away_events(subject.records)
    partial = partial_events(subject.records, subject.active, away)
    unrecorded = unrecorded_events(subject.records, subject.active, away, subject.period)
    found = [
        ("away", _AWAY, away),
        ("partly recorded", _PARTIAL, partial),
        ("not recorded", _UNRECORDED, unrecorded),
    ]
    return [(label, look, events) for label, look, events in found if events]


def _offsets(events: Iterable[Event], start: datetime, length_s: float) -> Iterator[tuple[float, float]]:
    """Yield the start and end of each event in seconds from the start of the period."""
    for event in by_time(events):
        first = (event.timestamp - start).total_seconds()
        yield max(0.0, first), min(first + event.duration, length_s)


def _visible(spans: Iterable[tuple[float, float]], length_s: float) -> list[tuple[float, float]]:
    """Close gaps that are too small to see, and widen spans that are too short to see."""
    least_s = length_s / _POINTS
    merged: list[tuple[float, float]] = []
    for first, last in spans:
        if last <= first:
            continue
        last = max(last, first + least_s)
        if merged and first - merged[-1][1] <= least_s:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _draw_days(subject: Subject) -> Canvas:
    active = break_down(subject.active, subject.period, "day", lambda _: "")
    lanes = [Lane(short_day(each.start), in_words(each.total_s)) for each in active]
    absences = _absences(subject)
    key = [(subject.label(name), subject.look(name)) for name in subject.names]
    key += [(label, look) for label, look, _ in absences]
    canvas = subject.canvas(
        f"Timeline by day and {subject.by}", heights_in=[LANE_IN * len(lanes) + _AXIS_IN, key_height_in(len(key))]
    )
    groups = [(subject.look(subject.drawn_name(event)), [event]) for event in subject.found]
    groups += [(look, events) for _, look, events in absences]
    places = {each.start.date(): place for place, each in enumerate(active)}
    spans = _longest_of_each_slot(groups, interval_edges(subject.period, "hour"), places, subject.period)
    ticks = [Tick(hour, f"{hour:02}:00") for hour in range(0, 25, 3)]
    draw_lanes(canvas, canvas.panels[0], lanes, spans, width=24.0, x_ticks=ticks)
    draw_key(canvas, canvas.panels[1], key)
    return canvas


def _longest_of_each_slot(
    groups: Iterable[tuple[Look, Iterable[Event]]],
    edges: Sequence[datetime],
    places: Mapping[date, int],
    period: Period,
) -> list[Span]:
    """Divide each day into slots as narrow as a point, and draw in each the name that took most of it.

    This bounds the number of spans in a picture, however many events there are.
    """
    slots: dict[tuple[int, int], dict[Look, float]] = {}
    for look, events in groups:
        for start, end in _pieces(events, edges):
            wall = start.astimezone(period.start.tzinfo)
            # A piece lies within one hour of the wall clock, so a clock change shifts nothing.
            first_s = wall.hour * 3600 + wall.minute * 60 + wall.second + wall.microsecond / 1e6
            last_s = first_s + (end - start).total_seconds()
            for slot in range(int(first_s // _SLOT_S), ceil(last_s / _SLOT_S)):
                part_s = min(last_s, (slot + 1) * _SLOT_S) - max(first_s, slot * _SLOT_S)
                seconds = slots.setdefault((places[wall.date()], slot), {})
                seconds[look] = seconds.get(look, 0.0) + part_s
    spans: list[Span] = []
    for (place, slot), seconds in sorted(slots.items(), key=lambda item: item[0]):
        look = max(seconds, key=lambda each: seconds[each])
        start_h, end_h = slot * _SLOT_S / 3600, (slot + 1) * _SLOT_S / 3600
        last = spans[-1] if spans else None
        if last is not None and (last.lane, last.look) == (place, look) and start_h - last.end < 1e-6:
            spans[-1] = Span(place, last.start, end_h, look)
        else:
            spans.append(Span(place, start_h, end_h, look))
    return spans


def _pieces(events: Iterable[Event], edges: Sequence[datetime]) -> Iterator[tuple[datetime, datetime]]:
    """Yield the parts of events between these edges, in UTC."""
    for event in events:
        start, end = max(event.timestamp.astimezone(UTC), edges[0]), min(event.end.astimezone(UTC), edges[-1])
        while start < end:
            last = min(end, edges[bisect_right(edges, start)])
            yield start, last
            start = last
