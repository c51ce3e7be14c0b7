"""Data and layout shared by all charts of a period: header, colours, durations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from hubbub.pack.charts import PALE, Canvas, Look, looks
from hubbub.packs.activity.categories import SEPARATOR, UNCATEGORIZED, Categories
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.period_format import format_period
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.presence import Records
from hubbub.packs.activity.summary import GroupBy, Summary, format_duration, select_events, summarize
from hubbub.packs.activity.timeline import away_events, partial_events
from hubbub.packs.activity.transforms import total_duration

MAX_NAMES: Final = 10
"""Names that get a colour of their own; the rest are drawn as `OTHER`."""
OTHER: Final = ""
"""Key under which all other names are drawn. No event has an empty name."""
_NO_NAME: Final = "(none)"
_NEUTRAL_NAMES: Final = (_NO_NAME, SEPARATOR.join(UNCATEGORIZED))
_GROUP_LABELS: Final = {"app": "application", "title": "window title", "domain": "website", "url": "page"}


class ChartData(msgspec.Struct, frozen=True):
    """One period of one machine, ready to be drawn."""

    period: Period
    records: Records
    summary: Summary
    active: Sequence[Event]
    """Events of the foreground window during active time."""
    events: Sequence[Event]
    """Events that the chart adds up."""
    name_of: Callable[[Event], str]
    looks: dict[str, Look]
    """Colour and texture of each name that is drawn by itself."""
    partial_s: float = 0.0
    """Seconds in which one watcher recorded something and another did not."""

    @property
    def by(self) -> str:
        """Return what the time is added up by, as text."""
        return _GROUP_LABELS.get(self.summary.by, self.summary.by)

    @property
    def names(self) -> list[str]:
        """Return the names to draw, the longest first, then `OTHER`."""
        row_names = [row.name for row in self.summary.rows]
        return [*row_names, OTHER] if self.summary.other_s else row_names

    def group_of_event(self, event: Event) -> str:
        """Return the name under which an event is drawn."""
        return self.group_name(self.name_of(event))

    def group_name(self, name: str) -> str:
        """Return the name itself, or `OTHER` if it is not drawn by itself."""
        name = name or _NO_NAME
        return name if name in self.looks else OTHER

    def label(self, name: str) -> str:
        """Return the label of a drawn name."""
        return name or "everything else"

    def look(self, name: str) -> Look:
        return self.looks.get(name) or Look(PALE)

    def make_canvas(self, title: str, *details: str, heights_in: Sequence[float]) -> Canvas:
        """Return a canvas whose header has the title, the host, the period and the totals."""
        lines = [format_period(self.period), "; ".join((self.totals, *details))]
        return Canvas(f"{title} on {self.summary.host}", lines, self.summary.notes, heights_in=heights_in)

    @property
    def totals(self) -> str:
        """Return the text with the active time and the time away."""
        away = f", {format_duration(self.summary.afk_s)} away" if self.summary.afk_s else ""
        return f"{format_duration(self.summary.active_s)} active{away}"


def build_chart_data(
    records: Records, period: Period, host: str, by: GroupBy, *, categories: Categories, notes: Sequence[str]
) -> ChartData:
    """Add up the data of a chart; slow for many events."""
    summary = summarize(records, period, host, by, top=MAX_NAMES, categories=categories, notes=notes)
    active, found, name_of = select_events(records, by, categories)
    look_by_name = looks((row.name for row in summary.rows), nameless=_NEUTRAL_NAMES)
    partial_s = total_duration(partial_events(records, active, away_events(records)))
    return ChartData(period, records, summary, active, found, name_of, look_by_name, partial_s)
