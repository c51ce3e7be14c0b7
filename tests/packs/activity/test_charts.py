"""Charts of periods: their text, what is drawn, and robustness against hostile records."""

import base64
import io
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args
from zoneinfo import ZoneInfo

import pytest
from tests.packs.activity.activitywatch_server import HOST, ActivityWatchServer, insert_morning
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub.pack.charts import PALE, choose_colour
from hubbub.packs.activity.categories import Categories, compile_request_rules
from hubbub.packs.activity.chart import Chart, ChartKind, draw_chart
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.periods import Period, parse_period
from hubbub.packs.activity.presence import DeviceRecords, Records
from hubbub.packs.activity.sidecar.picture import Picture
from hubbub.packs.activity.sidecar.tesseract import read_lines, version
from hubbub.packs.activity.summary import GroupBy

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
FOURTH_HOURS = ["04:00", "08:00", "12:00", "16:00", "20:00"]
KINDS: tuple[ChartKind, ...] = get_args(ChartKind)
MONDAY = datetime(2026, 11, 2, tzinfo=BERLIN)


def window(start: datetime, seconds: float, app: str, title: str = "") -> Event:
    return Event(start.astimezone(UTC), seconds, {"app": app, "title": title})


def presence(start: datetime, seconds: float, status: str = "not-afk") -> Event:
    return Event(start.astimezone(UTC), seconds, {"status": status})


def draw(
    kind: ChartKind,
    windows: Sequence[Event],
    period: str,
    *,
    afk: Sequence[Event] | None = None,
    by: GroupBy = "app",
    zone: ZoneInfo = BERLIN,
    notes: Sequence[str] = (),
) -> Chart:
    if afk is None:
        afk = [Event(event.timestamp, event.duration, {"status": "not-afk"}) for event in windows]
    records = Records([DeviceRecords(HOST, window=[list(windows)], afk=[list(afk)])])
    rules = Categories(compile_request_rules({"Work > Code": "code", "Fun": "game"}))
    return draw_chart(kind, records, parse_period(period, zone, NOW), HOST, by, categories=rules, notes=notes)


def pixels(png: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(png)).convert("RGB")


def rgb(name: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(choose_colour(name)[1:]))


def bar_length(picture: Any, name: str) -> int:
    """Return the longest horizontal run of pixels in the colour of a name."""
    points = picture.load()
    wanted = rgb(name)
    rows = ([bool(points[x, y] == wanted) for x in range(picture.width)] for y in range(picture.height))
    return max(sum(row) for row in rows)


def count_runs(picture: Any, y: int, name: str) -> int:
    """Count the horizontal runs of the colour of a name in a row of pixels."""
    row = [picture.getpixel((x, y)) == rgb(name) for x in range(picture.width)]
    return sum(now and not before for before, now in zip([False, *row], row, strict=False))


# -- the tool --------------------------------------------------------------------------


