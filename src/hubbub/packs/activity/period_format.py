"""Format periods, days and hours for titles and axes. Pure.

The names are English in every locale, like all texts of the pack.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, time, timedelta
from typing import Final

from hubbub.packs.activity.periods import Period, zone_name

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def format_period(period: Period) -> str:
    """Format a period, such as `Monday 16 November 2026, 09:00 to 17:30 (Europe/Berlin)`.

    The times are left out where both are midnight.
    """
    start, end = period.start, period.end
    assert start.tzinfo is not None
    is_whole = start.time() == end.time() == time()
    last = end - timedelta(days=1) if end.time() == time() else end
    until = "24:00" if end.time() == time() else f"{end:%H:%M}"
    if start.date() == last.date():
        formatted = _format_long_day(start) if is_whole else f"{_format_long_day(start)}, {start:%H:%M} to {until}"
    elif is_whole:
        formatted = f"{format_day(start)} {start.year} to {format_day(last)} {last.year}"
    else:
        formatted = f"{format_day(start)} {start:%Y %H:%M} to {format_day(last)} {last.year} {until}"
    return f"{formatted} ({zone_name(start.tzinfo)})"


def label_hours(moments: Sequence[datetime], max_labels: int) -> list[tuple[int, str]]:
    """Choose which of these full hours to label; return the label of each by its position.

    Labels are at 0, 3, 6, ... rather than at every third hour after the first. If there are few, the ends get one too.
    """
    step = next(step for step in (1, 2, 3, 4, 6, 12, 24) if len(moments) / step <= max_labels or step == 24)
    has_days = moments[0].date() != (moments[-1] - timedelta(seconds=1)).date()
    labels: list[tuple[int, str]] = []
    for index, moment in enumerate(moments):
        is_end = index in (0, len(moments) - 1) and len(moments) <= max_labels
        if (moment.minute == 0 and moment.hour % step == 0) or is_end:
            text = "24:00" if index and index == len(moments) - 1 and moment.time() == time() else f"{moment:%H:%M}"
            is_new_day = has_days and (not labels or moment.time() == time()) and text != "24:00"
            labels.append((index, f"{text}\n{format_day(moment)}" if is_new_day else text))
    return labels


def format_day(moment: datetime) -> str:
    """Format a day, such as `Mon 16 Nov`."""
    return f"{_DAYS[moment.weekday()][:3]} {moment.day} {format_month(moment)}"


def format_month(moment: datetime) -> str:
    """Format a month, such as `Nov`."""
    return _MONTHS[moment.month - 1][:3]


def format_weekday(number: int) -> str:
    """Return the name of a weekday, such as `Mon` for 0."""
    return _DAYS[number][:3]


def _format_long_day(moment: datetime) -> str:
    return f"{_DAYS[moment.weekday()]} {moment.day} {_MONTHS[moment.month - 1]} {moment.year}"
