"""The tools of the activity pack, including the three of the contract."""

import asyncio
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from hubbub import Image, Text, ToolAnnotations, ToolErrors
from hubbub.pack.charts import PNG
from hubbub.packs.activity import contract_results
from hubbub.packs.activity.breakdown import Unit
from hubbub.packs.activity.category_report import CategoryReport
from hubbub.packs.activity.chart import ChartKind
from hubbub.packs.activity.events import to_single_line
from hubbub.packs.activity.export import Format, TableKind, make_page
from hubbub.packs.activity.now import Now
from hubbub.packs.activity.periods import PERIOD_HELP, zone_name
from hubbub.packs.activity.query_evaluator import QueryEvaluator, ResultEncoder
from hubbub.packs.activity.query_language import parse_query
from hubbub.packs.activity.service import ActivityService
from hubbub.packs.activity.summary import GroupBy, Summary
from hubbub.packs.activity.timeline import Timeline

READ_ONLY: Final = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_CONTRACT_ERRORS: Final = ToolErrors(plain_code=-32601)
"""The contract's error code when ActivityWatch does not run; `error.data.kind` has the actual failure."""
_ANY_ARGUMENTS: Final = {"type": "object", "properties": {}}
_REASON_SCHEMA: Final = {
    "type": "object",
    "properties": {"reason": {"description": "Why the frame is requested; returned unchanged.", "default": "mcp"}},
}

PeriodArgument = Annotated[str, Meta(description=f"Which period: {PERIOD_HELP}.")]
HostArgument = Annotated[
    str | None,
    Meta(
        description="Name of the machine, if ActivityWatch knows several; `all` adds them up and counts no time twice."
    ),
]
CategoriesArgument = Annotated[
    dict[str, str] | None,
    Meta(description="Categories for this call, each with a regular expression: {'Work > Code': 'vim|emacs'}."),
]


class QueryResult(msgspec.Struct, omit_defaults=True):
    """The result of a query."""

    start: str
    end: str
    result: Any
    is_cut: bool
    """Whether something is missing: a part of the result, or older events of a bucket that has too many."""
    notes: list[str] = []
    """Other possible gaps, such as what a stopped watcher would have recorded; left out when empty."""


class Export(msgspec.Struct, kw_only=True):
    """One page of a table."""

    start: str
    end: str
    time_zone: str
    host: str
    columns: list[str]
    row_count: int
    """Rows on this page."""
    total_rows: int
    next_offset: int | None
    """Offset of the next page; null on the last page."""
    text: str
    """CSV, with the column names on the first page only, or a JSON array."""
    notes: list[str]


class Screen(msgspec.Struct):
    """The content of the screen."""

    window: dict[str, Any] | None
    """The foreground window."""
    windows: list[dict[str, Any] | None]
    """All visible windows, foremost first; `window` of an element is an index into this list."""
    elements: list[dict[str, Any]]
    text: str
    """The lines of the screen, with a line in brackets before those of each window."""
    latency_ms: int | None
    notes: list[str]
    """What is hidden because it may be private, and what to do about it."""


def register_contract_tools(service: ActivityService) -> None:
    """Register the three calls of the contract. They ignore unknown arguments, as its callers may expect."""
    sources, tool = service.sources, service.server.tool

    @tool(name="aw.get_state", input_schema=_ANY_ARGUMENTS, annotations=READ_ONLY, errors=_CONTRACT_ERRORS)
    async def get_state(**_ignored: Any) -> contract_results.State:
        """Return ActivityWatch's description of itself and its buckets."""
        return await contract_results.get_state(sources)

    @tool(name="nowframe.build", input_schema=_REASON_SCHEMA, annotations=READ_ONLY, errors=_CONTRACT_ERRORS)
    async def build_frame(
        *, reason: Any = contract_results.DEFAULT_REASON, **_ignored: Any
    ) -> contract_results.NowFrame:
        """Return the current state of ActivityWatch and the sidecar; parts that cannot be read are null."""
        return await contract_results.build_frame(sources, reason)

    @tool(name="system.health", input_schema=_ANY_ARGUMENTS, annotations=READ_ONLY, errors=_CONTRACT_ERRORS)
    async def health(**_ignored: Any) -> contract_results.SystemHealth:
        """Report whether ActivityWatch and the sidecar work, and if not, why and what to do about it."""
        return await contract_results.check_health(sources, service.snapshots)


def register(service: ActivityService) -> None:
    """Register the other tools."""
    _register_reports(service)
    _register_other_tools(service)


