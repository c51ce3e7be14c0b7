"""Render a period as a picture with a text alternative: bars, a timeline, or a heat map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.pack.charts import Canvas, write_centred
from hubbub.packs.activity import chart_bars, chart_heatmap, chart_timeline
from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.chart_data import ChartData, build_chart_data
from hubbub.packs.activity.events import to_single_line
from hubbub.packs.activity.period_format import format_period
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.presence import Records
from hubbub.packs.activity.summary import GroupBy, format_duration

ChartKind: TypeAlias = Literal["bars", "timeline", "heatmap"]
_DRAWERS: Final[dict[ChartKind, Callable[[ChartData], Canvas]]] = {
    "bars": chart_bars.draw,
    "timeline": chart_timeline.draw,
    "heatmap": chart_heatmap.draw,
}
_TITLES: Final[dict[ChartKind, str]] = {
    "bars": "Time by {by}",
    "timeline": "Timeline by {by}",
    "heatmap": "Active time",
}
_EMPTY_HEIGHT_IN: Final = 1.8


class Chart(msgspec.Struct, frozen=True):
    """A picture and the same facts as text."""

    png: bytes
    text: str


def check_period_length(kind: ChartKind, period: Period) -> None:
    """Raises: BadRequest, if a period is too long for this kind of chart."""
    if kind == "timeline":
        chart_timeline.check_period_length(period)


def draw_chart(
    kind: ChartKind,
    records: Records,
    period: Period,
    host: str,
    by: GroupBy,
    *,
    categories: Categories,
    notes: Sequence[str],
) -> Chart:
    """Draw a period. Slow: run it in a thread.

    Raises: NoCharts, if matplotlib is not installed.
    """
    data = build_chart_data(records, period, host, by, categories=categories, notes=notes)
    has_data = data.summary.active_s or (kind == "timeline" and (data.summary.afk_s or data.partial_s))
    canvas = _DRAWERS[kind](data) if has_data else _draw_empty(data, kind)
    picture = canvas.finish()
    return Chart(picture.png, _describe(data, picture.notes))


def _draw_empty(data: ChartData, kind: ChartKind) -> Canvas:
    canvas = data.make_canvas(_TITLES[kind].format(by=data.by), heights_in=[_EMPTY_HEIGHT_IN])
    write_centred(canvas, canvas.panels[0], _empty_reason(data))
    return canvas


def _empty_reason(data: ChartData) -> str:
    """Return why there is nothing to draw. Problems of the watchers are in the notes."""
    away_s, partial_s = data.summary.afk_s, data.partial_s
    if partial_s:
        return f"{format_duration(partial_s)} were recorded only in part, so it is unknown whether they were active"
    if away_s:
        return f"No activity: {format_duration(away_s)} away, nothing else recorded"
    return "Nothing was recorded in this period"


def _describe(data: ChartData, notes: Sequence[str]) -> str:
    summary = data.summary
    lines = [f"{summary.host}, {format_period(data.period)}: {data.totals}."]
    if not summary.active_s:
        lines.append(f"{_empty_reason(data)}.")
    elif summary.rows:
        lines.append(f"By {data.by}:")
        lines += [f"- {to_single_line(row.name)}: {row.duration} ({row.share:.0%})" for row in summary.rows]
    if summary.other_s:
        lines.append(f"- everything else: {format_duration(summary.other_s)}")
    lines += [f"Note: {to_single_line(note)}" for note in (*summary.notes, *notes)]
    return "\n".join(lines)
