"""Transformations of events: fill gaps, cut to periods, add up. Pure.

They behave as the functions of the same names in ActivityWatch's query language; tests compare them with a real server.
Input events are never modified.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

from hubbub.packs.activity import limits
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest

FLOOD_PULSE_S = 5.0
_NO_TIME: Final = timedelta(0)
_TRIMMED_OVERLAP: Final = timedelta(seconds=0.1)
"""Different events that overlap by less than this are both cut at the middle of the overlap."""
_SUBEVENTS_KEY = "subevents"
"""Key of a chunk's parts. Chunks of chunks do not keep theirs, which would double with each step of a query."""
_MESSAGE_COUNT = re.compile(r"^\(\d+\+?\)\s*")
_UNSAVED_MARK = re.compile(r"^●\s*")
_FRAME_RATE = re.compile(r"FPS:\s+[0-9.]+")


def copy_event(event: Event, **changes: Any) -> Event:
    """Copy an event, with changes."""
    return Event(
        changes.get("timestamp", event.timestamp),
        changes.get("duration", event.duration),
        changes.get("data", event.data),
        changes.get("id", event.id),
    )


def make_event(start: datetime, end: datetime, data: dict[str, Any]) -> Event:
    """Return an event between two moments, in UTC: in a zone, a day would have 24 hours even if the clocks change."""
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    return Event(start, (end - start).total_seconds(), data)


def sort_by_time(events: Iterable[Event]) -> list[Event]:
    """Sort events, oldest first."""
    return sorted(events, key=lambda event: event.timestamp)


def sort_by_duration(events: Iterable[Event]) -> list[Event]:
    """Sort events, longest first."""
    return sorted(events, key=lambda event: event.duration, reverse=True)


def total_duration(events: Iterable[Event]) -> float:
    """Return the sum of the durations."""
    return sum(event.duration for event in events)


class _Span:
    """An event while it is being flooded."""

    __slots__ = ("data", "id", "length", "start")

    def __init__(self, event: Event) -> None:
        self.start = _to_milliseconds(event.timestamp)
        self.length = timedelta(seconds=event.duration)
        self.data = event.data
        self.id = event.id

    @property
    def end(self) -> datetime:
        return self.start + self.length

    def event(self) -> Event:
        return Event(self.start, self.length.total_seconds(), self.data, self.id)


