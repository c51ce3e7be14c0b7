"""State and operations shared by the tools, the resource and the prompts of one server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from hubbub import Server
from hubbub.packs.activity import browsers, limits
from hubbub.packs.activity import now as present_moment
from hubbub.packs.activity import summary as adding
from hubbub.packs.activity import timeline as ordering
from hubbub.packs.activity.breakdown import Unit, interval_edges
from hubbub.packs.activity.categories import Categories, given_rules, own_rules, recorded_rule
from hubbub.packs.activity.category_report import CategoryReport, Source, report_categories
from hubbub.packs.activity.chart import Chart, Kind, check_length, draw_chart
from hubbub.packs.activity.events import EDITOR
from hubbub.packs.activity.export import Table, What, make_table
from hubbub.packs.activity.failures import BadRequest, SourceFailure
from hubbub.packs.activity.periods import Period, person_zone, read_period
from hubbub.packs.activity.presence import Records
from hubbub.packs.activity.protection import Snapshots, folder_of
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.sources import Sources, together
from hubbub.packs.activity.watch_server import Category
from hubbub.packs.activity.watcher_health import gap_notes
from hubbub.packs.activity.watchers import WATCHERS, Watchers

_NONE: Final[Mapping[str, str]] = {}
_NO_CATEGORIES: Final = "there are no categories: give some, or set them in ActivityWatch 0.13 or later"


class Desk:
    """The activity pack installed on one server."""

    def __init__(self, server: Server, settings: ActivitySettings) -> None:
        """Raises: SettingsError."""
        self.server = server
        self.settings = settings
        self.sources = Sources(settings)
        self.snapshots = Snapshots(folder_of(settings))
        self.zone = person_zone(settings.time_zone)
        self.seen: tuple[object, ...] | None = None
        """Last state of `activity://now` that was read or polled; None while no client subscribes to it."""

    def period(self, text: str) -> Period:
        """Parse the period that a caller names.

        Raises: BadRequest.
        """
        return read_period(text, self.zone, datetime.now(UTC))

    async def now(self, host: str | None = None, *, with_category: bool = True) -> present_moment.Now:
        """Return what the user is doing now, within the timeout of one request.

        Raises: SourceFailure, BadRequest.
        """
        (watchers, found), categories = await together(
            self.sources.latest_of(host), self._categories_if(with_category, _NONE)
        )
        moment = present_moment.moment_now(self.zone, self.settings.stale_s)
        return present_moment.describe(watchers, found, moment, categories)

    async def summary(
        self,
        period: str,
        by: adding.By,
        *,
        top: int = 20,
        given: Mapping[str, str] = _NONE,
        host: str | None = None,
        per: Unit | None = None,
    ) -> adding.Summary:
        """Add up a period, in total and for each of its intervals.

        Raises: SourceFailure, BadRequest.
        """
        meant = self.period(period)
        if per is not None:
            interval_edges(meant, per)  # reject too many intervals before reading any events
        watchers, records, categories, notes = await self._records_by(meant, by, given, host)
        return await asyncio.to_thread(
            adding.summarize,
            records,
            meant,
            watchers.host,
            by,
            top=_rows(top),
            categories=categories,
            per=per,
            notes=notes,
        )

    async def chart(
        self, kind: Kind, period: str, by: adding.By, *, given: Mapping[str, str] = _NONE, host: str | None = None
    ) -> Chart:
        """Draw a period as a picture with a text.

        Raises: SourceFailure, BadRequest, NoCharts.
        """
        meant = self.period(period)
        check_length(kind, meant)
        watchers, records, categories, notes = await self._records_by(meant, by, given, host)
        return await asyncio.to_thread(
            draw_chart, kind, records, meant, watchers.host, by, categories=categories, notes=notes
        )

    async def _records_by(
        self, period: Period, by: adding.By, given: Mapping[str, str], host: str | None
    ) -> tuple[Watchers, Records, Categories, list[str]]:
        (watchers, records, notes), categories = await together(
            self._records(period, host, with_editor=by in adding.OF_FILES), self._categories_if(by == "category", given)
        )
        if by == "category" and not categories:
            notes.append(_NO_CATEGORIES)
        if by in adding.OF_PAGES and not watchers.web:
            notes.append("no pages are recorded: add the aw-watcher-web extension to your browser")
        if by in adding.OF_FILES and not watchers.editor:
            notes.append(f"no files are recorded: add {WATCHERS[EDITOR]}")
        return watchers, records, categories, notes

    async def timeline(self, period: str, *, least_s: float, most: int, host: str | None = None) -> ordering.Timeline:
        """Return a period in order of time.

        Raises: SourceFailure, BadRequest.
        """
        meant = self.period(period)
        (watchers, records, notes), categories = await together(self._records(meant, host), self.categories(_NONE))
        return await asyncio.to_thread(
            ordering.draw_line,
            records,
            meant,
            watchers.host,
            least_s=least_s,
            most=_rows(most),
            categories=categories,
            notes=notes,
        )

    async def category_report(
        self, period: str, *, top: int = 20, given: Mapping[str, str] = _NONE, host: str | None = None
    ) -> CategoryReport:
        """Return every category with its rules and its time, and the time without a category.

        Raises: SourceFailure, BadRequest.
        """
        meant = self.period(period)
        (watchers, records, notes), (source, categories) = await together(
            self._records(meant, host), self._categories(given)
        )
        if not categories:
            notes.append(_NO_CATEGORIES)
        return await asyncio.to_thread(
            report_categories,
            records,
            meant,
            watchers.host,
            categories,
            source=source,
            top=_rows(top),
            show=self.sources.shown_text,
            notes=notes,
        )

    async def export(
        self,
        period: str,
        what: What,
        *,
        by: adding.By = "app",
        per: Unit | None = None,
        host: str | None = None,
    ) -> tuple[Period, str, Table, list[str]]:
        """Build the table of a period. Returns the period, the host, the rows and notes.

        Raises: SourceFailure, BadRequest.
        """
        meant = self.period(period)
        if per is not None:
            interval_edges(meant, per)  # reject too many intervals before reading any events
        with_editor = what == "files" or (what == "summary" and by in adding.OF_FILES)
        (watchers, records, notes), categories = await together(
            self._records(meant, host, with_editor=with_editor), self.categories(_NONE)
        )
        make = partial(make_table, records, meant, what, by=by, per=per, categories=categories)
        return meant, watchers.host, await asyncio.to_thread(make), notes

    async def _categories_if(self, are_needed: bool, given: Mapping[str, str]) -> Categories:
        return await self.categories(given) if are_needed else Categories()

    async def categories(self, given: Mapping[str, str]) -> Categories:
        """Return the categories of this request, else those of the settings, else those of ActivityWatch.

        Raises: BadRequest.
        """
        return (await self._categories(given))[1]

    async def _categories(self, given: Mapping[str, str]) -> tuple[Source, Categories]:
        if given:
            return "call", Categories(given_rules(given))
        if self.settings.categories:
            return "settings", Categories(own_rules(self.settings.categories))
        try:
            recorded = await self.sources.categories()
        except SourceFailure:
            return "none", Categories()  # the next request reports the failure
        categories = await asyncio.to_thread(_recorded_categories, recorded)
        return "activitywatch" if categories.rules else "none", categories

    async def _records(
        self, period: Period, host: str | None, *, with_editor: bool = False
    ) -> tuple[Watchers, Records, list[str]]:
        watchers = await self.sources.watchers(host)
        records = await self.sources.records(watchers, period.start, period.end, with_editor=with_editor)
        notes = watchers.notes
        if records.is_cut:
            notes.append(f"only the newest {limits.EVENTS} events were looked at; ask for a shorter period")
        if any(event.text("title") == browsers.UNCONFIRMED for event in records.window):
            notes.append(browsers.NOTE)
        notes += await asyncio.to_thread(gap_notes, records, watchers, period)
        return watchers, records, notes


def _recorded_categories(recorded: Sequence[Category]) -> Categories:
    """Compile the patterns; slow for many rules."""
    return Categories(recorded_rule(category.name, category.rule) for category in recorded if category.name)


def _rows(count: int) -> int:
    if not 1 <= count <= limits.ROWS:
        raise BadRequest(f"between 1 and {limits.ROWS} rows can be asked for")
    return count
