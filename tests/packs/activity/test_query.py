"""Queries are evaluated as ActivityWatch does; invalid and excessive ones are refused."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.clock import measure_cpu_s
from tests.packs.activity.activitywatch_server import ActivityWatchServer, event, insert_morning
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub.packs.activity import limits
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.query_language import parse_query
from hubbub.packs.activity.safe_regex import MatchBudget, compile_pattern
from hubbub.packs.activity.settings import PrivacySettings
from hubbub.packs.activity.transforms import intersect

WINDOW = 'events = query_bucket(find_bucket("aw-watcher-window_"));'
AFK = 'afk = query_bucket("aw-watcher-afk_desk");'
WEB = 'tabs = query_bucket("aw-watcher-web-firefox");'
CLASSES = '[[["Work"], {"type": "regex", "regex": "Code"}], [["Work", "Test"], {"type": "regex", "regex": "test"}]]'
QUERIES = {
    "events": [WINDOW, "RETURN = sort_by_timestamp(events);"],
    "apps": [WINDOW, 'RETURN = sort_by_duration(merge_events_by_keys(events, ["app"]));'],
    "apps and titles": [WINDOW, 'RETURN = sort_by_duration(merge_events_by_keys(events, ["app", "title"]));'],
    "active": [WINDOW, AFK, 'present = filter_keyvals(afk, "status", ["not-afk"]);',
               "RETURN = sort_by_timestamp(filter_period_intersect(events, present));"],
    "others": [WINDOW, 'RETURN = sort_by_timestamp(exclude_keyvals(events, "app", ["Code", "Firefox"]));'],
    "any of": [WINDOW, 'RETURN = sort_by_timestamp(filter_keyvals(events, "app", [1, ["x"], "Code", "Firefox"]));'],
    "the same key twice": [WINDOW, 'RETURN = sort_by_duration(merge_events_by_keys(events, ["app", "app"]));'],
    "by pattern": [WINDOW, 'RETURN = sort_by_timestamp(filter_keyvals_regex(events, "title", "py|Inb"));'],
    "seconds": [WINDOW, "RETURN = sum_durations(events);"],
    "first": [WINDOW, "RETURN = limit_events(sort_by_timestamp(events), 2);"],
    "sites": [WEB, "RETURN = split_url_events(tabs);"],
    "categories": [WINDOW, f"RETURN = sort_by_timestamp(categorize(events, {CLASSES}));"],
    "periods": [WINDOW, AFK, 'away = filter_keyvals(afk, "status", ["afk"]);',
                'fox = filter_keyvals(events, "app", ["Firefox"]);', "RETURN = period_union(away, fox);"],
    "chunks": [WINDOW, 'RETURN = chunk_events_by_key(sort_by_timestamp(events), "app");'],
    "titles": [WINDOW, 'RETURN = sort_by_timestamp(simplify_window_titles(events, "title"));'],
    "in an object": [WINDOW, 'RETURN = {"n": sum_durations(events), "list": [1, "two"], "yes": true};'],
    "joined": [WINDOW, AFK, "RETURN = sort_by_timestamp(concat(events, afk));"],
}  # fmt: skip


def normalize(value: Any) -> Any:
    """Remove ids and normalize times, which may differ."""
    if isinstance(value, dict) and {"timestamp", "duration", "data"} <= set(value):
        start = datetime.fromisoformat(value["timestamp"]).timestamp()
        return {"timestamp": round(start, 1), "duration": round(value["duration"], 1), "data": normalize(value["data"])}
    if isinstance(value, dict):
        return {key: normalize(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normalize(item) for item in value]
    return round(value, 1) if isinstance(value, float) else value


@pytest.mark.parametrize("lines", QUERIES.values(), ids=QUERIES.keys())
async def test_a_query_returns_the_result_of_activitywatch(lines: list[str], watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    more = [event(start + timedelta(minutes=120, seconds=3), 57, app="Code", title="test.py - hubbub"),
            event(start + timedelta(minutes=121, seconds=2), 60, app="Firefox", title="MCP - Mozilla Firefox"),
            event(start + timedelta(minutes=130), 60, app="Firefox", title="(3) MCP - Mozilla Firefox"),
            event(start + timedelta(minutes=130, seconds=50), 60, app="Code", title="● main.py"),
            event(start + timedelta(minutes=131, seconds=55), 60, app="Code", title="● main.py")]  # fmt: skip
    watch.insert("aw-watcher-window_desk", more)
    end = start + timedelta(hours=3)
    expected = watch.query(start, end, lines)
    async with connect_tool_client(watch.url) as tool_client:
        period = f"{start.isoformat()}/{end.isoformat()}"
        in_lines = await tool_client.call("aw.query", query=lines, period=period)
        in_one = await tool_client.call("aw.query", query="\n".join(lines), period=period)
    assert normalize(in_lines["result"]) == normalize(expected)
    assert in_one["result"] == in_lines["result"]
    assert in_lines["is_cut"] is False


async def test_flood_in_a_query_matches_activitywatch(watch: ActivityWatchServer) -> None:
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    times = [
        (0, 10, 1),
        (13, 10, 1),
        (23, 10, 1),
        (37, 10, 2),
        (60, 10, 2),
        (68, 10, 2),
        (75, 10, 3),
        (90, 10, 3),
        (91, 2, 3),
    ]
    bucket = watch.bucket("w", "currentwindow")
    watch.insert(bucket, [event(start + timedelta(seconds=at), seconds, n=n) for at, seconds, n in times])
    query = 'RETURN = sort_by_timestamp(flood(query_bucket("w")));'
    expected = watch.query(start, start + timedelta(minutes=10), [query])
    async with connect_tool_client(watch.url) as tool_client:
        period = f"{start.isoformat()}/{(start + timedelta(minutes=10)).isoformat()}"
        ours = await tool_client.call("aw.query", query=query, period=period)
    assert normalize(ours["result"]) == normalize(expected)
    assert [round(found["duration"]) for found in ours["result"]] == [23, 12, 12, 15, 25]


async def test_times_are_in_the_time_zone_of_the_user(watch: ActivityWatchServer) -> None:
    start = insert_morning(watch)
    async with connect_tool_client(watch.url, time_zone="Asia/Tokyo") as tool_client:
        period = f"{start.isoformat()}/{(start + timedelta(hours=1)).isoformat()}"
        found = await tool_client.call("aw.query", period=period, query='RETURN = query_bucket("aw-watcher-afk_desk");')
    assert found["start"].endswith("T18:00:00+09:00")
    assert found["result"][-1]["timestamp"].endswith("T18:00:00.000+09:00")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("", "no result"),
        ("x = 1;", "no result"),
        ("RETURN = ", "ends in the middle"),
        ("RETURN = 1 2;", "';'"),
        ("RETURN = [1, 2;", "','"),
        ("RETURN = {1};", "':'"),
        ("RETURN = nothing;", "unknown variable"),
        ("RETURN = no_such(1);", "unknown function"),
        ("RETURN = flood(1);", "arguments of"),
        ("RETURN = flood();", "arguments of"),
        ("RETURN = limit_events([], -1);", "arguments of"),
        ("RETURN = query_bucket();", "arguments of"),
        ("RETURN = query_bucket(1);", "the id of a bucket"),
        ('RETURN = find_bucket("none_");', "no bucket begins"),
        ("RETURN = 'a' & 'b';", "syntax error in line 1"),
        ("true = 1; RETURN = true;", "is a constant"),
        ("1 = 2;", "name of a variable"),
        ("RETURN = " + "[" * 50 + "]" * 50 + ";", "deep"),
        ("RETURN = 1;" * 101, "statements"),
        ("RETURN = '" + "x" * 10_001 + "';", "characters"),
        ('RETURN = filter_keyvals_regex([], "a", "(a+)+$");', "repeat a group"),
        ('RETURN = filter_keyvals_regex([], "a", "(");', "not a valid regular expression"),
        ("RETURN = " + "1" * 5000 + ";", "digits"),
        ("RETURN = {[1]: 2};", "a text or a number"),
        (f"RETURN = merge_events_by_keys([], {[str(number) for number in range(51)]});", "at most 50 keys"),
    ],
)
async def test_an_invalid_query_is_refused_with_a_reason(query: str, word: str, watch: ActivityWatchServer) -> None:
    async with connect_tool_client(watch.url) as tool_client:
        error = await tool_client.failure("aw.query", query=query)
    assert error["code"] == "invalid_argument"
    assert word in error["message"]


@pytest.mark.parametrize("name", ["none", "", "..", "../info", "w/events/1", "w?limit=1#", "w%2Fevents"])
async def test_an_unknown_bucket_is_refused_with_the_known_ones(name: str, watch: ActivityWatchServer) -> None:
    watch.bucket("w", "currentwindow")
    async with connect_tool_client(watch.url) as tool_client:
        error = await tool_client.failure("aw.query", query=f'RETURN = query_bucket("{name}");')
    assert error["code"] == "invalid_argument"
    assert f"unknown bucket {name!r}; known buckets: w" in error["message"]


async def test_a_query_that_multiplies_events_is_stopped(watch: ActivityWatchServer) -> None:
    now = datetime.now(UTC)
    watch.insert(
        watch.bucket("w", "currentwindow"), [event(now - timedelta(minutes=5), 1, app=str(n)) for n in range(50)]
    )
    doubling = ['e = query_bucket("w");', *(["e = concat(e, e);"] * 40), "RETURN = e;"]
    nesting = ["e = [1];", *(["e = [e, e];"] * 90), "RETURN = e;"]
    async with connect_tool_client(watch.url) as tool_client:
        assert (
            "more than 100000 events"
            in (await tool_client.failure("aw.query", query=doubling, period="last_1h"))["message"]
        )
        nested = await tool_client.call("aw.query", query=nesting, period="last_1h")
        many = await tool_client.call("aw.query", query=[*doubling[:6], "RETURN = e;"], period="last_1h")
    assert nested["is_cut"] is True
    assert (many["is_cut"], len(many["result"])) == (True, 500)


@pytest.mark.parametrize(("count", "is_cut"), [(10, False), (11, True)])
async def test_a_query_over_too_many_events_is_marked_as_cut(
    count: int, is_cut: bool, watch: ActivityWatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVENTS", 10)
    now = datetime.now(UTC)
    events = [event(now - timedelta(minutes=number + 1), 30, app="a") for number in range(count)]
    watch.insert(watch.bucket("w", "currentwindow"), events)
    async with connect_tool_client(watch.url) as tool_client:
        for query, result in (("sum_durations(query_bucket('w'))", 300), ("query_bucket_eventcount('w')", 10)):
            found = await tool_client.call("aw.query", query=f"RETURN = {query};", period="last_1h")
            assert (round(found["result"]), found["is_cut"]) == (result, is_cut)
        summary = await tool_client.call("aw.summary", period="last_1h")
    assert round(summary["active_s"]) == 300
    assert ("only the newest 10 events" in str(summary["notes"])) == is_cut


async def test_windows_older_than_the_known_pages_are_not_disclosed(
    watch: ActivityWatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Private pages are known by their URLs, and those of the oldest pages were not read."""
    monkeypatch.setattr(limits, "EVENTS", 5)
    now = datetime.now(UTC)
    window, web = watch.bucket("w", "currentwindow"), watch.bucket("aw-watcher-web-firefox", "web.tab.current")
    for minute in range(1, 7):
        at = now - timedelta(minutes=minute)
        title, url = ("Account", "https://bank.example/") if minute == 6 else ("News", "https://news.example/")
        watch.insert(web, [event(at, 50, title=title, url=url, incognito=False)])
    watch.insert(window, [event(now - timedelta(minutes=6), 50, app="Fox", title="Account - Fox")])
    watch.insert(window, [event(now - timedelta(minutes=3), 50, app="Fox", title="News - Fox")])
    async with connect_tool_client(watch.url, privacy=PrivacySettings(drop_urls=("bank",))) as tool_client:
        summary = await tool_client.call("aw.summary", period="last_1h", by="title")
        query = await tool_client.call("aw.query", query='RETURN = query_bucket("w");', period="last_1h")
    assert "Account" not in str([summary, query])
    assert "News" in str(summary["rows"])
    assert query["is_cut"] is True


