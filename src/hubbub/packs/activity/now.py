"""The current activity: the latest record of each watcher, with its age."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.browsers import UNCONFIRMED, UNCONFIRMED_NOTE
from hubbub.packs.activity.categories import Categories
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.filtered_sources import LatestEvents
from hubbub.packs.activity.periods import zone_name
from hubbub.packs.activity.presence import NOT_AFK
from hubbub.packs.activity.transforms import extract_domain
from hubbub.packs.activity.watcher_health import find_problems
from hubbub.packs.activity.watchers import Watchers

_AFK_REPORT_LAG_S: Final = 180.0
"""Without input for up to this long, the AFK watcher writes nothing, although the user may be reading."""


class LatestRecord(msgspec.Struct, kw_only=True):
    """The latest record of one watcher."""

    since: str
    duration_s: float
    age_s: float
    """Seconds since the record was last updated."""
    stale: bool
    """Whether the record is too old to count as current."""


class WindowNow(LatestRecord, kw_only=True):
    """The window in front."""

    app: str
    title: str
    category: str | None = None


class PresenceNow(LatestRecord, kw_only=True):
    """Whether the user is at the computer."""

    status: str
    idle_s: float
    """Seconds without input."""


class TabNow(LatestRecord, kw_only=True):
    """The page that the browser showed last."""

    url: str
    domain: str
    title: str
    audible: bool


class FileNow(LatestRecord, kw_only=True):
    """The file that was edited last."""

    file: str
    project: str
    language: str


class Now(msgspec.Struct, kw_only=True):
    """What the user is doing; null where no watcher records it."""

    timestamp: str
    time_zone: str
    host: str
    other_hosts: list[str]
    window: WindowNow | None
    afk: PresenceNow | None
    tab: TabNow | None
    editor: FileNow | None
    private: list[str]
    """Kinds of records that exist but must not be disclosed."""
    notes: list[str]
    """What is missing or inconsistent, and what to do about it."""


class Moment(msgspec.Struct, frozen=True):
    """The current time, the user's time zone, and how old a current record may be."""

    now: datetime
    zone: tzinfo
    stale_s: float

    def format_local(self, moment: datetime) -> str:
        """Format a time in the user's zone."""
        return moment.astimezone(self.zone).isoformat(timespec="seconds")

    def freshness(self, event: Event, allowed_s: float = 0.0) -> tuple[str, float, float, bool]:
        """Return since when and how long a record is true, how old it is, and whether it is stale."""
        age_s = max((self.now - event.end).total_seconds(), 0.0)
        return (
            self.format_local(event.timestamp),
            round(event.duration, 3),
            round(age_s, 3),
            age_s > self.stale_s + allowed_s,
        )


def describe_now(watchers: Watchers, found: LatestEvents, moment: Moment, categories: Categories) -> Now:
    """Combine the latest records of the watchers."""
    window, afk, tab, editor = found.window, found.afk, found.tab, found.editor
    return Now(
        timestamp=moment.format_local(moment.now),
        time_zone=zone_name(moment.zone),
        host=watchers.host,
        other_hosts=list(watchers.other_hosts),
        window=None if window is None else _window_now(window, moment, categories),
        afk=None if afk is None else _presence_now(afk, moment),
        tab=None if tab is None else _tab_now(tab, moment),
        editor=None if editor is None else _file_now(editor, moment),
        private=found.private,
        notes=[
            *watchers.notes,
            *_stopped_watcher_notes(watchers, found, moment),
            *_clock_skew_notes(found.events, moment.now),
            *_unconfirmed_notes(window),
        ],
    )


def _window_now(event: Event, moment: Moment, categories: Categories) -> WindowNow:
    since, duration_s, age_s, stale = moment.freshness(event)
    return WindowNow(
        since=since,
        duration_s=duration_s,
        age_s=age_s,
        stale=stale,
        app=event.text("app"),
        title=event.text("title"),
        category=categories.category_name(event) if categories else None,
    )


def _presence_now(event: Event, moment: Moment) -> PresenceNow:
    since, duration_s, age_s, stale = moment.freshness(event, _AFK_REPORT_LAG_S)
    status = event.text("status")
    return PresenceNow(
        since=since,
        duration_s=duration_s,
        age_s=age_s,
        stale=stale,
        status=status,
        idle_s=age_s if status == NOT_AFK else round(event.duration + age_s, 3),
    )


def _tab_now(event: Event, moment: Moment) -> TabNow:
    since, duration_s, age_s, stale = moment.freshness(event)
    return TabNow(
        since=since,
        duration_s=duration_s,
        age_s=age_s,
        stale=stale,
        url=event.text("url"),
        domain=extract_domain(event.text("url")),
        title=event.text("title"),
        audible=event.data.get("audible") is True,
    )


def _file_now(event: Event, moment: Moment) -> FileNow:
    since, duration_s, age_s, stale = moment.freshness(event)
    return FileNow(
        since=since,
        duration_s=duration_s,
        age_s=age_s,
        stale=stale,
        file=event.text("file"),
        project=event.text("project"),
        language=event.text("language"),
    )


def _stopped_watcher_notes(watchers: Watchers, found: LatestEvents, moment: Moment) -> list[str]:
    problems = find_problems(watchers, found.window, moment.now, moment.zone)
    return [problem.message for problem in problems if problem.kind != "watcher_missing"]  # already noted


def _clock_skew_notes(events: list[Event], now: datetime) -> list[str]:
    skew_s = max(((event.end - now).total_seconds() for event in events), default=0.0)
    if skew_s <= limits.CLOCK_SKEW_S:
        return []
    return [f"the newest events end {skew_s:.0f} s in the future: synchronize the clocks of both machines"]


def _unconfirmed_notes(window: Event | None) -> list[str]:
    return [UNCONFIRMED_NOTE] if window is not None and window.text("title") == UNCONFIRMED else []


def current_moment(zone: tzinfo, stale_s: float) -> Moment:
    return Moment(datetime.now(UTC), zone, stale_s)
