"""State and operations shared by the tools, the resource and the prompts of one server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from hubbub import Server
from hubbub.packs.activity import browsers, limits
from hubbub.packs.activity import now as now_report
from hubbub.packs.activity import summary as summary_report
from hubbub.packs.activity import timeline as timeline_report
from hubbub.packs.activity.activitywatch_client import Category
from hubbub.packs.activity.breakdown import Unit, interval_edges
from hubbub.packs.activity.categories import (
    Categories,
    compile_activitywatch_rule,
    compile_request_rules,
    compile_settings_rules,
)
from hubbub.packs.activity.category_report import CategoryReport, Source, report_categories
from hubbub.packs.activity.chart import Chart, ChartKind, check_period_length, draw_chart
from hubbub.packs.activity.environment_snapshots import Snapshots, snapshot_folder
from hubbub.packs.activity.events import EDITOR
from hubbub.packs.activity.export import Table, TableKind, make_table
from hubbub.packs.activity.failures import BadRequest, SourceFailure
from hubbub.packs.activity.filtered_sources import FilteredSources, run_concurrently
from hubbub.packs.activity.periods import Period, parse_period, user_time_zone
from hubbub.packs.activity.presence import Records
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.watcher_health import describe_gaps
from hubbub.packs.activity.watchers import WATCHER_NAMES, Watchers

_NO_PATTERNS: Final[Mapping[str, str]] = {}
_NO_CATEGORIES: Final = "no categories are defined: pass `categories`, or define them in ActivityWatch 0.13 or later"


class ActivityService:
    """The activity pack installed on one server."""

    def __init__(self, server: Server, settings: ActivitySettings) -> None:
        """Raises: SettingsError."""
        self.server = server
        self.settings = settings
        self.sources = FilteredSources(settings)
        self.snapshots = Snapshots(snapshot_folder(settings))
        self.zone = user_time_zone(settings.time_zone)
        self.last_state: tuple[object, ...] | None = None
        """Last state of `activity://now` that was read or polled; None while no client subscribes to it."""

    def parse_period(self, text: str) -> Period:
        """Parse the period that a caller names.

        Raises: BadRequest.
        """
        return parse_period(text, self.zone, datetime.now(UTC))

    async def now(self, host: str | None = None, *, with_category: bool = True) -> now_report.Now:
        """Return what the user is doing now, within the timeout of one request.

        Raises: SourceFailure, BadRequest.
        """
        (watchers, found), categories = await run_concurrently(
            self.sources.watchers_and_latest(host), self._load_categories_if(with_category, _NO_PATTERNS)
        )
        moment = now_report.current_moment(self.zone, self.settings.stale_s)
        return now_report.describe_now(watchers, found, moment, categories)

    async def summary(
        self,
        period: str,
        by: summary_report.GroupBy,
        *,
        top: int = 20,
        category_patterns: Mapping[str, str] = _NO_PATTERNS,
        host: str | None = None,
        per: Unit | None = None,
    ) -> summary_report.Summary:
        """Add up a period, in total and for each of its intervals.

        Raises: SourceFailure, BadRequest.
        """
        parsed_period = self.parse_period(period)
        if per is not None:
            interval_edges(parsed_period, per)  # reject too many intervals before reading any events
        watchers, records, categories, notes = await self._read_records_by(parsed_period, by, category_patterns, host)
        return await asyncio.to_thread(
            summary_report.summarize,
            records,
            parsed_period,
            watchers.host,
            by,
            top=_check_row_count(top),
            categories=categories,
            per=per,
            notes=notes,
        )

    async def chart(
        self,
        kind: ChartKind,
        period: str,
        by: summary_report.GroupBy,
        *,
        category_patterns: Mapping[str, str] = _NO_PATTERNS,
        host: str | None = None,
    ) -> Chart:
        """Draw a period as a picture with a text.

        Raises: SourceFailure, BadRequest, NoCharts.
        """
        parsed_period = self.parse_period(period)
        check_period_length(kind, parsed_period)
        watchers, records, categories, notes = await self._read_records_by(parsed_period, by, category_patterns, host)
        return await asyncio.to_thread(
            draw_chart, kind, records, parsed_period, watchers.host, by, categories=categories, notes=notes
        )

    async def _read_records_by(
        self, period: Period, by: summary_report.GroupBy, category_patterns: Mapping[str, str], host: str | None
    ) -> tuple[Watchers, Records, Categories, list[str]]:
        (watchers, records, notes), categories = await run_concurrently(
            self._read_records(period, host, with_editor=by in summary_report.FILE_GROUPS),
            self._load_categories_if(by == "category", category_patterns),
        )
        if by == "category" and not categories:
            notes.append(_NO_CATEGORIES)
        if by in summary_report.PAGE_GROUPS and not watchers.web:
            notes.append("no pages are recorded: install the aw-watcher-web extension in your browser")
        if by in summary_report.FILE_GROUPS and not watchers.editor:
            notes.append(f"no files are recorded: install {WATCHER_NAMES[EDITOR]}")
        return watchers, records, categories, notes

    async def timeline(
        self, period: str, *, min_s: float, max_blocks: int, host: str | None = None
    ) -> timeline_report.Timeline:
        """Return a period in order of time.

        Raises: SourceFailure, BadRequest.
        """
        parsed_period = self.parse_period(period)
        (watchers, records, notes), categories = await run_concurrently(
            self._read_records(parsed_period, host), self.categories(_NO_PATTERNS)
        )
        return await asyncio.to_thread(
            timeline_report.build_timeline,
            records,
            parsed_period,
            watchers.host,
            min_s=min_s,
            max_blocks=_check_row_count(max_blocks),
            categories=categories,
            notes=notes,
        )

    async def category_report(
        self,
        period: str,
        *,
        top: int = 20,
        category_patterns: Mapping[str, str] = _NO_PATTERNS,
        host: str | None = None,
    ) -> CategoryReport:
        """Return every category with its rules and its time, and the time without a category.

        Raises: SourceFailure, BadRequest.
        """
        parsed_period = self.parse_period(period)
        (watchers, records, notes), (source, categories) = await run_concurrently(
            self._read_records(parsed_period, host), self._load_categories(category_patterns)
        )
        if not categories:
            notes.append(_NO_CATEGORIES)
        return await asyncio.to_thread(
            report_categories,
            records,
            parsed_period,
            watchers.host,
            categories,
            source=source,
            top=_check_row_count(top),
            show=self.sources.mask_message,
            notes=notes,
        )

    async def export(
        self,
        period: str,
        what: TableKind,
        *,
        by: summary_report.GroupBy = "app",
        per: Unit | None = None,
        host: str | None = None,
    ) -> tuple[Period, str, Table, list[str]]:
        """Build the table of a period. Returns the period, the host, the rows and notes.

        Raises: SourceFailure, BadRequest.
        """
        parsed_period = self.parse_period(period)
        if per is not None:
            interval_edges(parsed_period, per)  # reject too many intervals before reading any events
        with_editor = what == "files" or (what == "summary" and by in summary_report.FILE_GROUPS)
        (watchers, records, notes), categories = await run_concurrently(
            self._read_records(parsed_period, host, with_editor=with_editor), self.categories(_NO_PATTERNS)
        )
        make = partial(make_table, records, parsed_period, what, by=by, per=per, categories=categories)
        return parsed_period, watchers.host, await asyncio.to_thread(make), notes

    async def _load_categories_if(self, are_needed: bool, category_patterns: Mapping[str, str]) -> Categories:
        return await self.categories(category_patterns) if are_needed else Categories()

    async def categories(self, category_patterns: Mapping[str, str]) -> Categories:
        """Return the categories of this request, else those of the settings, else those of ActivityWatch.

        Raises: BadRequest.
        """
        return (await self._load_categories(category_patterns))[1]

    async def _load_categories(self, category_patterns: Mapping[str, str]) -> tuple[Source, Categories]:
        if category_patterns:
            return "call", Categories(compile_request_rules(category_patterns))
        if self.settings.categories:
            return "settings", Categories(compile_settings_rules(self.settings.categories))
        try:
            stored_categories = await self.sources.categories()
        except SourceFailure:
            return "none", Categories()  # the next request reports the failure
        categories = await asyncio.to_thread(_compile_activitywatch_categories, stored_categories)
        return "activitywatch" if categories.rules else "none", categories

    async def _read_records(
        self, period: Period, host: str | None, *, with_editor: bool = False
    ) -> tuple[Watchers, Records, list[str]]:
        watchers = await self.sources.watchers(host)
        records = await self.sources.records(watchers, period.start, period.end, with_editor=with_editor)
        notes = watchers.notes
        if records.is_cut:
            notes.append(f"only the newest {limits.EVENTS} events were used; ask for a shorter period")
        if any(event.text("title") == browsers.UNCONFIRMED for event in records.window):
            notes.append(browsers.UNCONFIRMED_NOTE)
        notes += await asyncio.to_thread(describe_gaps, records, watchers, period)
        return watchers, records, notes


def _compile_activitywatch_categories(stored_categories: Sequence[Category]) -> Categories:
    """Compile the patterns; slow for many rules."""
    return Categories(
        compile_activitywatch_rule(category.name, category.rule) for category in stored_categories if category.name
    )


def _check_row_count(count: int) -> int:
    if not 1 <= count <= limits.RESULT_ROWS:
        raise BadRequest(f"{count} rows cannot be returned; ask for 1 to {limits.RESULT_ROWS}")
    return count