@pytest.mark.parametrize(
    "ending", ["RETURN = filter_period_intersect(long, windows);", "RETURN = union_no_overlap(windows, long);"]
)
async def test_a_query_that_cuts_into_too_many_events_is_stopped(ending: str, watch: ActivityWatchServer) -> None:
    now = datetime.now(UTC)
    watch.insert(watch.bucket("long", "x"), [event(now - timedelta(minutes=50), 2900, status="x")])
    events = [event(now - timedelta(seconds=2900 - n), 0.5, app=str(n)) for n in range(2000)]
    watch.insert(watch.bucket("w", "x"), events)
    lines = ['long = query_bucket("long");', 'windows = query_bucket("w");', *["long = concat(long, long);"] * 15]
    async with connect_tool_client(watch.url) as tool_client:
        error = await tool_client.failure("aw.query", query=[*lines, ending], period="last_1h")
    assert "cutting to periods makes more than 100000 events" in error["message"]


def test_empty_periods_take_little_cpu_time() -> None:
    now = datetime.now(UTC)
    long = [Event(now, 2900, {}) for _ in range(1000)]
    instants = [Event(now + timedelta(seconds=n), 0, {}) for n in range(2000)]
    assert intersect(long, instants) == []
    assert measure_cpu_s(lambda: intersect(long, instants)) < 200 * measure_cpu_s(lambda: intersect(long, []))


