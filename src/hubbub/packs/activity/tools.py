"""The tools of the activity pack, including the three of the contract."""

import asyncio
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from hubbub import Image, Text, ToolAnnotations, ToolErrors
from hubbub.pack.charts import PNG
from hubbub.packs.activity import frames
from hubbub.packs.activity.breakdown import Unit
from hubbub.packs.activity.category_report import CategoryReport
from hubbub.packs.activity.chart import Kind
from hubbub.packs.activity.desk import Desk
from hubbub.packs.activity.events import one_line
from hubbub.packs.activity.export import Format, What, cut_page
from hubbub.packs.activity.now import Now
from hubbub.packs.activity.periods import HELP, zone_name
from hubbub.packs.activity.query_language import read_query
from hubbub.packs.activity.query_run import Run, Telling
from hubbub.packs.activity.summary import By, Summary
from hubbub.packs.activity.timeline import Timeline

READS: Final = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_ERRORS: Final = ToolErrors(plain_code=-32601)
"""The contract's error code when ActivityWatch does not run; `error.data.kind` has the actual failure."""
_ANYTHING: Final = {"type": "object", "properties": {}}
_REASON: Final = {
    "type": "object",
    "properties": {"reason": {"description": "Why the frame is made; it comes back as it is.", "default": "mcp"}},
}

When = Annotated[str, Meta(description=f"Which period: {HELP}.")]
Host = Annotated[
    str | None,
    Meta(
        description="Name of the machine, if ActivityWatch knows several; `all` adds them up and counts no time twice."
    ),
]
Rules = Annotated[
    dict[str, str] | None,
    Meta(description="Categories for this question, each with a regular expression: {'Work > Code': 'vim|emacs'}."),
]


class Queried(msgspec.Struct, omit_defaults=True):
    """What a query gave."""

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
    """What is on the screen."""

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


def register_contract_tools(desk: Desk) -> None:
    """Register the three calls of the contract. They ignore unknown arguments, as its callers may expect."""
    sources, tool = desk.sources, desk.server.tool

    @tool(name="aw.get_state", input_schema=_ANYTHING, annotations=READS, errors=_ERRORS)
    async def get_state(**_ignored: Any) -> frames.State:
        """Tell what ActivityWatch says of itself, and which buckets it has."""
        return await frames.get_state(sources)

    @tool(name="nowframe.build", input_schema=_REASON, annotations=READS, errors=_ERRORS)
    async def build_frame(*, reason: Any = frames.USUAL_REASON, **_ignored: Any) -> frames.NowFrame:
        """Put together what can be found out at this moment; what cannot is null."""
        return await frames.build_frame(sources, reason)

    @tool(name="system.health", input_schema=_ANYTHING, annotations=READS, errors=_ERRORS)
    async def health(**_ignored: Any) -> frames.SystemHealth:
        """Tell whether ActivityWatch and the sidecar are there, why not, and what to do about it."""
        return await frames.look_at_health(sources, desk.snapshots)


def register(desk: Desk) -> None:
    """Register the other tools."""
    _register_reports(desk)
    _register_rest(desk)


