"""Events and buckets in the format of ActivityWatch. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

WINDOW: Final = "currentwindow"
AFK: Final = "afkstatus"
WEB: Final = "web.tab.current"
EDITOR: Final = "app.editor.activity"


class Event(msgspec.Struct):
    """One recorded event; `data` depends on the type of the bucket."""

    timestamp: datetime
    duration: float
    data: dict[str, Any]
    id: int | None = None

    @property
    def end(self) -> datetime:
        return self.timestamp + timedelta(seconds=self.duration)

    def text(self, key: str) -> str:
        """Return the string under a key of the data; empty if there is none or it is not a string."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""


class Bucket(msgspec.Struct):
    """The metadata of one bucket: the events of one watcher on one machine."""

    id: str
    type: str = ""
    client: str = ""
    hostname: str = ""
    last_updated: datetime | None = None
    is_masked: bool = False
    """Whether the bucket belongs to an app of which only the time may be disclosed."""
    label: str = ""
    """The bucket's name after the privacy rules."""
    apps: frozenset[str] = frozenset()
    """For a browser's bucket: the app names of this browser's windows."""


_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


def has_valid_times(event: Event) -> bool:
    """Whether the times of an event are far enough from the limits of `datetime` to be converted to any zone."""
    try:
        return event.timestamp >= _EARLIEST and event.end <= _LATEST
    except OverflowError:
        return False


def to_single_line(text: str) -> str:
    """Return a title on a single line: titles come from web pages, which could add lines that imitate ours."""
    return _CONTROL_CHARACTERS.sub(" ", text)


def ensure_time_zone(moment: datetime) -> datetime:
    """Return the time as UTC if it has no zone; some storages of ActivityWatch leave the zone out."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def format_utc(moment: datetime) -> str:
    """Format a time as the contract and ActivityWatch do, with `Z`, because a plus sign must be escaped in URLs."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
