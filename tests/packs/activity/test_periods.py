"""Parsing of periods, also on days with clock changes."""

import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hubbub.packs.activity.failures import BadRequest
from hubbub.packs.activity.periods import Period, parse_period, user_time_zone, zone_name

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
        ("last_2w", "2026-11-01T13:30:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("last week", "2026-11-02T00:00:00+01:00", "2026-11-09T00:00:00+01:00"),
        ("2026-W46", "2026-11-09T00:00:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("2026-w45", "2026-11-02T00:00:00+01:00", "2026-11-09T00:00:00+01:00"),
        ("2026W45", "2026-11-02T00:00:00+01:00", "2026-11-09T00:00:00+01:00"),
        ("2026-W45-3", "2026-11-04T00:00:00+01:00", "2026-11-05T00:00:00+01:00"),
        ("2026-W01", "2025-12-29T00:00:00+01:00", "2026-01-05T00:00:00+01:00"),
        ("this_month", "2026-11-01T00:00:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("month", "2026-11-01T00:00:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("last_month", "2026-10-01T00:00:00+02:00", "2026-11-01T00:00:00+01:00"),
        ("2026-02", "2026-02-01T00:00:00+01:00", "2026-03-01T00:00:00+01:00"),
        ("2025-12", "2025-12-01T00:00:00+01:00", "2026-01-01T00:00:00+01:00"),
        ("2024", "2024-01-01T00:00:00+01:00", "2025-01-01T00:00:00+01:00"),
        ("this_year", "2026-01-01T00:00:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("last_year", "2025-01-01T00:00:00+01:00", "2026-01-01T00:00:00+01:00"),
        ("sunday", "2026-11-15T00:00:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("Monday", "2026-11-09T00:00:00+01:00", "2026-11-10T00:00:00+01:00"),
        ("saturday", "2026-11-14T00:00:00+01:00", "2026-11-15T00:00:00+01:00"),
        ("yesterday 14:00-15:00", "2026-11-14T14:00:00+01:00", "2026-11-14T15:00:00+01:00"),
        ("Yesterday  14:00 \u2013 15:00", "2026-11-14T14:00:00+01:00", "2026-11-14T15:00:00+01:00"),
        ("friday 9:15 to 17:45", "2026-11-13T09:15:00+01:00", "2026-11-13T17:45:00+01:00"),
        ("2026-11-14 09:00-17:30", "2026-11-14T09:00:00+01:00", "2026-11-14T17:30:00+01:00"),
        ("10:00-11:00", "2026-11-15T10:00:00+01:00", "2026-11-15T11:00:00+01:00"),
        ("10:00-18:00", "2026-11-15T10:00:00+01:00", "2026-11-15T13:30:00+01:00"),
        ("friday 22:00-02:00", "2026-11-13T22:00:00+01:00", "2026-11-14T02:00:00+01:00"),
        ("friday 00:00-24:00", "2026-11-13T00:00:00+01:00", "2026-11-14T00:00:00+01:00"),
        ("friday 22:00-00:00", "2026-11-13T22:00:00+01:00", "2026-11-14T00:00:00+01:00"),
        ("2026-W46-5 08:00-09:00", "2026-11-13T08:00:00+01:00", "2026-11-13T09:00:00+01:00"),
    ],
)
def test_periods_are_in_the_time_zone_of_the_user(text: str, start: str, end: str) -> None:
    period = parse_period(text, BERLIN, NOW)
    assert (period.start.isoformat(), period.end.isoformat()) == (start, end)


@pytest.mark.parametrize(("day", "hours"), [("2026-10-25", 25), ("2026-03-29", 23), ("2026-03-30", 24)])
def test_a_day_with_a_clock_change_is_longer_or_shorter(day: str, hours: int) -> None:
    period = parse_period(day, BERLIN, NOW)
    assert (period.end.astimezone(UTC) - period.start.astimezone(UTC)).total_seconds() == hours * 3600


DAYS = (
    r"(today|yesterday|monday|[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-W[0-9]{2}|[0-9]{4}-[0-9]{2}|last_[0-9]{1,9}[mhdwy])"
)
CLOCKS = r"([0-9]{1,3}:[0-9]{1,3} ?[-/] ?[0-9]{1,3}:[0-9]{1,3})"
NEAR_PERIODS = st.from_regex(rf"({DAYS} ?)?{CLOCKS}?", fullmatch=True)


def read_or_refuse(text: str, zone: ZoneInfo) -> Period | str:
    try:
        return parse_period(text, zone, NOW)
    except BadRequest as error:
        return error.message


@given(st.one_of(st.text(max_size=40), NEAR_PERIODS, st.integers().map(str)))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    period = read_or_refuse(text, BERLIN)
    if isinstance(period, str):
        assert len(period) < 1000
        return
    assert period.start.astimezone(UTC) < period.end.astimezone(UTC) <= NOW


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        # On 29 March 2026, 02:00 is followed by 03:00.
        ("2026-03-29 01:00-02:00", "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"),
        ("2026-03-29 02:30-04:00", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"),
        ("2026-03-29T01:00/2026-03-29T02:30", "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"),
        # On 25 October 2026, 03:00 is followed by 02:00.
        ("2026-10-25 02:00-03:00", "2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"),
        ("2026-10-25 01:00-02:30", "2026-10-25T01:00:00+02:00", "2026-10-25T02:30:00+02:00"),
        ("2026-10-24 23:00-04:00", "2026-10-24T23:00:00+02:00", "2026-10-25T04:00:00+01:00"),
    ],
)
def test_a_clock_range_on_a_day_with_a_clock_change(text: str, start: str, end: str) -> None:
    period = parse_period(text, BERLIN, NOW)
    utc = [moment.astimezone(UTC) for moment in (period.start, period.end)]
    assert utc == [datetime.fromisoformat(start), datetime.fromisoformat(end)]


@given(
    day=st.dates(date(2011, 1, 1), date(2026, 11, 1)),
    begin=st.integers(0, 24 * 60 - 1),
    end=st.integers(0, 24 * 60),
    zone=st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "America/Havana", "Asia/Kolkata"]),
)
def test_a_clock_range_ends_on_its_day_or_the_next(day: date, begin: int, end: int, zone: str) -> None:
    text = f"{day} {begin // 60:02}:{begin % 60:02}-{end // 60}:{end % 60:02}"
    period = read_or_refuse(text, ZoneInfo(zone))
    if isinstance(period, str):
        assert "its end is not after its start" in period  # both ends are equal, or in a skipped hour
        return
    assert period.start.date() in (day, day + timedelta(days=1))  # midnight may be skipped
    assert period.end.date() - day <= timedelta(days=1)
    length = period.end.astimezone(UTC) - period.start.astimezone(UTC)
    assert timedelta() < length <= timedelta(hours=25)


