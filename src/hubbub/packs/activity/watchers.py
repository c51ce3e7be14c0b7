"""Choose the buckets that an answer uses, by type and machine, never only by the latest write. Pure.

A machine may have several buckets of one type, such as those of two window watchers; all of them are used. Unused
buckets are named in `notes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.events import AFK, EDITOR, WEB, WINDOW, Bucket, ensure_time_zone
from hubbub.packs.activity.failures import BadRequest

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
ALL_HOSTS: Final = "all"
"""The name for all machines together."""
UNKNOWN_HOST: Final = "unknown"
_UNNAMED_HOSTS: Final = ("", UNKNOWN_HOST)
"""Browsers do not know the name of their machine; imports from phones have none."""
_MAX_NAMED_BUCKETS: Final = 5
"""Buckets that a note names at most."""
WATCHER_NAMES: Final = {
    WINDOW: "aw-watcher-window",
    AFK: "aw-watcher-afk",
    WEB: "the aw-watcher-web extension of your browser",
    EDITOR: "a watcher for your editor, such as aw-watcher-vscode",
}
"""The program that writes buckets of each type, for advice."""
REQUIRED_TYPES: Final = (WINDOW, AFK)


class Device(msgspec.Struct, frozen=True):
    """The buckets of one machine; of each type, the most recently written first."""

    host: str
    window: tuple[Bucket, ...] = ()
    afk: tuple[Bucket, ...] = ()
    web: tuple[Bucket, ...] = ()
    editor: tuple[Bucket, ...] = ()

    @property
    def buckets(self) -> tuple[Bucket, ...]:
        """Return the buckets of all types."""
        return (*self.window, *self.afk, *self.web, *self.editor)


class Watchers(msgspec.Struct, frozen=True):
    """The buckets that an answer uses."""

    host: str
    other_hosts: tuple[str, ...]
    devices: tuple[Device, ...]
    left_out: tuple[Bucket, ...] = ()
    """Buckets of windows, presence and pages that the answer does not use."""

    @property
    def window(self) -> tuple[Bucket, ...]:
        """Return the window buckets of all machines."""
        return _deduplicate(bucket for device in self.devices for bucket in device.window)

    @property
    def afk(self) -> tuple[Bucket, ...]:
        """Return the presence buckets of all machines."""
        return _deduplicate(bucket for device in self.devices for bucket in device.afk)

    @property
    def web(self) -> tuple[Bucket, ...]:
        """Return the page buckets of all machines."""
        return _deduplicate(bucket for device in self.devices for bucket in device.web)

    @property
    def editor(self) -> tuple[Bucket, ...]:
        """Return the file buckets of all machines."""
        return _deduplicate(bucket for device in self.devices for bucket in device.editor)

    @property
    def missing(self) -> list[str]:
        """Return notes on what is not recorded, and which watcher would record it."""
        found = {WINDOW: self.window, AFK: self.afk}
        return [f"no {kind} bucket: start {WATCHER_NAMES[kind]}" for kind in REQUIRED_TYPES if not found[kind]]

    @property
    def notes(self) -> list[str]:
        """Return notes on what is missing, how several machines are added up, and which buckets were left out."""
        notes = self.missing
        if len(self.devices) > 1:
            hosts = ", ".join(device.host for device in self.devices)
            notes.append(f"added up over {hosts}; time on several at once counts only for the first of them")
        if self.left_out:
            names = [f"{bucket.label} ({bucket.hostname or UNKNOWN_HOST})" for bucket in self.left_out]
            more = len(names) - _MAX_NAMED_BUCKETS
            listed = ", ".join(names[:_MAX_NAMED_BUCKETS]) + (f" and {more} more" if more > 0 else "")
            notes.append(f"not counted: {listed}; call with host={ALL_HOSTS!r}, or with the name of a machine")
        return notes


def choose_watchers(known: Sequence[Bucket], own_host: str, wanted_host: str | None = None) -> Watchers:
    """Choose the buckets of a machine: the requested one, else `own_host`, else the most recently active one.

    Buckets without a hostname belong to browsers; those of windows and presence are used only for a machine that has
    none of its own. Buckets written far in the future come last: a clock that is ahead would otherwise always win.

    Raises: BadRequest, if the requested machine has no buckets.
    """
    hosts = sorted({bucket.hostname for bucket in known if bucket.hostname not in _UNNAMED_HOSTS})
    newest_first = sorted(known, key=_recency_key, reverse=True)
    unnamed = [bucket for bucket in newest_first if bucket.hostname in _UNNAMED_HOSTS]
    host = wanted_host or _likely_host(newest_first, own_host)
    if wanted_host not in (None, ALL_HOSTS, *hosts) and not (wanted_host == UNKNOWN_HOST and unnamed):
        listed = ", ".join(hosts[: limits.NAMES_IN_ERROR]) or "none"
        raise BadRequest(f"ActivityWatch has no data of the host {str(wanted_host)[:80]!r}; known hosts: {listed}")
    if host == ALL_HOSTS and ALL_HOSTS not in hosts:
        devices = _all_devices(newest_first, _likely_host(newest_first, own_host))
    else:
        devices = (_make_device(newest_first, host),)
    used = {bucket.id for device in devices for bucket in device.buckets}
    return Watchers(
        host,
        tuple(name for name in hosts if name not in {device.host for device in devices}),
        devices,
        tuple(bucket for bucket in newest_first if bucket.type in (WINDOW, AFK, WEB) and bucket.id not in used),
    )


def _make_device(newest_first: Sequence[Bucket], host: str) -> Device:
    own = [bucket for bucket in newest_first if _is_on_host(bucket, host)]
    unnamed = [bucket for bucket in newest_first if bucket.hostname in _UNNAMED_HOSTS]
    either = [bucket for bucket in newest_first if _is_on_host(bucket, host) or bucket.hostname in _UNNAMED_HOSTS]
    return Device(
        host,
        _select_type(own, WINDOW) or _select_type(unnamed, WINDOW),
        _select_type(own, AFK) or _select_type(unnamed, AFK),
        _select_type(either, WEB),
        _select_type(either, EDITOR),
    )


def _all_devices(newest_first: Sequence[Bucket], first: str) -> tuple[Device, ...]:
    """Return every machine with windows, the likely one first: at any time, only one machine counts."""
    limited = [bucket for kind in (WINDOW, AFK, WEB, EDITOR) for bucket in _select_type(newest_first, kind)]
    hosts = dict.fromkeys([first, *(bucket.hostname or UNKNOWN_HOST for bucket in limited if bucket.type == WINDOW)])
    devices = (_make_device(limited, host) for host in hosts)
    # A machine without windows of its own would repeat those of the unknown machine.
    return tuple(
        each for each in devices if len(hosts) == 1 or any(_is_on_host(found, each.host) for found in each.window)
    )


def _is_on_host(bucket: Bucket, host: str) -> bool:
    return bucket.hostname in _UNNAMED_HOSTS if host in _UNNAMED_HOSTS else bucket.hostname == host


def _likely_host(newest_first: Sequence[Bucket], own_host: str) -> str:
    windows = [bucket for bucket in newest_first if bucket.type == WINDOW]
    named = [bucket.hostname for bucket in windows if bucket.hostname not in _UNNAMED_HOSTS]
    if own_host in named or not windows:
        return own_host
    if named:
        return named[0]
    return own_host if any(bucket.hostname == own_host for bucket in newest_first) else UNKNOWN_HOST


def _select_type(buckets: Iterable[Bucket], kind: str) -> tuple[Bucket, ...]:
    return tuple(bucket for bucket in buckets if bucket.type == kind)[: limits.BUCKETS_PER_TYPE]


def _deduplicate(buckets: Iterable[Bucket]) -> tuple[Bucket, ...]:
    return tuple({bucket.id: bucket for bucket in buckets}.values())


def _recency_key(bucket: Bucket) -> tuple[bool, datetime]:
    last = _EARLIEST if bucket.last_updated is None else ensure_time_zone(bucket.last_updated)
    return last <= datetime.now(UTC) + timedelta(seconds=limits.CLOCK_AHEAD_S), last
