"""Parse periods such as `yesterday 14:00-15:00` in the user's time zone. Pure but for the local zone's name."""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.failures import BadRequest

PERIOD_HELP: Final = (
    "today, yesterday, a weekday such as monday (the latest one), a day 2026-11-15; "
    "a clock range of any of these, such as yesterday 14:00-15:00, or 14:00-15:00 for today; "
    "this_week, last_week, an ISO week 2026-W46; this_month, last_month, a month 2026-11; "
    "this_year, last_year, a year 2026; last_90m, last_2h, last_3d, last_2w; "
    "or two ISO times with a slash between them"
)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LAST_N_UNITS: Final = re.compile(r"last_([0-9]{1,4})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WEEK_LENGTH: Final = timedelta(days=7)
_WEEK: Final = re.compile(r"([0-9]{4})-?w([0-9]{2})")
_WHOLE_WEEK_ERROR: Final = "a whole week, which Python would read as its Monday"
_MONTH: Final = re.compile(r"([0-9]{4})-([0-9]{2})")
_YEAR: Final = re.compile(r"[0-9]{4}")
_CLOCK: Final = r"([0-9]{1,2}):([0-9]{2})"
_CLOCK_RANGE: Final = re.compile(rf"(?:(\S+)\s+)?{_CLOCK}\s*(?:-|\u2013|to)\s*{_CLOCK}")


class Period(msgspec.Struct, frozen=True):
    """A start and an end in the user's time zone."""

    start: datetime
    end: datetime


def parse_period(text: str, zone: tzinfo, now: datetime) -> Period:
    """Parse a period, relative to `now`. The part that is in the future is cut off.

    Raises: BadRequest.
    """
    local_now = now.astimezone(zone)
    try:
        period = _parse_named(text.strip().lower(), local_now) or _parse_iso(text.strip(), zone)
        # Compared in UTC: the wall clock shows an hour twice when summer time ends.
        start, end = (moment.astimezone(UTC) for moment in (period.start, period.end))
    except (ValueError, OverflowError):
        raise BadRequest(f"{text[:80]!r} is not a period; use one of: {PERIOD_HELP}") from None
    if start >= now:
        raise BadRequest(f"the period {text[:80]!r} is in the future; it is now {local_now:%Y-%m-%d %H:%M}")
    if end <= start:
        raise BadRequest(f"the period {text[:80]!r} is empty: its end is not after its start")
    if _wall_time(period.end) - _wall_time(period.start) > timedelta(days=limits.PERIOD_DAYS):
        raise BadRequest(f"the period {text[:80]!r} is longer than {limits.PERIOD_DAYS} days; ask for a shorter one")
    return Period(period.start, min(end, now).astimezone(zone))


def _parse_named(text: str, now: datetime) -> Period | None:
    """Raises: ValueError, OverflowError."""
    if found := _CLOCK_RANGE.fullmatch(text):
        return _parse_clock_range(found, now)
    word = "_".join(text.split())
    if found := _LAST_N_UNITS.fullmatch(word):
        length = timedelta(**{_UNITS[found[2]]: int(found[1])})
        # Through UTC, because a day with a clock change does not have 24 hours.
        return Period((now.astimezone(UTC) - length).astimezone(now.tzinfo), now)
    dates = _parse_dates(word, now.date())
    return None if dates is None else Period(*(_midnight(day, now.tzinfo) for day in dates))


def _parse_clock_range(found: re.Match[str], now: datetime) -> Period:
    """Parse a part of a day; a range that ends before it begins ends on the next day."""
    day = _parse_day(found[1] or "today", now.date())
    begin, end = (timedelta(hours=int(found[group]), minutes=int(found[group + 1])) for group in (2, 4))
    if any(int(found[group]) > 59 for group in (3, 5)) or max(begin, end) > timedelta(days=1):
        raise ValueError("not a time of day")
    if end < begin:
        end += timedelta(days=1)
    midnight = datetime.combine(day, time())
    start, until = (_resolve_wall_time((midnight + each).replace(tzinfo=now.tzinfo)) for each in (begin, end))
    return Period(start, until)


def _parse_day(word: str, today: date) -> date:
    """Raises: ValueError."""
    if word in _WEEKDAYS:
        return today - timedelta(days=(today.weekday() - _WEEKDAYS.index(word)) % 7)
    if _WEEK.fullmatch(word):
        raise ValueError(_WHOLE_WEEK_ERROR)
    return {"today": today, "yesterday": today - timedelta(days=1)}.get(word) or date.fromisoformat(word.upper())


def _parse_dates(word: str, today: date) -> tuple[date, date] | None:
    """Return the first day of a period of whole days and the day after its last one; None if it is of another kind.

    Raises: ValueError, OverflowError.
    """
    if word in ("today", "yesterday", *_WEEKDAYS):
        return _parse_day(word, today), _parse_day(word, today) + timedelta(days=1)
    if found := _WEEK.fullmatch(word):
        monday = date.fromisocalendar(int(found[1]), int(found[2]), 1)
        return monday, monday + _WEEK_LENGTH
    if found := _MONTH.fullmatch(word):
        first = date(int(found[1]), int(found[2]), 1)
        return first, _next_month(first)
    if _YEAR.fullmatch(word):
        return date(int(word), 1, 1), date(int(word) + 1, 1, 1)
    return _current_dates(today).get(word.removeprefix("this_"))


def _current_dates(today: date) -> dict[str, tuple[date, date]]:
    monday, month = today - timedelta(days=today.weekday()), today.replace(day=1)
    year = month.replace(month=1)
    return {
        "week": (monday, monday + _WEEK_LENGTH),
        "last_week": (monday - _WEEK_LENGTH, monday),
        "month": (month, _next_month(month)),
        "last_month": ((month - timedelta(days=1)).replace(day=1), month),
        "year": (year, year.replace(year=year.year + 1)),
        "last_year": (year.replace(year=year.year - 1), year),
    }


def _next_month(first: date) -> date:
    return (first + timedelta(days=32)).replace(day=1)


def _parse_iso(text: str, zone: tzinfo) -> Period:
    first, slash, last = text.partition("/")
    if not slash:
        day = date.fromisoformat(first)
        return Period(_midnight(day, zone), _midnight(day + timedelta(days=1), zone))
    return Period(_parse_moment(first, zone), _parse_moment(last, zone))


def _midnight(day: date, zone: tzinfo | None) -> datetime:
    """Return when a day begins: at midnight of the wall clock, or at the clock change that skips midnight."""
    return datetime.combine(day, time(), zone)


def _parse_moment(text: str, zone: tzinfo) -> datetime:
    if _WEEK.fullmatch(text.strip().lower()):
        raise ValueError(_WHOLE_WEEK_ERROR)
    moment = datetime.fromisoformat(text.strip())
    return _resolve_wall_time(moment.replace(tzinfo=zone)) if moment.tzinfo is None else moment.astimezone(zone)


def _resolve_wall_time(moment: datetime) -> datetime:
    """Return the moment of a wall-clock time; the clock change if it is skipped, the first one if it occurs twice."""
    after = moment.astimezone(UTC)
    zone = moment.tzinfo
    if _wall_time(after.astimezone(zone)) == _wall_time(moment):
        return moment
    before = moment.replace(fold=1).astimezone(UTC)
    offset = before.astimezone(zone).utcoffset()
    while after - before > timedelta(microseconds=1):
        middle = before + (after - before) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after.astimezone(zone)


def _wall_time(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None, fold=0)


def user_time_zone(name: str | None) -> tzinfo:
    """Return the zone with this name, else this machine's zone, by name if possible, because its offset changes."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name or _local_zone_name())
    except (KeyError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or UTC


def _local_zone_name() -> str:
    """Return the zone name in `TZ`, which may also hold a file or a rule, else the system's zone name."""
    tz_variable = os.environ.get("TZ", "").removeprefix(":")
    if tz_variable and not tz_variable.startswith("/"):
        return tz_variable
    try:
        path = str(Path(tz_variable or "/etc/localtime").resolve())
    except OSError:
        return ""
    return path.partition("zoneinfo/")[2]


def zone_name(zone: tzinfo) -> str:
    """Return the IANA name of a zone, else its own representation."""
    return str(getattr(zone, "key", None) or zone)
