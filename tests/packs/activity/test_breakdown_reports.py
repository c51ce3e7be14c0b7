"""Summaries per hour, day, week and month, and by page and file, of events of a real ActivityWatch."""

import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.packs.activity.activitywatch_proxies import forward_request, run_proxy_with_categories
from tests.packs.activity.activitywatch_server import HOST, ActivityWatchServer, event, insert_morning
from tests.packs.activity.scripted_server import ScriptedResponse, run_scripted_server
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub.packs.activity.settings import PrivacySettings

BERLIN = ZoneInfo("Europe/Berlin")
WEEK = "2026-W43"
"""Sunday, 25 October, has 25 hours in Berlin."""
MONDAY = datetime(2026, 10, 19, tzinfo=BERLIN).astimezone(UTC)
WEEK_S = (7 * 24 + 1) * 3600


def insert_week(watch: ActivityWatchServer) -> None:
    """Insert windows and presence of various lengths, from the Saturday before to the Tuesday after."""
    generator = random.Random(7)
    buckets = {
        "window": watch.bucket(f"aw-watcher-window_{HOST}", "currentwindow"),
        "afk": watch.bucket(f"aw-watcher-afk_{HOST}", "afkstatus"),
    }
    for kind, name in buckets.items():
        moment, events = MONDAY - timedelta(days=2), []
        while moment < MONDAY + timedelta(days=9):
            length = generator.choice((60.0, 600.0, 4000.5, 20_000.0))
            data = (
                {"app": generator.choice(("Code", "Firefox", "Mail")), "title": f"{generator.randrange(9)} 日本 🙂"}
                if kind == "window"
                else {"status": generator.choice(("afk", "not-afk", "not-afk"))}
            )
            events.append(event(moment, length, **data))
            moment += timedelta(seconds=length)
        watch.insert(name, events)