@given(
    st.dates(date(1990, 1, 1), date(2026, 11, 1)),
    st.sampled_from(["Europe/Berlin", "Pacific/Apia", "Asia/Pyongyang", "Africa/Cairo"]),
)
def test_weeks_months_and_years_contain_their_days(day: date, name: str) -> None:
    zone = ZoneInfo(name)
    year, week, _ = day.isocalendar()
    days = parse_period(day.isoformat(), zone, NOW) if day != date(2011, 12, 30) else None  # Samoa skipped it
    for text in (f"{year}-W{week:02}", f"{day:%Y-%m}", f"{day:%Y}"):
        period = parse_period(text, zone, NOW)
        whole = period.end == NOW or period.end.date().day == 1 or period.end.date().weekday() == 0
        assert whole
        if days is not None:
            assert period.start.astimezone(UTC) <= days.start.astimezone(UTC)
            assert days.end.astimezone(UTC) <= period.end.astimezone(UTC)


@pytest.mark.parametrize(
    "text",
    [
        "", "2026-W54", "2026-W00", "2026-13", "2026-00", "0000", "9999", "10000", "14:00", "25:00-26:00",
        "14:60-15:00", "monday tuesday", "yesterday 14:00", "last_99999d", "last_-1d", "٢٠٢٦-١١",
        "week 14:00-15:00", "2026-W46 14:00-15:00", "2026-W44/2026-W45", "2026-W45/2026-11-14",
    ],
)  # fmt: skip
def test_an_invalid_period_is_refused_with_examples(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_period(text, BERLIN, NOW)
    assert "is not a period" in caught.value.message or "is in the future" in caught.value.message
    assert text in ("9999",) or "yesterday 14:00-15:00" in caught.value.message


@pytest.mark.parametrize("text", ["friday 14:00-14:00", "2026-03-29 02:15-02:45"])
def test_an_empty_clock_range_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="its end is not after its start"):
        parse_period(text, BERLIN, NOW)


def test_a_future_period_is_refused_with_the_current_time() -> None:
    with pytest.raises(BadRequest, match="is in the future; it is now 2026-11-15 13:30"):
        parse_period("14:00-15:00", BERLIN, NOW)


def test_the_time_zone_is_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert zone_name(user_time_zone("Asia/Tokyo")) == "Asia/Tokyo"
    monkeypatch.setenv("TZ", ":America/Lima")
    assert zone_name(user_time_zone(None)) == "America/Lima"
    monkeypatch.setenv("TZ", "no/such")
    assert user_time_zone(None).utcoffset(datetime.now()) is not None


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("last_1h", 60),
        ("last_20m", 20),
        ("2026-10-25T02:30+02:00/2026-10-25T02:30+01:00", 60),
        ("2026-10-25T02:50+02:00/2026-10-25T02:10+01:00", 20),
    ],
)
def test_periods_in_a_repeated_hour_have_their_real_length(text: str, minutes: int) -> None:
    half_past_two_again = datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    period = parse_period(text, BERLIN, half_past_two_again)
    assert (period.end.astimezone(UTC) - period.start.astimezone(UTC)).total_seconds() == minutes * 60


@pytest.mark.parametrize("text", ["0001-01-01", "0001-01-01/0001-01-02", "9999-12-31", "2026-01-01/9999-12-31T23:59"])
def test_periods_at_the_limits_of_datetime_are_refused(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_period(text, ZoneInfo("Asia/Tokyo"), NOW)


def test_a_posix_tz_rule_overrides_the_system_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "XYZ-5:30")
    time.tzset()
    try:
        assert user_time_zone(None).utcoffset(datetime(2026, 1, 1)) == timedelta(hours=5, minutes=30)
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_the_time_zone_can_be_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", f":{tmp_path}/zoneinfo/Asia/Tokyo")
    assert zone_name(user_time_zone(None)) == "Asia/Tokyo"