async def test_a_chart_has_a_text_with_the_totals_rows_and_notes(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    async with connect_tool_client(watch.url) as tool_client:
        image, text = (await tool_client.client.call("aw.chart", {"period": "yesterday", "by": "category"}))["content"]
    assert (image["type"], image["mimeType"], text["type"]) == ("image", "image/png", "text")
    first, *rest = text["text"].splitlines()
    assert first.startswith(f"{HOST}, ")
    assert first.endswith("(UTC): 1h 30m active, 30m away.")
    assert rest[:2] == ["By category:", "- Uncategorized: 1h 30m (100%)"]
    assert rest[2].startswith("Note: no categories are defined")


async def test_bar_lengths_are_proportional_to_durations(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    async with connect_tool_client(watch.url) as tool_client:
        image, _ = (await tool_client.client.call("aw.chart", {"period": "yesterday"}))["content"]
    picture = pixels(base64.b64decode(image["data"]))
    code, firefox, mail = (bar_length(picture, name) for name in ("Code", "Firefox", "Thunderbird"))
    assert code / firefox == pytest.approx(3600 / 900, rel=0.03)
    assert mail == pytest.approx(firefox, abs=1)


async def test_each_chart_kind_is_drawn_and_others_are_refused(watch: ActivityWatchServer) -> None:
    insert_morning(watch)
    async with connect_tool_client(watch.url) as tool_client:
        drawn = [
            (await tool_client.client.call("aw.chart", {"period": "yesterday", "kind": kind}))["content"][0]["data"]
            for kind in KINDS
        ]
        failure = await tool_client.failure("aw.chart", kind="pie")
    assert len(set(drawn)) == 3
    assert "pie" in failure["message"]


async def test_a_timeline_of_a_year_is_refused_with_advice(watch: ActivityWatchServer) -> None:
    async with connect_tool_client(watch.url) as tool_client:
        failure = await tool_client.failure("aw.chart", kind="timeline", period="last_300d")
    assert failure["code"] == "invalid_argument"
    assert "at most 31 days" in failure["message"]
    assert "heatmap" in failure["message"]


# -- drawing -----------------------------------------------------------------------------


@pytest.mark.skipif(version() is None, reason="no tesseract here: scripts/system-packages installs it")
@pytest.mark.parametrize("kind", KINDS)
def test_the_picture_shows_the_host_period_total_and_notes(kind: ChartKind) -> None:
    chart = draw(kind, [window(MONDAY + timedelta(hours=9), 5400, "Code")], "2026-11-02", notes=["the watcher stopped"])
    text = " ".join(line.text for line in read_lines(*Picture.decode(chart.png).for_ocr()))
    for words in (HOST, "Monday 2 November 2026", "Europe/Berlin", "1h 30m active", "watcher stopped"):
        assert words in text, text


@pytest.mark.parametrize("kind", ["bars", "timeline"])
def test_an_app_has_the_same_colour_at_any_rank(kind: ChartKind) -> None:
    at_nine, at_ten = MONDAY + timedelta(hours=9), MONDAY + timedelta(hours=11)
    one = draw(kind, [window(at_nine, 7200, "Code"), window(at_ten, 1800, "Firefox")], "2026-11-02")
    other = draw(kind, [window(at_nine, 1800, "Code"), window(at_ten, 7200, "Firefox")], "2026-11-02")
    for name in ("Code", "Firefox"):
        assert bar_length(pixels(one.png), name) > 0
        assert bar_length(pixels(other.png), name) > 0


def test_a_week_has_a_column_for_each_day() -> None:
    days = [MONDAY + timedelta(days=number, hours=9) for number in (0, 1, 3, 4, 6)]
    picture = pixels(draw("bars", [window(day, 7200, "Code") for day in days], "2026-11-02/2026-11-09").png)
    assert max(count_runs(picture, y, "Code") for y in range(picture.height)) == len(days)


def test_a_day_has_a_column_for_each_hour() -> None:
    hours = [MONDAY + timedelta(hours=number) for number in (8, 9, 11, 15)]
    picture = pixels(draw("bars", [window(hour, 3600, "Code") for hour in hours], "2026-11-02").png)
    assert max(count_runs(picture, y, "Code") for y in range(picture.height)) == len(hours)


def test_a_timeline_shows_each_stretch_of_an_app() -> None:
    starts = [MONDAY + timedelta(hours=number) for number in (8, 12, 16)]
    picture = pixels(draw("timeline", [window(start, 3600, "Code") for start in starts], "2026-11-02").png)
    assert max(count_runs(picture, y, "Code") for y in range(picture.height)) == len(starts)


@pytest.mark.parametrize("period", ["2026-11-02", "2026-11-02/2026-11-05"])
def test_a_timeline_shows_partially_recorded_time(period: str) -> None:
    start = MONDAY + timedelta(hours=9)
    windows = [window(start, 7200, "Code")]
    whole, half = (draw("timeline", windows, period, afk=[presence(start, seconds)]) for seconds in (7200, 3600))
    pale = tuple(bytes.fromhex(PALE[1:]))
    before, now = ({colour: count for count, colour in pixels(each.png).getcolors(1 << 24)} for each in (whole, half))
    assert now[pale] > before.get(pale, 0) + 50
    assert "1h 00m active" in half.text


@pytest.mark.parametrize("kind", KINDS)
def test_a_partially_recorded_period_is_not_reported_as_empty(kind: ChartKind) -> None:
    start = MONDAY + timedelta(hours=9)
    dead = draw(kind, [window(start, 7200, "Code")], "2026-11-02", afk=[presence(start - timedelta(hours=2), 60)])
    assert "Nothing was recorded" not in dead.text
    assert "2h 00m were recorded only in part" in dead.text


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_period_says_why(kind: ChartKind) -> None:
    nothing = draw(kind, [], "2026-11-02", afk=[])
    away = draw(kind, [], "2026-11-02", afk=[presence(MONDAY, 7200, "afk")])
    dead = draw(kind, [], "2026-11-02", afk=[], notes=["aw-watcher-window has written nothing since Sunday"])
    assert "Nothing was recorded in this period." in nothing.text
    assert "2h 00m away" in away.text
    assert "No activity" in away.text
    assert "Note: aw-watcher-window has written nothing since Sunday" in dead.text
    assert len({nothing.png, away.png, dead.png}) == 3, "it can be seen in the picture too"


CLOCKS = [
    ("Europe/Berlin", "2026-10-25"),
    ("Europe/Berlin", "2026-03-23/2026-03-30"),
    ("Australia/Lord_Howe", "2026-04-01/2026-04-08"),
    ("America/Havana", "2026-11-01"),
    ("Asia/Kolkata", "2026-11-01T13:15/2026-11-01T13:40"),
]
A_YEAR = ("Europe/Berlin", "2025-12-01/2026-11-15")
"""Too long for a timeline."""


@pytest.mark.parametrize(
    ("kind", "zone", "period"),
    [(kind, *clock) for kind in KINDS for clock in (*CLOCKS, A_YEAR) if (kind, clock) != ("timeline", A_YEAR)],
)
def test_charts_can_be_drawn_across_clock_changes(kind: ChartKind, zone: str, period: str) -> None:
    meant = parse_period(period, ZoneInfo(zone), NOW)
    length_s = (meant.end.astimezone(UTC) - meant.start.astimezone(UTC)).total_seconds()
    windows = [window(meant.start, length_s / 2, "Code"), window(meant.end - timedelta(seconds=60), 3600, "Mail")]
    afk = [presence(meant.start, length_s * 2), presence(meant.start, 10.0, "afk")]
    assert draw(kind, windows, period, afk=afk, zone=ZoneInfo(zone)).png.startswith(b"\x89PNG")


# -- robustness ---------------------------------------------------------------------------

HOSTILE = [
    r"$\frac{1}{0}$ $", "x" * 1_000_000, "a\nb\x00\x1b[31m", "\u202egnp.exe", "z" + "\u0335" * 5000, "\ud83d", "",
    "日本語 🎉 العربية", "\U000f0000\u0378", "W" * 80, "(none)", "everything else", "away",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("days", [1, 7])
def test_hostile_titles_do_not_change_the_chart_size(kind: ChartKind, days: int) -> None:
    moments = (MONDAY + timedelta(minutes=20 * number) for number in range(len(HOSTILE)))
    windows = [window(moment, 1200 - number, "app", HOSTILE[number]) for number, moment in enumerate(moments)]
    period = f"2026-11-02/2026-11-{2 + days:02}"
    notes = ["n\n" * 100_000, "\u202e" * 1000, *["more"] * 50]
    chart = draw(kind, windows, period, by="title", notes=notes)
    width, height = struct.unpack(">II", chart.png[16:24])
    assert (width, height < 1000, len(chart.png) < 200_000) == (800, True, True)


@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_names_are_reduced_to_ten_and_other(kind: ChartKind) -> None:
    windows = [window(MONDAY + timedelta(seconds=20 * number), 20.0, f"app {number}") for number in range(4000)]
    chart = draw(kind, windows, "2026-11-02")
    assert len(chart.png) < 200_000
    assert chart.text.count("\n- ") == 11
    assert "- everything else: 22h 10m" in chart.text


def test_periods_are_formatted_for_readers() -> None:
    from hubbub.packs.activity.period_format import format_period

    days = {
        "2026-11-02": "Monday 2 November 2026 (Europe/Berlin)",
        "2026-11-02/2026-11-09": "Mon 2 Nov 2026 to Sun 8 Nov 2026 (Europe/Berlin)",
        "2026-11-02T09:00/2026-11-02T17:30": "Monday 2 November 2026, 09:00 to 17:30 (Europe/Berlin)",
        "2026-11-02T22:00/2026-11-03T00:00": "Monday 2 November 2026, 22:00 to 24:00 (Europe/Berlin)",
        "2026-11-02T22:00/2026-11-03T01:00": "Mon 2 Nov 2026 22:00 to Tue 3 Nov 2026 01:00 (Europe/Berlin)",
    }
    assert {day: format_period(parse_period(day, BERLIN, NOW)) for day in days} == days


@pytest.mark.parametrize(
    ("hours", "first", "texts"),
    [
        (24, MONDAY, [*(f"{hour:02}:00" for hour in range(0, 24, 2)), "24:00"]),
        (3, MONDAY + timedelta(hours=9), ["09:00", "10:00", "11:00", "12:00"]),
        (48, MONDAY, ["00:00\nMon 2 Nov", *FOURTH_HOURS, "00:00\nTue 3 Nov", *FOURTH_HOURS, "24:00"]),
    ],
)
def test_hour_ticks_are_at_round_times(hours: int, first: datetime, texts: list[str]) -> None:
    from hubbub.packs.activity.breakdown import interval_edges
    from hubbub.packs.activity.period_format import label_hours

    edges = [edge.astimezone(BERLIN) for edge in interval_edges(Period(first, first + timedelta(hours=hours)), "hour")]
    assert [text for _, text in label_hours(edges, 13)] == texts
