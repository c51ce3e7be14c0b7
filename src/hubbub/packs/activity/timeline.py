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
from hubbub.packs.activity.presence import Records, absent, active_events, unknown_presence, unknown_window
from hubbub.packs.activity.transforms import between, by_time, intersect, union, without

_SAME_S: Final = 60.0
"""A shorter interruption does not end a block, unless the block is shorter still."""
_OTHERS: Final = 5
"""Other apps that may be in front during one interruption."""
_GAP_S: Final = 300.0
"""Unrecorded and partly recorded times are reported if they are longer than this."""


Kind: TypeAlias = Literal["active", "afk", "partial", "unrecorded"]


class Block(msgspec.Struct, frozen=True):
    """A stretch of time; `kind` says what it was.

    `partial`: one watcher recorded something and another did not, so it is known which window was in front, or
    that somebody was there, but not both.
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


def draw_line(
    records: Records,
    period: Period,
    host: str,
    *,
    least_s: float,
    most: int,
    categories: Categories,
    notes: Sequence[str] = (),
) -> Timeline:
    """Build the timeline; slow for many events."""
    zone = period.start.tzinfo
    assert zone is not None
    active = active_events(records)
    # A request for shorter blocks also shows shorter interruptions.
    stretches = _stretches(active, min(_SAME_S, least_s))
    away = away_events(records)
    windows, inputs = _half_recorded(records, union(active, away))
    found: list[tuple[Kind, Event]] = [("active", event) for event in stretches]
    found += [("afk", event) for event in away]
    long = partial_events(records, active, away)
    partial = (*_stretches(intersect(windows, long), _SAME_S), *intersect(inputs, long))
    found += [("partial", event) for event in partial]
    found += [("unrecorded", event) for event in unrecorded_events(records, active, away, period)]
    found.sort(key=lambda item: item[1].timestamp)
    blocks = [_block(kind, event, period, categories) for kind, event in found]
    told = [block for block in blocks if block.seconds >= least_s]
    focus = max(_stretches(active, _SAME_S), key=lambda event: event.duration, default=None)
    return Timeline(
        start=period.start.isoformat(timespec="seconds"),
        end=period.end.isoformat(timespec="seconds"),
        time_zone=zone_name(zone),
        host=host,
        blocks=told[-most:],
        left_out=len(blocks) - len(told[-most:]),
        switches=_switches(active),
        longest_focus=None if focus is None else _block("active", focus, period, categories),
        notes=list(notes),
    )


def away_events(records: Records) -> list[Event]:
    """Return the times away, merged."""
    return union(absent(records))


def partial_events(records: Records, active: Sequence[Event], away: Sequence[Event]) -> list[Event]:
    """Return merged times of at least `_GAP_S` in which one watcher recorded something and another did not."""
    half = _half_recorded(records, union(active, away))
    return [event for event in union(*half) if event.duration >= _GAP_S]


def unrecorded_events(records: Records, active: Sequence[Event], away: Sequence[Event], period: Period) -> list[Event]:
    """Return times of at least `_GAP_S` in which no watcher recorded anything."""
    windows, inputs = _half_recorded(records, union(active, away))
    gaps = without([between(period.start, period.end, {})], union(active, away, windows, inputs))
    return [event for event in gaps if event.duration >= _GAP_S]


def _half_recorded(records: Records, known: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """Return windows without presence, and presence without windows."""
    windows = [event for device in records.devices for event in unknown_presence(device)]
    inputs = [event for device in records.devices for event in unknown_window(device)]
    windows = without(windows, known)
    return windows, without(union(inputs), [*known, *windows])


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
        return between(self.start, self.end, {"app": self.app, "title": self.titles.most_common(1)[0][0]})


def _stretches(events: Iterable[Event], interruption_s: float) -> list[Event]:
    """Merge consecutive events of one app, also across short interruptions."""
    stretches: list[_Stretch] = []
    for event in by_time(events):
        place = _continued(stretches, event, interruption_s)
        if place is None:
            stretches.append(_Stretch(event))
        else:
            del stretches[place + 1 :]
            stretches[place].add(event)
    return [stretch.event() for stretch in stretches]


def _continued(stretches: Sequence[_Stretch], event: Event, interruption_s: float) -> int | None:
    """Return the index of the stretch that an event continues, or None."""
    for place in range(len(stretches) - 1, max(len(stretches) - 2 - _OTHERS, -1), -1):
        stretch = stretches[place]
        gap_s = (event.timestamp - stretch.end).total_seconds()
        is_last = place == len(stretches) - 1
        if gap_s > _SAME_S or (not is_last and gap_s >= interruption_s):
            return None
        if stretch.app == event.text("app") and (is_last or gap_s < stretch.own_s):
            return place
    return None


def _switches(events: Iterable[Event]) -> int:
    apps = [event.text("app") for event in by_time(events)]
    return sum(before != after for before, after in pairwise(apps))


def _block(kind: Kind, event: Event, period: Period, categories: Categories) -> Block:
    zone = period.start.tzinfo
    has_window = event.text("app") != "" or kind == "active"
    return Block(
        kind,
        event.timestamp.astimezone(zone).isoformat(timespec="seconds"),
        event.end.astimezone(zone).isoformat(timespec="seconds"),
        round(event.duration, 3),
        event.text("app") if has_window else None,
        event.text("title") if has_window else None,
        categories.named(event) if categories and has_window else None,
    )
