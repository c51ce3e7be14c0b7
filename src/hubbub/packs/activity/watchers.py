"""Which bucket tells what: by type, for one machine, the one that was written to last. Pure but for the clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.packs.activity.events import AFK, EDITOR, WEB, WINDOW, Bucket, with_zone
from hubbub.packs.activity.failures import BadRequest

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_ANY_HOST: Final = ("", "unknown")
"""Browsers do not know the name of their machine."""
WATCHERS: Final = {
    WINDOW: "aw-watcher-window",
    AFK: "aw-watcher-afk",
    WEB: "the aw-watcher-web extension of your browser",
    EDITOR: "a watcher for your editor, such as aw-watcher-vscode",
}
"""What writes buckets of each type, for advice."""
NEEDED: Final = (WINDOW, AFK)


class Watchers(msgspec.Struct, frozen=True):
    """The buckets that are looked at."""

    host: str
    other_hosts: tuple[str, ...]
    window: Bucket | None = None
    afk: Bucket | None = None
    web: tuple[Bucket, ...] = ()
    editor: tuple[Bucket, ...] = ()

    @property
    def missing(self) -> list[str]:
        """What is not recorded, and what would record it."""
        found = {WINDOW: self.window, AFK: self.afk}
        return [f"no {kind} bucket: start {WATCHERS[kind]}" for kind in NEEDED if found[kind] is None]


def choose(known: Sequence[Bucket], own_host: str, wanted_host: str | None = None) -> Watchers:
    """The buckets of one machine: the wanted one, else ActivityWatch's own, else the one that was last at work.

    Those that were written to far in the future come last: a clock that is ahead would else win for ever.

    Raises: BadRequest, if there is nothing of the wanted one.
    """
    hosts = sorted({bucket.hostname for bucket in known if bucket.hostname not in _ANY_HOST})
    if wanted_host is not None and wanted_host not in hosts:
        raise BadRequest(f"there is nothing of the host {wanted_host!r}; there are {', '.join(hosts) or 'none'}")
    host = wanted_host or _likely_host(known, own_host)
    here = [bucket for bucket in known if bucket.hostname == host or bucket.hostname in _ANY_HOST]
    here.sort(key=_age, reverse=True)
    return Watchers(
        host,
        tuple(name for name in hosts if name != host),
        _first(here, WINDOW),
        _first(here, AFK),
        tuple(bucket for bucket in here if bucket.type == WEB),
        tuple(bucket for bucket in here if bucket.type == EDITOR),
    )


def _likely_host(buckets: Sequence[Bucket], own_host: str) -> str:
    windows = [bucket for bucket in buckets if bucket.type == WINDOW]
    if any(bucket.hostname == own_host for bucket in windows) or not windows:
        return own_host
    return max(windows, key=_age).hostname


def _first(buckets: list[Bucket], kind: str) -> Bucket | None:
    return next((bucket for bucket in buckets if bucket.type == kind), None)


def _age(bucket: Bucket) -> tuple[bool, datetime]:
    last = _EARLIEST if bucket.last_updated is None else with_zone(bucket.last_updated)
    return last <= datetime.now(UTC) + timedelta(seconds=bounds.CLOCK_AHEAD_S), last
