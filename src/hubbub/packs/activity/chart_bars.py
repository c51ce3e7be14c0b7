"""Draw a bar for each name, and below them a column for each hour, day, week or month."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import Final

from hubbub.pack.charts import BAR_IN, COLUMNS_IN, Bar, Canvas, Tick, draw_bars, draw_columns, thin_out
from hubbub.packs.activity.breakdown import Interval, Unit, break_down
from hubbub.packs.activity.chart_subject import OTHER, Subject
from hubbub.packs.activity.period_words import mark_hours, short_month, weekday
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.summary import in_words

_UNITS: Final[tuple[tuple[Unit, timedelta], ...]] = (
    ("hour", timedelta(hours=49)),
    ("day", timedelta(days=63)),
    ("week", timedelta(days=200)),
    ("month", timedelta.max),
)
"""Units of the columns, each with the longest period it is used for."""
_NOTED_COLUMNS: Final = 16
"""With more columns than this there is no space for a duration above each."""
_STEPS_S: Final = (300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800)


def draw(subject: Subject) -> Canvas:
    """Draw how long each name took, in total and over time.

    Raises: NoCharts, if matplotlib is not installed.
    """
    bars = [
        Bar(row.name, row.seconds, subject.look(row.name), f"{row.duration} · {row.share:.0%}")
        for row in subject.summary.rows
    ]
    if subject.summary.other_s:
        other_s = subject.summary.other_s
        bars.append(Bar(subject.label(OTHER), other_s, subject.look(OTHER), in_words(other_s)))
    unit = _unit(subject.period)
    canvas = subject.canvas(
        f"Time by {subject.by} and {unit}", heights_in=[BAR_IN * len(bars) + 0.1, COLUMNS_IN if bars else 0.1]
    )
    draw_bars(canvas, canvas.panels[0], bars)
    _draw_intervals(canvas, subject, unit)
    return canvas


def _draw_intervals(canvas: Canvas, subject: Subject, unit: Unit) -> None:
    intervals = break_down(subject.found, subject.period, unit, subject.drawn_name)
    columns = [
        [(interval.seconds.get(name, 0.0), subject.look(name)) for name in subject.names if name in interval.seconds]
        for interval in intervals
    ]
    is_noted = unit != "hour" and len(columns) <= _NOTED_COLUMNS
    draw_columns(
        canvas,
        canvas.panels[1],
        columns,
        x_ticks=_interval_ticks(intervals, unit),
        y_ticks=duration_ticks(3600.0 if unit == "hour" else max(each.total_s for each in intervals)),
        notes=[in_words(each.total_s) if each.seconds else "" for each in intervals] if is_noted else (),
    )


def _unit(period: Period) -> Unit:
    length = period.end.astimezone(UTC) - period.start.astimezone(UTC)
    return next(unit for unit, longest in _UNITS if length <= longest)


def _interval_ticks(intervals: Sequence[Interval], unit: Unit) -> list[Tick]:
    if unit == "hour":
        # Hours are labelled at their start, not in the middle.
        edges = [*(each.start for each in intervals), intervals[-1].end]
        return [Tick(place - 0.5, text) for place, text in mark_hours(edges, 13)]
    if unit == "day":
        texts = [f"{weekday(each.start.weekday())}\n{each.start.day} {short_month(each.start)}" for each in intervals]
    elif unit == "week":
        texts = [f"W{each.start.isocalendar().week}\n{each.start.day} {short_month(each.start)}" for each in intervals]
    else:
        texts = [f"{short_month(each.start)}\n{each.start.year}" for each in intervals]
    return thin_out([Tick(place, text) for place, text in enumerate(texts)], 16)


def duration_ticks(highest_s: float) -> list[Tick]:
    """Return a few ticks at round durations, the last one at or below the highest value."""
    step = next((step for step in _STEPS_S if highest_s / step <= 5), _STEPS_S[-1])
    count = int(highest_s // step)
    return [Tick(step * number, _duration(step * number)) for number in range(count + 1)]


def _duration(seconds: int) -> str:
    if seconds == 0:
        return "0"
    return f"{seconds // 60}m" if seconds % 3600 else f"{seconds // 3600}h"
