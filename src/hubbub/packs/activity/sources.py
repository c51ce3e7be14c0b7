"""The one way in: all that comes from ActivityWatch and the sidecar passes here, and privacy with it.

Nothing else in the pack may hold a `WatchServer` or a `SidecarClient` (a test sees to that), so
tools, resources, prompts and pictures cannot tell what they have never seen. What went wrong
is told through the same rules, because servers quote what they were asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Final

import msgspec

from hubbub.packs.activity.events import Bucket, Event
from hubbub.packs.activity.failures import BadRequest, SourceFailure
from hubbub.packs.activity.privacy import Privacy
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.sidecar_client import SidecarClient
from hubbub.packs.activity.watch_server import Category, WatchServer
from hubbub.packs.activity.watchers import Watchers, choose

_NAMED: Final = 20
"""Buckets that an error names."""


class Records(msgspec.Struct):
    """The events of one period, the oldest first."""

    window: list[Event]
    afk: list[Event]
    web: list[Event]


class Sources:
    """Both servers, as they may be told of."""

    def __init__(self, settings: ActivitySettings) -> None:
        """Raises: SettingsError."""
        self._watch = WatchServer(settings.aw_url, api_key=settings.api_key, timeout_s=settings.timeout_s)
        self._sidecar = SidecarClient(settings.sidecar_url, timeout_s=settings.timeout_s)
        self._privacy = Privacy(settings.privacy)
        self._host = settings.host

    # -- ActivityWatch -----------------------------------------------------------

    async def info(self) -> dict[str, Any]:
        """What ActivityWatch says of itself.

        Raises: SourceFailure.
        """
        async with self._telling():
            return self._shown(await self._watch.info())

    async def buckets(self) -> dict[str, Any]:
        """Every bucket by its id.

        Raises: SourceFailure.
        """
        async with self._telling():
            return self._shown(await self._watch.buckets())

    async def watchers(self, host: str | None = None) -> Watchers:
        """The buckets that tell what the person does.

        Raises: SourceFailure, BadRequest.
        """
        async with self._telling():
            info, buckets = await together(self._watch.info(), self._watch.buckets())
        return choose(buckets, str(info.get("hostname", "")), host or self._host)

    async def find_bucket(self, prefix: str, host: str | None) -> str:
        """The id of the first bucket that begins so.

        Raises: SourceFailure, BadRequest.
        """
        async with self._telling():
            buckets = await self._watch.buckets()
        for name, bucket in sorted(buckets.items()):
            if name.startswith(prefix) and (
                host is None or (isinstance(bucket, dict) and bucket.get("hostname") == host)
            ):
                return name
        known = ", ".join(sorted(self._shown(buckets))[:_NAMED]) or "none"
        raise BadRequest(f"no bucket begins with {prefix[:80]!r}; there are {known}")

    async def newest(self, bucket: Bucket | None, hidden_titles: Sequence[str] = ()) -> tuple[Event | None, bool]:
        """The last event of a bucket, and whether there is one that may not be told.

        Raises: SourceFailure.
        """
        if bucket is None:
            return None, False
        async with self._telling():
            events = await self._watch.newest(bucket.id)
        shown = self._privacy.events(events, hidden_titles)
        return (shown[0] if shown else None), len(shown) < len(events)

    async def hidden_now(self, watchers: Watchers) -> list[str]:
        """The titles of the tabs that were last shown and may not be told.

        Raises: SourceFailure.
        """
        async with self._telling():
            found = await together(*(self._watch.newest(bucket.id) for bucket in watchers.web))
        return self._privacy.hidden_titles(event for events in found for event in events)

    async def records(self, watchers: Watchers, start: datetime, end: datetime) -> Records:
        """The events of a period.

        Raises: SourceFailure.
        """
        async with self._telling():
            window, afk, *web = await together(
                self._events(watchers.window, start, end),
                self._events(watchers.afk, start, end),
                *(self._events(bucket, start, end) for bucket in watchers.web),
            )
        tabs = [event for events in web for event in events]
        return await asyncio.to_thread(self._show_records, window, afk, tabs)

    async def events_of(self, bucket: str, start: datetime, end: datetime) -> list[Event]:
        """The events of any bucket, the newest first, less those that show a private tab.

        Raises: SourceFailure.
        """
        async with self._telling():
            watchers = await self.watchers()
            web = [found.id for found in watchers.web if found.id != bucket]
            events, *tabs = await together(
                self._watch.events(bucket, start, end), *(self._watch.events(name, start, end) for name in web)
            )
        hidden = self._privacy.hidden_titles(event for found in tabs for event in found)
        return await asyncio.to_thread(self._privacy.events, events, hidden)

    async def categories(self) -> list[Category]:
        """The person's own categories.

        Raises: SourceFailure.
        """
        async with self._telling():
            return await self._watch.categories()

    # -- the sidecar -----------------------------------------------------------

    async def probe(self) -> dict[str, Any]:
        """What the sidecar says of itself.

        Raises: SourceFailure.
        """
        async with self._telling():
            return self._shown(await self._sidecar.probe())

    async def screen(self) -> dict[str, Any]:
        """What is on the screen now: its elements, and the window in front.

        Raises: SourceFailure.
        """
        async with self._telling():
            found = await self._sidecar.parse({"capture": True})
        elements = found.get("parsed_content_list")
        window = found.get("window")
        return {
            "window": self._privacy.data(window) if isinstance(window, dict) else None,
            "elements": self._privacy.elements(elements if isinstance(elements, list) else []),
            "latency_ms": found.get("latency_ms"),
        }

    # -- both ----------------------------------------------------------------------

    async def close(self) -> None:
        """Drop every connection."""
        await self._watch.close()
        await self._sidecar.close()

    async def _events(self, bucket: Bucket | None, start: datetime, end: datetime) -> list[Event]:
        return [] if bucket is None else await self._watch.events(bucket.id, start, end)

    def _show_records(self, window: list[Event], afk: list[Event], web: list[Event]) -> Records:
        hidden = self._privacy.hidden_titles(web)
        return Records(
            _oldest_first(self._privacy.events(window, hidden)),
            _oldest_first(self._privacy.events(afk)),
            _oldest_first(self._privacy.events(web)),
        )

    def _shown(self, value: dict[str, Any]) -> dict[str, Any]:
        return {self._privacy.text(key): self._privacy.tree(item) for key, item in value.items()}

    @asynccontextmanager
    async def _telling(self) -> AsyncIterator[None]:
        try:
            yield
        except SourceFailure as failure:
            failure.message = self._privacy.text(failure.message)
            failure.args = (failure.message,)
            raise


def _oldest_first(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.timestamp)


async def together(*questions: Any) -> list[Any]:
    """Ask at the same time; the first failure ends the others.

    Raises: whatever the first of them to fail raises.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(question) for question in questions]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
