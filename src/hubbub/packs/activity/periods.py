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

HELP: Final = (
    "today, yesterday, a weekday such as monday (the latest one), a day 2026-11-15; "
    "a clock range of any of these, such as yesterday 14:00-15:00, or 14:00-15:00 for today; "
    "this_week, last_week, an ISO week 2026-W46; this_month, last_month, a month 2026-11; "
    "this_year, last_year, a year 2026; last_90m, last_2h, last_3d, last_2w; "
    "or two ISO times with a slash between them"
)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LAST: Final = re.compile(r"last_([0-9]{1,4})([mhdw])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WEEK_LENGTH: Final = timedelta(days=7)
_WEEK: Final = re.compile(r"([0-9]{4})-?w([0-9]{2})")
_WHOLE_WEEK: Final = "a whole week, which Python would read as its Monday"
_MONTH: Final = re.compile(r"([0-9]{4})-([0-9]{2})")
_YEAR: Final = re.compile(r"[0-9]{4}")
_CLOCK: Final = r"([0-9]{1,2}):([0-9]{2})"
_CLOCK_RANGE: Final = re.compile(rf"(?:(\S+)\s+)?{_CLOCK}\s*(?:-|\u2013|to)\s*{_CLOCK}")


class Period(msgspec.Struct, frozen=True):
    """A start and an end in the user's time zone."""

    start: datetime
    end: datetime


def read_period(text: str, zone: tzinfo, now: datetime) -> Period:
    """Parse a period, relative to `now`. The part that is in the future is cut off.

    Raises: BadRequest.
    """
    local_now = now.astimezone(zone)
    try:
        period = _named(text.strip().lower(), local_now) or _written(text.strip(), zone)
        # Compared in UTC: the wall clock shows an hour twice when summer time ends.
        start, end = (moment.astimezone(UTC) for moment in (period.start, period.end))
    except (ValueError, OverflowError):
        raise BadRequest(f"{text[:80]!r} is not a period; it is one of: {HELP}") from None
    if start >= now:
        raise BadRequest(f"the period {text[:80]!r} is still to come; it is now {local_now:%Y-%m-%d %H:%M}")
    if end <= start:
        raise BadRequest(f"the period {text[:80]!r} ends before it begins, or lasts no time")
    if _wall(period.end) - _wall(period.start) > timedelta(days=limits.DAYS):
        raise BadRequest(f"the period {text[:80]!r} is longer than {limits.DAYS} days")
    return Period(period.start, min(end, now).astimezone(zone))


def _named(text: str, now: datetime) -> Period | None:
    """Raises: ValueError, OverflowError."""
    if found := _CLOCK_RANGE.fullmatch(text):
        return _clock_range(found, now)
    word = "_".join(text.split())
    if found := _LAST.fullmatch(word):
        length = timedelta(**{_UNITS[found[2]]: int(found[1])})
        # Through UTC, because a day with a clock change does not have 24 hours.
        return Period((now.astimezone(UTC) - length).astimezone(now.tzinfo), now)
    dates = _dates(word, now.date())
    return None if dates is None else Period(*(_midnight(day, now.tzinfo) for day in dates))


def _clock_range(found: re.Match[str], now: datetime) -> Period:
    """Parse a part of a day; a range that ends before it begins ends on the next day."""
    day = _day(found[1] or "today", now.date())
    begin, end = (timedelta(hours=int(found[place]), minutes=int(found[place + 1])) for place in (2, 4))
    if any(int(found[place]) > 59 for place in (3, 5)) or max(begin, end) > timedelta(days=1):
        raise ValueError("no clock shows this")
    if end < begin:
        end += timedelta(days=1)
    midnight = datetime.combine(day, time())
    start, until = (_existing((midnight + each).replace(tzinfo=now.tzinfo)) for each in (begin, end))
    return Period(start, until)


def _day(word: str, today: date) -> date:
    """Raises: ValueError."""
    if word in _WEEKDAYS:
        return today - timedelta(days=(today.weekday() - _WEEKDAYS.index(word)) % 7)
    if _WEEK.fullmatch(word):
        raise ValueError(_WHOLE_WEEK)
    return {"today": today, "yesterday": today - timedelta(days=1)}.get(word) or date.fromisoformat(word.upper())


def _dates(word: str, today: date) -> tuple[date, date] | None:
    """Return the first day of a period of whole days and the day after its last one; None if it is of another kind.

    Raises: ValueError, OverflowError.
    """
    if word in ("today", "yesterday", *_WEEKDAYS):
        return _day(word, today), _day(word, today) + timedelta(days=1)
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


def _written(text: str, zone: tzinfo) -> Period:
    first, slash, last = text.partition("/")
    if not slash:
        day = date.fromisoformat(first)
        return Period(_midnight(day, zone), _midnight(day + timedelta(days=1), zone))
    return Period(_moment(first, zone), _moment(last, zone))


def _midnight(day: date, zone: tzinfo | None) -> datetime:
    """Return when a day begins: at midnight of the wall clock, or at the clock change that skips midnight."""
    return datetime.combine(day, time(), zone)


def _moment(text: str, zone: tzinfo) -> datetime:
    if _WEEK.fullmatch(text.strip().lower()):
        raise ValueError(_WHOLE_WEEK)
    moment = datetime.fromisoformat(text.strip())
    return _existing(moment.replace(tzinfo=zone)) if moment.tzinfo is None else moment.astimezone(zone)


def _existing(moment: datetime) -> datetime:
    """Return the moment of a wall-clock time; the clock change if it is skipped, the first one if it occurs twice."""
    after = moment.astimezone(UTC)
    zone = moment.tzinfo
    if _wall(after.astimezone(zone)) == _wall(moment):
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


def _wall(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None, fold=0)


def person_zone(name: str | None) -> tzinfo:
    """Return the zone with this name, else this machine's zone, by name if possible, because its offset changes."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name or _name_of_local_zone())
    except (KeyError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or UTC


def _name_of_local_zone() -> str:
    """Return the zone name in `TZ`, which may also hold a file or a rule, else the system's zone name."""
    given = os.environ.get("TZ", "").removeprefix(":")
    if given and not given.startswith("/"):
        return given
    try:
        path = str(Path(given or "/etc/localtime").resolve())
    except OSError:
        return ""
    return path.partition("zoneinfo/")[2]


def zone_name(zone: tzinfo) -> str:
    """Return the IANA name of a zone, else its own representation."""
    return str(getattr(zone, "key", None) or zone)
