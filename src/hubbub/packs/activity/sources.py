"""The one way in: all that comes from ActivityWatch and the sidecar passes here, and privacy with it.

Nothing else in the pack may hold a `WatchServer` or a `SidecarClient` (a test sees to that), so
tools, resources, prompts and pictures cannot tell what they have never seen. What went wrong
is told through the same rules, because servers quote what they were asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from hubbub import Secret, bounds
from hubbub.net.egress import kind_of
from hubbub.packs.activity.catalogue import Catalogue
from hubbub.packs.activity.events import WEB, WINDOW, Bucket, Event
from hubbub.packs.activity.failures import BadRequest, SourceFailure
from hubbub.packs.activity.hiding import NOTHING, Hiding
from hubbub.packs.activity.privacy import Privacy
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.sidecar_client import SidecarClient
from hubbub.packs.activity.sidecar_token import token_of
from hubbub.packs.activity.watch_server import Category, WatchServer
from hubbub.packs.activity.watchers import Watchers, choose

_OWN_ENGINES: Final = ("local", "omniparser")
_OWN_KEYS: Final = frozenset(
    ("hostname", "version", "testing", "device_id", "ok", "mode", "preflight_ok", "ready", "reason")
)
"""Which everybody uses who says something of itself; others may tell something themselves."""
_RECENT_TABS: Final = 10
"""How many of the last pages are looked at: what is told of a window comes later than what is told of its page."""


class Latest(msgspec.Struct):
    """The last event of each watcher; None where there is none, or none that may be told."""

    window: Event | None = None
    afk: Event | None = None
    tab: Event | None = None
    editor: Event | None = None
    private: list[str] = []
    """Those of which there is one that may not be told."""

    @property
    def events(self) -> list[Event]:
        """All that there are."""
        return [event for event in (self.window, self.afk, self.tab, self.editor) if event is not None]


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
        self._settings = settings

    # -- ActivityWatch -----------------------------------------------------------

    async def info(self) -> dict[str, Any]:
        """What ActivityWatch says of itself.

        Raises: SourceFailure.
        """
        with self._telling():
            return self._shown_info(await self._watch.info())

    async def greet(self) -> None:
        """See whether ActivityWatch answers as it should.

        Raises: SourceFailure.
        """
        with self._telling():
            await self._watch.info()

    async def state(self) -> tuple[dict[str, Any] | SourceFailure, Catalogue | SourceFailure]:
        """What it says of itself, and every bucket; either may have failed."""
        info, buckets = await self._watch.state()
        return (
            self._reported(info) if isinstance(info, SourceFailure) else self._shown_info(info),
            self._reported(buckets) if isinstance(buckets, SourceFailure) else await self._listed(buckets),
        )

    async def catalogue(self) -> Catalogue:
        """Every bucket by its name.

        Raises: SourceFailure.
        """
        with self._telling():
            return await self._listed(await self._watch.buckets())

    async def watchers(self, host: str | None = None) -> Watchers:
        """The buckets that tell what the person does.

        Raises: SourceFailure, BadRequest.
        """
        info, catalogue = sound(await self.state())
        wanted = host or (self._host and self._privacy.name(self._host))
        return choose(catalogue.buckets, str(info.get("hostname", "")), wanted)

    async def last_written(self, watchers: Watchers) -> datetime | None:
        """When any of the watchers that are needed last had something to say, whatever it was.

        Raises: SourceFailure.
        """
        with self._telling():
            found = await together(*(self._newest(bucket, 1) for bucket in (watchers.window, watchers.afk)))
        return max((event.end for events in found for event in events), default=None)

    async def latest(self, watchers: Watchers) -> Latest:
        """The last event of each watcher.

        Raises: SourceFailure.
        """
        editors = watchers.editor[:1]
        with self._telling():
            window, afk, *rest = await together(
                self._newest(watchers.window, 1),
                self._newest(watchers.afk, 1),
                *(self._newest(bucket, 1) for bucket in editors),
                *(self._newest(bucket, _RECENT_TABS) for bucket in watchers.web),
            )
        editor, tabs = (rest[0] if editors else []), rest[len(editors) :]
        of_tabs = self._privacy.hiding((event for events in tabs for event in events), are_pages=True)
        of_windows = self._privacy.hiding(window, are_pages=False)
        found = {
            "window": (watchers.window, window, of_tabs),
            "afk": (watchers.afk, afk, NOTHING),
            "tab": (watchers.web[0] if tabs else None, tabs[0][:1] if tabs else [], of_windows),
            "editor": (editors[0] if editors else None, editor, NOTHING),
        }
        latest = Latest()
        for name, (bucket, events, hiding) in found.items():
            shown = self._allowed(bucket, events, hiding)
            if shown:
                setattr(latest, name, shown[0])
            elif events:
                latest.private.append(name)
        return latest

    async def records(self, watchers: Watchers, start: datetime, end: datetime) -> Records:
        """The events of a period.

        Raises: SourceFailure.
        """
        with self._telling():
            window, afk, *web = await together(
                self._events(watchers.window, start, end),
                self._events(watchers.afk, start, end),
                *(self._events(bucket, start, end) for bucket in watchers.web),
            )
        return await asyncio.to_thread(self._show_records, watchers, window, afk, web)

    async def events_of(self, name: str, start: datetime, end: datetime) -> list[Event]:
        """The events of any bucket, the newest first, less those that show what is private, or are shown by it.

        Raises: SourceFailure, BadRequest.
        """
        catalogue = await self.catalogue()
        bucket = catalogue.bucket(name)
        are_pages = bucket.type != WEB
        kind = WEB if are_pages else WINDOW if self._privacy.minds_windows else None
        others = [each for each in catalogue.buckets if each.type == kind and each.id != bucket.id]
        with self._telling():
            events, *found = await together(*(self._events(each, start, end) for each in (bucket, *others)))
        return await asyncio.to_thread(self._show_others, bucket, events, found, are_pages)

    async def categories(self) -> list[Category]:
        """The person's own categories.

        Raises: SourceFailure.
        """
        with self._telling():
            found = await self._watch.categories()
        return [Category([self._privacy.tree(part) for part in each.name], each.rule) for each in found]

    # -- the sidecar -----------------------------------------------------------

    async def probe(self) -> dict[str, Any]:
        """What the sidecar says of itself.

        Raises: SourceFailure.
        """
        with self._telling():
            return self._shown(await self._sidecar.probe())

    async def screen(self) -> dict[str, Any]:
        """What is on the screen now: its elements, and the window in front.

        Raises: SourceFailure.
        """
        asked: dict[str, Any] = {"capture": True}
        token = None
        with self._telling():
            # Whatever else listens there is told neither the rules nor the token.
            if (await self._sidecar.probe()).get("mode") in _OWN_ENGINES:
                asked["rules"] = msgspec.to_builtins(self._settings.privacy)
                asked["private_titles"] = await self._private_titles()
                token = self._token()
            found = await self._sidecar.parse(asked, token)
        return await asyncio.to_thread(self._show_screen, found)

    async def _private_titles(self) -> list[str]:
        """Of pages that were shown last and may not be seen; the sidecar itself knows only windows."""
        try:
            watchers = await self.watchers()
            with self._telling():
                tabs = await together(*(self._newest(bucket, _RECENT_TABS) for bucket in watchers.web))
        except (SourceFailure, BadRequest):
            return []  # nobody records pages, so nobody could know
        hiding = self._privacy.hiding((event for events in tabs for event in events), are_pages=True)
        return [*hiding.dropped, *hiding.masked]

    def _token(self) -> Secret | None:
        """One that was found, and not given, is told to nobody but this machine."""
        host = urlsplit(self._sidecar.url).hostname or ""
        is_own = host == "localhost" or kind_of(host) == "loopback"
        return token_of(self._settings) if is_own or self._settings.sidecar_token else None

    # -- both ----------------------------------------------------------------------

    async def close(self) -> None:
        """Drop every connection."""
        await self._watch.close()
        await self._sidecar.close()

    async def _listed(self, buckets: dict[str, Any]) -> Catalogue:
        if len(buckets) <= bounds.ACTIVITY_FEW:
            return Catalogue(buckets, self._privacy)
        return await asyncio.to_thread(Catalogue, buckets, self._privacy)

    async def _events(self, bucket: Bucket | None, start: datetime, end: datetime) -> list[Event]:
        return [] if bucket is None else await self._watch.events(bucket.id, start, end)

    async def _newest(self, bucket: Bucket | None, count: int) -> list[Event]:
        return [] if bucket is None else await self._watch.newest(bucket.id, count)

    def _allowed(self, bucket: Bucket | None, events: list[Event], hiding: Hiding) -> list[Event]:
        return self._privacy.events(events, hiding, is_masked=bucket is not None and bucket.is_masked)

    def _show_records(
        self, watchers: Watchers, window: list[Event], afk: list[Event], web: list[list[Event]]
    ) -> Records:
        of_tabs = self._privacy.hiding((event for events in web for event in events), are_pages=True)
        of_windows = self._privacy.hiding(window, are_pages=False) if web and self._privacy.minds_windows else NOTHING
        tabs = [
            event
            for bucket, events in zip(watchers.web, web, strict=True)
            for event in self._allowed(bucket, events, of_windows)
        ]
        return Records(
            _oldest_first(self._allowed(watchers.window, window, of_tabs)),
            _oldest_first(self._allowed(watchers.afk, afk, NOTHING)),
            _oldest_first(tabs),
        )

    def _show_others(
        self, bucket: Bucket, events: list[Event], found: list[list[Event]], are_pages: bool
    ) -> list[Event]:
        hiding = self._privacy.hiding((event for each in found for event in each), are_pages=are_pages)
        return self._allowed(bucket, events, hiding)

    def _show_screen(self, found: dict[str, Any]) -> dict[str, Any]:
        elements, window = found.get("parsed_content_list"), found.get("window")
        told = elements[: bounds.SCREEN_ELEMENTS] if isinstance(elements, list) else []
        latency_ms = found.get("latency_ms")
        return {
            "window": self._privacy.data(window) if isinstance(window, dict) else None,
            "elements": self._privacy.elements(told),
            "latency_ms": round(latency_ms) if isinstance(latency_ms, int | float) else None,
        }

    def _shown(self, value: dict[str, Any]) -> dict[str, Any]:
        return {
            key if key in _OWN_KEYS else self._privacy.word(key): self._privacy.tree(item)
            for key, item in value.items()
        }

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except SourceFailure as failure:
            self._reported(failure)
            raise

    def _reported(self, failure: SourceFailure) -> SourceFailure:
        failure.message = self._privacy.report(failure.message)
        failure.args = (failure.message,)
        return failure

    def _shown_info(self, info: dict[str, Any]) -> dict[str, Any]:
        shown = self._shown(info)
        if isinstance(info.get("hostname"), str):
            shown["hostname"] = self._privacy.name(info["hostname"])
        return shown


def _oldest_first(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.timestamp)


def sound(
    state: tuple[dict[str, Any] | SourceFailure, Catalogue | SourceFailure],
) -> tuple[dict[str, Any], Catalogue]:
    """Both parts of it.

    Raises: SourceFailure, if one is missing.
    """
    info, catalogue = state
    if isinstance(info, SourceFailure):
        raise info
    if isinstance(catalogue, SourceFailure):
        raise catalogue
    return info, catalogue


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
