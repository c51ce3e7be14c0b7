"""Export as CSV and JSON: pages are complete, without spreadsheet formulas and without private data."""

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packs.activity.activitywatch_server import HOST, ActivityWatchServer, event, insert_morning
from tests.packs.activity.tool_clients import ToolClient, connect_tool_client

from hubbub.packs.activity import limits
from hubbub.packs.activity.export import Format, Table, make_page, render_file
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.settings import PrivacySettings

YESTERDAY = {"period": "yesterday"}


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


async def read_all(tool_client: ToolClient, **arguments: Any) -> list[dict[str, Any]]:
    """Return all rows, page by page."""
    rows: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = await tool_client.call("aw.export", format="json", offset=offset, **arguments)
        rows += json.loads(page["text"])
        assert len(rows) == offset + page["row_count"] <= page["total_rows"]
        offset = page["next_offset"]
    return rows


async def test_the_windows_of_a_period_are_exported_as_csv(watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    async with connect_tool_client(watch.url, time_zone="Asia/Kolkata", categories={"Work": "code"}) as tool_client:
        page = await tool_client.call("aw.export", period="last_2d")
    names, first, *rest = read_csv(page["text"])
    assert names == page["columns"] == ["start", "end", "seconds", "app", "title", "category"]
    local = start + timedelta(hours=5, minutes=30)
    assert first == [
        f"{local:%Y-%m-%dT%H:%M}:00.000+05:30",
        f"{local + timedelta(minutes=30):%Y-%m-%dT%H:%M}:00.000+05:30",
        "1800.0",
        "Code",
        "main.py - hubbub",
        "Work",
    ]
    assert len(rest) == 3
    assert (page["row_count"], page["total_rows"], page["next_offset"], page["notes"]) == (4, 4, None, [])


@pytest.mark.parametrize("limit", [1, 2, 500])
async def test_exported_pages_add_up_to_the_summary(limit: int, watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    editor = watch.bucket(f"aw-watcher-vim_{HOST}", "app.editor.activity")
    watch.insert(editor, [event(start, 600, file="a.py", project="p", language="python")])
    async with connect_tool_client(watch.url) as tool_client:
        windows = await read_all(tool_client, limit=limit, **YESTERDAY)
        pages = await read_all(tool_client, what="pages", limit=limit, **YESTERDAY)
        files = await read_all(tool_client, what="files", limit=limit, **YESTERDAY)
        line = await read_all(tool_client, what="timeline", limit=limit, **YESTERDAY)
        hours = await read_all(tool_client, what="summary", per="hour", limit=limit, **YESTERDAY)
        whole = await read_all(tool_client, what="summary", by="file", limit=limit, **YESTERDAY)
    assert sum(row["seconds"] for row in windows) == 5400
    assert pages == [{**pages[0], "seconds": 900, "url": "https://www.example.org/mcp?x=1", "title": "MCP"}]
    assert files == [{**files[0], "seconds": 600, "project": "p", "file": "a.py", "language": "python"}]
    assert [row["seconds"] for row in line if row["kind"] == "afk"] == [1800]
    assert [(row["start"][11:13], row["app"], row["seconds"]) for row in hours] == [
        ("09", "Code", 1800),
        ("09", "Firefox", 900),
        ("09", "Thunderbird", 900),
        ("10", "Code", 1800),
    ]
    assert [(row["file"], row["seconds"]) for row in whole] == [("a.py", 600)]


async def test_csv_pages_join_into_one_file_without_formulas(watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    titles = [
        "=cmd|' /C calc'!A0",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        " =1",
        "＝1",
        'say "hi", then\nleave',
        "ok=1",
        "日本 🙂",
    ]
    window = f"aw-watcher-window_{HOST}"
    later = start + timedelta(minutes=95)
    watch.insert(
        window,
        [event(later + timedelta(minutes=place), 60, app="=app", title=title) for place, title in enumerate(titles)],
    )
    async with connect_tool_client(watch.url) as tool_client:
        text = ""
        offset: int | None = 0
        while offset is not None:
            page = await tool_client.call("aw.export", offset=offset, limit=3, **YESTERDAY)
            text, offset = text + page["text"], page["next_offset"]
    rows = read_csv(text)
    assert [row[0] for row in rows].count("start") == 1
    found = [row[4] for row in rows if row[3] == "'=app"]
    assert found == [f"'{title}" for title in titles[:7]] + titles[7:]


async def test_privacy_rules_apply_to_exports(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    rules = PrivacySettings(drop_apps=("thunderbird",), mask_titles=("main",), urls="domain")
    async with connect_tool_client(watch.url, privacy=rules) as tool_client:
        windows = await read_all(tool_client, **YESTERDAY)
        pages = await read_all(tool_client, what="pages", **YESTERDAY)
    assert [(row["app"], row["title"]) for row in windows] == [
        ("Code", "[private]"),
        ("Firefox", "MCP - Mozilla Firefox"),
        ("Code", "test.py - hubbub"),
    ]
    assert [row["url"] for row in pages] == ["www.example.org"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"offset": -1}, "offset must be at least 0"),
        ({"limit": 0}, "limit between 1 and 5000"),
        ({"limit": 5001}, "limit between 1 and 5000"),
        ({"what": "summary", "period": "2026-10/2026-01"}, "is not a period"),
        ({"what": "summary", "per": "hour", "period": "last_99d"}, "more than 768 intervals"),
    ],
)
async def test_invalid_export_arguments_are_refused(
    wrong: dict[str, Any], message: str, watch: ActivityWatchServer
) -> None:
    insert_morning(watch)
    async with connect_tool_client(watch.url) as tool_client:
        assert message in (await tool_client.failure("aw.export", **wrong))["message"]
        beyond = await tool_client.call("aw.export", offset=10**9, **YESTERDAY)
    assert (beyond["row_count"], beyond["total_rows"], beyond["next_offset"], beyond["text"]) == (0, 4, None, "")


values = st.one_of(st.none(), st.floats(0, 10**9), st.text(st.characters(exclude_categories=["Cs"])))


@given(
    rows=st.lists(st.tuples(values, values), max_size=12),
    limit=st.integers(1, 5),
    form=st.sampled_from(["csv", "json"]),
)
def test_pages_of_any_table_join_into_the_whole_file(rows: list[tuple[Any, Any]], limit: int, form: Format) -> None:
    table = Table(("a", "b"), rows)
    pages, offset = [], 0
    while offset < max(len(rows), 1):
        pages.append(make_page(table, form, offset=offset, limit=limit))
        offset += max(pages[-1].row_count, 1)
    file = "".join(render_file(table, form))
    if form == "csv":
        assert "".join(page.text for page in pages) == file
        names, *cells = read_csv(file)
        assert names == ["a", "b"]
        assert len(cells) == len(rows)
        for cell in (cell for row in cells for cell in row):
            assert not cell.lstrip().startswith(("=", "+", "-", "@"))
    else:
        read = [row for page in pages for row in json.loads(page.text)]
        assert read == json.loads(file) == [{"a": a, "b": b} for a, b in rows]


def test_a_page_has_a_bounded_length() -> None:
    table = Table(("title",), [("x" * 1000,)] * 3000)
    page = make_page(table, "csv", offset=0, limit=3000)
    assert 1 < page.row_count < 3000
    assert len(page.text) <= limits.EXPORT_BYTES + 100
    with pytest.raises(BadRequest):
        make_page(table, "csv", offset=0, limit=10**6)
