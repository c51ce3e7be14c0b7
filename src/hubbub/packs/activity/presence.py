"""Compute active time and its foreground windows, as ActivityWatch's canonical query does. Pure.

The canonical query takes one bucket of windows and one of presence. If a machine has more, or several machines are
added up, the result is as if the query were run for each pair, and each moment belonged to the first that has something
there: machines in their order, and for one machine the most recently written bucket first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from hubbub.packs.activity.events import Event
from hubbub.packs.activity.transforms import (
    filter_by_values,
    flood,
    intersect,
    sort_by_time,
    subtract_periods,
    total_duration,
    union,
)

NOT_AFK: Final = "not-afk"


class DeviceRecords(msgspec.Struct):
    """The flooded events of one machine in a period, as one list for each bucket."""

    host: str
    window: list[list[Event]] = []
    afk: list[list[Event]] = []
    web: list[list[Event]] = []
    audible: list[list[Event]] = []
    """For each bucket of windows: the times at which it shows a browser in front that played sound."""
    window_coverage: list[Event] = []
    """Times with any recorded window, set if privacy rules left some out: those are not gaps of the watcher."""
    web_coverage: list[Event] = []
    """The same for pages."""


class Records(msgspec.Struct):
    """The events of one period."""

    devices: list[DeviceRecords]
    editor: list[Event] = []
    """Set only if requested."""
    is_cut: bool = False
    """Whether there were too many events to read; then the records cover only the time for which all are known."""

    @property
    def window(self) -> list[Event]:
        """Return the window events of all machines, oldest first."""
        return sort_by_time(event for device in self.devices for events in device.window for event in events)

    @property
    def afk(self) -> list[Event]:
        """Return the presence events of all machines, oldest first."""
        return sort_by_time(event for device in self.devices for events in device.afk for event in events)

    @property
    def web(self) -> list[Event]:
        """Return the page events of all machines, oldest first."""
        return sort_by_time(event for device in self.devices for events in device.web for event in events)


def active_events(records: Records) -> list[Event]:
    """Return the foreground windows during active time, without overlaps."""
    active: list[Event] = []
    for device in records.devices:
        for windows, presence in _windows_with_presence(device):
            found = intersect(windows, presence) if device.afk else windows
            active = sort_by_time([*active, *subtract_periods(found, active)]) if active else found
    return active


def present_times(records: Records) -> list[Event]:
    """Return the times with input, or with audible sound from the browser in front."""
    return union(*(presence for device in records.devices for _, presence in _windows_with_presence(device)))


def total_away_s(records: Records) -> float:
    """Return the seconds away."""
    return total_duration(away_times(records))


def away_times(records: Records) -> list[Event]:
    away = (
        event
        for device in records.devices
        for events in device.afk
        for event in events
        if event.text("status") != NOT_AFK
    )
    return subtract_periods(union(away), present_times(records))


def windows_without_presence(device: DeviceRecords) -> list[Event]:
    """Return windows at times without a record of presence."""
    covered = union(*device.afk)
    found = (
        (subtract_periods(windows, union(covered, sound_times)) for windows, sound_times in _windows_with_sound(device))
        if device.afk
        else ()
    )
    return sort_by_time(event for events in found for event in events)


def input_without_windows(device: DeviceRecords) -> list[Event]:
    """Return times with input but without a record of windows."""
    return (
        subtract_periods(_input_times(device), union(*device.window, device.window_coverage)) if device.window else []
    )


def _input_times(device: DeviceRecords) -> list[Event]:
    return union(*(filter_by_values(events, "status", [NOT_AFK]) for events in device.afk))


def _windows_with_sound(device: DeviceRecords) -> Iterator[tuple[list[Event], list[Event]]]:
    return zip(device.window or [[]], device.audible or [[]], strict=True)


def _windows_with_presence(device: DeviceRecords) -> Iterator[tuple[list[Event], list[Event]]]:
    """Yield the windows of each bucket with the times of presence, which depend on the browser in front."""
    inputs = _input_times(device)
    return ((windows, union(inputs, sound_times)) for windows, sound_times in _windows_with_sound(device))


def audible_foreground_times(windows: list[Event], pages: Iterable[tuple[frozenset[str], list[Event]]]) -> list[Event]:
    """Return when a page played sound while its browser was in front.

    `pages` has the app names of each browser with the events of its pages. Sound in the background is not evidence of
    presence: a page may play while the user is away.
    """
    flooded = flood(windows)
    sound_times = (
        filter_by_values(intersect(flood(events), filter_by_values(flooded, "app", sorted(apps))), "audible", [True])
        for apps, events in pages
        if apps and any(event.data.get("audible") is True for event in events)
    )
    return union(*sound_times)
