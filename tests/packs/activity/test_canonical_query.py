"""Totals equal those of ActivityWatch's canonical query, which a real ActivityWatch evaluates.

That query takes one bucket of windows, one of presence and one of each browser. Where there are more, it is run for
each combination, and each moment belongs to the first that has something there: machines come in their order, and of
one machine the bucket that was written to last. ActivityWatch joins machines by `union_no_overlap`, which means the
same, but that of aw-core 0.5.18 counts events twice that lie in one long event.

For more examples: CANONICAL_EXAMPLES=500 .venv/bin/pytest -n 0 --timeout 0 --hypothesis-profile=default and this file.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain, count, pairwise, product
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.packs.activity.activitywatch_server import ActivityWatchServer, event
from tests.packs.activity.judge import Judge
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub.packs.activity.browsers import BROWSER_APPS

EXAMPLES = int(os.environ.get("CANONICAL_EXAMPLES", "15"))
MANY_EXAMPLES = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
DAYS = count()
"""Each example uses another day, so that nothing needs to be deleted."""
APPS = ["Code", "Firefox", "firefox", "Chromium", "navigator"]
WINDOW, AFK, WEB = "currentwindow", "afkstatus", "web.tab.current"

Times = tuple[float, float]
Event = tuple[Times, dict[str, Any]]


class Bucket(NamedTuple):
    id: str
    type: str
    host: str


DESK_BUCKETS = [
    Bucket("aw-watcher-window_desk", WINDOW, "desk"),
    Bucket("aw-watcher-afk_desk", AFK, "desk"),
    Bucket("aw-watcher-web-firefox", WEB, "unknown"),
    Bucket("aw-watcher-web-chrome_desk", WEB, "desk"),
]
MORE_DESK_BUCKETS = [
    Bucket("awatcher-window_desk", WINDOW, "desk"),
    Bucket("awatcher-afk_desk", AFK, "desk"),
    Bucket("aw-watcher-web-firefox_desk", WEB, "desk"),
]
OTHER_BUCKETS = [
    Bucket("aw-watcher-android-import", WINDOW, "unknown"),
    Bucket("aw-watcher-web-firefox_laptop", WEB, "laptop"),
    Bucket("aw-watcher-window_laptop", WINDOW, "laptop"),
    Bucket("aw-watcher-afk_laptop", AFK, "laptop"),
]


def _events(data: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[Event]]:
    """Generate events in seconds after the start; many touch, overlap, are empty, or leave small gaps."""
    few = st.integers(0, 60).map(lambda number: number * 2.0)
    odd = st.integers(0, 120_000).map(lambda number: number / 1000)
    length = st.just(0.0) | few | odd
    return st.lists(st.tuples(st.tuples(few | odd, length), data), max_size=7)


EVENTS = {
    WINDOW: _events(st.builds(lambda app, title: {"app": app, "title": title}, st.sampled_from(APPS), st.just("x"))),
    AFK: _events(st.sampled_from([{"status": "afk"}, {"status": "not-afk"}])),
    WEB: _events(
        st.builds(
            lambda url, audible: {"url": f"https://{url}.example/", "title": url, "audible": audible},
            st.sampled_from("ab"),
            st.booleans(),
        )
    ),
}
Example = dict[Bucket, list[Event]]


def examples_of(buckets: Sequence[Bucket]) -> st.SearchStrategy[Example]:
    return st.fixed_dictionaries({bucket: EVENTS[bucket.type] for bucket in buckets})


def insert(watch: ActivityWatchServer, example: Example) -> datetime:
    """Insert the events, and return the start of the example."""
    start = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=next(DAYS))
    for bucket, events in example.items():
        watch.bucket(bucket.id, bucket.type, host=bucket.host)
        if events:
            made = [event(start + timedelta(seconds=at), length, **data) for (at, length), data in events]
            watch.insert(bucket.id, made)
    return start


def query_canonical(
    watch: ActivityWatchServer, judge: Judge, start: datetime, end: datetime, devices: Sequence[Sequence[Bucket]]
) -> Counter[str]:
    """Return seconds by app from ActivityWatch's canonical query."""
    written = watch.request("GET", "buckets/")
    lines: list[str] = []
    names: list[str] = []
    for device in devices:
        newest_first = sorted(device, key=lambda bucket: written[bucket.id].get("last_updated", ""), reverse=True)
        windows, presences, pages = (
            [bucket.id for bucket in newest_first if bucket.type == kind] for kind in (WINDOW, AFK, WEB)
        )
        browsers = [found for word in ("firefox", "chrome") if (found := [name for name in pages if word in name])]
        for window, presence, *web in product(windows, presences, *browsers):
            names.append(f"found_{len(names)}")
            lines += [judge.ask("canonical_query", window=window, afk=presence, web=web), f"{names[-1]} = events;"]
    found = watch.query(start, end, ["\n".join([*lines, f"RETURN = [{', '.join(names)}];"])])
    return join([[to_span(each) for each in events] for events in found])


