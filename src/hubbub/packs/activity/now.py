"""What the person does at this moment, with how old that news is."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final

import msgspec

from hubbub import bounds
from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.periods import zone_name
from hubbub.packs.activity.sources import Sources
from hubbub.packs.activity.transforms import domain_of

_QUIET_S: Final = 180.0
"""A watcher says nothing of a person who reads for so long: only input renews its news."""
NOT_AFK: Final = "not-afk"


class Fresh(msgspec.Struct, kw_only=True):
    """News from one watcher."""

    since: str
    duration_s: float
    age_s: float
    """How long ago it was last true."""
    stale: bool
    """Whether that is too long ago to be called now."""


class WindowNow(Fresh, kw_only=True):
    """The window in front."""

    app: str
    title: str
    category: str | None = None


class PresenceNow(Fresh, kw_only=True):
    """Whether somebody is there."""

    status: str
    idle_s: float
    """How long there was no input."""


class TabNow(Fresh, kw_only=True):
    """The page that the browser showed last."""

    url: str
    domain: str
    title: str
    audible: bool


class FileNow(Fresh, kw_only=True):
    """The file that was edited last."""

    file: str
    project: str
    language: str


class Now(msgspec.Struct, kw_only=True):
    """What the person does; null where no watcher tells."""

    timestamp: str
    time_zone: str
    host: str
    other_hosts: list[str]
    window: WindowNow | None
    afk: PresenceNow | None
    tab: TabNow | None
    editor: FileNow | None
    private: list[str]
    """What there is and is not told."""
    notes: list[str]
    """What is missing or odd, and what to do about it."""


class Moment(msgspec.Struct, frozen=True):
    """When it is, where, and how old news may be."""

    now: datetime
    zone: tzinfo
    stale_s: float

    def local(self, moment: datetime) -> str:
        """A time as the person would read it."""
        return moment.astimezone(self.zone).isoformat(timespec="seconds")

    def fresh(self, event: Event, allowed_s: float = 0.0) -> tuple[str, float, float, bool]:
        """Since when, for how long, how old, and whether that is too old."""
        age_s = max((self.now - event.end).total_seconds(), 0.0)
        return self.local(event.timestamp), round(event.duration, 3), round(age_s, 3), age_s > self.stale_s + allowed_s


async def look(sources: Sources, moment: Moment, categories: Categories, host: str | None = None) -> Now:
    """Ask every watcher at once.

    Raises: SourceFailure, BadRequest.
    """
    watchers = await sources.watchers(host)
    found = await sources.latest(watchers)
    window, afk, tab, editor = found.window, found.afk, found.tab, found.editor
    return Now(
        timestamp=moment.local(moment.now),
        time_zone=zone_name(moment.zone),
        host=watchers.host,
        other_hosts=list(watchers.other_hosts),
        window=None if window is None else _window(window, moment, categories),
        afk=None if afk is None else _presence(afk, moment),
        tab=None if tab is None else _tab(tab, moment),
        editor=None if editor is None else _file(editor, moment),
        private=found.private,
        notes=[*watchers.missing, *_skew(found.events, moment.now)],
    )


def _window(event: Event, moment: Moment, categories: Categories) -> WindowNow:
    since, duration_s, age_s, stale = moment.fresh(event)
    return WindowNow(
        since=since,
        duration_s=duration_s,
        age_s=age_s,
        stale=stale,
        app=event.text("app"),
        title=event.text("title"),
        category=categories.named(event) if categories else None,
    )


def _presence(event: Event, moment: Moment) -> PresenceNow:
    since, duration_s, age_s, stale = moment.fresh(event, _QUIET_S)
    status = event.text("status")
    return PresenceNow(
        since=since,
        duration_s=duration_s,
        age_s=age_s,
        stale=stale,
        status=status,
        idle_s=age_s if status == NOT_AFK else round(event.duration + age_s, 3),
    )


def _tab(event: Event, moment: Moment) -> TabNow:
    since, duration_s, age_s, stale = moment.fresh(event)
    return TabNow(
        since=since,
        duration_s=duration_s,
        age_s=age_s,
        stale=stale,
        url=event.text("url"),
        domain=domain_of(event.text("url")),
        title=event.text("title"),
        audible=event.data.get("audible") is True,
    )


def _file(event: Event, moment: Moment) -> FileNow:
    since, duration_s, age_s, stale = moment.fresh(event)
    return FileNow(
        since=since,
        duration_s=duration_s,
        age_s=age_s,
        stale=stale,
        file=event.text("file"),
        project=event.text("project"),
        language=event.text("language"),
    )


def _skew(events: list[Event], now: datetime) -> list[str]:
    ahead_s = max(((event.end - now).total_seconds() for event in events), default=0.0)
    if ahead_s <= bounds.CLOCK_SKEW_S:
        return []
    return [f"the newest events end {ahead_s:.0f} s in the future: set the clocks of both machines"]


def moment_now(zone: tzinfo, stale_s: float) -> Moment:
    """This very moment."""
    return Moment(datetime.now(UTC), zone, stale_s)
