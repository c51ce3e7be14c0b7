"""Draw a heat map: hours by days, or for a long period a calendar with weekdays by weeks."""

from __future__ import annotations

from datetime import UTC, date, timedelta
from typing import Final

from hubbub.pack.charts import LANE_IN, Canvas, Lane, Tick, draw_heat, thin_out
from hubbub.packs.activity.breakdown import break_down
from hubbub.packs.activity.chart_data import ChartData
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.period_format import format_day, format_month, format_weekday
from hubbub.packs.activity.summary import format_duration
from hubbub.packs.activity.timeline import away_events
from hubbub.packs.activity.transforms import union

_HOURLY_MAX: Final = timedelta(days=32)
"""The longest period with a row for each day: a month, including a clock change."""
_MAX_NUMBERED_DAYS: Final = 14
_KEY_HEIGHT_IN: Final = 0.7
_BLANK_NOTE: Final = "blank: nothing recorded"


def draw(data: ChartData) -> Canvas:
    """Draw how active each hour or day was.

    Raises: NoCharts, if matplotlib is not installed.
    """
    length = data.period.end.astimezone(UTC) - data.period.start.astimezone(UTC)
    return _draw_hours(data) if length < _HOURLY_MAX else _draw_calendar(data)


def _draw_hours(data: ChartData) -> Canvas:
    """Draw a row for each day with a cell for each hour of the wall clock. A repeated hour shares one cell."""
    cells: dict[date, list[float | None]] = {}
    day_labels: dict[date, str] = {}
    recorded = break_down(_recorded_events(data), data.period, "hour", _constant_name)
    for interval, known in zip(break_down(data.active, data.period, "hour", _constant_name), recorded, strict=True):
        day = interval.start.date()
        day_labels.setdefault(day, format_day(interval.start))
        row = cells.setdefault(day, [None] * 24)
        if known.seconds:
            row[interval.start.hour] = (row[interval.start.hour] or 0.0) + interval.total_s / 60
    rows = [(Lane(day_labels[day], format_duration(60 * sum(filter(None, row)))), row) for day, row in cells.items()]
    canvas = data.make_canvas(
        "Active time by day and hour", _BLANK_NOTE, heights_in=[LANE_IN * len(rows) + _KEY_HEIGHT_IN]
    )
    draw_heat(
        canvas,
        canvas.panels[0],
        rows,
        highest=60.0,
        x_ticks=[Tick(hour, f"{hour:02}:00") for hour in range(0, 25, 3)],
        label="active minutes in the hour",
        are_numbered=len(rows) <= _MAX_NUMBERED_DAYS,
    )
    return canvas


def _draw_calendar(data: ChartData) -> Canvas:
    """Draw a row for each weekday with a cell for each week."""
    days = break_down(data.active, data.period, "day", _constant_name)
    recorded = break_down(_recorded_events(data), data.period, "day", _constant_name)
    monday = days[0].start.date() - timedelta(days=days[0].start.weekday())
    weeks = (days[-1].start.date() - monday).days // 7 + 1
    rows: list[list[float | None]] = [[None] * weeks for _ in range(7)]
    months: dict[str, Tick] = {}
    for interval, known in zip(days, recorded, strict=True):
        week = (interval.start.date() - monday).days // 7
        months.setdefault(f"{interval.start:%Y-%m}", Tick(week + 0.5, format_month(interval.start)))
        if known.seconds:
            rows[interval.start.weekday()][week] = interval.total_s / 3600
    totals = [3600 * sum(filter(None, row)) for row in rows]
    canvas = data.make_canvas("Active time by day", _BLANK_NOTE, heights_in=[LANE_IN * 7 + _KEY_HEIGHT_IN])
    draw_heat(
        canvas,
        canvas.panels[0],
        [
            (Lane(format_weekday(number), format_duration(total_s)), row)
            for number, (row, total_s) in enumerate(zip(rows, totals, strict=True))
        ],
        highest=max(1.0, *(value or 0.0 for row in rows for value in row)),
        x_ticks=thin_out(list(months.values()), 14),
        label="active hours in the day",
        are_numbered=False,
    )
    return canvas


def _recorded_events(data: ChartData) -> list[Event]:
    return union(data.active, away_events(data.records))


def _constant_name(_: Event) -> str:
    return ""