def to_span(found: dict[str, Any]) -> tuple[datetime, datetime, str]:
    start = datetime.fromisoformat(found["timestamp"])
    return start, start + timedelta(seconds=found["duration"]), found["data"]["app"]


def join(results: Sequence[Sequence[tuple[datetime, datetime, str]]]) -> Counter[str]:
    """Return seconds by app; each moment counts for the first result with an event there."""
    seconds: Counter[str] = Counter()
    edges = sorted({edge for spans in results for start, end, _ in spans for edge in (start, end)})
    for start, end in pairwise(edges):
        for first, last, app in chain(*results):
            if first <= start and end <= last:
                seconds[app] += (end - start).total_seconds()  # type: ignore[assignment]  # they have fractions
                break
    return seconds


def compare(
    watch: ActivityWatchServer,
    judge: Judge,
    example: Example,
    devices: Sequence[Sequence[Bucket]],
    host: str | None = None,
) -> dict[str, Any]:
    begin = insert(watch, example)
    start, end = begin + timedelta(seconds=5), begin + timedelta(seconds=200)
    by_app = query_canonical(watch, judge, start, end, devices)
    period = f"{start.isoformat()}/{end.isoformat()}"
    chosen = {} if host is None else {"host": host}

    async def ask() -> Any:
        async with connect_tool_client(watch.url, host="desk") as tool_client:
            return await tool_client.call("aw.summary", period=period, top=100, **chosen)

    summary: dict[str, Any] = asyncio.run(ask())
    assert summary["active_s"] == pytest.approx(sum(by_app.values()), abs=0.002)
    assert {row["name"]: row["seconds"] for row in summary["rows"]} == pytest.approx(dict(by_app), abs=0.002)
    return summary


@MANY_EXAMPLES
@given(example=examples_of(DESK_BUCKETS))
def test_totals_of_one_machine_match(watch: ActivityWatchServer, judge: Judge, example: Example) -> None:
    compare(watch, judge, example, [DESK_BUCKETS])


@MANY_EXAMPLES
@given(example=examples_of(DESK_BUCKETS + OTHER_BUCKETS))
def test_totals_of_one_machine_among_several_match(watch: ActivityWatchServer, judge: Judge, example: Example) -> None:
    summary = compare(watch, judge, example, [DESK_BUCKETS])
    assert "aw-watcher-android-import (unknown)" in str(summary["notes"])


@MANY_EXAMPLES
@given(example=examples_of(DESK_BUCKETS + MORE_DESK_BUCKETS))
def test_totals_of_one_machine_with_several_buckets_of_a_type_match(
    watch: ActivityWatchServer, judge: Judge, example: Example
) -> None:
    compare(watch, judge, example, [DESK_BUCKETS + MORE_DESK_BUCKETS])


@MANY_EXAMPLES
@given(example=examples_of(DESK_BUCKETS + OTHER_BUCKETS[1:]))
def test_totals_of_all_machines_match(watch: ActivityWatchServer, judge: Judge, example: Example) -> None:
    unnamed = [bucket for bucket in DESK_BUCKETS if bucket.host == "unknown"]
    compare(watch, judge, example, [DESK_BUCKETS, OTHER_BUCKETS[1:] + unnamed], host="all")


def test_browser_app_names_match_aw_client(judge: Judge) -> None:
    assert {word: set(names) for word, names in judge.ask("browser_names").items()} == BROWSER_APPS
