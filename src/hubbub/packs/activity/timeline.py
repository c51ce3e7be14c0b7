"""A period in order of time: active blocks, times away, gaps, and the number of app switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.periods import Period, zone_name
from hubbub.packs.activity.presence import (
    Records,
    active_events,
    away_times,
    input_without_windows,
    windows_without_presence,
)
from hubbub.packs.activity.transforms import intersect, make_event, sort_by_time, subtract_periods, union

_INTERRUPTION_MAX_S: Final = 60.0
"""A shorter interruption does not end a block, unless the block is shorter still."""
_MAX_INTERRUPTING_APPS: Final = 5
"""Other apps that may be in front during one interruption."""
_MIN_GAP_S: Final = 300.0
"""Unrecorded and partly recorded times are reported if they are longer than this."""


Kind: TypeAlias = Literal["active", "afk", "partial", "unrecorded"]


class Block(msgspec.Struct, frozen=True):
    """A stretch of time; `kind` says what it was.

    `partial`: one watcher recorded something and another did not, so it is known which window was in front, or
    that there was input, but not both.
    """

    kind: Kind
    start: str
    end: str
    seconds: float
    app: str | None = None
    title: str | None = None
    category: str | None = None


class Timeline(msgspec.Struct, kw_only=True):
    """A period, in order."""

    start: str
    end: str
    time_zone: str
    host: str
    blocks: list[Block]
    left_out: int
    """Number of blocks that are shorter than requested, or beyond the limit."""
    switches: int
    """How often the app in front changed."""
    longest_focus: Block | None
    notes: list[str]


def build_timeline(
    records: Records,
    period: Period,
    host: str,
    *,
    min_s: float,
    max_blocks: int,
    categories: Categories,
    notes: Sequence[str] = (),
) -> Timeline:
    """Build the timeline; slow for many events."""
    zone = period.start.tzinfo
    assert zone is not None
    active = active_events(records)
    # A request for shorter blocks also shows shorter interruptions.
    stretches = _merge_stretches(active, min(_INTERRUPTION_MAX_S, min_s))
    away = away_events(records)
    windows, inputs = _partly_recorded(records, union(active, away))
    found: list[tuple[Kind, Event]] = [("active", event) for event in stretches]
    found += [("afk", event) for event in away]
    partial_times = partial_events(records, active, away)
    partial = (
        *_merge_stretches(intersect(windows, partial_times), _INTERRUPTION_MAX_S),
        *intersect(inputs, partial_times),
    )
    found += [("partial", event) for event in partial]
    found += [("unrecorded", event) for event in unrecorded_events(records, active, away, period)]
    found.sort(key=lambda item: item[1].timestamp)
    blocks = [_make_block(kind, event, period, categories) for kind, event in found]
    selected = [block for block in blocks if block.seconds >= min_s]
    focus = max(_merge_stretches(active, _INTERRUPTION_MAX_S), key=lambda event: event.duration, default=None)
    return Timeline(
        start=period.start.isoformat(timespec="seconds"),
        end=period.end.isoformat(timespec="seconds"),
        time_zone=zone_name(zone),
        host=host,
        blocks=selected[-max_blocks:],
        left_out=len(blocks) - len(selected[-max_blocks:]),
        switches=_count_switches(active),
        longest_focus=None if focus is None else _make_block("active", focus, period, categories),
        notes=list(notes),
    )


def away_events(records: Records) -> list[Event]:
    """Return the times away, merged."""
    return union(away_times(records))


def partial_events(records: Records, active: Sequence[Event], away: Sequence[Event]) -> list[Event]:
    """Return merged times of at least `_MIN_GAP_S` in which one watcher recorded something and another did not."""
    partly_recorded = _partly_recorded(records, union(active, away))
    return [event for event in union(*partly_recorded) if event.duration >= _MIN_GAP_S]


def unrecorded_events(records: Records, active: Sequence[Event], away: Sequence[Event], period: Period) -> list[Event]:
    """Return times of at least `_MIN_GAP_S` in which no watcher recorded anything."""
    windows, inputs = _partly_recorded(records, union(active, away))
    gaps = subtract_periods([make_event(period.start, period.end, {})], union(active, away, windows, inputs))
    return [event for event in gaps if event.duration >= _MIN_GAP_S]


def _partly_recorded(records: Records, known: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """Return windows without presence, and presence without windows."""
    windows = [event for device in records.devices for event in windows_without_presence(device)]
    inputs = [event for device in records.devices for event in input_without_windows(device)]
    windows = subtract_periods(windows, known)
    return windows, subtract_periods(union(inputs), [*known, *windows])


class _Stretch:
    """A stretch with one app in front, including short interruptions by others."""

    def __init__(self, event: Event) -> None:
        self.app, self.start, self.end = event.text("app"), event.timestamp, event.timestamp
        self.own_s = 0.0
        self.titles: Counter[str] = Counter()
        self.add(event)

    def add(self, event: Event) -> None:
        self.end = max(self.end, event.end)
        self.own_s += event.duration
        self.titles[event.text("title")] += event.duration  # type: ignore[assignment]  # seconds have fractions

    def event(self) -> Event:
        """Return the stretch as one event with the title that was in front longest."""
        return make_event(self.start, self.end, {"app": self.app, "title": self.titles.most_common(1)[0][0]})


def _merge_stretches(events: Iterable[Event], interruption_s: float) -> list[Event]:
    """Merge consecutive events of one app, also across short interruptions."""
    stretches: list[_Stretch] = []
    for event in sort_by_time(events):
        index = _find_continued(stretches, event, interruption_s)
        if index is None:
            stretches.append(_Stretch(event))
        else:
            del stretches[index + 1 :]
            stretches[index].add(event)
    return [stretch.event() for stretch in stretches]


def _find_continued(stretches: Sequence[_Stretch], event: Event, interruption_s: float) -> int | None:
    """Return the index of the stretch that an event continues, or None."""
    for index in range(len(stretches) - 1, max(len(stretches) - 2 - _MAX_INTERRUPTING_APPS, -1), -1):
        stretch = stretches[index]
        gap_s = (event.timestamp - stretch.end).total_seconds()
        is_last = index == len(stretches) - 1
        if gap_s > _INTERRUPTION_MAX_S or (not is_last and gap_s >= interruption_s):
            return None
        if stretch.app == event.text("app") and (is_last or gap_s < stretch.own_s):
            return index
    return None


def _count_switches(events: Iterable[Event]) -> int:
    apps = [event.text("app") for event in sort_by_time(events)]
    return sum(before != after for before, after in pairwise(apps))


def _make_block(kind: Kind, event: Event, period: Period, categories: Categories) -> Block:
    zone = period.start.tzinfo
    has_window = event.text("app") != "" or kind == "active"
    return Block(
        kind,
        event.timestamp.astimezone(zone).isoformat(timespec="seconds"),
        event.end.astimezone(zone).isoformat(timespec="seconds"),
        round(event.duration, 3),
        event.text("app") if has_window else None,
        event.text("title") if has_window else None,
        categories.category_name(event) if categories and has_window else None,
    )