def _to_milliseconds(moment: datetime) -> datetime:
    """Truncate as ActivityWatch does with every start, including computed ones; durations keep microseconds."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def flood(events: Iterable[Event], pulse_s: float = FLOOD_PULSE_S) -> list[Event]:
    """Fill gaps of at most `pulse_s` seconds and remove overlaps, with the result of aw-core's `flood` for any input.

    Neighbours with equal data become one event; others meet in the middle of the gap between them. Where different
    events still overlap, the one that begins later wins.
    """
    spans = sorted(map(_Span, events), key=lambda span: (span.start, span.length))
    pulse = timedelta(seconds=pulse_s)
    for before, after in pairwise(spans):
        _close_gap(before, after, pulse)
    return [span.event() for span in _remove_overlaps(spans)]


def _close_gap(before: _Span, after: _Span, pulse: timedelta) -> None:
    """Close the gap between neighbours. An event that is absorbed by its neighbour gets length zero."""
    gap = after.start - before.end
    is_same = before.data == after.data
    if is_same and gap < _NO_TIME:
        start, end = min(before.start, after.start), max(before.end, after.end)
        before.start, before.length = start, end - start
        after.start, after.length = _to_milliseconds(end), _NO_TIME
    elif gap and -_TRIMMED_OVERLAP < gap <= pulse:
        end = after.end
        if not is_same:
            middle = before.end + gap / 2
            before.length = middle - before.start
            after.start, after.length = _to_milliseconds(middle), end - middle
        elif before.length >= after.length:
            before.length = end - before.start
            after.start, after.length = _to_milliseconds(end), _NO_TIME
        else:
            after.start, after.length = before.start, end - before.start
            before.length = _NO_TIME


def _remove_overlaps(spans: Iterable[_Span]) -> list[_Span]:
    """Remove overlaps. Closing gaps may move a span after its pair was processed, so spans may also be unordered."""
    disjoint: list[_Span] = []
    for span in spans:
        if span.length <= _NO_TIME:
            continue
        while disjoint and disjoint[-1].end > span.start:
            last = disjoint[-1]
            if last.data == span.data:
                last.length = max(last.end, span.end) - last.start
                break
            last.length = span.start - last.start
            if last.length > _NO_TIME:
                disjoint.append(span)
                break
            disjoint.pop()
        else:
            disjoint.append(span)
    return disjoint


def intersect(events: Iterable[Event], periods: Iterable[Event]) -> list[Event]:
    """Return the parts of events that lie in periods."""
    found: list[Event] = []
    allowed = _nonempty_periods(periods)
    first = 0
    for event in sort_by_time(events):
        while first < len(allowed) and allowed[first].end <= event.timestamp:
            first += 1
        for index in range(first, len(allowed)):
            period = allowed[index]
            if period.timestamp >= event.end:
                break
            start, end = max(event.timestamp, period.timestamp), min(event.end, period.end)
            if end > start:
                found.append(copy_event(event, timestamp=start, duration=(end - start).total_seconds()))
        _check_count(found)
    return found


def cut_before(events: Iterable[Event], moment: datetime) -> list[Event]:
    """Return the parts of events after a moment."""
    return [
        event
        if event.timestamp >= moment
        else copy_event(event, timestamp=moment, duration=(event.end - moment).total_seconds())
        for event in events
        if event.timestamp >= moment or event.end > moment
    ]


def union(*event_lists: Iterable[Event]) -> list[Event]:
    """Return the merged times of all events, without their data."""
    merged: list[Event] = []
    for event in sort_by_time(event for events in event_lists for event in events):
        if merged and event.timestamp <= merged[-1].end:
            last = merged[-1]
            last.duration = max(last.duration, (event.end - last.timestamp).total_seconds())
        else:
            merged.append(Event(event.timestamp, event.duration, {}))
    return merged


def _nonempty_periods(periods: Iterable[Event]) -> list[Event]:
    """Drop periods of no length: nothing can lie in them, and there may be very many."""
    return [period for period in union(periods) if period.duration > 0]


def _check_count(events: Sequence[Event]) -> None:
    """Limit the result: each of many long events may be cut by each of many periods."""
    if len(events) > limits.EVENTS:
        raise BadRequest(f"cutting to periods makes more than {limits.EVENTS} events; ask for a shorter period")


def subtract_periods(events: Iterable[Event], periods: Iterable[Event]) -> list[Event]:
    """Return the parts of events that lie in none of these periods."""
    found: list[Event] = []
    forbidden = _nonempty_periods(periods)
    first = 0
    for event in sort_by_time(events):
        start = event.timestamp
        while first < len(forbidden) and forbidden[first].end <= start:
            first += 1
        for index in range(first, len(forbidden)):
            period = forbidden[index]
            if period.timestamp >= event.end:
                break
            if period.timestamp > start:
                found.append(copy_event(event, timestamp=start, duration=(period.timestamp - start).total_seconds()))
            start = max(start, period.end)
        if start < event.end or (event.duration == 0 and start == event.timestamp):
            found.append(copy_event(event, timestamp=start, duration=(event.end - start).total_seconds()))
        _check_count(found)
    return found


def merge_by_keys(events: Iterable[Event], keys: Sequence[str]) -> list[Event]:
    """Return one event for each combination of values of these keys, with the total duration."""
    merged: dict[tuple[Any, ...], Event] = {}
    for event in events:
        data = {key: event.data[key] for key in keys if key in event.data}
        name = tuple((key, _hashable(value)) for key, value in data.items())
        if name in merged:
            merged[name].duration += event.duration
        else:
            merged[name] = Event(event.timestamp, event.duration, data)
    return list(merged.values())


def _hashable(value: Any) -> Any:
    """Convert a value to a hashable one; categories are lists. Raises TypeError for other unhashable values."""
    frozen = tuple(value) if isinstance(value, list) else value
    hash(frozen)
    return type(value), frozen


def chunk_by_key(events: Iterable[Event], key: str) -> list[Event]:
    """Merge consecutive events with the same value of a key into chunks, which contain their parts."""
    chunks: list[Event] = []
    for event in events:
        if key not in event.data:
            break
        part = copy_event(event, data={name: value for name, value in event.data.items() if name != _SUBEVENTS_KEY})
        if chunks and chunks[-1].data[key] == event.data[key]:
            chunks[-1].duration += event.duration
            chunks[-1].data[_SUBEVENTS_KEY].append(part)
        else:
            chunks.append(Event(event.timestamp, event.duration, {key: event.data[key], _SUBEVENTS_KEY: [part]}))
    return chunks


def filter_by_values(events: Iterable[Event], key: str, values: Sequence[Any]) -> list[Event]:
    """Return the events that have one of these values under a key."""
    is_member = _make_membership_test(values)
    return [event for event in events if key in event.data and is_member(event.data[key])]


def exclude_by_values(events: Iterable[Event], key: str, values: Sequence[Any]) -> list[Event]:
    """Return the events that do not have one of these values under a key."""
    is_member = _make_membership_test(values)
    return [event for event in events if not (key in event.data and is_member(event.data[key]))]


def _make_membership_test(values: Sequence[Any]) -> Callable[[Any], bool]:
    """Test for membership; strings by hash, because there may be thousands, and other values one by one."""
    texts = {value for value in values if isinstance(value, str)}
    others = [value for value in values if not isinstance(value, str)]
    return lambda value: value in texts if isinstance(value, str) else value in others


def filter_matching(events: Iterable[Event], key: str, matches: Callable[[str], bool]) -> list[Event]:
    """Return the events whose text under a key matches."""
    return [event for event in events if matches(event.text(key))]


def extract_domain(url: str) -> str:
    """Return the host name of an address, without `www.`."""
    try:
        host = urlsplit(url).hostname or (url if "/" not in url and " " not in url else "")
    except ValueError:
        return ""
    return host.removeprefix("www.")


def split_urls(events: Iterable[Event]) -> list[Event]:
    """Add the parts of the address to events that have one."""
    return [
        copy_event(event, data={**event.data, **_parse_url(event.text("url"))}) if event.text("url") else event
        for event in events
    ]


def _parse_url(url: str) -> dict[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return {"$protocol": "", "$domain": "", "$path": "", "$params": "", "$options": "", "$identifier": ""}
    path, _, params = parts.path.partition(";")
    return {
        "$protocol": parts.scheme,
        "$domain": parts.netloc.removeprefix("www."),
        "$path": path,
        "$params": params,
        "$options": parts.query,
        "$identifier": parts.fragment,
    }


def simplify_titles(events: Iterable[Event], key: str) -> list[Event]:
    """Remove from titles what changes constantly: message counts, marks of unsaved files, frame rates."""
    simple = []
    for event in events:
        text = event.text(key)
        if text:
            text = _FRAME_RATE.sub("FPS: ...", _UNSAVED_MARK.sub("", _MESSAGE_COUNT.sub("", text)))
            event = copy_event(event, data={**event.data, key: text})
        simple.append(event)
    return simple