def _register_reports(desk: Desk) -> None:
    tool = desk.server.tool

    @tool(name="aw.now", annotations=READS)
    async def now(*, host: Host = None) -> Now:
        """Tell what the person is doing: window, presence, page and file, each with its age."""
        return await desk.now(host)

    @tool(name="aw.summary", annotations=READS)
    async def summary(
        *,
        period: When = "today",
        by: By = "app",
        per: Unit | None = None,
        top: int = 20,
        categories: Rules = None,
        host: Host = None,
    ) -> Summary:
        """Add up how a period was spent, without the time nobody was there.

        Args:
            by: What to add up by. domain and url need the browser's watcher; project, file and language the editor's.
            per: Also break the period down into hours, days, weeks or months, for example to compare days.
            top: How many rows to give at most (1 to 500), in all and for each hour, day, week or month.
        """
        return await desk.summary(period, by, top=top, given=categories or {}, host=host, per=per)

    @tool(name="aw.categories", annotations=READS)
    async def list_categories(
        *, period: When = "today", top: int = 20, categories: Rules = None, host: Host = None
    ) -> CategoryReport:
        """List categories with their rules and time, and the apps and titles without a category that need a rule.

        Args:
            top: How many apps and titles without a category to give at most (1 to 500).
        """
        return await desk.category_report(period, top=top, given=categories or {}, host=host)

    @tool(name="aw.timeline", annotations=READS)
    async def timeline(
        *, period: When = "today", min_seconds: float = 60.0, limit: int = 100, host: Host = None
    ) -> Timeline:
        """Tell a period in order: what followed what, when nobody was there, how often attention moved.

        Args:
            min_seconds: Leave out what was shorter.
            limit: How many blocks to give at most, the latest ones.
        """
        return await desk.timeline(period, least_s=min_seconds, most=limit, host=host)

    @tool(name="aw.chart", annotations=READS)
    async def chart(
        *,
        period: When = "today",
        kind: Kind = "bars",
        by: By = "app",
        categories: Rules = None,
        host: Host = None,
    ) -> list[Image | Text]:
        """Draw how a period was spent as a PNG picture, with the totals and notes as text.

        Args:
            kind: bars for how long and when; timeline for what followed what, with times away, over at most 31 days;
                heatmap for how active each hour was, or each day where the period is longer than a month.
            by: What bars and colours stand for; a heatmap shows all active time.
        """
        drawn = await desk.chart(kind, period, by, given=categories or {}, host=host)
        return [Image(drawn.png, PNG), Text(drawn.text)]


def _register_rest(desk: Desk) -> None:
    tool = desk.server.tool

    @tool(name="aw.query", annotations=READS)
    async def query(*, query: str | list[str], period: When = "today") -> Queried:
        """Ask in ActivityWatch's query language, such as RETURN = query_bucket(find_bucket("aw-watcher-window_"));

        Args:
            query: The statements, as one text or as a list of them; the result is what RETURN is assigned.
        """
        statements, meant = read_query(query), desk.period(period)
        run = Run(desk.sources, meant)
        result = await run.result(statements)
        telling = Telling(desk.zone)
        told = telling.tell(result)
        start, end = (moment.isoformat(timespec="seconds") for moment in (meant.start, meant.end))
        return Queried(start, end, told, run.is_cut or telling.is_cut, await run.notes())

    @tool(name="aw.export", annotations=READS)
    async def export(
        *,
        period: When = "today",
        what: What = "windows",
        format: Format = "csv",
        by: By = "app",
        per: Unit | None = None,
        offset: int = 0,
        limit: int = 500,
        host: Host = None,
    ) -> Export:
        """Export a period as a table in CSV or JSON, page by page, for a spreadsheet or a time sheet.

        Args:
            what: windows, pages and files are events of active time; timeline also has the times away;
                summary has the seconds of each name.
            format: csv for spreadsheets, json for programs.
            by: What summary adds up by; other tables ignore it.
            per: Give summary rows for each hour, day, week or month; other tables ignore it.
            offset: The first row to give: 0, then next_offset of the page before.
            limit: How many rows to give at most (1 to 5000).
        """
        meant, whose, table, notes = await desk.export(period, what, by=by, per=per, host=host)
        page = await asyncio.to_thread(cut_page, table, format, offset=offset, limit=limit)
        after = offset + page.row_count
        return Export(
            start=meant.start.isoformat(timespec="seconds"),
            end=meant.end.isoformat(timespec="seconds"),
            time_zone=zone_name(desk.zone),
            host=whose,
            columns=list(table.columns),
            row_count=page.row_count,
            total_rows=len(table.rows),
            next_offset=after if page.row_count and after < len(table.rows) else None,
            text=page.text,
            notes=notes,
        )

    @tool(name="screen.read", annotations=READS)
    async def read_screen() -> Screen:
        """Read what is on the screen now, through the sidecar: its text and elements, and the window in front."""
        found = await desk.sources.screen()
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
            text.append(one_line(f"[{window.get('app')}: {window.get('title')}]"))
        text += lines[index]
    return "\n".join(text)
