"""A period as a picture: a bar for each app or category."""

from __future__ import annotations

from typing import Final

from hubbub.packs.activity.summary import Summary, in_words
from hubbub.packs.charts import Bar, draw_bars

COLOURS: Final = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf",
)  # fmt: skip
BARS: Final = len(COLOURS)
_OTHER: Final = "#c7c7c7"
_MINUTES_UP_TO_S: Final = 2 * 3600


def draw(summary: Summary) -> bytes:
    """A PNG whose bars are as long as the times.

    Raises: NoCharts, where there is no matplotlib.
    """
    longest_s = max((row.seconds for row in summary.rows), default=0.0)
    unit_s, unit = (60, "minutes") if longest_s <= _MINUTES_UP_TO_S else (3600, "hours")
    bars = [
        Bar(row.name, row.seconds / unit_s, colour, f"{row.duration} ({row.share:.0%})")
        for row, colour in zip(summary.rows, COLOURS, strict=False)
    ]
    rest_s = summary.other_s + sum(row.seconds for row in summary.rows[BARS:])
    if rest_s > 0:
        bars.append(Bar("everything else", rest_s / unit_s, _OTHER, in_words(rest_s)))
    day, _, clock = summary.start.partition("T")
    until = summary.end.partition("T")
    end = until[2][:5] if until[0] == day else f"{until[0]} {until[2][:5]}"
    title = f"{day} {clock[:5]} to {end} ({summary.time_zone})\nactive {in_words(summary.active_s)}"
    return draw_bars(bars, title=title, axis=unit)
