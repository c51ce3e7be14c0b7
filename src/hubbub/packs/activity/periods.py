"""Periods as people name them, in their own time zone. Pure but for the name of this machine's zone."""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.packs.activity.failures import BadRequest

WORDS: Final = ("today", "yesterday", "week", "last_week")
HELP: Final = (
    "today, yesterday, week, last_week, last_2h, last_3d, a day such as 2026-11-15, "
    "or two ISO times with a slash between them"
)
_LAST: Final = re.compile(r"last_([0-9]{1,4})([mhd])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


class Period(msgspec.Struct, frozen=True):
    """From when to when, in the person's zone."""

    start: datetime
    end: datetime


def read_period(text: str, zone: tzinfo, now: datetime) -> Period:
    """What a text means at this moment. What is still to come is cut off.

    Raises: BadRequest.
    """
    try:
        period = _named(text.strip().lower(), now.astimezone(zone)) or _written(text.strip(), zone)
        # Compared in UTC: the clock on the wall shows an hour twice when summer ends.
        start, end = (moment.astimezone(UTC) for moment in (period.start, period.end))
    except (ValueError, OverflowError):
        raise BadRequest(f"{text[:80]!r} is no period; it is one of {HELP}") from None
    if start >= now:
        raise BadRequest(f"the period {text[:80]!r} is still to come")
    if end <= start:
        raise BadRequest(f"the period {text[:80]!r} ends before it begins")
    if end - start > timedelta(days=bounds.ACTIVITY_DAYS):
        raise BadRequest(f"the period {text[:80]!r} is longer than {bounds.ACTIVITY_DAYS} days")
    return Period(period.start, min(end, now).astimezone(zone))


def _named(text: str, now: datetime) -> Period | None:
    today = now.date()
    monday = today - timedelta(days=today.weekday())
    days = {
        "today": (today, 1),
        "yesterday": (today - timedelta(days=1), 1),
        "week": (monday, 7),
        "this_week": (monday, 7),
        "last_week": (monday - timedelta(days=7), 7),
    }
    if text in days:
        first, count = days[text]
        return _days(first, count, now.tzinfo)
    if found := _LAST.fullmatch(text):
        length = timedelta(**{_UNITS[found[2]]: int(found[1])})
        # Through UTC, because a day with a change of the clocks has not 24 hours.
        return Period((now.astimezone(UTC) - length).astimezone(now.tzinfo), now)
    return None


def _written(text: str, zone: tzinfo) -> Period:
    first, slash, last = text.partition("/")
    if not slash:
        return _days(date.fromisoformat(first), 1, zone)
    return Period(_moment(first, zone), _moment(last, zone))


def _days(first: date, count: int, zone: tzinfo | None) -> Period:
    """Whole days begin at midnight by the clock on the wall."""
    start = datetime.combine(first, time(), zone)
    return Period(start, datetime.combine(first + timedelta(days=count), time(), zone))


def _moment(text: str, zone: tzinfo) -> datetime:
    moment = datetime.fromisoformat(text.strip())
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)


def person_zone(name: str | None) -> tzinfo:
    """The zone of this name, else of this machine: by its name where that can be found, because its offset changes."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name or _name_of_local_zone())
    except (KeyError, ValueError, OSError):
        return datetime.now().astimezone().tzinfo or UTC


def _name_of_local_zone() -> str:
    """What `TZ` says, which may also be a file or a rule, else what the machine is set to."""
    given = os.environ.get("TZ", "").removeprefix(":")
    if given and not given.startswith("/"):
        return given
    try:
        path = str(Path(given or "/etc/localtime").resolve())
    except OSError:
        return ""
    return path.partition("zoneinfo/")[2]


def zone_name(zone: tzinfo) -> str:
    """For people and programs."""
    return str(getattr(zone, "key", None) or zone)
