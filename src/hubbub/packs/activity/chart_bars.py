"""Draw a bar for each name, and below them a column for each hour, day, week or month."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import Final

from hubbub.pack.charts import BAR_IN, COLUMNS_IN, Bar, Canvas, Tick, draw_bars, draw_columns, thin_out
from hubbub.packs.activity.breakdown import Interval, Unit, break_down
from hubbub.packs.activity.chart_data import OTHER, ChartData
from hubbub.packs.activity.period_format import format_month, format_weekday, label_hours
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.summary import format_duration

_UNITS: Final[tuple[tuple[Unit, timedelta], ...]] = (
    ("hour", timedelta(hours=49)),
    ("day", timedelta(days=63)),
    ("week", timedelta(days=200)),
    ("month", timedelta.max),
)
"""Units of the columns, each with the longest period it is used for."""
_MAX_LABELLED_COLUMNS: Final = 16
"""With more columns than this there is no space for a duration above each."""
_TICK_STEPS_S: Final = (300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800)


def draw(data: ChartData) -> Canvas:
    """Draw how long each name took, in total and over time.

    Raises: NoCharts, if matplotlib is not installed.
    """
    bars = [
        Bar(row.name, row.seconds, data.look(row.name), f"{row.duration} · {row.share:.0%}")
        for row in data.summary.rows
    ]
    if data.summary.other_s:
        other_s = data.summary.other_s
        bars.append(Bar(data.label(OTHER), other_s, data.look(OTHER), format_duration(other_s)))
    unit = _choose_unit(data.period)
    canvas = data.make_canvas(
        f"Time by {data.by} and {unit}", heights_in=[BAR_IN * len(bars) + 0.1, COLUMNS_IN if bars else 0.1]
    )
    draw_bars(canvas, canvas.panels[0], bars)
    _draw_intervals(canvas, data, unit)
    return canvas


def _draw_intervals(canvas: Canvas, data: ChartData, unit: Unit) -> None:
    intervals = break_down(data.events, data.period, unit, data.group_of_event)
    columns = [
        [(interval.seconds.get(name, 0.0), data.look(name)) for name in data.names if name in interval.seconds]
        for interval in intervals
    ]
    has_labels = unit != "hour" and len(columns) <= _MAX_LABELLED_COLUMNS
    draw_columns(
        canvas,
        canvas.panels[1],
        columns,
        x_ticks=_interval_ticks(intervals, unit),
        y_ticks=duration_ticks(3600.0 if unit == "hour" else max(each.total_s for each in intervals)),
        notes=[format_duration(each.total_s) if each.seconds else "" for each in intervals] if has_labels else (),
    )


def _choose_unit(period: Period) -> Unit:
    length = period.end.astimezone(UTC) - period.start.astimezone(UTC)
    return next(unit for unit, longest in _UNITS if length <= longest)


def _interval_ticks(intervals: Sequence[Interval], unit: Unit) -> list[Tick]:
    if unit == "hour":
        # Hours are labelled at their start, not in the middle.
        edges = [*(each.start for each in intervals), intervals[-1].end]
        return [Tick(index - 0.5, text) for index, text in label_hours(edges, 13)]
    if unit == "day":
        texts = [
            f"{format_weekday(each.start.weekday())}\n{each.start.day} {format_month(each.start)}" for each in intervals
        ]
    elif unit == "week":
        texts = [f"W{each.start.isocalendar().week}\n{each.start.day} {format_month(each.start)}" for each in intervals]
    else:
        texts = [f"{format_month(each.start)}\n{each.start.year}" for each in intervals]
    return thin_out([Tick(index, text) for index, text in enumerate(texts)], 16)


def duration_ticks(highest_s: float) -> list[Tick]:
    """Return a few ticks at round durations, the last one at or below the highest value."""
    step = next((step for step in _TICK_STEPS_S if highest_s / step <= 5), _TICK_STEPS_S[-1])
    count = int(highest_s // step)
    return [Tick(step * number, _format_tick(step * number)) for number in range(count + 1)]


def _format_tick(seconds: int) -> str:
    if seconds == 0:
        return "0"
    return f"{seconds // 60}m" if seconds % 3600 else f"{seconds // 3600}h"
