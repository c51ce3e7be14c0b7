"""Read-only client of ActivityWatch's REST API.

It returns data as recorded. Only `sources` may use it, because `sources` applies the privacy rules.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from hubbub import Secret
from hubbub.packs.activity import limits
from hubbub.packs.activity.events import Event, has_sane_times, in_utc, with_zone
from hubbub.packs.activity.failures import SourceFailure, or_failure
from hubbub.packs.activity.http import JsonServer

_ADVICE = "start ActivityWatch (https://activitywatch.net), or set HUBBUB_ACTIVITY_AW_URL to where it runs"
_NOT_FOUND = 404


class Category(msgspec.Struct):
    """One of the user's categories, as stored in the settings of ActivityWatch."""

    name: list[str]
    rule: dict[str, Any] = {}


class Recorded(msgspec.Struct):
    """Events of a period, cut to it, newest first."""

    events: list[Event] = []
    is_cut: bool = False
    """Whether the period has older events that were too many to read."""


class _Said(msgspec.Struct, frozen=True):
    """A cached response of `/info`."""

    info: dict[str, Any]
    created: dict[str, Any] | None
    """When each bucket was created."""
    at_s: float


class WatchServer:
    """A client of one ActivityWatch server."""

    def __init__(self, url: str, *, api_key: Secret | None = None, timeout_s: float) -> None:
        """Raises: SettingsError."""
        self._server = JsonServer("ActivityWatch", url, _ADVICE, api_key=api_key)
        self._timeout_s = timeout_s
        self._said: _Said | None = None

    @property
    def url(self) -> str:
        return self._server.url

    async def info(self) -> dict[str, Any]:
        """Return the server's description of itself, which needs no API key.

        Raises: SourceFailure.
        """
        said, self._said = self._said, None
        found: dict[str, Any] = await self._get("info", dict[str, Any], limit=limits.ABOUT_BYTES)
        if said is not None and said.info == found:
            self._said = said
        return found

    async def state(self) -> tuple[dict[str, Any] | SourceFailure, dict[str, Any] | SourceFailure]:
        """Return the server's description of itself and all buckets; each may fail without the other.

        The description does not change while the server runs, and answering two requests at once takes it nearly twice
        as long. So a recent description is reused if the buckets arrive promptly and are the same as before; otherwise
        another server may have taken its place.
        """
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(or_failure(self.buckets()))
            said = self._said
            if said is not None and time.monotonic() - said.at_s < limits.INFO_S:
                await asyncio.wait([asking], timeout=limits.PROMPT_S)
                if asking.done() and _created(asking.result()) == said.created:
                    return said.info, asking.result()
            info = await or_failure(self.info())
        buckets = asking.result()
        if not isinstance(info, SourceFailure) and not isinstance(buckets, SourceFailure):
            self._said = _Said(info, _created(buckets), time.monotonic())
        return info, buckets

    async def buckets(self) -> dict[str, Any]:
        """Return all buckets by id.

        Raises: SourceFailure.
        """
        found: dict[str, Any] = await self._get("buckets/", dict[str, Any])
        if len(found) > limits.BUCKETS:
            told = (
                f"ActivityWatch at {self.url} has more than {limits.BUCKETS} buckets; "
                "see whether something else runs there"
            )
            raise SourceFailure("too_large", told, url=self.url)
        return found

    async def newest(self, bucket: str, count: int = 1) -> list[Event]:
        """Return the last events of a bucket, newest first.

        Raises: SourceFailure.
        """
        return _sound(await self._get(f"buckets/{quote(bucket, safe='')}/events?limit={count}", list[Event]))

    async def events(self, bucket: str, start: datetime, end: datetime) -> Recorded:
        """Return the events of a period, at most `limits.EVENTS`.

        Raises: SourceFailure.
        """
        # One more than the limit shows whether there are more.
        asked = urlencode({"start": in_utc(start), "end": in_utc(end), "limit": limits.EVENTS + 1})
        body = await self._server.get(
            f"/api/0/buckets/{quote(bucket, safe='')}/events?{asked}",
            timeout_s=limits.EVENTS_S,
            limit=limits.EVENTS_BYTES,
        )
        found: list[Event] = self._server.decode(body, list[Event])
        events = _cut_to(_sound(found[: limits.EVENTS]), start, end)
        return Recorded(events, len(found) > limits.EVENTS)

    async def categories(self) -> list[Category]:
        """Return the user's categories; empty if the server is too old to store them.

        Raises: SourceFailure.
        """
        try:
            found: list[Any] | None = await self._get("settings/classes", list[Any] | None)
        except SourceFailure as failure:
            if failure.status == _NOT_FOUND or failure.word == "unexpected":
                return []
            raise
        some = (found or ())[: limits.RECORDED_CATEGORIES]
        return [category for each in some if (category := _category(each)) is not None]

    def timed_out(self, timeout_s: float) -> SourceFailure:
        """Return the failure for a request that got no answer within this time."""
        return self._server.timed_out(timeout_s)

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()

    async def _get(self, path: str, kind: Any, *, limit: int | None = None) -> Any:
        body = await self._server.get(f"/api/0/{path}", timeout_s=self._timeout_s, limit=limit)
        return self._server.decode(body, kind)


def _created(buckets: dict[str, Any] | SourceFailure) -> dict[str, Any] | None:
    """Return the creation times of the buckets, which distinguish two servers; None if the request failed."""
    if isinstance(buckets, SourceFailure):
        return None
    return {name: each.get("created") if isinstance(each, dict) else None for name, each in buckets.items()}


def _category(given: Any) -> Category | None:
    """Convert a category; None if it is invalid, because ActivityWatch stores categories without validation."""
    try:
        return msgspec.convert(given, Category)
    except msgspec.ValidationError:
        return None


def _sound(events: list[Event]) -> list[Event]:
    """Add missing time zones, remove negative durations, and drop events at the limits of `datetime`."""
    for event in events:
        event.timestamp = with_zone(event.timestamp)
        event.duration = max(event.duration, 0.0)
    return [event for event in events if has_sane_times(event)]


def _cut_to(events: list[Event], start: datetime, end: datetime) -> list[Event]:
    """Cut events to a period: not every storage of ActivityWatch does so, and others may be off by a millisecond."""
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    inside = [event for event in events if event.end >= start and event.timestamp <= end]
    for event in inside:
        begin, until = max(event.timestamp, start), min(event.end, end)
        if begin != event.timestamp or until != event.end:
            event.timestamp, event.duration = begin, (until - begin).total_seconds()
    return inside
