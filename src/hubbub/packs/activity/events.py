"""Events and buckets as ActivityWatch gives them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

WINDOW: Final = "currentwindow"
AFK: Final = "afkstatus"
WEB: Final = "web.tab.current"
EDITOR: Final = "app.editor.activity"


class Event(msgspec.Struct):
    """Something that went on for a while; `data` says what."""

    timestamp: datetime
    duration: float
    data: dict[str, Any]
    id: int | None = None

    @property
    def end(self) -> datetime:
        """When it was over."""
        return self.timestamp + timedelta(seconds=self.duration)

    def text(self, key: str) -> str:
        """What its data say under a key; empty if that is nothing, or no text."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""


class Bucket(msgspec.Struct):
    """What one watcher on one machine wrote."""

    id: str
    type: str = ""
    client: str = ""
    hostname: str = ""
    last_updated: datetime | None = None
    is_masked: bool = False
    """Whether it tells of an app of which only the time may be told."""


_EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


def has_sane_times(event: Event) -> bool:
    """Whether an event lies where times can be reckoned with, in whatever zone."""
    try:
        return event.timestamp >= _EARLIEST and event.end <= _LATEST
    except OverflowError:
        return False


def with_zone(moment: datetime) -> datetime:
    """Some storages of ActivityWatch leave out that they mean UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def in_utc(moment: datetime) -> str:
    """As the contract and ActivityWatch write it, without a plus that would have to be escaped."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
