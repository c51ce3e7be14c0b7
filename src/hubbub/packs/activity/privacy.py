"""Apply the privacy rules to events, addresses, text and the screen. Pure.

`filtered_sources` applies them to all data of ActivityWatch and the sidecar before any other code reads it. The sidecar
applies them to the screen before it reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from hubbub.packs.activity import browsers, limits
from hubbub.packs.activity.browsers import UNCONFIRMED, ConfirmedPages
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.secret_patterns import mask_secrets
from hubbub.packs.activity.settings import REGION, PrivacySettings
from hubbub.packs.activity.title_matching import NO_HIDDEN_TITLES, HiddenTitles, Verdict

PRIVATE: Final = "[private]"
TOO_DEEP: Final = "[too deep]"
_URL_KEYS: Final = ("url", "source_url")
_FILE_KEYS: Final = ("file", "project")
_KNOWN_KEYS: Final = frozenset(
    ("app", "title", "url", "source_url", "status", "file", "project", "language", "audible", "incognito", "tabCount")
)
"""Keys that watchers commonly use. Other keys may reveal something themselves, so rules apply to them too."""
_ELEMENT_KEYS: Final = frozenset(("type", "bbox", "interactivity", "content", "source", "score", "window"))
_WATCHER_PREFIX: Final = re.compile(r"^aw-watcher-(?:(?:window|afk|web|input)(?![A-Za-z]))?[-_]?")
_URL_PATTERN: Final = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>]+")
Box: TypeAlias = tuple[float, float, float, float]
Patterns: TypeAlias = tuple[re.Pattern[str], ...]


class Privacy:
    """The privacy rules of one user."""

    def __init__(self, settings: PrivacySettings) -> None:
        self._settings = settings
        self._dropped_apps = _compile_patterns(settings.drop_apps)
        self._dropped_titles = _compile_patterns((*settings.drop_titles, *settings.drop_urls))
        self._dropped_lines = _compile_patterns(settings.drop_text)
        self._masked_apps = _compile_patterns(settings.mask_apps)
        self._masked_titles = _compile_patterns(settings.mask_titles)
        self._masked_urls = _compile_patterns(settings.mask_urls)
        self._masked_text = _compile_patterns(settings.mask_text)
        self._private_apps = _compile_patterns(settings.private_apps)
        self._all_rules = (
            self._dropped_apps,
            self._dropped_titles,
            self._dropped_lines,
            self._masked_apps,
            self._masked_titles,
            self._masked_urls,
        )
        self.mask_text = lru_cache(maxsize=4096)(self._mask_text)
        """Return any text as it may be disclosed, with masked parts and secrets replaced. Cached."""
        self.mask_title = lru_cache(maxsize=4096)(self._mask_title)
        """Return a text that may be a title or an address as it may be disclosed. Cached, because titles repeat."""

    # -- events ----------------------------------------------------------------

    def filter_events(
        self,
        events: Iterable[Event],
        hidden_titles: HiddenTitles = NO_HIDDEN_TITLES,
        *,
        is_masked: bool = False,
        pages: ConfirmedPages | None = None,
    ) -> list[Event]:
        """Return the events that may be disclosed, with private data masked.

        `hidden_titles`: of pages that these windows may show, or of windows that may show these pages.
        `is_masked`: only the time of these events may be disclosed.
        `pages` confirms that windows are not private; None if the events are not of windows.
        """
        disclosed = []
        for event in events:
            data = self.filter_data(event.data)
            verdict = hidden_titles.verdict(event.text("title")) if hidden_titles else "disclosed"
            if data is None or verdict == "dropped":
                continue
            if is_masked or verdict == "masked":
                data = _mask_data(data, _is_any_key if is_masked else _is_page_key)
            elif pages is not None and self._is_unconfirmed(event) and not pages.confirms(event):
                data = {key: UNCONFIRMED if _is_page_key(key) else value for key, value in data.items()}
            disclosed.append(Event(event.timestamp, event.duration, data, event.id))
        return disclosed

    def hidden_titles(self, events: Iterable[Event], *, are_pages: bool) -> HiddenTitles:
        """Return the titles of the events that are dropped or masked."""
        dropped, masked = set(), set()
        for event in events:
            filtered = self.filter_data(event.data)
            if filtered is None:
                dropped.add(event.text("title"))
            elif filtered.get("title") == PRIVATE:
                masked.add(event.text("title"))
        return HiddenTitles(dropped, masked, are_pages=are_pages)

    def filter_data(self, data: dict[str, Any], depth: int = 0) -> dict[str, Any] | None:
        """Return the data of an event as it may be disclosed; None if the event is dropped.

        Rules for titles and addresses apply to every value except the app name: editor watchers call a title `file`,
        and other watchers use unknown keys.
        """
        app = " ".join(_iter_texts(data.get("app")))
        if self._is_incognito(data, app, _get_text(data, "title")) or _matches_any(self._dropped_apps, app):
            return None
        if self._dropped_titles and any(
            _matches_any(self._dropped_titles, text) for text in _iter_texts(data, skipped_key="app")
        ):
            return None
        if _matches_any(self._masked_apps, app):
            return _mask_data({self._mask_key(key): value for key, value in data.items()}, _is_any_key)
        if _matches_any(self._private_apps, app):
            masked = _mask_data({self._mask_key(key): value for key, value in data.items()}, _is_any_key)
            return {**masked, "app": self.filter_value(data["app"], depth + 1)}
        disclosed: dict[str, Any] = {}
        for key, value in data.items():
            if key in _URL_KEYS and isinstance(value, str):
                disclosed[key] = self._mask_url(value)
            elif key == "app" and isinstance(value, str):
                disclosed[key] = self.mask_text(value)
            else:
                disclosed[self._mask_key(key)] = self.filter_value(value, depth + 1)
        hides_page = bool(self._masked_urls) and any(
            _matches_any(self._masked_urls, _get_text(data, key)) for key in _URL_KEYS
        )
        if any(disclosed.get(key) == PRIVATE for key in _FILE_KEYS):
            # A project reveals its files, and a file its project.
            disclosed = _mask_data(disclosed, _FILE_KEYS.__contains__)
        return _mask_data(disclosed, _is_page_key) if hides_page else disclosed

    def hides_window(self, app: str, title: str) -> bool:
        """Whether the rules hide a window on the screen."""
        by_app = (*self._dropped_apps, *self._masked_apps, *self._private_apps)
        by_title = (*self._dropped_titles, *self._masked_titles)
        return self._is_incognito({}, app, title) or _matches_any(by_app, app) or _matches_any(by_title, title)

    @property
    def has_window_rules(self) -> bool:
        """Whether some rules need to know the positions of windows."""
        return bool(self._dropped_apps or self._masked_apps or self._dropped_titles or self._masked_titles)

    @property
    def has_url_rules(self) -> bool:
        """Whether there are rules for page addresses, which window titles do not show."""
        return bool(self._settings.drop_urls or self._settings.mask_urls)

    def mentions_private_window(self, text: str) -> bool:
        """Whether a text marks a private browser window, if those are hidden."""
        return self._settings.incognito and browsers.mentions_private_window(text)

    @property
    def hides_private_windows(self) -> bool:
        """Whether private browser windows are hidden."""
        return self._settings.incognito

    @property
    def hides_unconfirmed(self) -> bool:
        """Whether browser windows that may be private are hidden."""
        return self._settings.incognito and self._settings.unconfirmed_windows == "hide"

    def _is_unconfirmed(self, event: Event) -> bool:
        """Whether an event may be of a private window, judged by the event alone."""
        is_known = event.data.get("incognito") is False or not any(map(_is_page_key, event.data))
        app = " ".join(_iter_texts(event.data.get("app")))
        return self.hides_unconfirmed and not is_known and browsers.has_ambiguous_titles(app)

    def _is_incognito(self, data: dict[str, Any], app: str, title: str) -> bool:
        if not self._settings.incognito:
            return False
        return data.get("incognito") in (True, "true", 1) or browsers.is_marked_private(app, title)

    def _mask_url(self, url: str) -> str:
        return self.mask_title(extract_hostname(url) if self._settings.urls == "domain" else url)

    def _mask_key(self, key: str) -> str:
        return key if key in _KNOWN_KEYS else self.mask_title(key)

    # -- names of buckets and machines ---------------------------------------------

    def mask_name(self, text: str) -> str:
        """Return the name of a bucket, its watcher or its machine as it may be disclosed.

        Rules do not apply to the prefix that all such names share.
        """
        own_name = _WATCHER_PREFIX.sub("", text)
        if own_name and any(_matches_any(rule, own_name) for rule in self._all_rules):
            return text.removesuffix(own_name) + PRIVATE
        return self.mask_text(text)

    def watcher_verdict(self, bucket: str, client: str, host: str) -> Verdict:
        """Return what may be disclosed of a bucket: watchers of browsers and editors are named after their apps."""
        names = [_WATCHER_PREFIX.sub("", name) for name in (bucket.removesuffix(f"_{host}"), client)]
        if any(name and _matches_any(self._dropped_apps, name) for name in names):
            return "dropped"
        return "masked" if any(name and _matches_any(self._masked_apps, name) for name in names) else "disclosed"

    # -- text and everything else ------------------------------------------------

    def _mask_text(self, text: str) -> str:
        text = text[: limits.CHECKED_CHARACTERS]
        if self._settings.urls == "domain":
            text = _URL_PATTERN.sub(lambda found: extract_hostname(found[0]), text)
        for pattern in self._masked_text:
            text = pattern.sub(PRIVATE, text)
        text = mask_secrets(text) if self._settings.secrets else text
        return text[: limits.TEXT_CHARACTERS]

    def _mask_title(self, text: str) -> str:
        rules = (self._dropped_titles, self._dropped_lines, self._masked_titles, self._masked_urls)
        return PRIVATE if any(_matches_any(rule, text) for rule in rules) else self.mask_text(text)

    def mask_message(self, text: str) -> str:
        """Return a server's error message with `[private]` for each match of a rule, because it may quote any data."""
        for pattern in (pattern for rule in self._all_rules for pattern in rule):
            text = pattern.sub(lambda found: PRIVATE if found[0] else "", text)
        return self.mask_text(text)

    def filter_line(self, text: str) -> str | None:
        """Return a line that was read from the screen as it may be disclosed; None if it is dropped.

        The rules for apps, titles and addresses apply too, because the screen shows those.
        """
        if any(_matches_any(rule, text) for rule in (self._dropped_lines, self._dropped_titles, self._dropped_apps)):
            return None
        return PRIVATE if _matches_any(self._masked_apps, text) else self.mask_title(text)

    def filter_value(self, value: Any, depth: int = 0) -> Any:
        """Return a JSON value as it may be disclosed; objects about a window or a page are treated as events."""
        if isinstance(value, str):
            return self.mask_title(value)
        if not isinstance(value, list | dict):
            return value
        if depth > limits.DATA_DEPTH:
            return TOO_DEEP
        if isinstance(value, list):
            return [self.filter_value(item, depth + 1) for item in value]
        if any(isinstance(value.get(key), str) for key in ("app", "title", *_URL_KEYS)):
            return self.filter_data(value, depth)
        return {self.mask_title(key): self.filter_value(item, depth + 1) for key, item in value.items()}

    # -- the screen ----------------------------------------------------------------

    def filter_elements(self, elements: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the elements of the screen that may be disclosed."""
        disclosed = []
        for element in elements:
            if not isinstance(element, dict):
                continue
            content = element.get("content")
            line = self.filter_line(content) if isinstance(content, str) else self.filter_value(content)
            if line is not None or content is None:
                rest = {
                    key if key in _ELEMENT_KEYS else self.mask_title(key): self.filter_value(value)
                    for key, value in element.items()
                    if key != "content"
                }
                disclosed.append({**rest, "content": line})
        return disclosed

    def hidden_regions(self) -> list[Box]:
        """Return the parts of the screen that are never read: left, top, right, bottom."""
        found = []
        for text in self._settings.regions:
            match = REGION.fullmatch(text)
            assert match is not None  # validated by the settings
            width, height, left, top = map(float, match.groups())
            found.append((left, top, left + width, top + height))
        return found


def _compile_patterns(patterns: Sequence[str]) -> Patterns:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def _matches_any(rule: Patterns, text: str) -> bool:
    return any(pattern.search(text) for pattern in rule)


def _iter_texts(value: Any, *, skipped_key: str = "", depth: int = 0) -> Iterator[str]:
    """Yield every string in a value, down to the depth that is disclosed."""
    if isinstance(value, str):
        yield value[: limits.CHECKED_CHARACTERS]
    elif depth > limits.DATA_DEPTH:
        return
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _KNOWN_KEYS:
                yield key[: limits.CHECKED_CHARACTERS]
            if key != skipped_key:
                yield from _iter_texts(item, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_texts(item, depth=depth + 1)


def _get_text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value[: limits.CHECKED_CHARACTERS] if isinstance(value, str) else ""


def _mask_data(data: dict[str, Any], hides: Callable[[str], bool]) -> dict[str, Any]:
    return {key: _mask_value(value) if hides(key) else value for key, value in data.items()}


def _is_any_key(_: str) -> bool:
    return True


def _is_page_key(key: str) -> bool:
    return key in _URL_KEYS or key == "title" or key.startswith("$")


def extract_hostname(url: str) -> str:
    """Return the host name in an address; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _mask_value(value: Any) -> Any:
    """Keep numbers, booleans and null; replace any other value."""
    return value if isinstance(value, bool | int | float | None) else PRIVATE
