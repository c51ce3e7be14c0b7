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
from hubbub.packs.activity.chart_data import ChartData
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.period_format import format_day, label_hours
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.summary import format_duration
from hubbub.packs.activity.timeline import away_events, partial_events, unrecorded_events
from hubbub.packs.activity.transforms import sort_by_time, total_duration

_AWAY: Final = Look(GREY, "///")
_PARTIAL: Final = Look(PALE, "xxx")
_UNRECORDED: Final = Look(FAINT)
_LANE_PER_NAME_MAX: Final = timedelta(hours=26)
"""The longest period with a lane for each name."""
_AXIS_HEIGHT_IN: Final = 0.4
_SLOT_S: Final = 120
"""Length of a slot: two minutes of a day are narrower than a point."""
_AXIS_RESOLUTION: Final = 600
"""Parts of the axis. Spans are drawn at least one part wide, or they would be invisible; smaller gaps are closed."""


def draw(data: ChartData) -> Canvas:
    """Draw the names in order of time, with the times away.

    Raises: NoCharts, if matplotlib is not installed.
    """
    length = _period_length(data.period)
    return _draw_names(data, length.total_seconds()) if length <= _LANE_PER_NAME_MAX else _draw_days(data)


def check_period_length(period: Period) -> None:
    """Raises: BadRequest, if a period is too long for a timeline."""
    days = limits.TIMELINE_DAYS
    if _period_length(period) > timedelta(days=days, hours=2):  # The clocks may change within the period.
        raise BadRequest(f"a timeline shows at most {days} days; ask for a shorter period, or use kind=heatmap")


def _period_length(period: Period) -> timedelta:
    return period.end.astimezone(UTC) - period.start.astimezone(UTC)


def _draw_names(data: ChartData, length_s: float) -> Canvas:
    events_by_name: dict[str, list[Event]] = {name: [] for name in data.names}
    for event in data.events:
        events_by_name.setdefault(data.group_of_event(event), []).append(event)
    found = [(data.label(name), data.look(name), events) for name, events in events_by_name.items()]
    found += _inactive_groups(data)
    lanes = [Lane(label, format_duration(total_duration(events))) for label, _, events in found]
    start = data.period.start.astimezone(UTC)
    spans = [
        Span(index, *span, Look(look.colour))  # lanes differ by position, so they need no texture
        for index, (_, look, events) in enumerate(found)
        for span in _widen_spans(_offsets(events, start, length_s), length_s)
    ]
    canvas = data.make_canvas(f"Timeline by {data.by}", heights_in=[LANE_IN * len(lanes) + _AXIS_HEIGHT_IN])
    edges = [edge.astimezone(data.period.start.tzinfo) for edge in interval_edges(data.period, "hour")]
    ticks = [Tick((edges[index] - start).total_seconds(), text) for index, text in label_hours(edges, 13)]
    draw_lanes(canvas, canvas.panels[0], lanes, spans, width=length_s, x_ticks=ticks)
    return canvas


def _inactive_groups(data: ChartData) -> list[tuple[str, Look, list[Event]]]:
    away = away_events(data.records)
    partial = partial_events(data.records, data.active, away)
    unrecorded = unrecorded_events(data.records, data.active, away, data.period)
    found = [
        ("away", _AWAY, away),
        ("partly recorded", _PARTIAL, partial),
        ("not recorded", _UNRECORDED, unrecorded),
    ]
    return [(label, look, events) for label, look, events in found if events]


def _offsets(events: Iterable[Event], start: datetime, length_s: float) -> Iterator[tuple[float, float]]:
    """Yield the start and end of each event in seconds from the start of the period."""
    for event in sort_by_time(events):
        first = (event.timestamp - start).total_seconds()
        yield max(0.0, first), min(first + event.duration, length_s)


def _widen_spans(spans: Iterable[tuple[float, float]], length_s: float) -> list[tuple[float, float]]:
    """Close gaps that are too small to see, and widen spans that are too short to see."""
    min_s = length_s / _AXIS_RESOLUTION
    merged: list[tuple[float, float]] = []
    for first, last in spans:
        if last <= first:
            continue
        last = max(last, first + min_s)
        if merged and first - merged[-1][1] <= min_s:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _draw_days(data: ChartData) -> Canvas:
    active = break_down(data.active, data.period, "day", lambda _: "")
    lanes = [Lane(format_day(each.start), format_duration(each.total_s)) for each in active]
    absences = _inactive_groups(data)
    key = [(data.label(name), data.look(name)) for name in data.names]
    key += [(label, look) for label, look, _ in absences]
    canvas = data.make_canvas(
        f"Timeline by day and {data.by}", heights_in=[LANE_IN * len(lanes) + _AXIS_HEIGHT_IN, key_height_in(len(key))]
    )
    groups = [(data.look(data.group_of_event(event)), [event]) for event in data.events]
    groups += [(look, events) for _, look, events in absences]
    lane_by_day = {each.start.date(): index for index, each in enumerate(active)}
    spans = _fill_slots(groups, interval_edges(data.period, "hour"), lane_by_day, data.period)
    ticks = [Tick(hour, f"{hour:02}:00") for hour in range(0, 25, 3)]
    draw_lanes(canvas, canvas.panels[0], lanes, spans, width=24.0, x_ticks=ticks)
    draw_key(canvas, canvas.panels[1], key)
    return canvas


def _fill_slots(
    groups: Iterable[tuple[Look, Iterable[Event]]],
    edges: Sequence[datetime],
    lane_by_day: Mapping[date, int],
    period: Period,
) -> list[Span]:
    """Divide each day into slots as narrow as a point, and draw in each the name that took most of it.

    This bounds the number of spans in a picture, however many events there are.
    """
    slots: dict[tuple[int, int], dict[Look, float]] = {}
    for look, events in groups:
        for start, end in _split_events(events, edges):
            wall = start.astimezone(period.start.tzinfo)
            # A piece lies within one hour of the wall clock, so a clock change shifts nothing.
            first_s = wall.hour * 3600 + wall.minute * 60 + wall.second + wall.microsecond / 1e6
            last_s = first_s + (end - start).total_seconds()
            for slot in range(int(first_s // _SLOT_S), ceil(last_s / _SLOT_S)):
                part_s = min(last_s, (slot + 1) * _SLOT_S) - max(first_s, slot * _SLOT_S)
                seconds = slots.setdefault((lane_by_day[wall.date()], slot), {})
                seconds[look] = seconds.get(look, 0.0) + part_s
    spans: list[Span] = []
    for (index, slot), seconds in sorted(slots.items(), key=lambda item: item[0]):
        look = max(seconds, key=lambda each: seconds[each])
        start_h, end_h = slot * _SLOT_S / 3600, (slot + 1) * _SLOT_S / 3600
        last = spans[-1] if spans else None
        if last is not None and (last.lane, last.look) == (index, look) and start_h - last.end < 1e-6:
            spans[-1] = Span(index, last.start, end_h, look)
        else:
            spans.append(Span(index, start_h, end_h, look))
    return spans


def _split_events(events: Iterable[Event], edges: Sequence[datetime]) -> Iterator[tuple[datetime, datetime]]:
    """Yield the parts of events between these edges, in UTC."""
    for event in events:
        start, end = max(event.timestamp.astimezone(UTC), edges[0]), min(event.end.astimezone(UTC), edges[-1])
        while start < end:
            last = min(end, edges[bisect_right(edges, start)])
            yield start, last
            start = last
