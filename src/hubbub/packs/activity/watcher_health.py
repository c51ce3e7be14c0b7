"""Detect watchers that have stopped. Pure.

A watcher that records nothing while others on its machine do has stopped. If none records anything, the machine may
have been off or asleep, so the message says that instead. A browser watcher records nothing while its browser is not
used, so it has stopped only if its browser was in front meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Literal, TypeAlias

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.events import AFK, WEB, WINDOW, Bucket, Event, with_zone
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.presence import DeviceRecords, Records, unknown_presence, unknown_window
from hubbub.packs.activity.summary import in_words
from hubbub.packs.activity.transforms import between, having, intersect, total, union, without
from hubbub.packs.activity.watchers import WATCHERS, Device, Watchers

Kind: TypeAlias = Literal["watcher_missing", "watcher_stopped", "nothing_recorded"]
_PRIVATE_WINDOWS = "it sees no private windows"


class Problem(msgspec.Struct, frozen=True):
    """Why data is missing, and what to do about it."""

    kind: Kind
    message: str
    buckets: tuple[str, ...] = ()
    """Names of the affected buckets."""
    last: datetime | None = None
    """When the affected buckets last recorded something."""


def find_problems(watchers: Watchers, window: Event | None, now: datetime, zone: tzinfo) -> list[Problem]:
    """Return the current problems of the watchers; `window` is the one in front, unless it is private."""
    problems = [Problem("watcher_missing", message) for message in watchers.missing]
    is_only = len(watchers.devices) == 1 and not watchers.other_hosts
    for device in watchers.devices:
        # A bucket without a hostname is not evidence for one machine among several.
        own = [bucket for bucket in device.buckets if is_only or bucket.hostname == device.host]
        problems += _stopped(device, own, now, zone)
    if window is not None:
        problems += _stopped_browser(watchers.web, window, zone)
    newest = _newest((bucket for device in watchers.devices for bucket in device.buckets), now)
    if newest is not None and not problems and (now - newest[0]).total_seconds() > limits.SILENT_S:
        message = f"nothing was recorded on {watchers.host} since {_clock(newest[0], zone)}"
        problems.append(
            Problem("nothing_recorded", f"{message}: the computer was off or asleep, or none of its watchers runs")
        )
    return problems


def needs_window(watchers: Watchers, now: datetime) -> bool:
    """Whether a browser watcher may have stopped, so that the foreground window must be known."""
    windows = _newest(watchers.window, now)
    known = [found for bucket in watchers.web if bucket.apps and (found := _newest([bucket], now))]
    return windows is not None and any((windows[0] - last).total_seconds() > limits.SILENT_S for last, _ in known)


def _stopped(device: Device, own: Sequence[Bucket], now: datetime, zone: tzinfo) -> list[Problem]:
    newest = _newest(own, now)
    if newest is None:
        return []  # nothing was recorded yet, or this ActivityWatch does not report when
    until, witness = newest
    problems = []
    for kind, buckets in ((WINDOW, device.window), (AFK, device.afk)):
        found = _newest(buckets, now)
        if not buckets or (found is not None and (until - found[0]).total_seconds() <= limits.SILENT_S):
            continue
        last = "at all" if found is None else f"since {_clock(found[0], zone)}"
        message = (
            f"{_labels(buckets)} recorded nothing {last}, while {witness.label} did until {_clock(until, zone)}: "
            f"{WATCHERS[kind]} has stopped; start it again, or see its log"
        )
        problems.append(Problem("watcher_stopped", message, _names(buckets), None if found is None else found[0]))
    return problems


def _stopped_browser(web: Iterable[Bucket], window: Event, zone: tzinfo) -> list[Problem]:
    buckets = [bucket for bucket in web if window.text("app") in bucket.apps]
    found = _newest(buckets, window.end)
    since = window.timestamp if found is None else max(found[0], window.timestamp)
    front_s = (window.end - since).total_seconds()
    if not buckets or front_s <= limits.SILENT_S:
        return []
    message = (
        f"{_labels(buckets)} recorded nothing since {_clock(since, zone)}, while its browser was in front for "
        f"{in_words(front_s)}: see whether {WATCHERS[WEB]} still runs ({_PRIVATE_WINDOWS})"
    )
    return [Problem("watcher_stopped", message, _names(buckets), since)]


def _newest(buckets: Iterable[Bucket], now: datetime) -> tuple[datetime, Bucket] | None:
    """Return the most recently written bucket, except those whose clock is far ahead."""
    ahead = now + timedelta(seconds=limits.CLOCK_AHEAD_S)
    found = [(with_zone(each.last_updated), each) for each in buckets if each.last_updated is not None]
    return max((pair for pair in found if pair[0] <= ahead), key=lambda pair: pair[0], default=None)


def gap_notes(records: Records, watchers: Watchers, period: Period) -> list[str]:
    """Return what watchers did not record in a period although others on their machine did."""
    zone = period.start.tzinfo
    assert zone is not None
    notes = []
    for device, found in zip(watchers.devices, records.devices, strict=True):
        unknown = _long(unknown_presence(found))
        if unknown:
            notes.append(
                f"{_labels(device.afk)} recorded nothing for {_spans(unknown, zone)} in which windows were recorded: "
                f"that time counts neither as active nor as afk; see whether {WATCHERS[AFK]} still runs"
            )
        unknown = _long(unknown_window(found))
        if unknown:
            notes.append(
                f"{_labels(device.window)} recorded nothing for {_spans(unknown, zone)} in which there was input: "
                f"that time is in no total; see whether {WATCHERS[WINDOW]} still runs"
            )
        notes += _browser_gaps(device, found, period, zone)
    return notes


def _browser_gaps(device: Device, found: DeviceRecords, period: Period, zone: tzinfo) -> list[str]:
    by_browser: dict[frozenset[str], list[int]] = {}
    for place, bucket in enumerate(device.web):
        by_browser.setdefault(bucket.apps, []).append(place)
    notes = []
    windows = [event for events in found.window for event in events]
    for apps, places in by_browser.items():
        in_front = union(having(windows, "app", sorted(apps)))
        pages = union(*(found.web[place] for place in places), found.web_coverage)
        silent = _long(without([between(period.start, period.end, {})], pages)) if in_front else []
        missed = [seen for gap in silent if total(seen := intersect(in_front, [gap])) >= limits.SILENT_S]
        if missed:
            front_s = sum(map(total, missed))
            notes.append(
                f"{_labels([device.web[place] for place in places])} recorded nothing while its browser was in front "
                f"for {in_words(front_s)}, from {_clock(missed[0][0].timestamp, zone)} on: "
                f"see whether {WATCHERS[WEB]} still runs ({_PRIVATE_WINDOWS})"
            )
    return notes


def _long(events: Iterable[Event]) -> list[Event]:
    return [event for event in union(events) if event.duration >= limits.SILENT_S]


def _spans(events: Sequence[Event], zone: tzinfo) -> str:
    return f"{in_words(total(events))}, from {_clock(events[0].timestamp, zone)} on,"


def _labels(buckets: Sequence[Bucket]) -> str:
    return " and ".join(_names(buckets))


def _names(buckets: Iterable[Bucket]) -> tuple[str, ...]:
    return tuple(bucket.label for bucket in buckets)


def _clock(moment: datetime, zone: tzinfo) -> str:
    return f"{moment.astimezone(zone):%F %R}"
