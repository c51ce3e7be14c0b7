"""ActivityWatch, asked over its REST interface. Reads only.

What comes from here is as it was recorded; only `sources` may use it, which leaves out what
nobody is to be told.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from hubbub import Secret, bounds
from hubbub.packs.activity.events import Event, has_sane_times, in_utc, with_zone
from hubbub.packs.activity.failures import SourceFailure, or_failure
from hubbub.packs.activity.http import JsonServer

_ADVICE = "start ActivityWatch (https://activitywatch.net), or set HUBBUB_ACTIVITY_AW_URL to where it runs"
_NOT_FOUND = 404


class Category(msgspec.Struct):
    """One of the person's categories, as the settings of ActivityWatch hold it."""

    name: list[str]
    rule: dict[str, Any] = {}


class WatchServer:
    """One ActivityWatch."""

    def __init__(self, url: str, *, api_key: Secret | None = None, timeout_s: float = bounds.ACTIVITY_CALL_S) -> None:
        """Raises: SettingsError."""
        self._server = JsonServer("ActivityWatch", url, _ADVICE, api_key=api_key)
        self._timeout_s = timeout_s
        self._said: tuple[float, dict[str, Any]] | None = None
        """When it last said what it is, and what it said."""

    @property
    def url(self) -> str:
        """Where it is."""
        return self._server.url

    async def info(self) -> dict[str, Any]:
        """What it says of itself; it tells this even those who have no key.

        Raises: SourceFailure.
        """
        self._said = None
        found: dict[str, Any] = await self._get("info", dict[str, Any], limit=bounds.ACTIVITY_ABOUT_BYTES)
        self._said = time.monotonic(), found
        return found

    async def state(self) -> tuple[dict[str, Any] | SourceFailure, dict[str, Any] | SourceFailure]:
        """What it says of itself, and every bucket; either may fail without the other.

        Of itself it says the same for as long as it runs, and to be asked two things at once takes it
        nearly twice as long. So it is not asked again soon, if its buckets come at once.
        """
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(or_failure(self.buckets()))
            if self._said is not None and time.monotonic() - self._said[0] < bounds.ACTIVITY_INFO_S:
                said = self._said[1]
                await asyncio.wait([asking], timeout=bounds.ACTIVITY_PROMPT_S)
                if asking.done() and not isinstance(asking.result(), SourceFailure):
                    return said, asking.result()
            info = await or_failure(self.info())
        return info, asking.result()

    async def buckets(self) -> dict[str, Any]:
        """Every bucket by its id.

        Raises: SourceFailure.
        """
        found: dict[str, Any] = await self._get("buckets/", dict[str, Any])
        if len(found) > bounds.ACTIVITY_BUCKETS:
            told = (
                f"ActivityWatch at {self.url} has more than {bounds.ACTIVITY_BUCKETS} buckets; "
                "see whether something else runs there"
            )
            raise SourceFailure("too_large", told, url=self.url)
        return found

    async def newest(self, bucket: str, count: int = 1) -> list[Event]:
        """The last events of a bucket, the newest first.

        Raises: SourceFailure.
        """
        return _sound(await self._get(f"buckets/{quote(bucket, safe='')}/events?limit={count}", list[Event]))

    async def events(self, bucket: str, start: datetime, end: datetime) -> list[Event]:
        """The events of a period, cut to it, the newest first.

        Raises: SourceFailure.
        """
        asked = urlencode({"start": in_utc(start), "end": in_utc(end), "limit": bounds.ACTIVITY_EVENTS})
        body = await self._server.get(
            f"/api/0/buckets/{quote(bucket, safe='')}/events?{asked}",
            timeout_s=bounds.ACTIVITY_EVENTS_S,
            limit=bounds.ACTIVITY_EVENTS_BYTES,
        )
        return _sound(self._server.decode(body, list[Event]))

    async def categories(self) -> list[Category]:
        """The person's categories; none where the server is too old to keep them.

        Raises: SourceFailure.
        """
        try:
            found: list[Any] | None = await self._get("settings/classes", list[Any] | None)
        except SourceFailure as failure:
            if failure.status == _NOT_FOUND or failure.word == "unexpected":
                return []
            raise
        return [category for each in found or () if (category := _category(each)) is not None]

    async def close(self) -> None:
        """Drop every connection."""
        await self._server.close()

    async def _get(self, path: str, kind: Any, *, limit: int = bounds.ACTIVITY_BODY_BYTES) -> Any:
        body = await self._server.get(f"/api/0/{path}", timeout_s=self._timeout_s, limit=limit)
        return self._server.decode(body, kind)


def _category(given: Any) -> Category | None:
    """One that makes sense: its page keeps what people write there."""
    try:
        return msgspec.convert(given, Category)
    except msgspec.ValidationError:
        return None


def _sound(events: list[Event]) -> list[Event]:
    """Times with a zone, no events that end before they begin, and none at the ends of time."""
    for event in events:
        event.timestamp = with_zone(event.timestamp)
        event.duration = max(event.duration, 0.0)
    return [event for event in events if has_sane_times(event)]
