"""The only access to data of ActivityWatch and the sidecar, with the privacy rules applied.

No other module of the pack may hold a `WatchServer` or a `SidecarClient` (a test checks that), so tools, resources,
prompts and charts never get private data. Error messages pass the same rules, because servers quote requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.browsers import ConfirmedPages
from hubbub.packs.activity.catalogue import Catalogue
from hubbub.packs.activity.disclosure import Gate
from hubbub.packs.activity.events import WEB, WINDOW, Bucket, Event
from hubbub.packs.activity.failures import BadRequest, SourceFailure
from hubbub.packs.activity.hiding import NOTHING, Hiding
from hubbub.packs.activity.periods import person_zone
from hubbub.packs.activity.presence import DeviceRecords, Records, audible_in_front
from hubbub.packs.activity.privacy import Privacy
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.sidecar_client import SidecarClient
from hubbub.packs.activity.sidecar_socket import default_url
from hubbub.packs.activity.sidecar_token import token_for
from hubbub.packs.activity.transforms import by_time, flood, since, union
from hubbub.packs.activity.watch_server import Category, Recorded, WatchServer
from hubbub.packs.activity.watcher_health import Problem, find_problems, needs_window
from hubbub.packs.activity.watchers import ALL_HOSTS, Watchers, choose

_SCREEN: Final = "The screen"
_PROTECTED: Final = "What ActivityWatch protects with an API key"
_UNKNOWN_PAGES: Final = (
    "pages that your rules for addresses hide may be shown: it cannot be known which pages are open. For that, "
    "ActivityWatch must answer and the browser must have the aw-watcher-web extension"
)
_OWN_KEYS: Final = frozenset(
    ("hostname", "version", "testing", "device_id", "ok", "mode", "preflight_ok", "ready", "reason")
)
"""Common keys of `/info` and of probes. Other keys may reveal something themselves, so rules apply to them too."""


class Latest(msgspec.Struct):
    """The last event of each kind of watcher; None if there is none, or none that may be disclosed."""

    window: Event | None = None
    afk: Event | None = None
    tab: Event | None = None
    editor: Event | None = None
    private: list[str] = []
    """Kinds whose last event may not be disclosed."""
    last_recorded: datetime | None = None
    """When a window or presence was last recorded, private or not."""

    @property
    def events(self) -> list[Event]:
        """Return the events that exist."""
        return [event for event in (self.window, self.afk, self.tab, self.editor) if event is not None]


class Sources:
    """Both servers, filtered by the privacy rules."""

    def __init__(self, settings: ActivitySettings) -> None:
        """Raises: SettingsError."""
        self._watch = WatchServer(settings.aw_url, api_key=settings.api_key, timeout_s=settings.timeout_s)
        self._sidecar = SidecarClient(settings.sidecar_url or default_url(), timeout_s=settings.timeout_s)
        self._privacy = Privacy(settings.privacy)
        self._host = settings.host
        self._zone = person_zone(settings.time_zone)
        self._settings = settings
        self.gate = Gate(settings)
        self._guarded = _PROTECTED if settings.api_key else None

    # -- ActivityWatch -----------------------------------------------------------

    async def info(self) -> dict[str, Any]:
        """Return ActivityWatch's description of itself.

        Raises: SourceFailure.
        """
        with self._telling():
            return self._shown_info(await self._watch.info())

    async def greet(self) -> dict[str, Any]:
        """Return the same for a health check, which is also answered while disclosure is paused.

        Raises: SourceFailure.
        """
        with self._telling(is_health=True):
            return self._shown_info(await self._watch.info())

    async def state(self) -> tuple[dict[str, Any] | SourceFailure, Catalogue | SourceFailure]:
        """Return ActivityWatch's description of itself and all buckets; each may be a failure."""
        with self._telling():
            info, buckets = await self._watch.state()
        return (
            self._reported(info) if isinstance(info, SourceFailure) else self._shown_info(info),
            self._reported(buckets) if isinstance(buckets, SourceFailure) else await self._listed(buckets),
        )

    async def catalogue(self) -> Catalogue:
        """Return the buckets that may be disclosed, by name.

        Raises: SourceFailure.
        """
        with self._telling():
            return await self._listed(await self._watch.buckets())

    async def watchers(self, host: str | None = None) -> Watchers:
        """Choose the buckets of a machine that record the user's activity.

        Raises: SourceFailure, BadRequest.
        """
        return self._choose(*sound(await self.state()), host)

    def deadline(self) -> float:
        """Return when requests that start now must be answered, by the event loop's clock."""
        return asyncio.get_running_loop().time() + self._settings.timeout_s

    async def watcher_problems(
        self, info: dict[str, Any], catalogue: Catalogue, deadline: float, host: str | None = None
    ) -> list[Problem]:
        """Return the current problems of the watchers, determined before the deadline.

        Raises: SourceFailure, BadRequest.
        """
        watchers, now = self._choose(info, catalogue, host), datetime.now(UTC)
        window = None
        if needs_window(watchers, now):
            async with self._before(deadline):
                window = (await self.latest(watchers)).window
        return find_problems(watchers, window, now, self._zone)

    async def stopped_watchers(self, names: Iterable[str], end: datetime) -> list[str]:
        """Return messages about the watchers of these buckets that stopped before `end`."""
        deadline, wanted = self.deadline(), set(names)
        try:
            problems = await self.watcher_problems(*sound(await self.state()), deadline, ALL_HOSTS)
        except (SourceFailure, BadRequest):
            return []  # the answer itself is complete; `system.health` reports the failure
        return [
            each.message
            for each in problems
            if not wanted.isdisjoint(each.buckets) and (each.last is None or each.last < end)
        ]

    async def latest(self, watchers: Watchers) -> Latest:
        """Return the last event of each kind of watcher.

        Raises: SourceFailure.
        """
        kinds = {"window": watchers.window, "afk": watchers.afk, "tab": watchers.web, "editor": watchers.editor}
        asked = [(name, bucket) for name, buckets in kinds.items() for bucket in buckets]
        with self._telling():
            answers = await together(
                *(self._watch.newest(bucket.id, limits.RECENT_TABS if name == "tab" else 1) for name, bucket in asked)
            )
        found: dict[str, list[tuple[Bucket, Event]]] = {name: [] for name in kinds}
        for (name, bucket), events in zip(asked, answers, strict=True):
            found[name] += ((bucket, event) for event in events)
        of_tabs = self._privacy.hiding((event for _, event in found["tab"]), are_pages=True)
        pages = ConfirmedPages(event for _, event in found["tab"])
        of_windows = self._privacy.hiding((event for _, event in found["window"]), are_pages=False)
        ends = [event.end for name in ("window", "afk") for _, event in found[name]]
        latest = Latest(last_recorded=max(ends, default=None))
        for name, hiding in (("window", of_tabs), ("afk", NOTHING), ("tab", of_windows), ("editor", NOTHING)):
            if not found[name]:
                continue
            bucket, event = max(found[name], key=lambda pair: _recency(pair[1]))
            shown = self._allowed(bucket, [event], hiding, None if name == "tab" else pages)
            if shown:
                setattr(latest, name, shown[0])
            else:
                latest.private.append(name)
        return latest

    async def latest_of(self, host: str | None) -> tuple[Watchers, Latest]:
        """Return the watchers of a machine and their last events, both within the timeout of one request.

        Raises: SourceFailure, BadRequest.
        """
        async with self._before(self.deadline()):
            watchers = await self.watchers(host)
            return watchers, await self.latest(watchers)

    async def records(
        self, watchers: Watchers, start: datetime, end: datetime, *, with_editor: bool = False
    ) -> Records:
        """Return the events of a period; those of editors only if requested.

        Raises: SourceFailure.
        """
        buckets = (*watchers.window, *watchers.afk, *watchers.web, *(watchers.editor if with_editor else ()))
        with self._telling():
            answers = await together(*(self._watch.events(bucket.id, start, end) for bucket in buckets))
        found, is_cut = _known(answers, end)
        events = {bucket.id: each for bucket, each in zip(buckets, found, strict=True)}
        records = await asyncio.to_thread(self._show_records, watchers, events)
        records.is_cut = is_cut
        return records

    async def events_of(self, name: str, start: datetime, end: datetime) -> Recorded:
        """Return the events of a bucket, newest first, without those that reveal private events of other buckets.

        Raises: SourceFailure, BadRequest.
        """
        catalogue = await self.catalogue()
        bucket = catalogue.bucket(name)
        are_pages = bucket.type != WEB
        kind = WEB if are_pages else WINDOW if self._privacy.minds_windows else None
        others = [each for each in catalogue.buckets if each.type == kind and each.id != bucket.id]
        with self._telling():
            answers = await together(*(self._watch.events(each.id, start, end) for each in (bucket, *others)))
        (events, *found), is_cut = _known(answers, end)
        return Recorded(await asyncio.to_thread(self._show_others, bucket, events, found, are_pages), is_cut)

    async def categories(self) -> list[Category]:
        """Return the categories that the user defined in ActivityWatch.

        Raises: SourceFailure.
        """
        with self._telling():
            found = await self._watch.categories()
        return [Category([self._privacy.tree(part) for part in each.name], each.rule) for each in found]

    def shown_text(self, text: str) -> str:
        """Return a text that may quote private data, such as a pattern, with `[private]` for each match of a rule."""
        return self._privacy.report(text)

    # -- the sidecar -----------------------------------------------------------

    async def probe(self) -> dict[str, Any]:
        """Return the sidecar's description of itself.

        Raises: SourceFailure.
        """
        with self._telling(is_health=True):
            return self._shown(await self._sidecar.probe())

    async def screen(self) -> dict[str, Any]:
        """Read the screen: its elements and the foreground window.

        Raises: SourceFailure.
        """
        self.gate.check(secret=_SCREEN)
        asked: dict[str, Any] = {"capture": True}
        if self._settings.ocr_language is not None:
            asked["parse_options"] = {"lang": self._settings.ocr_language}
        titles: list[str] | None = None
        token = None if self._sidecar.is_private else token_for(self._settings, self._sidecar.url)
        if self._sidecar.is_private or token is not None:  # rules are private: send them only to Hubbub's own sidecar
            asked["rules"] = msgspec.to_builtins(self._settings.privacy)
            titles = await self._private_titles()
            asked["private_titles"] = titles or []
        with self._telling():
            exchange = None if token is None else await self._sidecar.prove(token)
            found = await self._sidecar.parse(asked, exchange)
        shown = await asyncio.to_thread(self._show_screen, found)
        if titles is None and self._privacy.minds_addresses:
            shown["notes"].append(_UNKNOWN_PAGES)
        return shown

    async def _private_titles(self) -> list[str] | None:
        """Return the hidden titles among the pages that were shown last; None if they cannot be determined.

        The sidecar itself knows only windows.
        """
        try:
            async with self._before(self.deadline()):
                watchers = await self.watchers()
                with self._telling():
                    tabs = await together(
                        *(self._watch.newest(bucket.id, limits.RECENT_TABS) for bucket in watchers.web)
                    )
        except (SourceFailure, BadRequest):
            return None
        if not watchers.web:
            return None
        hiding = self._privacy.hiding((event for events in tabs for event in events), are_pages=True)
        return [*hiding.dropped, *hiding.masked]

    # -- both ----------------------------------------------------------------------

    async def close(self) -> None:
        """Close all connections."""
        await self._watch.close()
        await self._sidecar.close()

    def _choose(self, info: dict[str, Any], catalogue: Catalogue, host: str | None = None) -> Watchers:
        own = self._host and self._privacy.name(self._host)
        likely = own if own and own != ALL_HOSTS else str(info.get("hostname", ""))
        return choose(catalogue.buckets, likely, host or own)

    async def _listed(self, buckets: dict[str, Any]) -> Catalogue:
        self.gate.count(buckets=len(buckets))
        if len(buckets) <= limits.FEW:
            return Catalogue(buckets, self._privacy)
        return await asyncio.to_thread(Catalogue, buckets, self._privacy)

    def _allowed(
        self, bucket: Bucket, events: list[Event], hiding: Hiding, pages: ConfirmedPages | None = None
    ) -> list[Event]:
        allowed = self._privacy.events(events, hiding, is_masked=bucket.is_masked, pages=pages)
        self.gate.count_events(allowed)
        return allowed

    def _show_records(self, watchers: Watchers, events: Mapping[str, list[Event]]) -> Records:
        windows = [event for bucket in watchers.window for event in events[bucket.id]]
        tabs = [event for bucket in watchers.web for event in events[bucket.id]]
        of_tabs = self._privacy.hiding(tabs, are_pages=True)
        of_windows = self._privacy.hiding(windows, are_pages=False) if self._privacy.minds_windows else NOTHING

        confirmed = ConfirmedPages(tabs)

        def shown(buckets: Iterable[Bucket], hiding: Hiding, pages: ConfirmedPages | None = None) -> list[list[Event]]:
            return [flood(self._allowed(bucket, events[bucket.id], hiding, pages)) for bucket in buckets]

        def coverage(buckets: Iterable[Bucket], allowed: list[list[Event]]) -> list[Event]:
            found = [events[bucket.id] for bucket in buckets]
            return union(*found) if sum(map(len, found)) > sum(map(len, allowed)) else []

        devices = []
        for device in watchers.devices:
            pages = [(bucket.apps, events[bucket.id]) for bucket in device.web]
            found = DeviceRecords(
                device.host,
                shown(device.window, of_tabs, confirmed),
                shown(device.afk, NOTHING),
                shown(device.web, of_windows),
                # Masked apps still count, so this uses the events before masking.
                [audible_in_front(events[bucket.id], pages) for bucket in device.window],
            )
            found.window_coverage = coverage(device.window, found.window)
            found.web_coverage = coverage(device.web, found.web)
            devices.append(found)
        editors = shown((bucket for bucket in watchers.editor if bucket.id in events), NOTHING)
        return Records(devices, by_time(event for each in editors for event in each))

    def _show_others(
        self, bucket: Bucket, events: list[Event], found: list[list[Event]], are_pages: bool
    ) -> list[Event]:
        hiding = self._privacy.hiding((event for each in found for event in each), are_pages=are_pages)
        pages = ConfirmedPages(event for each in found for event in each) if are_pages else None
        return self._allowed(bucket, events, hiding, pages)

    def _show_screen(self, found: dict[str, Any]) -> dict[str, Any]:
        read = _list(found, "parsed_content_list", limits.SCREEN_ELEMENTS)
        latency_ms = found.get("latency_ms")
        windows = [self._told_window(each) for each in _list(found, "windows", limits.SCREEN_WINDOWS)]
        elements = [each for each in self._privacy.elements(read) if _is_in_allowed_window(each, windows)]
        self.gate.count(lines=len(elements))
        return {
            "window": self._told_window(found.get("window")),
            "windows": windows,
            "elements": elements,
            "notes": [
                self._privacy.text(note) for note in _list(found, "notes", limits.SCREEN_NOTES) if isinstance(note, str)
            ],
            "latency_ms": round(latency_ms) if isinstance(latency_ms, int | float) else None,
        }

    def _told_window(self, window: Any) -> dict[str, Any] | None:
        return self._privacy.data(window) if isinstance(window, dict) else None

    def _shown(self, value: dict[str, Any]) -> dict[str, Any]:
        return {
            key if key in _OWN_KEYS else self._privacy.word(key): self._privacy.tree(item)
            for key, item in value.items()
        }

    @contextmanager
    def _telling(self, *, is_health: bool = False) -> Iterator[None]:
        """Check that disclosure is allowed before a request, and again after it: a pause may have begun meanwhile."""
        if not is_health:
            self.gate.check(secret=self._guarded)
        try:
            yield
        except SourceFailure as failure:
            self._reported(failure)
            raise
        if not is_health:
            self.gate.check()

    @asynccontextmanager
    async def _before(self, deadline: float) -> AsyncIterator[None]:
        """Limit several requests to ActivityWatch by one deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                yield
        except TimeoutError:
            with self._telling():
                raise self._watch.timed_out(self._settings.timeout_s) from None

    def _reported(self, failure: SourceFailure) -> SourceFailure:
        failure.message = self._privacy.report(failure.message)
        failure.args = (failure.message,)
        return failure

    def _shown_info(self, info: dict[str, Any]) -> dict[str, Any]:
        shown = self._shown(info)
        if isinstance(info.get("hostname"), str):
            shown["hostname"] = self._privacy.name(info["hostname"])
        return shown


def _recency(event: Event) -> tuple[bool, datetime]:
    """Sort key for the latest event; events of a clock that is far ahead come first, so they are chosen last."""
    return event.end <= datetime.now(UTC) + timedelta(seconds=limits.CLOCK_AHEAD_S), event.end


def _known(answers: Sequence[Recorded], end: datetime) -> tuple[list[list[Event]], bool]:
    """Cut all buckets to the time that all of them cover; also return whether that was needed.

    Events of one bucket determine what is private in another, so events older than the known part of the other buckets
    must not be disclosed.
    """
    cut = [min((event.timestamp for event in each.events), default=end) for each in answers if each.is_cut]
    if not cut:
        return [each.events for each in answers], False
    return [since(each.events, max(cut)) for each in answers], True


def _list(found: dict[str, Any], key: str, most: int) -> list[Any]:
    value = found.get(key)
    return value[:most] if isinstance(value, list) else []


def _is_in_allowed_window(element: dict[str, Any], windows: list[dict[str, Any] | None]) -> bool:
    """Whether the window that an element names may be disclosed; an element without a window is allowed."""
    index = element.get("window")
    return type(index) is not int or (0 <= index < len(windows) and windows[index] is not None)


def sound(
    state: tuple[dict[str, Any] | SourceFailure, Catalogue | SourceFailure],
) -> tuple[dict[str, Any], Catalogue]:
    """Return both parts of a state.

    Raises: SourceFailure, if one of them failed.
    """
    info, catalogue = state
    if isinstance(info, SourceFailure):
        raise info
    if isinstance(catalogue, SourceFailure):
        raise catalogue
    return info, catalogue


async def together(*questions: Any) -> list[Any]:
    """Run requests concurrently; the first failure cancels the others.

    Raises: the exception of the first request to fail.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(question) for question in questions]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