async def test_a_query_that_doubles_nested_values_is_stopped(watch: ActivityWatchServer) -> None:
    now = datetime.now(UTC)
    watch.insert(watch.bucket("w", "currentwindow"), [event(now - timedelta(minutes=5), 1, app="a")])
    chunks = ['e = query_bucket("w");', *(['e = chunk_events_by_key(concat(e, e), "app");'] * 60)]
    lists = ["e = [1];", *(["e = [e, e];"] * 90)]
    async with connect_tool_client(watch.url) as tool_client:
        for query in (
            [*chunks, 'RETURN = merge_events_by_keys(e, ["subevents"]);'],
            [*chunks, "f = e;", "RETURN = flood(concat(e, f));"],
            [*lists, "RETURN = {e: 1};"],
            [*lists, 'RETURN = merge_events_by_keys(e, ["app"]);'],
        ):
            async with asyncio.timeout(60):
                await tool_client.client.call("aw.query", {"query": query, "period": "last_1h"})


@given(st.text(alphabet="abz_ =;,()[]{}\"'\\:0-9.\n", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        statements = parse_query(text)
    except BadRequest:
        return
    assert statements


@pytest.mark.parametrize("pattern", ["Code|vim", r"\.py$", "(?:a|b)c", "[^]x]*y", r"\d+ of \d+", "(foo)?bar", "a{2,3}"])
def test_simple_patterns_are_accepted(pattern: str) -> None:
    assert compile_pattern(pattern).pattern == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a|a)*",
        "(?:x){5,}",
        r"(a)\1",
        "(?=a)b",
        "(?P<n>a)",
        ".*.*.*",
        "a" * 501,
        "*",
        "a?" * 40 + "a" * 40,
        "(?:a|a)" * 40 + "b",
        "(a*|x)" * 20 + "b",
        "(a*|b*)(c|.*)(d?|.*)",
        "a??" * 40,
    ],
)
def test_patterns_that_may_be_slow_are_refused(pattern: str) -> None:
    with pytest.raises(BadRequest):
        compile_pattern(pattern)


