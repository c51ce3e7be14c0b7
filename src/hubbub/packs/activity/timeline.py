"""A period in order: what followed what, when nobody was there, and how often attention moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal, TypeAlias

import msgspec

from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.periods import Period, zone_name
from hubbub.packs.activity.sources import Records
from hubbub.packs.activity.summary import active_events, present
from hubbub.packs.activity.transforms import between, by_time, flood, union, without

_SAME_S: Final = 60.0
"""A look at something else that is shorter than this does not end a block."""
_GAP_S: Final = 300.0
"""Times without any record are told when they are longer than this."""


Kind: TypeAlias = Literal["active", "afk", "unrecorded"]


class Block(msgspec.Struct, frozen=True):
    """A stretch of time; `kind` says what it was."""

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
    """Blocks that are shorter than what was asked for, or too many."""
    switches: int
    """How often another app came to the front."""
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
    """The timeline; takes a while for many events."""
    zone = period.start.tzinfo
    assert zone is not None
    active = active_events(records)
    stretches = _stretches(active)
    away = _away(records)
    unrecorded = without([between(period.start, period.end, {})], union(active, away))
    found: list[tuple[Kind, Event]] = [("active", event) for event in stretches]
    found += [("afk", event) for event in away]
    found += [("unrecorded", event) for event in unrecorded if event.duration >= _GAP_S]
    found.sort(key=lambda item: item[1].timestamp)
    blocks = [_block(kind, event, period, categories) for kind, event in found]
    told = [block for block in blocks if block.seconds >= least_s]
    focus = [block for block in blocks if block.kind == "active"]
    return Timeline(
        start=period.start.isoformat(timespec="seconds"),
        end=period.end.isoformat(timespec="seconds"),
        time_zone=zone_name(zone),
        host=host,
        blocks=told[-most:],
        left_out=len(blocks) - len(told[-most:]),
        switches=_switches(active),
        longest_focus=max(focus, key=lambda block: block.seconds, default=None),
        notes=list(notes),
    )


def _away(records: Records) -> list[Event]:
    """When nobody was there, in whole stretches."""
    afk = [event for event in flood(records.afk) if event.text("status") == "afk"]
    return union(without(afk, present(records)))


def _stretches(events: Iterable[Event]) -> list[Event]:
    """Events of one app that follow each other, as one each; the title is the one that was seen longest."""
    stretches: list[Event] = []
    titles: list[Counter[str]] = []
    for event in by_time(events):
        last = stretches[-1] if stretches else None
        gap = (event.timestamp - last.end).total_seconds() if last is not None else 0.0
        if last is not None and last.text("app") == event.text("app") and gap <= _SAME_S:
            last.duration = max(last.duration, (event.end - last.timestamp).total_seconds())
        else:
            stretches.append(Event(event.timestamp, event.duration, {"app": event.text("app")}))
            titles.append(Counter())
        titles[-1][event.text("title")] += event.duration  # type: ignore[assignment]  # seconds have fractions
    for stretch, seen in zip(stretches, titles, strict=True):
        stretch.data["title"] = seen.most_common(1)[0][0]
    return stretches


def _switches(events: Iterable[Event]) -> int:
    apps = [event.text("app") for event in by_time(events)]
    return sum(before != after for before, after in pairwise(apps))


def _block(kind: Kind, event: Event, period: Period, categories: Categories) -> Block:
    zone = period.start.tzinfo
    is_active = kind == "active"
    return Block(
        kind,
        event.timestamp.astimezone(zone).isoformat(timespec="seconds"),
        event.end.astimezone(zone).isoformat(timespec="seconds"),
        round(event.duration, 3),
        event.text("app") if is_active else None,
        event.text("title") if is_active else None,
        categories.named(event) if categories and is_active else None,
    )