def _register_reports(service: ActivityService) -> None:
    tool = service.server.tool

    @tool(name="aw.now", annotations=READ_ONLY)
    async def now(*, host: HostArgument = None) -> Now:
        """Return what the user is doing now: window, presence, page and file, each with its age."""
        return await service.now(host)

    @tool(name="aw.summary", annotations=READ_ONLY)
    async def summary(
        *,
        period: PeriodArgument = "today",
        by: GroupBy = "app",
        per: Unit | None = None,
        top: int = 20,
        categories: CategoriesArgument = None,
        host: HostArgument = None,
    ) -> Summary:
        """Add up how a period was spent, without time away from the computer.

        Args:
            by: What to group by. domain and url need the browser's watcher; project, file and language the editor's.
            per: Also break the period down into hours, days, weeks or months, for example to compare days.
            top: Maximum number of rows (1 to 500), in total and for each hour, day, week or month.
        """
        return await service.summary(period, by, top=top, category_patterns=categories or {}, host=host, per=per)

    @tool(name="aw.categories", annotations=READ_ONLY)
    async def list_categories(
        *,
        period: PeriodArgument = "today",
        top: int = 20,
        categories: CategoriesArgument = None,
        host: HostArgument = None,
    ) -> CategoryReport:
        """List categories with their rules and time, and the apps and titles without a category that need a rule.

        Args:
            top: Maximum number of apps and of titles without a category (1 to 500).
        """
        return await service.category_report(period, top=top, category_patterns=categories or {}, host=host)

    @tool(name="aw.timeline", annotations=READ_ONLY)
    async def timeline(
        *, period: PeriodArgument = "today", min_seconds: float = 60.0, limit: int = 100, host: HostArgument = None
    ) -> Timeline:
        """List a period in order of time: active blocks, times away, and how often the app in front changed.

        Args:
            min_seconds: Leave out blocks that are shorter.
            limit: Maximum number of blocks; the latest are returned.
        """
        return await service.timeline(period, min_s=min_seconds, max_blocks=limit, host=host)

    @tool(name="aw.chart", annotations=READ_ONLY)
    async def chart(
        *,
        period: PeriodArgument = "today",
        kind: ChartKind = "bars",
        by: GroupBy = "app",
        categories: CategoriesArgument = None,
        host: HostArgument = None,
    ) -> list[Image | Text]:
        """Draw how a period was spent as a PNG picture, with the totals and notes as text.

        Args:
            kind: bars for how long and when; timeline for the order of events, with times away, over at most 31 days;
                heatmap for how active each hour was, or each day where the period is longer than a month.
            by: What bars and colours stand for; a heatmap shows all active time.
        """
        drawn = await service.chart(kind, period, by, category_patterns=categories or {}, host=host)
        return [Image(drawn.png, PNG), Text(drawn.text)]


def _register_other_tools(service: ActivityService) -> None:
    tool = service.server.tool

    @tool(name="aw.query", annotations=READ_ONLY)
    async def query(*, query: str | list[str], period: PeriodArgument = "today") -> QueryResult:
        """Query ActivityWatch in its query language, such as RETURN = query_bucket(find_bucket("aw-watcher-window_"));

        Args:
            query: The statements, as one text or as a list; the result is the value of RETURN.
        """
        statements, parsed_period = parse_query(query), service.parse_period(period)
        evaluator = QueryEvaluator(service.sources, parsed_period)
        result = await evaluator.evaluate(statements)
        encoder = ResultEncoder(service.zone)
        encoded = encoder.encode(result)
        start, end = (moment.isoformat(timespec="seconds") for moment in (parsed_period.start, parsed_period.end))
        return QueryResult(start, end, encoded, evaluator.is_cut or encoder.is_cut, await evaluator.notes())

    @tool(name="aw.export", annotations=READ_ONLY)
    async def export(
        *,
        period: PeriodArgument = "today",
        what: TableKind = "windows",
        format: Format = "csv",
        by: GroupBy = "app",
        per: Unit | None = None,
        offset: int = 0,
        limit: int = 500,
        host: HostArgument = None,
    ) -> Export:
        """Export a period as a table in CSV or JSON, page by page, for a spreadsheet or a time sheet.

        Args:
            what: windows, pages and files are events of active time; timeline also has the times away;
                summary has the seconds of each name.
            format: csv for spreadsheets, json for programs.
            by: What summary groups by; other tables ignore it.
            per: Return summary rows for each hour, day, week or month; other tables ignore it.
            offset: First row to return: 0, then next_offset of the previous page.
            limit: Maximum number of rows (1 to 5000).
        """
        parsed_period, host_name, table, notes = await service.export(period, what, by=by, per=per, host=host)
        page = await asyncio.to_thread(make_page, table, format, offset=offset, limit=limit)
        after = offset + page.row_count
        return Export(
            start=parsed_period.start.isoformat(timespec="seconds"),
            end=parsed_period.end.isoformat(timespec="seconds"),
            time_zone=zone_name(service.zone),
            host=host_name,
            columns=list(table.columns),
            row_count=page.row_count,
            total_rows=len(table.rows),
            next_offset=after if page.row_count and after < len(table.rows) else None,
            text=page.text,
            notes=notes,
        )

    @tool(name="screen.read", annotations=READ_ONLY)
    async def read_screen() -> Screen:
        """Read the screen now, through the sidecar: its text and elements, and the window in front."""
        found = await service.sources.screen()
        text = _text_by_window(found["elements"], found["windows"])
        return Screen(found["window"], found["windows"], found["elements"], text, found["latency_ms"], found["notes"])


def _text_by_window(elements: list[dict[str, Any]], windows: list[dict[str, Any] | None]) -> str:
    lines: dict[int | None, list[str]] = {}
    for element in elements:
        index = element.get("window")
        if isinstance(element.get("content"), str):
            lines.setdefault(index if type(index) is int else None, []).append(element["content"])
    text = []
    for index in sorted(lines, key=lambda each: len(windows) if each is None else each):
        window = windows[index] if index is not None else None
        if window is not None:
            text.append(to_single_line(f"[{window.get('app')}: {window.get('title')}]"))
        text += lines[index]
    return "\n".join(text)
