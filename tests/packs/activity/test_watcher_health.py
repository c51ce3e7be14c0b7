"""A watcher that stopped is told of in every answer that lacks what it would have recorded."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.packs.activity.desks import at_a_desk, privacy_rules
from tests.packs.activity.watching import HOST, Watch, event
from tests.server.conversation import PLAIN

from hubbub.packs.activity import diagnosis
from hubbub.packs.activity.settings import ActivitySettings

WINDOW, AFK, WEB = f"aw-watcher-window_{HOST}", f"aw-watcher-afk_{HOST}", "aw-watcher-web-firefox"
STOPPED_MINUTES = 90
"""How long ago the watcher that stopped wrote last; the others go on until now."""


def a_workday(watch: Watch, *, stopped: str = "", off_minutes: float = 0) -> str:
    """Four hours in Firefox until now, recorded by three watchers, of which one stops. The period."""
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


async def every_answer(url: str, period: str, **settings: Any) -> dict[str, Any]:
    async with at_a_desk(url, **settings) as asker:
        now = await asker.call("aw.now")
        summary = await asker.call("aw.summary", period=period)
        timeline = await asker.call("aw.timeline", period=period)
        categories = await asker.call("aw.categories", period=period, categories={"Work": "."})
        export = await asker.call("aw.export", period=period)
        counts = [f'query_bucket_eventcount("{name}")' for name in (await asker.call("aw.get_state"))["buckets"]]
        query = await asker.call("aw.query", period=period, query=f"RETURN = [{', '.join(counts)}];")
        chart = (await asker.client.call("aw.chart", {"period": period}))["content"][1]["text"]
        frame = await asker.call("nowframe.build")
        health = await asker.call("system.health")
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
async def test_every_answer_tells_which_watcher_stopped(stopped: str, advice: str, watch: Watch) -> None:
    period = a_workday(watch, stopped=stopped)
    if stopped == WINDOW:  # its last event would say that Firefox was in front, and then no more
        watch.ask("DELETE", f"buckets/{WEB}?force=1")
    answers = await every_answer(watch.url, period)
    for name, notes in answers.items():
        assert len(notes) == 1, name
        assert f"{stopped} recorded nothing" in notes[0], name
        assert advice in notes[0], name


async def test_nothing_is_told_while_all_of_them_run(watch: Watch) -> None:
    answers = await every_answer(watch.url, a_workday(watch))
    assert answers == {name: [] for name in answers}


@pytest.mark.parametrize("prompt", ["where_was_i", "week_in_review", "what_did_i_do", "standup"])
async def test_every_prompt_tells_which_watcher_stopped(prompt: str, watch: Watch) -> None:
    a_workday(watch, stopped=AFK)
    given = {"period": "last_5h"} if prompt in ("week_in_review", "what_did_i_do") else {}
    async with at_a_desk(watch.url) as asker:
        found = await asker.client.result("prompts/get", {"name": prompt, "arguments": given})
    assert f"Note: {AFK} recorded nothing for " in found["messages"][0]["content"]["text"]


async def test_a_query_tells_only_what_concerns_its_buckets_and_its_period(watch: Watch) -> None:
    a_workday(watch, stopped=AFK)
    now = datetime.now(UTC)
    before = f"{(now - timedelta(hours=4)).isoformat()}/{(now - timedelta(minutes=STOPPED_MINUTES + 1)).isoformat()}"
    async with at_a_desk(watch.url) as asker:
        noted = [
            "notes" in await asker.call("aw.query", period=period, query=f'RETURN = query_bucket("{bucket}");')
            for bucket, period in ((AFK, "last_4h"), (WINDOW, "last_4h"), (AFK, before))
        ]
    assert noted == [True, False, False]


async def test_a_computer_that_was_off_is_no_watcher_that_stopped(watch: Watch) -> None:
    answers = await every_answer(watch.url, a_workday(watch, off_minutes=45))
    assert "has stopped" not in str(answers)
    assert (answers["summary"], answers["timeline"], answers["nowframe"]) == ([], [], [])
    for name in ("now", "health"):
        assert "off or asleep" in answers[name][0]
    assert "recorded nothing since" in answers["doctor"][0]


async def test_a_browser_that_is_not_used_has_no_watcher_that_stopped(watch: Watch) -> None:
    period = a_workday(watch, stopped=WEB)
    start = datetime.now(UTC) - timedelta(minutes=STOPPED_MINUTES)
    watch.insert(WINDOW, [event(start, STOPPED_MINUTES * 60, app="Code", title="x")])
    answers = await every_answer(watch.url, period)
    assert answers == {name: [] for name in answers}


async def test_another_machine_says_nothing_of_the_watchers_of_this_one(watch: Watch) -> None:
    """Nor does a browser that may run on either."""
    period = a_workday(watch, off_minutes=45)
    watch.bucket("aw-watcher-window_laptop", "currentwindow", host="laptop")
    now = datetime.now(UTC)
    watch.insert("aw-watcher-window_laptop", [event(now - timedelta(hours=1), 3600, app="Slides", title="")])
    tab = {"url": "https://a.example/", "title": "Slides", "audible": False}
    watch.insert(WEB, [event(now - timedelta(minutes=10), 600, **tab)])
    assert "has stopped" not in str(await every_answer(watch.url, period, host=HOST))


async def test_recorded_hours_are_not_unrecorded_while_the_away_watcher_is_stopped(watch: Watch) -> None:
    period = a_workday(watch, stopped=AFK)
    async with at_a_desk(watch.url) as asker:
        timeline = await asker.call("aw.timeline", period=period)
        summary = await asker.call("aw.summary", period=period)
    told = [(block["kind"], block["app"], round(block["seconds"] / 60)) for block in timeline["blocks"]]
    assert told == [("active", "Firefox", 150), ("partial", "Firefox", 90)]
    assert round(summary["active_s"] / 60) == 150
    assert "1h 30m" in summary["notes"][0]


async def test_hours_with_input_are_not_unrecorded_while_the_window_watcher_is_stopped(watch: Watch) -> None:
    period = a_workday(watch, stopped=WINDOW)
    async with at_a_desk(watch.url) as asker:
        timeline = await asker.call("aw.timeline", period=period)
    told = [(block["kind"], block["app"], round(block["seconds"] / 60)) for block in timeline["blocks"]]
    assert told == [("active", "Firefox", 150), ("partial", None, 90)]


async def test_a_watcher_that_never_recorded_anything_is_told_of(watch: Watch) -> None:
    period = a_workday(watch)
    watch.ask("DELETE", f"buckets/{AFK}?force=1")
    watch.bucket(AFK, "afkstatus")
    answers = await every_answer(watch.url, period)
    assert all(f"{AFK} recorded nothing" in str(notes) for notes in answers.values())


async def test_a_frame_has_only_the_contract_s_fields_while_all_is_well(watch: Watch) -> None:
    a_workday(watch)
    async with at_a_desk(watch.url, dialect=PLAIN) as asker:
        well = await asker.client.result("nowframe.build")
        watch.clear()
        a_workday(watch, stopped=AFK)
        ill = await asker.client.result("nowframe.build")
    assert [*well, "notes"] == list(ill)


async def test_what_is_told_of_watchers_keeps_to_the_rules(watch: Watch) -> None:
    period = a_workday(watch, stopped=WEB)
    for rule in ("drop_apps", "mask_apps"):
        answers = await every_answer(watch.url, period, privacy=privacy_rules(**{rule: ("firefox",)}))
        assert "irefox" not in str(answers)


@pytest.mark.parametrize("rule", ["drop_apps", "drop_urls"])
async def test_what_a_rule_leaves_out_is_no_gap_of_a_watcher(rule: str, watch: Watch) -> None:
    period = a_workday(watch)
    pattern = {"drop_apps": "firefox", "drop_urls": "."}[rule]
    answers = await every_answer(watch.url, period, privacy=privacy_rules(**{rule: (pattern,)}))
    assert "recorded nothing" not in str(answers)


async def test_a_clock_that_is_ahead_makes_no_watcher_look_stopped(watch: Watch) -> None:
    period = a_workday(watch)
    watch.bucket("ahead", "app.editor.activity")
    watch.insert("ahead", [event(datetime.now(UTC) + timedelta(hours=3), 60, file="x")])
    answers = await every_answer(watch.url, period)
    assert "has stopped" not in str(answers)