def sum_intervals(summary: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    for interval in summary["intervals"]:
        assert interval["other_s"] == 0
        for row in interval["rows"]:
            found[row["name"]] = found.get(row["name"], 0.0) + row["seconds"]
    return found


async def test_hours_and_days_add_up_to_the_week_total_of_activitywatch(
    watch: ActivityWatchServer,
) -> None:
    insert_week(watch)
    async with connect_tool_client(watch.url, time_zone="Europe/Berlin") as tool_client:
        found = {
            per: await tool_client.call("aw.summary", period=WEEK, per=per)
            for per in ("hour", "day", "week", "month", None)
        }
        sunday = await tool_client.call("aw.summary", period="2026-10-25", per="hour")
    whole = found[None]
    assert (whole["start"], whole["end"]) == ("2026-10-19T00:00:00+02:00", "2026-10-26T00:00:00+01:00")
    lines = [
        f'windows = flood(query_bucket("aw-watcher-window_{HOST}"));',
        f'afk = flood(query_bucket("aw-watcher-afk_{HOST}"));',
        'present = filter_keyvals(afk, "status", ["not-afk"]);',
        "RETURN = sum_durations(filter_period_intersect(windows, present));",
    ]
    judged_s = watch.query(MONDAY, MONDAY + timedelta(seconds=WEEK_S), lines)
    assert whole["active_s"] == pytest.approx(judged_s, abs=0.1)
    names = {row["name"]: row["seconds"] for row in whole["rows"]}
    for per in ("hour", "day", "week", "month"):
        assert found[per]["active_s"] == whole["active_s"]
        assert sum_intervals(found[per]) == pytest.approx(names, abs=0.1)
        assert sum(each["active_s"] for each in found[per]["intervals"]) == pytest.approx(whole["active_s"], abs=0.1)
    days = {each["label"]: each["active_s"] for each in found["day"]["intervals"]}
    assert next(iter(days)) == "2026-10-19 Mon"
    assert list(days)[-1] == "2026-10-25 Sun"
    assert days["2026-10-25 Sun"] == pytest.approx(sunday["active_s"], abs=0.1)
    assert sum(each["active_s"] for each in sunday["intervals"]) == pytest.approx(sunday["active_s"], abs=0.1)
    for each in (*found["day"]["intervals"], *found["hour"]["intervals"][:12]):
        start, end = (datetime.fromisoformat(each[edge]).astimezone(UTC) for edge in ("start", "end"))
        assert each["active_s"] == pytest.approx(watch.query(start, end, lines), abs=0.1)
    assert [each["label"] for each in found["week"]["intervals"]] == [WEEK]
    assert [each["label"] for each in found["month"]["intervals"]] == ["2026-10"]
    assert (whole["per"], whole["intervals"]) == (None, [])


async def test_intervals_list_their_activity_and_empty_ones_are_omitted(watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    async with connect_tool_client(watch.url) as tool_client:
        summary = await tool_client.call("aw.summary", period="yesterday", per="hour", top=1)
        part = await tool_client.call("aw.summary", period="yesterday 09:40-10:45", per="hour")
    first, second = summary["intervals"]
    assert first["label"] == f"{start:%Y-%m-%d} 09:00"
    assert (first["active_s"], first["duration"], first["other_s"]) == (3600, "1h 00m", 1800)
    assert first["rows"] == [{"name": "Code", "seconds": 1800, "share": 0.5, "duration": "30m"}]
    assert (second["start"][11:16], second["active_s"]) == ("10:00", 1800)
    assert [each["active_s"] for each in part["intervals"]] == [1200, 900]


async def test_events_beyond_the_period_are_cut_to_it(watch: ActivityWatchServer) -> None:
    """ActivityWatch's memory storage returns whole events that overlap the period."""
    start = insert_morning(watch)
    whole = {
        "start": f"{start - timedelta(days=1):%Y-%m-%dT%H:%MZ}",
        "end": f"{start + timedelta(days=1):%Y-%m-%dT%H:%MZ}",
    }

    def answer(method: str, path: str) -> ScriptedResponse:
        return forward_request(watch, re.sub(r"(start|end)=[^&]+", lambda found: f"{found[1]}={whole[found[1]]}", path))

    with run_scripted_server(answer) as memory:
        async with connect_tool_client(memory.url) as tool_client, connect_tool_client(watch.url) as judge:
            for period in ("yesterday 09:10-10:50", "yesterday 10:40-10:50", "yesterday 12:00-13:00"):
                found = await tool_client.call("aw.summary", period=period, per="hour")
                assert found == await judge.call("aw.summary", period=period, per="hour")
                assert sum(each["active_s"] for each in found["intervals"]) == found["active_s"]


async def test_the_row_limit_is_shared_among_many_intervals_with_a_note(watch: ActivityWatchServer) -> None:
    window = watch.bucket(f"aw-watcher-window_{HOST}", "currentwindow")
    begin = datetime(2026, 9, 30, 22, tzinfo=UTC)
    watch.insert(
        window,
        [
            event(begin + timedelta(minutes=20 * place), 1200, app=f"app {place % 3}", title="t")
            for place in range(3 * 745)
        ],
    )
    async with connect_tool_client(watch.url, time_zone="Europe/Berlin") as tool_client:
        month = await tool_client.call("aw.summary", period="2026-10", per="hour")
        refused = await tool_client.failure("aw.summary", period="2026", per="hour")
        days = await tool_client.call("aw.summary", period="2026", per="day")
    assert len(month["intervals"]) == 745
    assert {(len(each["rows"]), each["other_s"]) for each in month["intervals"]} == {(1, 2400.0)}
    assert "at most 1 rows here" in month["notes"][-1]
    assert "ask for a shorter period or a longer unit" in refused["message"]
    assert len(days["intervals"]) == 31


def insert_editor_events(watch: ActivityWatchServer, start: datetime) -> None:
    """Insert editor events for the first half hour and the last one, which includes time away."""
    editor = watch.bucket(f"aw-watcher-vscode_{HOST}", "app.editor.activity")
    watch.insert(
        editor,
        [
            event(start, 1200, file="/home/me/hubbub/main.py", project="/home/me/hubbub", language="python"),
            event(start + timedelta(minutes=20), 600, file="/home/me/diary.md", project="", language="markdown"),
            event(
                start + timedelta(hours=1),
                3600,
                file="/home/me/hubbub/a.py",
                project="/home/me/hubbub",
                language="python",
            ),
        ],
    )


def rows(summary: dict[str, Any]) -> dict[str, float]:
    return {row["name"]: row["seconds"] for row in summary["rows"]}


async def test_a_summary_can_be_by_project_file_language_and_address(watch: ActivityWatchServer) -> None:
    insert_editor_events(watch, insert_morning(watch))
    async with connect_tool_client(watch.url) as tool_client:
        found = {
            by: await tool_client.call("aw.summary", period="yesterday", by=by, per="day")
            for by in ("project", "file", "language", "url")
        }
    assert rows(found["project"]) == {"/home/me/hubbub": 3000, "(none)": 600}
    assert rows(found["file"]) == {
        "/home/me/hubbub/a.py": 1800,
        "/home/me/hubbub/main.py": 1200,
        "/home/me/diary.md": 600,
    }
    assert rows(found["language"]) == {"python": 3000, "markdown": 600}
    assert rows(found["url"]) == {"https://www.example.org/mcp?x=1": 900}
    for summary in found.values():
        assert summary["active_s"] == 5400
        assert sum_intervals(summary) == rows(summary)
        assert summary["notes"] == []


async def test_privacy_rules_apply_to_files_and_addresses(watch: ActivityWatchServer) -> None:
    insert_editor_events(watch, insert_morning(watch))
    rules = PrivacySettings(mask_titles=("diary",), urls="domain", drop_titles=("a\\.py",))
    async with connect_tool_client(watch.url, privacy=rules) as tool_client:
        files = await tool_client.call("aw.summary", period="yesterday", by="file", per="hour")
        urls = await tool_client.call("aw.summary", period="yesterday", by="url", per="hour")
        projects = await tool_client.call("aw.summary", period="yesterday", by="project")
    assert rows(files) == {"/home/me/hubbub/main.py": 1200, "[private]": 600}
    assert rows(projects) == {"/home/me/hubbub": 1200, "[private]": 600}
    assert rows(urls) == {"www.example.org": 900}
    assert sum_intervals(files) == rows(files)
    async with connect_tool_client(watch.url, privacy=PrivacySettings(drop_apps=("vscode",))) as tool_client:
        dropped = await tool_client.call("aw.summary", period="yesterday", by="project")
    assert dropped["rows"] == []
    assert "no files are recorded" in dropped["notes"][0]


async def test_a_private_project_hides_its_files(watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    editor = watch.bucket(f"aw-watcher-vim_{HOST}", "app.editor.activity")
    watch.insert(editor, [event(start, 600, file="notes.txt", project="merger", language="text")])
    async with connect_tool_client(watch.url, privacy=PrivacySettings(mask_titles=("merger",))) as tool_client:
        files = await tool_client.call("aw.summary", period="yesterday", by="file")
    assert rows(files) == {"[private]": 600}


async def test_editor_events_are_read_only_when_needed(watch: ActivityWatchServer) -> None:
    insert_editor_events(watch, insert_morning(watch))
    with run_proxy_with_categories(watch, []) as proxy:
        async with connect_tool_client(proxy.url) as tool_client:
            for by in ("app", "url"):
                await tool_client.call("aw.summary", period="yesterday", by=by, per="hour")
            without = [path for _, path, _ in proxy.requests]
            await tool_client.call("aw.summary", period="yesterday", by="file")
    assert not [path for path in without if "vscode" in path]
    assert [path for _, path, _ in proxy.requests if "vscode" in path]


async def test_the_week_review_prompt_lists_each_day(watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    async with connect_tool_client(watch.url, categories={"Work": "code"}) as tool_client:
        asked = [
            {"name": "week_in_review", "arguments": {"period": period}} for period in ("last_7d", "last_60d", "friday")
        ]
        found = [
            (await tool_client.client.result("prompts/get", each))["messages"][0]["content"]["text"] for each in asked
        ]
    assert f"By day:\n- {start:%Y-%m-%d %a}: 1h 30m (Work 1h 00m, Uncategorized 30m)\n" in found[0]
    assert f"By week:\n- {start:%G-W%V}: 1h 30m (Work 1h 00m, Uncategorized 30m)\n" in found[1]
    assert "By day:\n" in found[2]
