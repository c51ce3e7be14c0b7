"""Read-only client of ActivityWatch's REST API.

It returns data as recorded. Only `filtered_sources` may use it, because that applies the privacy rules.
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
from hubbub.packs.activity.events import Event, ensure_time_zone, format_utc, has_valid_times
from hubbub.packs.activity.failures import SourceFailure, catch_failure
from hubbub.packs.activity.json_client import JsonClient

_ADVICE = "start ActivityWatch (https://activitywatch.net), or set HUBBUB_ACTIVITY_AW_URL to where it runs"
_NOT_FOUND = 404


class Category(msgspec.Struct):
    """One of the user's categories, as stored in the settings of ActivityWatch."""

    name: list[str]
    rule: dict[str, Any] = {}


class BucketEvents(msgspec.Struct):
    """Events of a period, cut to it, newest first."""

    events: list[Event] = []
    is_cut: bool = False
    """Whether the period has older events that were too many to read."""


class _CachedInfo(msgspec.Struct, frozen=True):
    """A cached response of `/info`."""

    info: dict[str, Any]
    created: dict[str, Any] | None
    """When each bucket was created."""
    at_s: float


class ActivityWatchClient:
    """A client of one ActivityWatch server."""

    def __init__(self, url: str, *, api_key: Secret | None = None, timeout_s: float) -> None:
        """Raises: SettingsError."""
        self._server = JsonClient("ActivityWatch", url, _ADVICE, api_key=api_key)
        self._timeout_s = timeout_s
        self._cached_info: _CachedInfo | None = None

    @property
    def url(self) -> str:
        return self._server.url

    async def info(self) -> dict[str, Any]:
        """Return the server's description of itself, which needs no API key.

        Raises: SourceFailure.
        """
        cached, self._cached_info = self._cached_info, None
        found: dict[str, Any] = await self._get("info", dict[str, Any], limit=limits.INFO_BYTES)
        if cached is not None and cached.info == found:
            self._cached_info = cached
        return found

    async def state(self) -> tuple[dict[str, Any] | SourceFailure, dict[str, Any] | SourceFailure]:
        """Return the server's description of itself and all buckets; each may fail without the other.

        The description does not change while the server runs, and answering two requests at once takes it nearly twice
        as long. So a recent description is reused if the buckets arrive promptly and are the same as before; otherwise
        another server may have taken its place.
        """
        async with asyncio.TaskGroup() as group:
            buckets_task = group.create_task(catch_failure(self.buckets()))
            cached = self._cached_info
            if cached is not None and time.monotonic() - cached.at_s < limits.INFO_CACHE_S:
                await asyncio.wait([buckets_task], timeout=limits.INFO_REUSE_TIMEOUT_S)
                if buckets_task.done() and _creation_times(buckets_task.result()) == cached.created:
                    return cached.info, buckets_task.result()
            info = await catch_failure(self.info())
        buckets = buckets_task.result()
        if not isinstance(info, SourceFailure) and not isinstance(buckets, SourceFailure):
            self._cached_info = _CachedInfo(info, _creation_times(buckets), time.monotonic())
        return info, buckets

    async def buckets(self) -> dict[str, Any]:
        """Return all buckets by id.

        Raises: SourceFailure.
        """
        found: dict[str, Any] = await self._get("buckets/", dict[str, Any])
        if len(found) > limits.BUCKETS:
            detail = (
                f"ActivityWatch at {self.url} has more than {limits.BUCKETS} buckets; "
                "check whether another program runs there"
            )
            raise SourceFailure("too_large", detail, url=self.url)
        return found

    async def latest_events(self, bucket: str, count: int = 1) -> list[Event]:
        """Return the last events of a bucket, newest first.

        Raises: SourceFailure.
        """
        return _repair_events(await self._get(f"buckets/{quote(bucket, safe='')}/events?limit={count}", list[Event]))

    async def events(self, bucket: str, start: datetime, end: datetime) -> BucketEvents:
        """Return the events of a period, at most `limits.EVENTS`.

        Raises: SourceFailure.
        """
        # One more than the limit shows whether there are more.
        parameters = urlencode({"start": format_utc(start), "end": format_utc(end), "limit": limits.EVENTS + 1})
        body = await self._server.get(
            f"/api/0/buckets/{quote(bucket, safe='')}/events?{parameters}",
            timeout_s=limits.EVENTS_TIMEOUT_S,
            limit=limits.EVENTS_BYTES,
        )
        found: list[Event] = self._server.decode(body, list[Event])
        events = _cut_to_period(_repair_events(found[: limits.EVENTS]), start, end)
        return BucketEvents(events, len(found) > limits.EVENTS)

    async def categories(self) -> list[Category]:
        """Return the user's categories; empty if the server is too old to store them.

        Raises: SourceFailure.
        """
        try:
            found: list[Any] | None = await self._get("settings/classes", list[Any] | None)
        except SourceFailure as failure:
            if failure.status == _NOT_FOUND or failure.failure_kind == "unexpected":
                return []
            raise
        stored = (found or ())[: limits.ACTIVITYWATCH_CATEGORIES]
        return [category for each in stored if (category := _convert_category(each)) is not None]

    def timeout_failure(self, timeout_s: float) -> SourceFailure:
        """Return the failure for a request that got no answer within this time."""
        return self._server.timeout_failure(timeout_s)

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()

    async def _get(self, path: str, kind: Any, *, limit: int | None = None) -> Any:
        body = await self._server.get(f"/api/0/{path}", timeout_s=self._timeout_s, limit=limit)
        return self._server.decode(body, kind)


def _creation_times(buckets: dict[str, Any] | SourceFailure) -> dict[str, Any] | None:
    """Return the creation times of the buckets, which distinguish two servers; None if the request failed."""
    if isinstance(buckets, SourceFailure):
        return None
    return {name: each.get("created") if isinstance(each, dict) else None for name, each in buckets.items()}


def _convert_category(stored: Any) -> Category | None:
    """Convert a category; None if it is invalid, because ActivityWatch stores categories without validation."""
    try:
        return msgspec.convert(stored, Category)
    except msgspec.ValidationError:
        return None


def _repair_events(events: list[Event]) -> list[Event]:
    """Add missing time zones, remove negative durations, and drop events at the limits of `datetime`."""
    for event in events:
        event.timestamp = ensure_time_zone(event.timestamp)
        event.duration = max(event.duration, 0.0)
    return [event for event in events if has_valid_times(event)]


def _cut_to_period(events: list[Event], start: datetime, end: datetime) -> list[Event]:
    """Cut events to a period: not every storage of ActivityWatch does so, and others may be off by a millisecond."""
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    inside = [event for event in events if event.end >= start and event.timestamp <= end]
    for event in inside:
        begin, until = max(event.timestamp, start), min(event.end, end)
        if begin != event.timestamp or until != event.end:
            event.timestamp, event.duration = begin, (until - begin).total_seconds()
    return inside
