"""Several buckets of a type and several machines: none hides another or counts twice; unused ones are named."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.packs.activity.activitywatch_server import HOST, ActivityWatchServer, event, insert_morning
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub.packs.activity import limits
from hubbub.packs.activity.events import AFK, WEB, WINDOW, Bucket
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.settings import PrivacySettings
from hubbub.packs.activity.watchers import choose_watchers

YESTERDAY = {"period": "yesterday"}
NOW = datetime(2026, 11, 15, tzinfo=UTC)


def minutes(summary: dict[str, Any]) -> dict[str, int]:
    return {row["name"]: round(row["seconds"] / 60) for row in summary["rows"]}


@pytest.mark.parametrize("host", ["unknown", "", "phone"])
async def test_a_newer_bucket_of_another_device_hides_nothing(host: str, watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    watch.bucket("aw-watcher-android-import", WINDOW, host=host)
    watch.insert("aw-watcher-android-import", [event(start + timedelta(hours=5), 600, app="Chat", title="")])
    async with connect_tool_client(watch.url) as tool_client:
        summaries = [
            await tool_client.call("aw.summary", host=name, **YESTERDAY) for name in (HOST, host or "unknown", "all")
        ]
        timeline = await tool_client.call("aw.timeline", host=HOST, **YESTERDAY)
        now = await tool_client.call("aw.now", host=HOST)
        prompt = await tool_client.client.result("prompts/get", {"name": "standup"})
    own, other, both = summaries
    assert minutes(own) == {"Code": 60, "Firefox": 15, "Thunderbird": 15}
    assert minutes(other) == {"Chat": 10}
    assert minutes(both) == {"Code": 60, "Firefox": 15, "Thunderbird": 15, "Chat": 10}
    for answer in (own, timeline, now):
        assert f"not counted: aw-watcher-android-import ({host or 'unknown'})" in str(answer["notes"])
    assert "aw-watcher-window_desk (desk)" in str(other["notes"])
    assert "added up over" in str(both["notes"])
    assert "not counted" not in str(both["notes"])
    assert "not counted" in str(prompt)


async def test_the_unknown_device_is_not_chosen_by_default(watch: ActivityWatchServer) -> None:
    """The hostname of this ActivityWatch matches no bucket."""
    start = insert_morning(watch)
    watch.bucket("import", WINDOW, host="unknown")
    watch.insert("import", [event(start + timedelta(hours=5), 600, app="Chat", title="")])
    async with connect_tool_client(watch.url) as tool_client:
        assert (await tool_client.call("aw.summary", **YESTERDAY))["host"] == HOST


async def test_two_window_watchers_of_one_machine_count_once(watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    second = watch.bucket(f"awatcher-window_{HOST}", WINDOW)
    watch.insert(second, [event(start + timedelta(minutes=20), 1200, app="Editor", title="x")])
    async with connect_tool_client(watch.url) as tool_client:
        summary = await tool_client.call("aw.summary", **YESTERDAY)
    assert minutes(summary) == {"Code": 60, "Firefox": 15, "Thunderbird": 15}
    watch.insert(second, [event(start + timedelta(minutes=121), 60, app="Editor", title="y")])
    async with connect_tool_client(watch.url) as tool_client:
        summary = await tool_client.call("aw.summary", **YESTERDAY)
    assert minutes(summary) == {"Code": 50, "Thunderbird": 15, "Editor": 20, "Firefox": 5}
    assert summary["notes"] == []


async def test_time_on_two_machines_at_once_counts_once(watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    for name, kind, data in (
        ("aw-watcher-window_laptop", WINDOW, {"app": "Slides", "title": ""}),
        ("aw-watcher-afk_laptop", AFK, {"status": "not-afk"}),
    ):
        watch.insert(watch.bucket(name, kind, host="laptop"), [event(start + timedelta(minutes=50), 1800, **data)])
    async with connect_tool_client(watch.url) as tool_client:
        summary = await tool_client.call("aw.summary", host="all", **YESTERDAY)
        timeline = await tool_client.call("aw.timeline", host="all", **YESTERDAY)
    # The laptop was written to earlier, so the desk has priority and gets the ten shared minutes.
    assert minutes(summary) == {"Code": 60, "Slides": 20, "Firefox": 15, "Thunderbird": 15}
    assert (round(summary["active_s"] / 60), round(summary["afk_s"] / 60)) == (110, 10)
    assert (summary["host"], timeline["host"]) == ("all", "all")
    active = [block for block in timeline["blocks"] if block["kind"] == "active"]
    assert sum(block["seconds"] for block in active) == pytest.approx(110 * 60, abs=1)


async def test_a_masked_audible_tab_counts_as_active_time(watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    away = start + timedelta(minutes=60)
    watch.insert(f"aw-watcher-window_{HOST}", [event(away + timedelta(seconds=1), 1798, app="Firefox", title="Film")])
    tab = {"url": "https://v.example/", "title": "Film", "audible": True, "incognito": False}
    watch.insert("aw-watcher-web-firefox", [event(away, 600, **tab)])
    async with connect_tool_client(watch.url, privacy=PrivacySettings(mask_apps=("firefox",))) as tool_client:
        summary = await tool_client.call("aw.summary", **YESTERDAY)
    assert minutes(summary)["[private]"] == 25
    assert "irefox" not in str(summary)


async def test_now_uses_the_newest_bucket_of_the_machine(watch: ActivityWatchServer) -> None:
    now = datetime.now(UTC)
    for name, host, ago in (("w1", HOST, 90), ("w2", HOST, 30), ("w3", "unknown", 1)):
        watch.bucket(name, WINDOW, host=host)
        watch.insert(name, [event(now - timedelta(seconds=ago), 1, app=name, title="x")])
    async with connect_tool_client(watch.url) as tool_client:
        assert (await tool_client.call("aw.now"))["window"]["app"] == "w2"
        assert (await tool_client.call("aw.now", host="unknown"))["window"]["app"] == "w3"
        assert (await tool_client.call("aw.now", host="all"))["window"]["app"] == "w3"


def test_buckets_beyond_the_limit_are_named_in_a_note() -> None:
    known = [
        Bucket(f"{kind}{number}", kind, hostname=f"h{number % 7}", label=f"{kind}{number}")
        for kind in (WINDOW, AFK, WEB)
        for number in range(1000)
    ]
    for host in ("h1", "all"):
        chosen = choose_watchers(known, "h1", host)
        assert len(chosen.window) == len(chosen.web) == limits.BUCKETS_PER_TYPE
        assert len(chosen.left_out) == 3000 - 3 * limits.BUCKETS_PER_TYPE
        assert "more; call with host='all'" in chosen.notes[-1]


def test_a_machine_without_windows_uses_buckets_without_a_hostname() -> None:
    known = [Bucket("w", WINDOW, hostname="unknown"), Bucket("a", AFK, hostname="desk", last_updated=NOW)]
    chosen = choose_watchers(known, "desk")
    assert (chosen.host, [bucket.id for bucket in (*chosen.window, *chosen.afk)]) == ("desk", ["w", "a"])
    assert choose_watchers(known[:1], "desk").host == "unknown"
    assert [device.host for device in choose_watchers(known, "desk", "all").devices] == ["unknown"]


def test_an_unknown_machine_is_refused_with_some_known_names() -> None:
    known = [Bucket(f"w{number}", WINDOW, hostname=f"host-{number:04}") for number in range(1000)]
    with pytest.raises(BadRequest) as refused:
        choose_watchers(known, "host-0001", "x" * 5000)
    assert "host-0001" in refused.value.message
    assert len(refused.value.message) < 500
