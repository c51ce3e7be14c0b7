"""`flood` fills gaps exactly as aw-core does, for any events."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.packs.activity.activitywatch_server import HOST, ActivityWatchServer, event
from tests.packs.activity.judge import Judge
from tests.packs.activity.tool_clients import connect_tool_client

from hubbub.packs.activity.events import Event
from hubbub.packs.activity.transforms import flood

START = datetime(2026, 10, 25, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def _events(scale_us: int) -> st.SearchStrategy[list[Event]]:
    """Generate events close to each other, so that most touch, overlap, or leave short gaps."""
    times = st.integers(0, 40).map(lambda number: number * scale_us)
    exact = st.integers(0, 40 * scale_us)
    return st.lists(
        st.builds(
            lambda start, length, name: Event(START + start * MICROSECOND, length / 1_000_000, {"n": name}),
            times | exact, st.just(0) | times | exact, st.integers(0, 2),
        ),
        max_size=12,
    )  # fmt: skip


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([1, 50_000, 1_000_000, 3_600_000_000]).flatmap(_events), st.sampled_from([5.0, 0.0, 0.5, 60.0]))
@example([Event(START, 0, {"n": 1}), Event(START, 90_000, {"n": 2})], 5.0)
def test_flood_matches_aw_core_for_any_events(judge: Judge, events: list[Event], pulse_s: float) -> None:
    assert flood(events, pulse_s) == judge.flood(events, pulse_s)


@pytest.mark.parametrize(("day", "hours"), [("2025-10-26", 25), ("2026-03-29", 23)])
async def test_a_zero_length_event_does_not_shorten_a_long_one(
    day: str, hours: int, watch: ActivityWatchServer
) -> None:
    midnight = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
    bucket = watch.bucket(f"aw-watcher-window_{HOST}", "currentwindow")
    short = event(midnight, 0, app="Other", title="short")
    for each in (short, event(midnight, hours * 3600, app="Code", title="long"), short):
        watch.insert(bucket, [each])
    async with connect_tool_client(watch.url, time_zone="Europe/Berlin") as tool_client:
        summary = await tool_client.call("aw.summary", period=day)
    assert [(row["name"], row["seconds"]) for row in summary["rows"]] == [("Code", pytest.approx(hours * 3600, abs=1))]