def test_patterns_that_are_slow_together_are_stopped() -> None:
    slow, patience = compile_pattern("(?:a|a)" * 9 + ".*b"), MatchBudget(0.2)

    def look_often() -> None:
        for _ in range(10_000):
            patience.search(slow, "a" * 256)

    with pytest.raises(BadRequest, match="too long"):
        look_often()


@cache
def reference_s() -> float:
    """Return the CPU time of an accepted pattern that is expensive to match."""
    pattern = compile_pattern(".*.*c")
    return measure_cpu_s(lambda: pattern.search("ab" * 128))


@given(st.lists(st.sampled_from(("a", "a?", "a*", "(?:a|a)", "(a|ab|b)", ".", "[ab]+", "|", "b")), max_size=30))
def test_no_accepted_combination_is_slow(parts: list[str]) -> None:
    try:
        read = compile_pattern("".join(parts) + "c")
    except BadRequest:
        return
    assert measure_cpu_s(lambda: read.search("ab" * 20 + "a" * 216), times=1) < 500 * reference_s()


@pytest.mark.filterwarnings("ignore::FutureWarning")  # FutureWarning about possible set operations
@given(st.text(alphabet="ab.*+?|()[]{}^$\\1", max_size=20))
def test_no_accepted_pattern_is_slow(pattern: str) -> None:
    try:
        read = compile_pattern(pattern)
    except BadRequest:
        return
    assert measure_cpu_s(lambda: read.search("ab" * 128), times=1) < 500 * reference_s()
