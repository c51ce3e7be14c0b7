"""A stopped watcher is noted in every result that lacks its data."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.packs.activity.activitywatch_server import HOST, ActivityWatchServer, event
from tests.packs.activity.tool_clients import connect_tool_client, privacy_rules
from tests.server.raw_client import PLAIN

from hubbub.packs.activity import diagnosis
from hubbub.packs.activity.settings import ActivitySettings

WINDOW, AFK, WEB = f"aw-watcher-window_{HOST}", f"aw-watcher-afk_{HOST}", "aw-watcher-web-firefox"
STOPPED_MINUTES = 90
"""Minutes since the last event of the stopped watcher; the others record until now."""


def insert_workday(watch: ActivityWatchServer, *, stopped: str = "", off_minutes: float = 0) -> str:
    """Insert four hours in Firefox, recorded by three watchers, one of which stops; return the period."""
    now = datetime.now(UTC) - timedelta(minutes=off_minutes)
    start = now - timedelta(hours=4)
    kinds: dict[str, tuple[str, str, dict[str, Any]]] = {
        WINDOW: ("currentwindow", HOST, {"app": "Firefox", "title": "Work"}),
        AFK: ("afkstatus", HOST, {"status": "not-afk"}),
        WEB: ("web.tab.current", "unknown", {"url": "https://a.example/", "title": "Work", "audible": False}),
    }
    for name, (kind, host, data) in kinds.items():
        watch.bucket(name, kind, host=host)
        end = now - timedelta(minutes=STOPPED_MINUTES if name == stopped else 0)
        watch.insert(name, [event(start, (end - start).total_seconds(), **data)])
    return f"{start.isoformat()}/{(start + timedelta(hours=4)).isoformat()}"


async def call_every_tool(url: str, period: str, **settings: Any) -> dict[str, Any]:
    async with connect_tool_client(url, **settings) as tool_client:
        now = await tool_client.call("aw.now")
        summary = await tool_client.call("aw.summary", period=period)
        timeline = await tool_client.call("aw.timeline", period=period)
        categories = await tool_client.call("aw.categories", period=period, categories={"Work": "."})
        export = await tool_client.call("aw.export", period=period)
        counts = [f'query_bucket_eventcount("{name}")' for name in (await tool_client.call("aw.get_state"))["buckets"]]
        query = await tool_client.call("aw.query", period=period, query=f"RETURN = [{', '.join(counts)}];")
        chart = (await tool_client.client.call("aw.chart", {"period": period}))["content"][1]["text"]
        frame = await tool_client.call("nowframe.build")
        health = await tool_client.call("system.health")
    check = await diagnosis.watchers(ActivitySettings(aw_url=url, time_zone="UTC", **settings))
    return {
        "now": now["notes"],
        "summary": summary["notes"],
        "timeline": timeline["notes"],
        "categories": categories["notes"],
        "export": export["notes"],
        "query": query.get("notes", []),
        "chart": [line for line in chart.splitlines() if line.startswith("Note: ")],
        "nowframe": frame.get("notes", []),
        "health": [cause["message"] for name, cause in health["causes"].items() if name == "watchers"],
        "doctor": [] if check.ok else [check.detail],
    }


@pytest.mark.parametrize(
    ("stopped", "advice"), [(WINDOW, "aw-watcher-window"), (AFK, "aw-watcher-afk"), (WEB, "aw-watcher-web extension")]
)
async def test_every_tool_notes_a_stopped_watcher(stopped: str, advice: str, watch: ActivityWatchServer) -> None:
    period = insert_workday(watch, stopped=stopped)
    if stopped == WINDOW:  # otherwise the browser watcher would be reported as well
        watch.request("DELETE", f"buckets/{WEB}?force=1")
    answers = await call_every_tool(watch.url, period)
    for name, notes in answers.items():
        assert len(notes) == 1, name
        assert f"{stopped} recorded nothing" in notes[0], name
        assert advice in notes[0], name


async def test_no_tool_has_notes_while_all_watchers_run(watch: ActivityWatchServer) -> None:
    answers = await call_every_tool(watch.url, insert_workday(watch))
    assert answers == {name: [] for name in answers}


@pytest.mark.parametrize("prompt", ["where_was_i", "week_in_review", "what_did_i_do", "standup"])
async def test_every_prompt_notes_a_stopped_watcher(prompt: str, watch: ActivityWatchServer) -> None:
    insert_workday(watch, stopped=AFK)
    given = {"period": "last_5h"} if prompt in ("week_in_review", "what_did_i_do") else {}
    async with connect_tool_client(watch.url) as tool_client:
        found = await tool_client.client.result("prompts/get", {"name": prompt, "arguments": given})
    assert f"Note: {AFK} recorded nothing for " in found["messages"][0]["content"]["text"]


async def test_a_query_notes_only_gaps_of_its_buckets_and_period(watch: ActivityWatchServer) -> None:
    insert_workday(watch, stopped=AFK)
    now = datetime.now(UTC)
    before = f"{(now - timedelta(hours=4)).isoformat()}/{(now - timedelta(minutes=STOPPED_MINUTES + 1)).isoformat()}"
    async with connect_tool_client(watch.url) as tool_client:
        noted = [
            "notes" in await tool_client.call("aw.query", period=period, query=f'RETURN = query_bucket("{bucket}");')
            for bucket, period in ((AFK, "last_4h"), (WINDOW, "last_4h"), (AFK, before))
        ]
    assert noted == [True, False, False]


async def test_a_computer_that_was_off_is_not_reported_as_a_stopped_watcher(watch: ActivityWatchServer) -> None:
    answers = await call_every_tool(watch.url, insert_workday(watch, off_minutes=45))
    assert "has stopped" not in str(answers)
    assert (answers["summary"], answers["timeline"], answers["nowframe"]) == ([], [], [])
    for name in ("now", "health"):
        assert "off or asleep" in answers[name][0]
    assert "recorded nothing since" in answers["doctor"][0]


async def test_the_watcher_of_an_unused_browser_is_not_reported_as_stopped(watch: ActivityWatchServer) -> None:
    period = insert_workday(watch, stopped=WEB)
    start = datetime.now(UTC) - timedelta(minutes=STOPPED_MINUTES)
    watch.insert(WINDOW, [event(start, STOPPED_MINUTES * 60, app="Code", title="x")])
    answers = await call_every_tool(watch.url, period)
    assert answers == {name: [] for name in answers}


async def test_activity_on_another_machine_does_not_make_watchers_look_stopped(watch: ActivityWatchServer) -> None:
    """Nor does a browser that may run on either machine."""
    period = insert_workday(watch, off_minutes=45)
    watch.bucket("aw-watcher-window_laptop", "currentwindow", host="laptop")
    now = datetime.now(UTC)
    watch.insert("aw-watcher-window_laptop", [event(now - timedelta(hours=1), 3600, app="Slides", title="")])
    tab = {"url": "https://a.example/", "title": "Slides", "audible": False}
    watch.insert(WEB, [event(now - timedelta(minutes=10), 600, **tab)])
    assert "has stopped" not in str(await call_every_tool(watch.url, period, host=HOST))


async def test_hours_without_the_afk_watcher_are_partial(watch: ActivityWatchServer) -> None:
    period = insert_workday(watch, stopped=AFK)
    async with connect_tool_client(watch.url) as tool_client:
        timeline = await tool_client.call("aw.timeline", period=period)
        summary = await tool_client.call("aw.summary", period=period)
    reported = [(block["kind"], block["app"], round(block["seconds"] / 60)) for block in timeline["blocks"]]
    assert reported == [("active", "Firefox", 150), ("partial", "Firefox", 90)]
    assert round(summary["active_s"] / 60) == 150
    assert "1h 30m" in summary["notes"][0]


async def test_hours_without_the_window_watcher_are_partial(
    watch: ActivityWatchServer,
) -> None:
    period = insert_workday(watch, stopped=WINDOW)
    async with connect_tool_client(watch.url) as tool_client:
        timeline = await tool_client.call("aw.timeline", period=period)
    reported = [(block["kind"], block["app"], round(block["seconds"] / 60)) for block in timeline["blocks"]]
    assert reported == [("active", "Firefox", 150), ("partial", None, 90)]


async def test_a_watcher_that_never_recorded_anything_is_reported(watch: ActivityWatchServer) -> None:
    period = insert_workday(watch)
    watch.request("DELETE", f"buckets/{AFK}?force=1")
    watch.bucket(AFK, "afkstatus")
    answers = await call_every_tool(watch.url, period)
    assert all(f"{AFK} recorded nothing" in str(notes) for notes in answers.values())


async def test_a_frame_has_notes_only_when_a_watcher_stopped(watch: ActivityWatchServer) -> None:
    insert_workday(watch)
    async with connect_tool_client(watch.url, dialect=PLAIN) as tool_client:
        well = await tool_client.client.result("nowframe.build")
        watch.clear()
        insert_workday(watch, stopped=AFK)
        ill = await tool_client.client.result("nowframe.build")
    assert [*well, "notes"] == list(ill)


async def test_privacy_rules_apply_to_watcher_notes(watch: ActivityWatchServer) -> None:
    period = insert_workday(watch, stopped=WEB)
    for rule in ("drop_apps", "mask_apps"):
        answers = await call_every_tool(watch.url, period, privacy=privacy_rules(**{rule: ("firefox",)}))
        assert "irefox" not in str(answers)


@pytest.mark.parametrize("rule", ["drop_apps", "drop_urls"])
async def test_events_hidden_by_a_rule_are_not_reported_as_gaps(rule: str, watch: ActivityWatchServer) -> None:
    period = insert_workday(watch)
    pattern = {"drop_apps": "firefox", "drop_urls": "."}[rule]
    answers = await call_every_tool(watch.url, period, privacy=privacy_rules(**{rule: (pattern,)}))
    assert "recorded nothing" not in str(answers)


async def test_a_clock_ahead_does_not_make_watchers_look_stopped(watch: ActivityWatchServer) -> None:
    period = insert_workday(watch)
    watch.bucket("ahead", "app.editor.activity")
    watch.insert("ahead", [event(datetime.now(UTC) + timedelta(hours=3), 60, file="x")])
    answers = await call_every_tool(watch.url, period)
    assert "has stopped" not in str(answers)
