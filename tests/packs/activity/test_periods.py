"""Periods as people name them, also across the days on which clocks change."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.periods import person_zone, read_period, zone_name

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 15, 12, 30, tzinfo=UTC)  # a Sunday, 13:30 in Berlin


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("today", "2026-11-15T00:00:00+01:00", "2026-11-15T13:30:00+01:00"),
        (" Yesterday ", "2026-11-14T00:00:00+01:00", "2026-11-15T00:00:00+01:00"),
        ("week", "2026-11-09T00:00:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("last_week", "2026-11-02T00:00:00+01:00", "2026-11-09T00:00:00+01:00"),
        ("last_2h", "2026-11-15T11:30:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("last_90m", "2026-11-15T12:00:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("2026-11-01", "2026-11-01T00:00:00+01:00", "2026-11-02T00:00:00+01:00"),
        ("2026-11-01T08:00/2026-11-01T09:00", "2026-11-01T08:00:00+01:00", "2026-11-01T09:00:00+01:00"),
        ("2026-11-01T08:00Z/2026-11-01T09:00Z", "2026-11-01T09:00:00+01:00", "2026-11-01T10:00:00+01:00"),
        ("2026-11-15/2026-12-01", "2026-11-15T00:00:00+01:00", "2026-11-15T13:30:00+01:00"),
    ],
)
def test_a_period_is_meant_in_the_person_s_zone(text: str, start: str, end: str) -> None:
    period = read_period(text, BERLIN, NOW)
    assert (period.start.isoformat(), period.end.isoformat()) == (start, end)


@pytest.mark.parametrize(("day", "hours"), [("2026-10-25", 25), ("2026-03-29", 23), ("2026-03-30", 24)])
def test_a_day_on_which_clocks_change_has_other_hours(day: str, hours: int) -> None:
    period = read_period(day, BERLIN, NOW)
    assert (period.end.astimezone(UTC) - period.start.astimezone(UTC)).total_seconds() == hours * 3600


@given(st.text(max_size=40))
def test_any_text_is_a_period_or_refused(text: str) -> None:
    try:
        period = read_period(text, BERLIN, NOW)
    except BadRequest:
        return
    assert period.start < period.end <= NOW


def test_a_zone_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert zone_name(person_zone("Asia/Tokyo")) == "Asia/Tokyo"
    monkeypatch.setenv("TZ", ":America/Lima")
    assert zone_name(person_zone(None)) == "America/Lima"
    monkeypatch.setenv("TZ", "no/such")
    assert person_zone(None).utcoffset(datetime.now()) is not None


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("last_1h", 60),
        ("last_20m", 20),
        ("2026-10-25T02:30+02:00/2026-10-25T02:30+01:00", 60),
        ("2026-10-25T02:50+02:00/2026-10-25T02:10+01:00", 20),
    ],
)
def test_the_hour_that_comes_twice_is_no_riddle(text: str, minutes: int) -> None:
    half_past_two_again = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    period = read_period(text, BERLIN, half_past_two_again)
    assert (period.end.astimezone(UTC) - period.start.astimezone(UTC)).total_seconds() == minutes * 60


@pytest.mark.parametrize("text", ["0001-01-01", "0001-01-01/0001-01-02", "9999-12-31", "2026-01-01/9999-12-31T23:59"])
def test_the_ends_of_time_are_no_period(text: str) -> None:
    with pytest.raises(BadRequest):
        read_period(text, ZoneInfo("Asia/Tokyo"), NOW)


def test_a_zone_that_is_given_as_a_rule_wins_over_that_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XYZ-5:30")
    time.tzset()
    try:
        assert person_zone(None).utcoffset(datetime(2026, 1, 1)) == timedelta(hours=5, minutes=30)
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_a_zone_may_be_given_as_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", f":{tmp_path}/zoneinfo/Asia/Tokyo")
    assert zone_name(person_zone(None)) == "Asia/Tokyo"
