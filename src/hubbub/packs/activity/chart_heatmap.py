"""Draw a heat map: hours by days, or for a long period a calendar with weekdays by weeks."""

from __future__ import annotations

from datetime import UTC, date, timedelta
from typing import Final

from hubbub.pack.charts import LANE_IN, Canvas, Lane, Tick, draw_heat, thin_out
from hubbub.packs.activity.breakdown import break_down
from hubbub.packs.activity.chart_subject import Subject
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.period_words import short_day, short_month, weekday
from hubbub.packs.activity.summary import in_words
from hubbub.packs.activity.timeline import away_events
from hubbub.packs.activity.transforms import union

_BY_HOUR: Final = timedelta(days=32)
"""The longest period with a row for each day: a month, including a clock change."""
_NUMBERED_DAYS: Final = 14
_KEY_IN: Final = 0.7
_BLANK: Final = "blank: nothing recorded"


def draw(subject: Subject) -> Canvas:
    """Draw how active each hour or day was.

    Raises: NoCharts, if matplotlib is not installed.
    """
    length = subject.period.end.astimezone(UTC) - subject.period.start.astimezone(UTC)
    return _draw_hours(subject) if length < _BY_HOUR else _draw_calendar(subject)


def _draw_hours(subject: Subject) -> Canvas:
    """Draw a row for each day with a cell for each hour of the wall clock. A repeated hour shares one cell."""
    cells: dict[date, list[float | None]] = {}
    first: dict[date, str] = {}
    recorded = break_down(_recorded(subject), subject.period, "hour", _one_name)
    for interval, known in zip(break_down(subject.active, subject.period, "hour", _one_name), recorded, strict=True):
        day = interval.start.date()
        first.setdefault(day, short_day(interval.start))
        row = cells.setdefault(day, [None] * 24)
        if known.seconds:
            row[interval.start.hour] = (row[interval.start.hour] or 0.0) + interval.total_s / 60
    rows = [(Lane(first[day], in_words(60 * sum(filter(None, row)))), row) for day, row in cells.items()]
    canvas = subject.canvas("Active time by day and hour", _BLANK, heights_in=[LANE_IN * len(rows) + _KEY_IN])
    draw_heat(
        canvas,
        canvas.panels[0],
        rows,
        highest=60.0,
        x_ticks=[Tick(hour, f"{hour:02}:00") for hour in range(0, 25, 3)],
        label="active minutes in the hour",
        are_numbered=len(rows) <= _NUMBERED_DAYS,
    )
    return canvas


def _draw_calendar(subject: Subject) -> Canvas:
    """Draw a row for each weekday with a cell for each week."""
    days = break_down(subject.active, subject.period, "day", _one_name)
    recorded = break_down(_recorded(subject), subject.period, "day", _one_name)
    monday = days[0].start.date() - timedelta(days=days[0].start.weekday())
    weeks = (days[-1].start.date() - monday).days // 7 + 1
    rows: list[list[float | None]] = [[None] * weeks for _ in range(7)]
    months: dict[str, Tick] = {}
    for interval, known in zip(days, recorded, strict=True):
        week = (interval.start.date() - monday).days // 7
        months.setdefault(f"{interval.start:%Y-%m}", Tick(week + 0.5, short_month(interval.start)))
        if known.seconds:
            rows[interval.start.weekday()][week] = interval.total_s / 3600
    totals = [3600 * sum(filter(None, row)) for row in rows]
    canvas = subject.canvas("Active time by day", _BLANK, heights_in=[LANE_IN * 7 + _KEY_IN])
    draw_heat(
        canvas,
        canvas.panels[0],
        [
            (Lane(weekday(number), in_words(total_s)), row)
            for number, (row, total_s) in enumerate(zip(rows, totals, strict=True))
        ],
        highest=max(1.0, *(value or 0.0 for row in rows for value in row)),
        x_ticks=thin_out(list(months.values()), 14),
        label="active hours in the day",
        are_numbered=False,
    )
    return canvas


def _recorded(subject: Subject) -> list[Event]:
    return union(subject.active, away_events(subject.records))


def _one_name(_: Event) -> str:
    return ""
