"""Splitting events at hours, days, weeks and months of a time zone loses nothing and counts nothing twice."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.activity import limits
from hubbub.packs.activity.breakdown import Unit, break_down, interval_edges
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.periods import Period, parse_period

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = [
    BERLIN,
    ZoneInfo("UTC"),
    ZoneInfo("Asia/Kolkata"),  # half an hour off
    ZoneInfo("Australia/Lord_Howe"),  # shifts by half an hour
    ZoneInfo("America/Havana"),  # midnight comes twice
    ZoneInfo("Africa/Cairo"),  # midnight is skipped
    ZoneInfo("Pacific/Apia"),  # skipped a whole day in 2011
]
NOW = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)


def app(event: Event) -> str:
    return event.text("app")


def make_event(moment: datetime, seconds: float, name: str = "Code") -> Event:
    return Event(moment.astimezone(UTC), seconds, {"app": name})


@pytest.mark.parametrize(
    ("unit", "starts"),
    [
        ("day", ["2026-11-07", "2026-11-08", "2026-11-09"]),
        ("week", ["2026-11-07", "2026-11-09"]),
        ("month", ["2026-11-07"]),
    ],
)
def test_intervals_begin_at_midnight_and_weeks_on_monday(unit: Unit, starts: list[str]) -> None:
    period = parse_period("2026-11-07/2026-11-10", BERLIN, NOW)
    found = break_down([], period, unit, app)
    assert [each.start.isoformat() for each in found] == [f"{start}T00:00:00+01:00" for start in starts]
    assert found[-1].end == period.end


def test_an_event_counts_in_each_interval_that_it_reaches_into() -> None:
    period = parse_period("2026-11-14", BERLIN, NOW)
    events = [
        make_event(datetime(2026, 11, 13, 23, 0, tzinfo=BERLIN), 2 * 3600),  # begins a day too early
        make_event(datetime(2026, 11, 14, 9, 45, tzinfo=BERLIN), 3600),
        make_event(datetime(2026, 11, 14, 10, 45, tzinfo=BERLIN), 60, "Mail"),
        make_event(datetime(2026, 11, 14, 23, 30, tzinfo=BERLIN), 3600),  # ends too late
    ]
    found = {each.start.hour: each.seconds for each in break_down(events, period, "hour", app) if each.seconds}
    assert found == {0: {"Code": 3600}, 9: {"Code": 900}, 10: {"Code": 2700, "Mail": 60}, 23: {"Code": 1800}}


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", date(2026, 10, 25), 25),
        ("Europe/Berlin", date(2026, 3, 29), 23),
        ("Australia/Lord_Howe", date(2026, 4, 5), 25),  # 24.5 hours
        ("Australia/Lord_Howe", date(2025, 10, 5), 24),  # 23.5 hours
        ("America/Havana", date(2026, 11, 1), 25),
        ("Africa/Cairo", date(2026, 4, 24), 23),
        ("Asia/Kolkata", date(2026, 4, 24), 24),
    ],
)
def test_a_day_with_a_clock_change_is_split_at_full_hours(zone: str, day: date, hours: int) -> None:
    period = parse_period(day.isoformat(), ZoneInfo(zone), NOW)
    edges = interval_edges(period, "hour")
    assert len(edges) - 1 == hours
    lengths = [(end - start).total_seconds() for start, end in pairwise(edges)]
    assert max(lengths) == 3600
    assert min(lengths) >= 1800
    assert len(interval_edges(period, "day")) == 2


def test_a_skipped_day_has_no_interval() -> None:
    apia = ZoneInfo("Pacific/Apia")
    period = Period(datetime(2011, 12, 29, tzinfo=apia), datetime(2012, 1, 1, tzinfo=apia))
    assert [each.start.day for each in break_down([], period, "day", app)] == [29, 31]


def test_too_many_intervals_are_refused_with_advice() -> None:
    period = parse_period("last_60d", BERLIN, NOW)
    with pytest.raises(BadRequest, match="more than 768 intervals of one hour; ask for a shorter period or a longer"):
        break_down([], period, "hour", app)
    assert len(interval_edges(parse_period("last_31d", BERLIN, NOW), "hour")) <= limits.INTERVALS


moments = st.datetimes(datetime(2011, 1, 1), datetime(2026, 11, 1)).map(lambda moment: moment.replace(tzinfo=UTC))
names = st.sampled_from(["Code", "Mail", "", "日本語 🙂"])


@given(
    start=moments,
    days=st.floats(0.001, 30),
    events=st.lists(st.tuples(st.floats(-3, 33), st.floats(0, 40 * 86400), names), max_size=20),
    zone=st.sampled_from(ZONES),
)
def test_hours_add_up_to_days_weeks_and_months(
    start: datetime, days: float, events: list[tuple[float, float, str]], zone: ZoneInfo
) -> None:
    end = start + timedelta(days=days)
    period = Period(start.astimezone(zone), end.astimezone(zone))
    given = [Event(start + timedelta(days=offset), length, {"app": name}) for offset, length, name in events]
    expected: dict[str, float] = {}
    for event in given:
        inside = (min(event.end, end) - max(event.timestamp, start)).total_seconds()
        if inside > 0:
            expected[app(event)] = expected.get(app(event), 0.0) + inside
    for unit in ("hour", "day", "week", "month"):
        found = break_down(given, period, unit, app)
        assert found[0].start == period.start
        assert found[-1].end == period.end
        assert all(before.end == after.start for before, after in pairwise(found))
        sums: dict[str, float] = {}
        for each in found:
            assert each.start.astimezone(UTC) < each.end.astimezone(UTC)
            for name, seconds in each.seconds.items():
                sums[name] = sums.get(name, 0.0) + seconds
        assert sums == pytest.approx(expected)
        assert sum(each.total_s for each in found) == pytest.approx(sum(expected.values()))
