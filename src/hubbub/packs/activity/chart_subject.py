"""Data and layout shared by all charts of a period: header, colours, durations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from hubbub.pack.charts import PALE, Canvas, Look, looks
from hubbub.packs.activity.categories import SEPARATOR, UNCATEGORIZED, Categories
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.period_words import describe_period
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.presence import Records
from hubbub.packs.activity.summary import By, Summary, in_words, select_events, summarize
from hubbub.packs.activity.timeline import away_events, partial_events
from hubbub.packs.activity.transforms import total

NAMES: Final = 10
"""Names that get a colour of their own; the rest are drawn as `OTHER`."""
OTHER: Final = ""
"""Key under which all other names are drawn. No event has an empty name."""
_NONE: Final = "(none)"
_NAMELESS: Final = (_NONE, SEPARATOR.join(UNCATEGORIZED))
_WORDS: Final = {"app": "application", "title": "window title", "domain": "website", "url": "page"}


class Subject(msgspec.Struct, frozen=True):
    """One period of one machine, ready to be drawn."""

    period: Period
    records: Records
    summary: Summary
    active: Sequence[Event]
    """Events of the foreground window during active time."""
    found: Sequence[Event]
    """Events that the chart adds up."""
    name_of: Callable[[Event], str]
    looks: dict[str, Look]
    """Colour and texture of each name that is drawn by itself."""
    partial_s: float = 0.0
    """Seconds in which one watcher recorded something and another did not."""

    @property
    def by(self) -> str:
        """Return what the time is added up by, as text."""
        return _WORDS.get(self.summary.by, self.summary.by)

    @property
    def names(self) -> list[str]:
        """Return the names to draw, the longest first, then `OTHER`."""
        named = [row.name for row in self.summary.rows]
        return [*named, OTHER] if self.summary.other_s else named

    def drawn_name(self, event: Event) -> str:
        """Return the name under which an event is drawn."""
        return self.drawn(self.name_of(event))

    def drawn(self, name: str) -> str:
        """Return the name itself, or `OTHER` if it is not drawn by itself."""
        name = name or _NONE
        return name if name in self.looks else OTHER

    def label(self, name: str) -> str:
        """Return the label of a drawn name."""
        return name or "everything else"

    def look(self, name: str) -> Look:
        return self.looks.get(name) or Look(PALE)

    def canvas(self, title: str, *more: str, heights_in: Sequence[float]) -> Canvas:
        """Return a canvas whose header has the title, the host, the period and the totals."""
        lines = [describe_period(self.period), "; ".join((self.totals, *more))]
        return Canvas(f"{title} on {self.summary.host}", lines, self.summary.notes, heights_in=heights_in)

    @property
    def totals(self) -> str:
        """Return the text with the active time and the time away."""
        away = f", {in_words(self.summary.afk_s)} away" if self.summary.afk_s else ""
        return f"{in_words(self.summary.active_s)} active{away}"


def read_subject(
    records: Records, period: Period, host: str, by: By, *, categories: Categories, notes: Sequence[str]
) -> Subject:
    """Add up the data of a chart; slow for many events."""
    summary = summarize(records, period, host, by, top=NAMES, categories=categories, notes=notes)
    active, found, name_of = select_events(records, by, categories)
    given = looks((row.name for row in summary.rows), nameless=_NAMELESS)
    partial_s = total(partial_events(records, active, away_events(records)))
    return Subject(period, records, summary, active, found, name_of, given, partial_s)
