"""Render a period as a picture with a text alternative: bars, a timeline, or a heat map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.pack.charts import Canvas, write_centred
from hubbub.packs.activity import chart_bars, chart_heatmap, chart_timeline
from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.chart_subject import Subject, read_subject
from hubbub.packs.activity.events import one_line
from hubbub.packs.activity.period_words import describe_period
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.presence import Records
from hubbub.packs.activity.summary import By, in_words

Kind: TypeAlias = Literal["bars", "timeline", "heatmap"]
_DRAWERS: Final[dict[Kind, Callable[[Subject], Canvas]]] = {
    "bars": chart_bars.draw,
    "timeline": chart_timeline.draw,
    "heatmap": chart_heatmap.draw,
}
_TITLES: Final[dict[Kind, str]] = {"bars": "Time by {by}", "timeline": "Timeline by {by}", "heatmap": "Active time"}
_EMPTY_IN: Final = 1.8


class Chart(msgspec.Struct, frozen=True):
    """A picture and the same facts as text."""

    png: bytes
    text: str


def check_length(kind: Kind, period: Period) -> None:
    """Raises: BadRequest, if a period is too long for this kind of chart."""
    if kind == "timeline":
        chart_timeline.check_length(period)


def draw_chart(
    kind: Kind, records: Records, period: Period, host: str, by: By, *, categories: Categories, notes: Sequence[str]
) -> Chart:
    """Draw a period. Slow: run it in a thread.

    Raises: NoCharts, if matplotlib is not installed.
    """
    subject = read_subject(records, period, host, by, categories=categories, notes=notes)
    has_something = subject.summary.active_s or (kind == "timeline" and (subject.summary.afk_s or subject.partial_s))
    canvas = _DRAWERS[kind](subject) if has_something else _draw_empty(subject, kind)
    picture = canvas.finish()
    return Chart(picture.png, _describe(subject, picture.notes))


def _draw_empty(subject: Subject, kind: Kind) -> Canvas:
    canvas = subject.canvas(_TITLES[kind].format(by=subject.by), heights_in=[_EMPTY_IN])
    write_centred(canvas, canvas.panels[0], _reason(subject))
    return canvas


def _reason(subject: Subject) -> str:
    """Return why there is nothing to draw. Problems of the watchers are in the notes."""
    away_s, partial_s = subject.summary.afk_s, subject.partial_s
    if partial_s:
        return f"{in_words(partial_s)} were recorded in part only, so none of it is known to be active"
    if away_s:
        return f"No activity: {in_words(away_s)} away, nothing else recorded"
    return "Nothing was recorded in this period"


def _describe(subject: Subject, notes: Sequence[str]) -> str:
    summary = subject.summary
    lines = [f"{summary.host}, {describe_period(subject.period)}: {subject.totals}."]
    if not summary.active_s:
        lines.append(f"{_reason(subject)}.")
    elif summary.rows:
        lines.append(f"By {subject.by}:")
        lines += [f"- {one_line(row.name)}: {row.duration} ({row.share:.0%})" for row in summary.rows]
    if summary.other_s:
        lines.append(f"- everything else: {in_words(summary.other_s)}")
    lines += [f"Note: {one_line(note)}" for note in (*summary.notes, *notes)]
    return "\n".join(lines)
