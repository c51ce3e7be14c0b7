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
from hubbub.packs.activity.summary import By, add_up, select_events
from hubbub.packs.activity.timeline import draw_line

What: TypeAlias = Literal["windows", "pages", "files", "timeline", "summary"]
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
    records: Records, period: Period, what: What, *, by: By, per: Unit | None, categories: Categories
) -> Table:
    """Build the whole table; slow for many events.

    Raises: BadRequest.
    """
    zone = period.start.tzinfo

    def time_of(moment: datetime) -> str:
        return moment.astimezone(zone).isoformat(timespec="milliseconds")

    def of_events(events: Iterable[Event], *columns: str) -> Table:
        name_of: dict[str, Callable[[Event], str]] = {"category": categories.named}
        rows = [
            (
                time_of(event.timestamp),
                time_of(event.end),
                round(event.duration, 3),
                *(name_of[column](event) if column in name_of else event.text(column) for column in columns),
            )
            for event in events
        ]
        return Table(("start", "end", "seconds", *columns), rows)

    match what:
        case "windows":
            return of_events(select_events(records, "app", categories)[1], "app", "title", "category")
        case "pages":
            return of_events(select_events(records, "url", categories)[1], "url", "title")
        case "files":
            return of_events(select_events(records, "file", categories)[1], "project", "file", "language")
        case "timeline":
            line = draw_line(records, period, "", least_s=0, most=sys.maxsize, categories=categories)
            columns = ("start", "end", "seconds", "kind", "app", "title", "category")
            return Table(columns, [tuple(getattr(block, each) for each in columns) for block in line.blocks])
        case "summary":
            return _summary_table(records, period, by, per, categories, time_of)


def _summary_table(
    records: Records,
    period: Period,
    by: By,
    per: Unit | None,
    categories: Categories,
    time_of: Callable[[datetime], str],
) -> Table:
    _, events, name_of = select_events(records, by, categories)
    if per is None:
        whole: dict[str, float] = dict(add_up(events, name_of))
        parts = [(period.start, period.end, whole)]
    else:
        parts = [(each.start, each.end, each.seconds) for each in break_down(events, period, per, name_of)]
    rows = [
        (time_of(start), time_of(end), name, round(seconds, 3))
        for start, end, found in parts
        for name, seconds in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    ]
    return Table(("start", "end", by, "seconds"), rows)


def cut_page(table: Table, form: Format, *, offset: int, limit: int) -> Page:
    """Return at most `limit` rows from `offset` on, fewer if their text would be too long.

    The pages of a CSV table make up one file: only the first has the column names. Each JSON page is a separate array.

    Raises: BadRequest.
    """
    if offset < 0 or not 1 <= limit <= limits.EXPORT_ROWS:
        raise BadRequest(f"offset must be at least 0, and limit between 1 and {limits.EXPORT_ROWS}")
    lines: list[str] = []
    size = 0
    for row in table.rows[offset : offset + limit]:
        line = _line(table.columns, row, form)
        size += len(line.encode("utf-8", "replace"))
        if lines and size > limits.EXPORT_BYTES:
            break
        lines.append(line)
    return Page("".join(_file(table.columns, lines, form, has_names=offset == 0)), len(lines))


def whole_file(table: Table, form: Format) -> Iterator[str]:
    """Yield the text of the whole table in parts, for writing to a file."""
    return _file(table.columns, (_line(table.columns, row, form) for row in table.rows), form, has_names=True)


def _file(columns: Sequence[str], lines: Iterable[str], form: Format, *, has_names: bool) -> Iterator[str]:
    if form == "csv":
        if has_names:
            yield _line(columns, columns, form)
        yield from lines
        return
    separator = "["
    for line in lines:
        yield f"{separator}\n{line}"
        separator = ","
    yield "[]\n" if separator == "[" else "\n]\n"


def _line(columns: Sequence[str], row: Sequence[Any], form: Format) -> str:
    if form == "json":
        return msgspec.json.encode(dict(zip(columns, row, strict=True))).decode()
    line = io.StringIO()
    csv.writer(line).writerow([_cell(value) for value in row])
    return line.getvalue()


def _cell(value: Any) -> Any:
    """Prefix an apostrophe, so that spreadsheets do not run a title as a formula."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
