"""What can be made of events: fill gaps, cut to periods, add up. Pure.

They mean what the functions of the same names mean in ActivityWatch's query language, and tests
compare them with a real one. Events that are given are never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from hubbub import bounds
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.failures import BadRequest

FLOOD_S = 5.0
_PARTS = "subevents"
"""Chunks of chunks do not keep theirs: they would double with each step of a query."""
_COUNTER = re.compile(r"^\(\d+\+?\)\s*")
_UNSAVED = re.compile(r"^●\s*")
_FRAMES = re.compile(r"FPS:\s+[0-9.]+")


def copy(event: Event, **changes: Any) -> Event:
    """An event like another one."""
    return Event(
        changes.get("timestamp", event.timestamp),
        changes.get("duration", event.duration),
        changes.get("data", event.data),
        changes.get("id", event.id),
    )


def between(start: datetime, end: datetime, data: dict[str, Any]) -> Event:
    """An event from when to when, in UTC: in a zone, a day has 24 hours also when the clocks change."""
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    return Event(start, (end - start).total_seconds(), data)


def by_time(events: Iterable[Event]) -> list[Event]:
    """The oldest first."""
    return sorted(events, key=lambda event: event.timestamp)


def by_duration(events: Iterable[Event]) -> list[Event]:
    """The longest first."""
    return sorted(events, key=lambda event: event.duration, reverse=True)


def total(events: Iterable[Event]) -> float:
    """How long they are together."""
    return sum(event.duration for event in events)


def flood(events: Iterable[Event], pulse_s: float = FLOOD_S) -> list[Event]:
    """Fill the short gaps that come from watchers looking only now and then, and let no two events overlap.

    Between events that say the same, a gap becomes part of them; between others, each gets half of it.
    """
    flooded: list[Event] = []
    for event in by_time(events):
        event = copy(event)
        last = flooded[-1] if flooded else None
        gap = (event.timestamp - last.end).total_seconds() if last is not None else 0.0
        if last is not None and gap and gap <= pulse_s:
            if last.data == event.data:
                last.duration = max(last.duration, (event.end - last.timestamp).total_seconds())
                continue
            half = gap / 2 if gap > 0 else 0.0
            last.duration += half if gap > 0 else gap
            event.timestamp -= timedelta(seconds=half)
            event.duration += half
        flooded.append(event)
    return flooded


def intersect(events: Iterable[Event], periods: Iterable[Event]) -> list[Event]:
    """The parts of events that lie in periods."""
    found: list[Event] = []
    allowed = _lasting(periods)
    first = 0
    for event in by_time(events):
        while first < len(allowed) and allowed[first].end <= event.timestamp:
            first += 1
        for place in range(first, len(allowed)):
            period = allowed[place]
            if period.timestamp >= event.end:
                break
            start, end = max(event.timestamp, period.timestamp), min(event.end, period.end)
            if end > start:
                found.append(copy(event, timestamp=start, duration=(end - start).total_seconds()))
        _check_count(found)
    return found


def union(*many: Iterable[Event]) -> list[Event]:
    """When any of these events was, without saying what it was."""
    merged: list[Event] = []
    for event in by_time(event for events in many for event in events):
        if merged and event.timestamp <= merged[-1].end:
            last = merged[-1]
            last.duration = max(last.duration, (event.end - last.timestamp).total_seconds())
        else:
            merged.append(Event(event.timestamp, event.duration, {}))
    return merged


def _lasting(periods: Iterable[Event]) -> list[Event]:
    """Periods that take any time at all; in the others nothing can lie, and there may be very many."""
    return [period for period in union(periods) if period.duration > 0]


def _check_count(events: Sequence[Event]) -> None:
    """Each of many long events may be cut by each of many periods."""
    if len(events) > bounds.ACTIVITY_EVENTS:
        raise BadRequest(f"cutting makes more than {bounds.ACTIVITY_EVENTS} events; ask for less")


def without(events: Iterable[Event], periods: Iterable[Event]) -> list[Event]:
    """The parts of events that lie in none of these periods."""
    found: list[Event] = []
    forbidden = _lasting(periods)
    first = 0
    for event in by_time(events):
        start = event.timestamp
        while first < len(forbidden) and forbidden[first].end <= start:
            first += 1
        for place in range(first, len(forbidden)):
            period = forbidden[place]
            if period.timestamp >= event.end:
                break
            if period.timestamp > start:
                found.append(copy(event, timestamp=start, duration=(period.timestamp - start).total_seconds()))
            start = max(start, period.end)
        if start < event.end or (event.duration == 0 and start == event.timestamp):
            found.append(copy(event, timestamp=start, duration=(event.end - start).total_seconds()))
        _check_count(found)
    return found


def merge_by(events: Iterable[Event], keys: Sequence[str]) -> list[Event]:
    """One event for each combination of what these keys say, as long as all of them together."""
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
    """Categories are lists. Raises TypeError for what cannot be compared."""
    frozen = tuple(value) if isinstance(value, list) else value
    hash(frozen)
    return type(value), frozen


def chunk_by(events: Iterable[Event], key: str) -> list[Event]:
    """Events that follow each other and say the same under a key, as one each, with those that it is made of."""
    chunks: list[Event] = []
    for event in events:
        if key not in event.data:
            break
        part = copy(event, data={name: value for name, value in event.data.items() if name != _PARTS})
        if chunks and chunks[-1].data[key] == event.data[key]:
            chunks[-1].duration += event.duration
            chunks[-1].data[_PARTS].append(part)
        else:
            chunks.append(Event(event.timestamp, event.duration, {key: event.data[key], _PARTS: [part]}))
    return chunks


def having(events: Iterable[Event], key: str, values: Sequence[Any]) -> list[Event]:
    """Those that say one of these values under a key."""
    is_one = _one_of(values)
    return [event for event in events if key in event.data and is_one(event.data[key])]


def not_having(events: Iterable[Event], key: str, values: Sequence[Any]) -> list[Event]:
    """The others."""
    is_one = _one_of(values)
    return [event for event in events if not (key in event.data and is_one(event.data[key]))]


def _one_of(values: Sequence[Any]) -> Callable[[Any], bool]:
    """Texts, of which there may be thousands, are looked up; the rest is compared one by one."""
    texts = {value for value in values if isinstance(value, str)}
    others = [value for value in values if not isinstance(value, str)]
    return lambda value: value in texts if isinstance(value, str) else value in others


def matching(events: Iterable[Event], key: str, matches: Callable[[str], bool]) -> list[Event]:
    """Those whose text under a key passes."""
    return [event for event in events if matches(event.text(key))]


def domain_of(url: str) -> str:
    """The name of the site that an address belongs to."""
    try:
        host = urlsplit(url).hostname or (url if "/" not in url and " " not in url else "")
    except ValueError:
        return ""
    return host.removeprefix("www.")


def with_url_parts(events: Iterable[Event]) -> list[Event]:
    """Events with an address, with its parts beside it."""
    return [
        copy(event, data={**event.data, **_parts(event.text("url"))}) if event.text("url") else event
        for event in events
    ]


def _parts(url: str) -> dict[str, str]:
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


def with_simple_titles(events: Iterable[Event], key: str) -> list[Event]:
    """Events whose titles lack what changes all the time: counts of messages, marks of unsaved files, frame rates."""
    simple = []
    for event in events:
        text = event.text(key)
        if text:
            text = _FRAMES.sub("FPS: ...", _UNSAVED.sub("", _COUNTER.sub("", text)))
            event = copy(event, data={**event.data, key: text})
        simple.append(event)
    return simple
