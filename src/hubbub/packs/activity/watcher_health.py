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
from hubbub.packs.activity.events import AFK, WEB, WINDOW, Bucket, Event, ensure_time_zone
from hubbub.packs.activity.periods import Period
from hubbub.packs.activity.presence import DeviceRecords, Records, input_without_windows, windows_without_presence
from hubbub.packs.activity.summary import format_duration
from hubbub.packs.activity.transforms import (
    filter_by_values,
    intersect,
    make_event,
    subtract_periods,
    total_duration,
    union,
)
from hubbub.packs.activity.watchers import WATCHER_NAMES, Device, Watchers

Kind: TypeAlias = Literal["watcher_missing", "watcher_stopped", "nothing_recorded"]
_PRIVATE_WINDOWS_HINT = "it does not record private windows"


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
        own_buckets = [bucket for bucket in device.buckets if is_only or bucket.hostname == device.host]
        problems += _stopped_watchers(device, own_buckets, now, zone)
    if window is not None:
        problems += _stopped_browser_watchers(watchers.web, window, zone)
    newest = _most_recent((bucket for device in watchers.devices for bucket in device.buckets), now)
    if newest is not None and not problems and (now - newest[0]).total_seconds() > limits.WATCHER_SILENCE_S:
        message = f"nothing was recorded on {watchers.host} since {_format_time(newest[0], zone)}"
        problems.append(
            Problem("nothing_recorded", f"{message}: the computer was off or asleep, or none of its watchers runs")
        )
    return problems


def needs_window(watchers: Watchers, now: datetime) -> bool:
    """Whether a browser watcher may have stopped, so that the foreground window must be known."""
    windows = _most_recent(watchers.window, now)
    known = [found for bucket in watchers.web if bucket.apps and (found := _most_recent([bucket], now))]
    return windows is not None and any(
        (windows[0] - last).total_seconds() > limits.WATCHER_SILENCE_S for last, _ in known
    )


def _stopped_watchers(device: Device, own_buckets: Sequence[Bucket], now: datetime, zone: tzinfo) -> list[Problem]:
    newest = _most_recent(own_buckets, now)
    if newest is None:
        return []  # nothing was recorded yet, or this ActivityWatch does not report when
    until, active_bucket = newest
    problems = []
    for kind, buckets in ((WINDOW, device.window), (AFK, device.afk)):
        found = _most_recent(buckets, now)
        if not buckets or (found is not None and (until - found[0]).total_seconds() <= limits.WATCHER_SILENCE_S):
            continue
        last = "at all" if found is None else f"since {_format_time(found[0], zone)}"
        message = (
            f"{_join_labels(buckets)} recorded nothing {last}, while {active_bucket.label} did until "
            f"{_format_time(until, zone)}: {WATCHER_NAMES[kind]} has stopped; restart it, or see its log"
        )
        problems.append(
            Problem("watcher_stopped", message, _bucket_labels(buckets), None if found is None else found[0])
        )
    return problems


def _stopped_browser_watchers(web: Iterable[Bucket], window: Event, zone: tzinfo) -> list[Problem]:
    buckets = [bucket for bucket in web if window.text("app") in bucket.apps]
    found = _most_recent(buckets, window.end)
    since = window.timestamp if found is None else max(found[0], window.timestamp)
    front_s = (window.end - since).total_seconds()
    if not buckets or front_s <= limits.WATCHER_SILENCE_S:
        return []
    message = (
        f"{_join_labels(buckets)} recorded nothing since {_format_time(since, zone)}, while its browser was in "
        f"front for {format_duration(front_s)}: check that {WATCHER_NAMES[WEB]} still runs ({_PRIVATE_WINDOWS_HINT})"
    )
    return [Problem("watcher_stopped", message, _bucket_labels(buckets), since)]


def _most_recent(buckets: Iterable[Bucket], now: datetime) -> tuple[datetime, Bucket] | None:
    """Return the most recently written bucket, except those whose clock is far ahead."""
    ahead = now + timedelta(seconds=limits.CLOCK_AHEAD_S)
    found = [(ensure_time_zone(each.last_updated), each) for each in buckets if each.last_updated is not None]
    return max((pair for pair in found if pair[0] <= ahead), key=lambda pair: pair[0], default=None)


def describe_gaps(records: Records, watchers: Watchers, period: Period) -> list[str]:
    """Return what watchers did not record in a period although others on their machine did."""
    zone = period.start.tzinfo
    assert zone is not None
    notes = []
    for device, found in zip(watchers.devices, records.devices, strict=True):
        unknown = _long_gaps(windows_without_presence(found))
        if unknown:
            notes.append(
                f"{_join_labels(device.afk)} recorded nothing for {_format_gap(unknown, zone)} in which windows "
                "were recorded: that time counts neither as active nor as afk; "
                f"check that {WATCHER_NAMES[AFK]} still runs"
            )
        unknown = _long_gaps(input_without_windows(found))
        if unknown:
            notes.append(
                f"{_join_labels(device.window)} recorded nothing for {_format_gap(unknown, zone)} in which there "
                f"was input: that time is missing from all totals; check that {WATCHER_NAMES[WINDOW]} still runs"
            )
        notes += _browser_gaps(device, found, period, zone)
    return notes


def _browser_gaps(device: Device, found: DeviceRecords, period: Period, zone: tzinfo) -> list[str]:
    by_browser: dict[frozenset[str], list[int]] = {}
    for index, bucket in enumerate(device.web):
        by_browser.setdefault(bucket.apps, []).append(index)
    notes = []
    windows = [event for events in found.window for event in events]
    for apps, indexes in by_browser.items():
        in_front = union(filter_by_values(windows, "app", sorted(apps)))
        pages = union(*(found.web[index] for index in indexes), found.web_coverage)
        silent = _long_gaps(subtract_periods([make_event(period.start, period.end, {})], pages)) if in_front else []
        missed = [
            seen for gap in silent if total_duration(seen := intersect(in_front, [gap])) >= limits.WATCHER_SILENCE_S
        ]
        if missed:
            front_s = sum(map(total_duration, missed))
            notes.append(
                f"{_join_labels([device.web[index] for index in indexes])} recorded nothing while its browser was "
                f"in front for {format_duration(front_s)}, from {_format_time(missed[0][0].timestamp, zone)} on: "
                f"check that {WATCHER_NAMES[WEB]} still runs ({_PRIVATE_WINDOWS_HINT})"
            )
    return notes


def _long_gaps(events: Iterable[Event]) -> list[Event]:
    return [event for event in union(events) if event.duration >= limits.WATCHER_SILENCE_S]


def _format_gap(events: Sequence[Event], zone: tzinfo) -> str:
    return f"{format_duration(total_duration(events))}, from {_format_time(events[0].timestamp, zone)} on,"


def _join_labels(buckets: Sequence[Bucket]) -> str:
    return " and ".join(_bucket_labels(buckets))


def _bucket_labels(buckets: Iterable[Bucket]) -> tuple[str, ...]:
    return tuple(bucket.label for bucket in buckets)


def _format_time(moment: datetime, zone: tzinfo) -> str:
    return f"{moment.astimezone(zone):%F %R}"
