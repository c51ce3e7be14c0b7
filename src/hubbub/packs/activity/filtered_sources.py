"""The only access to data of ActivityWatch and the sidecar, with the privacy rules applied.

No other module of the pack may hold an `ActivityWatchClient` or a `SidecarClient` (a test checks that), so tools,
resources, prompts and charts never get private data. Error messages pass the same rules, because servers quote
requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from hubbub.packs.activity import limits
from hubbub.packs.activity.activitywatch_client import ActivityWatchClient, BucketEvents, Category
from hubbub.packs.activity.browsers import ConfirmedPages
from hubbub.packs.activity.bucket_index import BucketIndex
from hubbub.packs.activity.disclosure import DisclosureGate
from hubbub.packs.activity.events import WEB, WINDOW, Bucket, Event
from hubbub.packs.activity.failures import BadRequest, SourceFailure
from hubbub.packs.activity.periods import user_time_zone
from hubbub.packs.activity.presence import DeviceRecords, Records, audible_foreground_times
from hubbub.packs.activity.privacy import Privacy
from hubbub.packs.activity.settings import ActivitySettings
from hubbub.packs.activity.sidecar_client import SidecarClient
from hubbub.packs.activity.sidecar_socket import default_url
from hubbub.packs.activity.sidecar_token import load_token_for
from hubbub.packs.activity.title_matching import NO_HIDDEN_TITLES, HiddenTitles
from hubbub.packs.activity.transforms import cut_before, flood, sort_by_time, union
from hubbub.packs.activity.watcher_health import Problem, find_problems, needs_window
from hubbub.packs.activity.watchers import ALL_HOSTS, Watchers, choose_watchers

_SCREEN_DATA: Final = "The screen"
_PROTECTED_DATA: Final = "Data of an ActivityWatch that requires an API key"
_UNKNOWN_PAGES_NOTE: Final = (
    "the rules drop_urls and mask_urls were not applied to the screen, because it is unknown which pages are open: "
    "start ActivityWatch, and install the aw-watcher-web extension in the browser"
)
_KNOWN_KEYS: Final = frozenset(
    ("hostname", "version", "testing", "device_id", "ok", "mode", "preflight_ok", "ready", "reason")
)
"""Common keys of `/info` and of probes. Other keys may reveal something themselves, so rules apply to them too."""


class LatestEvents(msgspec.Struct):
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


class FilteredSources:
    """Both servers, filtered by the privacy rules."""

    def __init__(self, settings: ActivitySettings) -> None:
        """Raises: SettingsError."""
        self._activitywatch = ActivityWatchClient(
            settings.aw_url, api_key=settings.api_key, timeout_s=settings.timeout_s
        )
        self._sidecar = SidecarClient(settings.sidecar_url or default_url(), timeout_s=settings.timeout_s)
        self._privacy = Privacy(settings.privacy)
        self._host = settings.host
        self._zone = user_time_zone(settings.time_zone)
        self._settings = settings
        self.gate = DisclosureGate(settings)
        self._restricted_data = _PROTECTED_DATA if settings.api_key else None

    # -- ActivityWatch -----------------------------------------------------------

    async def info(self) -> dict[str, Any]:
        """Return ActivityWatch's description of itself.

        Raises: SourceFailure.
        """
        with self._disclosing():
            return self._filter_info(await self._activitywatch.info())

    async def health_info(self) -> dict[str, Any]:
        """Return the same for a health check, which is also answered while disclosure is paused.

        Raises: SourceFailure.
        """
        with self._disclosing(is_health=True):
            return self._filter_info(await self._activitywatch.info())

    async def state(self) -> tuple[dict[str, Any] | SourceFailure, BucketIndex | SourceFailure]:
        """Return ActivityWatch's description of itself and all buckets; each may be a failure."""
        with self._disclosing():
            info, buckets = await self._activitywatch.state()
        return (
            self._mask_failure(info) if isinstance(info, SourceFailure) else self._filter_info(info),
            self._mask_failure(buckets) if isinstance(buckets, SourceFailure) else await self._index_buckets(buckets),
        )

    async def bucket_index(self) -> BucketIndex:
        """Return the buckets that may be disclosed, by name.

        Raises: SourceFailure.
        """
        with self._disclosing():
            return await self._index_buckets(await self._activitywatch.buckets())

    async def watchers(self, host: str | None = None) -> Watchers:
        """Choose the buckets of a machine that record the user's activity.

        Raises: SourceFailure, BadRequest.
        """
        return self._choose(*require_state(await self.state()), host)

    def deadline(self) -> float:
        """Return when requests that start now must be answered, by the event loop's clock."""
        return asyncio.get_running_loop().time() + self._settings.timeout_s

    async def watcher_problems(
        self, info: dict[str, Any], bucket_index: BucketIndex, deadline: float, host: str | None = None
    ) -> list[Problem]:
        """Return the current problems of the watchers, determined before the deadline.

        Raises: SourceFailure, BadRequest.
        """
        watchers, now = self._choose(info, bucket_index, host), datetime.now(UTC)
        window = None
        if needs_window(watchers, now):
            async with self._with_deadline(deadline):
                window = (await self.latest(watchers)).window
        return find_problems(watchers, window, now, self._zone)

    async def stopped_watchers(self, names: Iterable[str], end: datetime) -> list[str]:
        """Return messages about the watchers of these buckets that stopped before `end`."""
        deadline, wanted = self.deadline(), set(names)
        try:
            problems = await self.watcher_problems(*require_state(await self.state()), deadline, ALL_HOSTS)
        except (SourceFailure, BadRequest):
            return []  # the answer itself is complete; `system.health` reports the failure
        return [
            each.message
            for each in problems
            if not wanted.isdisjoint(each.buckets) and (each.last is None or each.last < end)
        ]

    async def latest(self, watchers: Watchers) -> LatestEvents:
        """Return the last event of each kind of watcher.

        Raises: SourceFailure.
        """
        kinds = {"window": watchers.window, "afk": watchers.afk, "tab": watchers.web, "editor": watchers.editor}
        requested = [(name, bucket) for name, buckets in kinds.items() for bucket in buckets]
        with self._disclosing():
            responses = await run_concurrently(
                *(
                    self._activitywatch.latest_events(bucket.id, limits.RECENT_TABS if name == "tab" else 1)
                    for name, bucket in requested
                )
            )
        found: dict[str, list[tuple[Bucket, Event]]] = {name: [] for name in kinds}
        for (name, bucket), events in zip(requested, responses, strict=True):
            found[name] += ((bucket, event) for event in events)
        hidden_pages = self._privacy.hidden_titles((event for _, event in found["tab"]), are_pages=True)
        pages = ConfirmedPages(event for _, event in found["tab"])
        hidden_windows = self._privacy.hidden_titles((event for _, event in found["window"]), are_pages=False)
        ends = [event.end for name in ("window", "afk") for _, event in found[name]]
        latest = LatestEvents(last_recorded=max(ends, default=None))
        for name, hidden_titles in (
            ("window", hidden_pages),
            ("afk", NO_HIDDEN_TITLES),
            ("tab", hidden_windows),
            ("editor", NO_HIDDEN_TITLES),
        ):
            if not found[name]:
                continue
            bucket, event = max(found[name], key=lambda pair: _recency_key(pair[1]))
            disclosed = self._filter_events(bucket, [event], hidden_titles, None if name == "tab" else pages)
            if disclosed:
                setattr(latest, name, disclosed[0])
            else:
                latest.private.append(name)
        return latest

    async def watchers_and_latest(self, host: str | None) -> tuple[Watchers, LatestEvents]:
        """Return the watchers of a machine and their last events, both within the timeout of one request.

        Raises: SourceFailure, BadRequest.
        """
        async with self._with_deadline(self.deadline()):
            watchers = await self.watchers(host)
            return watchers, await self.latest(watchers)

    async def records(
        self, watchers: Watchers, start: datetime, end: datetime, *, with_editor: bool = False
    ) -> Records:
        """Return the events of a period; those of editors only if requested.

        Raises: SourceFailure.
        """
        buckets = (*watchers.window, *watchers.afk, *watchers.web, *(watchers.editor if with_editor else ()))
        with self._disclosing():
            responses = await run_concurrently(
                *(self._activitywatch.events(bucket.id, start, end) for bucket in buckets)
            )
        found, is_cut = _cut_to_known(responses, end)
        events = {bucket.id: each for bucket, each in zip(buckets, found, strict=True)}
        records = await asyncio.to_thread(self._filter_records, watchers, events)
        records.is_cut = is_cut
        return records

    async def bucket_events(self, name: str, start: datetime, end: datetime) -> BucketEvents:
        """Return the events of a bucket, newest first, without those that reveal private events of other buckets.

        Raises: SourceFailure, BadRequest.
        """
        bucket_index = await self.bucket_index()
        bucket = bucket_index.bucket(name)
        are_pages = bucket.type != WEB
        kind = WEB if are_pages else WINDOW if self._privacy.has_window_rules else None
        others = [each for each in bucket_index.buckets if each.type == kind and each.id != bucket.id]
        with self._disclosing():
            responses = await run_concurrently(
                *(self._activitywatch.events(each.id, start, end) for each in (bucket, *others))
            )
        (events, *found), is_cut = _cut_to_known(responses, end)
        return BucketEvents(
            await asyncio.to_thread(self._filter_bucket_events, bucket, events, found, are_pages), is_cut
        )

    async def categories(self) -> list[Category]:
        """Return the categories that the user defined in ActivityWatch.

        Raises: SourceFailure.
        """
        with self._disclosing():
            found = await self._activitywatch.categories()
        return [Category([self._privacy.filter_value(part) for part in each.name], each.rule) for each in found]

    def mask_message(self, text: str) -> str:
        """Return a text that may quote private data, such as a pattern, with `[private]` for each match of a rule."""
        return self._privacy.mask_message(text)

    # -- the sidecar -----------------------------------------------------------

    async def probe(self) -> dict[str, Any]:
        """Return the sidecar's description of itself.

        Raises: SourceFailure.
        """
        with self._disclosing(is_health=True):
            return self._filter_fields(await self._sidecar.probe())

    async def screen(self) -> dict[str, Any]:
        """Read the screen: its elements and the foreground window.

        Raises: SourceFailure.
        """
        self.gate.check(restricted_data=_SCREEN_DATA)
        requested: dict[str, Any] = {"capture": True}
        if self._settings.ocr_language is not None:
            requested["parse_options"] = {"lang": self._settings.ocr_language}
        titles: list[str] | None = None
        token = None if self._sidecar.is_private else load_token_for(self._settings, self._sidecar.url)
        if self._sidecar.is_private or token is not None:  # rules are private: send them only to Hubbub's own sidecar
            requested["rules"] = msgspec.to_builtins(self._settings.privacy)
            titles = await self._private_titles()
            requested["private_titles"] = titles or []
        with self._disclosing():
            exchange = None if token is None else await self._sidecar.verify_sidecar(token)
            found = await self._sidecar.parse(requested, exchange)
        disclosed = await asyncio.to_thread(self._filter_screen, found)
        if titles is None and self._privacy.has_url_rules:
            disclosed["notes"].append(_UNKNOWN_PAGES_NOTE)
        return disclosed

    async def _private_titles(self) -> list[str] | None:
        """Return the hidden titles among the pages that were shown last; None if they cannot be determined.

        The sidecar itself knows only windows.
        """
        try:
            async with self._with_deadline(self.deadline()):
                watchers = await self.watchers()
                with self._disclosing():
                    tabs = await run_concurrently(
                        *(self._activitywatch.latest_events(bucket.id, limits.RECENT_TABS) for bucket in watchers.web)
                    )
        except (SourceFailure, BadRequest):
            return None
        if not watchers.web:
            return None
        hidden_titles = self._privacy.hidden_titles((event for events in tabs for event in events), are_pages=True)
        return [*hidden_titles.dropped, *hidden_titles.masked]

    # -- both ----------------------------------------------------------------------

    async def close(self) -> None:
        """Close all connections."""
        await self._activitywatch.close()
        await self._sidecar.close()

    def _choose(self, info: dict[str, Any], bucket_index: BucketIndex, host: str | None = None) -> Watchers:
        configured_host = self._host and self._privacy.mask_name(self._host)
        default_host = (
            configured_host if configured_host and configured_host != ALL_HOSTS else str(info.get("hostname", ""))
        )
        return choose_watchers(bucket_index.buckets, default_host, host or configured_host)

    async def _index_buckets(self, buckets: dict[str, Any]) -> BucketIndex:
        self.gate.count(buckets=len(buckets))
        if len(buckets) <= limits.INLINE_BUCKETS:
            return BucketIndex(buckets, self._privacy)
        return await asyncio.to_thread(BucketIndex, buckets, self._privacy)

    def _filter_events(
        self, bucket: Bucket, events: list[Event], hidden_titles: HiddenTitles, pages: ConfirmedPages | None = None
    ) -> list[Event]:
        allowed = self._privacy.filter_events(events, hidden_titles, is_masked=bucket.is_masked, pages=pages)
        self.gate.count_events(allowed)
        return allowed

    def _filter_records(self, watchers: Watchers, events: Mapping[str, list[Event]]) -> Records:
        windows = [event for bucket in watchers.window for event in events[bucket.id]]
        tabs = [event for bucket in watchers.web for event in events[bucket.id]]
        hidden_pages = self._privacy.hidden_titles(tabs, are_pages=True)
        hidden_windows = (
            self._privacy.hidden_titles(windows, are_pages=False)
            if self._privacy.has_window_rules
            else NO_HIDDEN_TITLES
        )

        confirmed = ConfirmedPages(tabs)

        def disclosed(
            buckets: Iterable[Bucket], hidden_titles: HiddenTitles, pages: ConfirmedPages | None = None
        ) -> list[list[Event]]:
            return [flood(self._filter_events(bucket, events[bucket.id], hidden_titles, pages)) for bucket in buckets]

        def coverage(buckets: Iterable[Bucket], allowed: list[list[Event]]) -> list[Event]:
            found = [events[bucket.id] for bucket in buckets]
            return union(*found) if sum(map(len, found)) > sum(map(len, allowed)) else []

        devices = []
        for device in watchers.devices:
            pages = [(bucket.apps, events[bucket.id]) for bucket in device.web]
            found = DeviceRecords(
                device.host,
                disclosed(device.window, hidden_pages, confirmed),
                disclosed(device.afk, NO_HIDDEN_TITLES),
                disclosed(device.web, hidden_windows),
                # Masked apps still count, so this uses the events before masking.
                [audible_foreground_times(events[bucket.id], pages) for bucket in device.window],
            )
            found.window_coverage = coverage(device.window, found.window)
            found.web_coverage = coverage(device.web, found.web)
            devices.append(found)
        editors = disclosed((bucket for bucket in watchers.editor if bucket.id in events), NO_HIDDEN_TITLES)
        return Records(devices, sort_by_time(event for each in editors for event in each))

    def _filter_bucket_events(
        self, bucket: Bucket, events: list[Event], found: list[list[Event]], are_pages: bool
    ) -> list[Event]:
        hidden_titles = self._privacy.hidden_titles((event for each in found for event in each), are_pages=are_pages)
        pages = ConfirmedPages(event for each in found for event in each) if are_pages else None
        return self._filter_events(bucket, events, hidden_titles, pages)

    def _filter_screen(self, found: dict[str, Any]) -> dict[str, Any]:
        read = _get_list(found, "parsed_content_list", limits.SCREEN_ELEMENTS)
        latency_ms = found.get("latency_ms")
        windows = [self._filter_window(each) for each in _get_list(found, "windows", limits.SCREEN_WINDOWS)]
        elements = [each for each in self._privacy.filter_elements(read) if _is_in_allowed_window(each, windows)]
        self.gate.count(lines=len(elements))
        return {
            "window": self._filter_window(found.get("window")),
            "windows": windows,
            "elements": elements,
            "notes": [
                self._privacy.mask_text(note)
                for note in _get_list(found, "notes", limits.SCREEN_NOTES)
                if isinstance(note, str)
            ],
            "latency_ms": round(latency_ms) if isinstance(latency_ms, int | float) else None,
        }

    def _filter_window(self, window: Any) -> dict[str, Any] | None:
        return self._privacy.filter_data(window) if isinstance(window, dict) else None

    def _filter_fields(self, value: dict[str, Any]) -> dict[str, Any]:
        return {
            key if key in _KNOWN_KEYS else self._privacy.mask_title(key): self._privacy.filter_value(item)
            for key, item in value.items()
        }

    @contextmanager
    def _disclosing(self, *, is_health: bool = False) -> Iterator[None]:
        """Check that disclosure is allowed before a request, and again after it: a pause may have begun meanwhile."""
        if not is_health:
            self.gate.check(restricted_data=self._restricted_data)
        try:
            yield
        except SourceFailure as failure:
            self._mask_failure(failure)
            raise
        if not is_health:
            self.gate.check()

    @asynccontextmanager
    async def _with_deadline(self, deadline: float) -> AsyncIterator[None]:
        """Limit several requests to ActivityWatch by one deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                yield
        except TimeoutError:
            with self._disclosing():
                raise self._activitywatch.timeout_failure(self._settings.timeout_s) from None

    def _mask_failure(self, failure: SourceFailure) -> SourceFailure:
        failure.message = self._privacy.mask_message(failure.message)
        failure.args = (failure.message,)
        return failure

    def _filter_info(self, info: dict[str, Any]) -> dict[str, Any]:
        disclosed = self._filter_fields(info)
        if isinstance(info.get("hostname"), str):
            disclosed["hostname"] = self._privacy.mask_name(info["hostname"])
        return disclosed


def _recency_key(event: Event) -> tuple[bool, datetime]:
    """Sort key for the latest event; events of a clock that is far ahead come first, so they are chosen last."""
    return event.end <= datetime.now(UTC) + timedelta(seconds=limits.CLOCK_AHEAD_S), event.end


def _cut_to_known(responses: Sequence[BucketEvents], end: datetime) -> tuple[list[list[Event]], bool]:
    """Cut all buckets to the time that all of them cover; also return whether that was needed.

    Events of one bucket determine what is private in another, so events older than the known part of the other buckets
    must not be disclosed.
    """
    cut = [min((event.timestamp for event in each.events), default=end) for each in responses if each.is_cut]
    if not cut:
        return [each.events for each in responses], False
    return [cut_before(each.events, max(cut)) for each in responses], True


def _get_list(found: dict[str, Any], key: str, max_items: int) -> list[Any]:
    value = found.get(key)
    return value[:max_items] if isinstance(value, list) else []


def _is_in_allowed_window(element: dict[str, Any], windows: list[dict[str, Any] | None]) -> bool:
    """Whether the window that an element names may be disclosed; an element without a window is allowed."""
    index = element.get("window")
    return type(index) is not int or (0 <= index < len(windows) and windows[index] is not None)


def require_state(
    state: tuple[dict[str, Any] | SourceFailure, BucketIndex | SourceFailure],
) -> tuple[dict[str, Any], BucketIndex]:
    """Return both parts of a state.

    Raises: SourceFailure, if one of them failed.
    """
    info, bucket_index = state
    if isinstance(info, SourceFailure):
        raise info
    if isinstance(bucket_index, SourceFailure):
        raise bucket_index
    return info, bucket_index


async def run_concurrently(*requests: Any) -> list[Any]:
    """Run requests concurrently; the first failure cancels the others.

    Raises: the exception of the first request to fail.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(request) for request in requests]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
