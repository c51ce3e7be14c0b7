"""Periods as people name them, also across the days on which clocks change."""

from datetime import UTC, datetime
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
