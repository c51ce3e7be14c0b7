"""Export a period as a table, in CSV or JSON. Pure.

The table has only what reports show: its events have passed the privacy rules, and time away is left out except in
the timeline.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.breakdown import Unit, break_down
from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.presence import Records
from hubbub.packs.activity.summary import GroupBy, add_up, select_events
from hubbub.packs.activity.timeline import build_timeline

TableKind: TypeAlias = Literal["windows", "pages", "files", "timeline", "summary"]
Format: TypeAlias = Literal["csv", "json"]
_FORMULA: Final = re.compile(r"[\t\r\n]|\s*[=+\-@\uff1d\uff0b\uff0d\uff20]")
"""Start of a cell that a spreadsheet may take for a formula; the last four are the full-width forms of the others."""


class Table(NamedTuple):
    """The rows of an export, oldest first."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


class Page(NamedTuple):
    """Part of a table as text."""

    text: str
    row_count: int


def make_table(
    records: Records, period: Period, what: TableKind, *, by: GroupBy, per: Unit | None, categories: Categories
) -> Table:
    """Build the whole table; slow for many events.

    Raises: BadRequest.
    """
    zone = period.start.tzinfo

    def format_time(moment: datetime) -> str:
        return moment.astimezone(zone).isoformat(timespec="milliseconds")

    def make_events_table(events: Iterable[Event], *columns: str) -> Table:
        name_of: dict[str, Callable[[Event], str]] = {"category": categories.category_name}
        rows = [
            (
                format_time(event.timestamp),
                format_time(event.end),
                round(event.duration, 3),
                *(name_of[column](event) if column in name_of else event.text(column) for column in columns),
            )
            for event in events
        ]
        return Table(("start", "end", "seconds", *columns), rows)

    match what:
        case "windows":
            return make_events_table(select_events(records, "app", categories)[1], "app", "title", "category")
        case "pages":
            return make_events_table(select_events(records, "url", categories)[1], "url", "title")
        case "files":
            return make_events_table(select_events(records, "file", categories)[1], "project", "file", "language")
        case "timeline":
            line = build_timeline(records, period, "", min_s=0, max_blocks=sys.maxsize, categories=categories)
            columns = ("start", "end", "seconds", "kind", "app", "title", "category")
            return Table(columns, [tuple(getattr(block, each) for each in columns) for block in line.blocks])
        case "summary":
            return _summary_table(records, period, by, per, categories, format_time)


def _summary_table(
    records: Records,
    period: Period,
    by: GroupBy,
    per: Unit | None,
    categories: Categories,
    format_time: Callable[[datetime], str],
) -> Table:
    _, events, name_of = select_events(records, by, categories)
    if per is None:
        totals: dict[str, float] = dict(add_up(events, name_of))
        parts = [(period.start, period.end, totals)]
    else:
        parts = [(each.start, each.end, each.seconds) for each in break_down(events, period, per, name_of)]
    rows = [
        (format_time(start), format_time(end), name, round(seconds, 3))
        for start, end, found in parts
        for name, seconds in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    ]
    return Table(("start", "end", by, "seconds"), rows)


def make_page(table: Table, file_format: Format, *, offset: int, limit: int) -> Page:
    """Return at most `limit` rows from `offset` on, fewer if their text would be too long.

    The pages of a CSV table make up one file: only the first has the column names. Each JSON page is a separate array.

    Raises: BadRequest.
    """
    if offset < 0 or not 1 <= limit <= limits.EXPORT_ROWS:
        raise BadRequest(
            f"offset must be at least 0 and limit between 1 and {limits.EXPORT_ROWS}, not {offset} and {limit}"
        )
    lines: list[str] = []
    size = 0
    for row in table.rows[offset : offset + limit]:
        line = _format_row(table.columns, row, file_format)
        size += len(line.encode("utf-8", "replace"))
        if lines and size > limits.EXPORT_BYTES:
            break
        lines.append(line)
    return Page("".join(_join_lines(table.columns, lines, file_format, has_header=offset == 0)), len(lines))


def render_file(table: Table, file_format: Format) -> Iterator[str]:
    """Yield the text of the whole table in parts, for writing to a file."""
    return _join_lines(
        table.columns,
        (_format_row(table.columns, row, file_format) for row in table.rows),
        file_format,
        has_header=True,
    )


def _join_lines(
    columns: Sequence[str], lines: Iterable[str], file_format: Format, *, has_header: bool
) -> Iterator[str]:
    if file_format == "csv":
        if has_header:
            yield _format_row(columns, columns, file_format)
        yield from lines
        return
    separator = "["
    for line in lines:
        yield f"{separator}\n{line}"
        separator = ","
    yield "[]\n" if separator == "[" else "\n]\n"


def _format_row(columns: Sequence[str], row: Sequence[Any], file_format: Format) -> str:
    if file_format == "json":
        return msgspec.json.encode(dict(zip(columns, row, strict=True))).decode()
    line = io.StringIO()
    csv.writer(line).writerow([_escape_cell(value) for value in row])
    return line.getvalue()


def _escape_cell(value: Any) -> Any:
    """Prefix an apostrophe, so that spreadsheets do not run a title as a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
