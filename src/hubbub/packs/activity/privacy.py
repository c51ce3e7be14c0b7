"""Apply the privacy rules to events, addresses, text and the screen. Pure.

`sources` applies them to all data of ActivityWatch and the sidecar before any other code reads it. The sidecar applies
them to the screen before it reads it.
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
from hubbub.packs.activity.hiding import NOTHING, Hiding, Verdict
from hubbub.packs.activity.private_texts import without_secrets
from hubbub.packs.activity.settings import REGION, PrivacySettings

PRIVATE: Final = "[private]"
TOO_DEEP: Final = "[too deep]"
_URLS: Final = ("url", "source_url")
_FILES: Final = ("file", "project")
_KNOWN_KEYS: Final = frozenset(
    ("app", "title", "url", "source_url", "status", "file", "project", "language", "audible", "incognito", "tabCount")
)
"""Keys that watchers commonly use. Other keys may reveal something themselves, so rules apply to them too."""
_ELEMENT_KEYS: Final = frozenset(("type", "bbox", "interactivity", "content", "source", "score", "window"))
_WATCHER: Final = re.compile(r"^aw-watcher-(?:(?:window|afk|web|input)(?![A-Za-z]))?[-_]?")
_ADDRESS: Final = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>]+")
Box: TypeAlias = tuple[float, float, float, float]
Rule: TypeAlias = tuple[re.Pattern[str], ...]


class Privacy:
    """The privacy rules of one user."""

    def __init__(self, settings: PrivacySettings) -> None:
        self._settings = settings
        self._dropped_apps = _any(settings.drop_apps)
        self._dropped_words = _any((*settings.drop_titles, *settings.drop_urls))
        self._dropped_lines = _any(settings.drop_text)
        self._masked_apps = _any(settings.mask_apps)
        self._masked_titles = _any(settings.mask_titles)
        self._masked_urls = _any(settings.mask_urls)
        self._masked_text = _any(settings.mask_text)
        self._private_apps = _any(settings.private_apps)
        self._every_rule = (
            self._dropped_apps,
            self._dropped_words,
            self._dropped_lines,
            self._masked_apps,
            self._masked_titles,
            self._masked_urls,
        )
        self.text = lru_cache(maxsize=4096)(self._text)
        """Return any text as it may be disclosed, with masked parts and secrets replaced. Cached."""
        self.word = lru_cache(maxsize=4096)(self._judged)
        """Return a text that may be a title or an address as it may be disclosed. Cached, because titles repeat."""

    # -- events ----------------------------------------------------------------

    def events(
        self,
        events: Iterable[Event],
        hiding: Hiding = NOTHING,
        *,
        is_masked: bool = False,
        pages: ConfirmedPages | None = None,
    ) -> list[Event]:
        """Return the events that may be disclosed, with private data masked.

        `hiding` has the hidden titles of pages that these windows may show, or of windows that may show these pages.
        `is_masked`: only the time of these events may be disclosed.
        `pages` confirms that windows are not private; None if the events are not of windows.
        """
        shown = []
        for event in events:
            data = self.data(event.data)
            verdict = hiding.verdict(event.text("title")) if hiding else "told"
            if data is None or verdict == "dropped":
                continue
            if is_masked or verdict == "masked":
                data = _masked(data, _is_anything if is_masked else _is_of_page)
            elif pages is not None and self._is_unconfirmed(event) and not pages.confirms(event):
                data = {key: UNCONFIRMED if _is_of_page(key) else value for key, value in data.items()}
            shown.append(Event(event.timestamp, event.duration, data, event.id))
        return shown

    def hiding(self, events: Iterable[Event], *, are_pages: bool) -> Hiding:
        """Return the titles of the events that are dropped or masked."""
        dropped, masked = set(), set()
        for event in events:
            told = self.data(event.data)
            if told is None:
                dropped.add(event.text("title"))
            elif told.get("title") == PRIVATE:
                masked.add(event.text("title"))
        return Hiding(dropped, masked, are_pages=are_pages)

    def data(self, data: dict[str, Any], depth: int = 0) -> dict[str, Any] | None:
        """Return the data of an event as it may be disclosed; None if the event is dropped.

        Rules for titles and addresses apply to every value except the app name: editor watchers call a title `file`,
        and other watchers use unknown keys.
        """
        app = " ".join(_texts(data.get("app")))
        if self._is_incognito(data, app, _text_of(data, "title")) or _found(self._dropped_apps, app):
            return None
        if self._dropped_words and any(_found(self._dropped_words, text) for text in _texts(data, besides="app")):
            return None
        if _found(self._masked_apps, app):
            return _masked({self._key(key): value for key, value in data.items()}, _is_anything)
        if _found(self._private_apps, app):
            masked = _masked({self._key(key): value for key, value in data.items()}, _is_anything)
            return {**masked, "app": self.tree(data["app"], depth + 1)}
        shown: dict[str, Any] = {}
        for key, value in data.items():
            if key in _URLS and isinstance(value, str):
                shown[key] = self._url(value)
            elif key == "app" and isinstance(value, str):
                shown[key] = self.text(value)
            else:
                shown[self._key(key)] = self.tree(value, depth + 1)
        hides_page = bool(self._masked_urls) and any(_found(self._masked_urls, _text_of(data, key)) for key in _URLS)
        if any(shown.get(key) == PRIVATE for key in _FILES):
            shown = _masked(shown, _FILES.__contains__)  # a project reveals its files, and a file its project
        return _masked(shown, _is_of_page) if hides_page else shown

    def hides_window(self, app: str, title: str) -> bool:
        """Whether the rules hide a window on the screen."""
        by_app = (*self._dropped_apps, *self._masked_apps, *self._private_apps)
        by_title = (*self._dropped_words, *self._masked_titles)
        return self._is_incognito({}, app, title) or _found(by_app, app) or _found(by_title, title)

    @property
    def minds_windows(self) -> bool:
        """Whether some rules need to know the positions of windows."""
        return bool(self._dropped_apps or self._masked_apps or self._dropped_words or self._masked_titles)

    @property
    def minds_addresses(self) -> bool:
        """Whether there are rules for page addresses, which window titles do not show."""
        return bool(self._settings.drop_urls or self._settings.mask_urls)

    def names_private_window(self, text: str) -> bool:
        """Whether a text marks a private browser window, if those are hidden."""
        return self._settings.incognito and browsers.names_private_window(text)

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
        is_known = event.data.get("incognito") is False or not any(map(_is_of_page, event.data))
        app = " ".join(_texts(event.data.get("app")))
        return self.hides_unconfirmed and not is_known and browsers.has_ambiguous_titles(app)

    def _is_incognito(self, data: dict[str, Any], app: str, title: str) -> bool:
        if not self._settings.incognito:
            return False
        return data.get("incognito") in (True, "true", 1) or browsers.is_marked_private(app, title)

    def _url(self, url: str) -> str:
        return self.word(site_of(url) if self._settings.urls == "domain" else url)

    def _key(self, key: str) -> str:
        return key if key in _KNOWN_KEYS else self.word(key)

    # -- names of buckets and machines ---------------------------------------------

    def name(self, text: str) -> str:
        """Return the name of a bucket, its watcher or its machine as it may be disclosed.

        Rules do not apply to the prefix that all such names share.
        """
        own = _WATCHER.sub("", text)
        if own and any(_found(rule, own) for rule in self._every_rule):
            return text.removesuffix(own) + PRIVATE
        return self.text(text)

    def of_watcher(self, bucket: str, client: str, host: str) -> Verdict:
        """Return what may be disclosed of a bucket: watchers of browsers and editors are named after their apps."""
        names = [_WATCHER.sub("", name) for name in (bucket.removesuffix(f"_{host}"), client)]
        if any(name and _found(self._dropped_apps, name) for name in names):
            return "dropped"
        return "masked" if any(name and _found(self._masked_apps, name) for name in names) else "told"

    # -- text and everything else ------------------------------------------------

    def _text(self, text: str) -> str:
        text = text[: limits.JUDGED_CHARACTERS]
        if self._settings.urls == "domain":
            text = _ADDRESS.sub(lambda found: site_of(found[0]), text)
        for pattern in self._masked_text:
            text = pattern.sub(PRIVATE, text)
        text = without_secrets(text) if self._settings.secrets else text
        return text[: limits.TEXT_CHARACTERS]

    def _judged(self, text: str) -> str:
        rules = (self._dropped_words, self._dropped_lines, self._masked_titles, self._masked_urls)
        return PRIVATE if any(_found(rule, text) for rule in rules) else self.text(text)

    def report(self, text: str) -> str:
        """Return a server's error message with `[private]` for each match of a rule, because it may quote any data."""
        for pattern in (pattern for rule in self._every_rule for pattern in rule):
            text = pattern.sub(lambda found: PRIVATE if found[0] else "", text)
        return self.text(text)

    def line(self, text: str) -> str | None:
        """Return a line that was read from the screen as it may be disclosed; None if it is dropped.

        The rules for apps, titles and addresses apply too, because the screen shows those.
        """
        if any(_found(rule, text) for rule in (self._dropped_lines, self._dropped_words, self._dropped_apps)):
            return None
        return PRIVATE if _found(self._masked_apps, text) else self.word(text)

    def tree(self, value: Any, depth: int = 0) -> Any:
        """Return a JSON value as it may be disclosed; objects about a window or a page are treated as events."""
        if isinstance(value, str):
            return self.word(value)
        if not isinstance(value, list | dict):
            return value
        if depth > limits.DEPTH:
            return TOO_DEEP
        if isinstance(value, list):
            return [self.tree(item, depth + 1) for item in value]
        if any(isinstance(value.get(key), str) for key in ("app", "title", *_URLS)):
            return self.data(value, depth)
        return {self.word(key): self.tree(item, depth + 1) for key, item in value.items()}

    # -- the screen ----------------------------------------------------------------

    def elements(self, elements: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the elements of the screen that may be disclosed."""
        shown = []
        for element in elements:
            if not isinstance(element, dict):
                continue
            content = element.get("content")
            line = self.line(content) if isinstance(content, str) else self.tree(content)
            if line is not None or content is None:
                rest = {
                    key if key in _ELEMENT_KEYS else self.word(key): self.tree(value)
                    for key, value in element.items()
                    if key != "content"
                }
                shown.append({**rest, "content": line})
        return shown

    def regions(self) -> list[Box]:
        """Return the parts of the screen that are never read: left, top, right, bottom."""
        found = []
        for text in self._settings.regions:
            match = REGION.fullmatch(text)
            assert match is not None  # validated by the settings
            width, height, left, top = map(float, match.groups())
            found.append((left, top, left + width, top + height))
        return found


def _any(patterns: Sequence[str]) -> Rule:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def _found(rule: Rule, text: str) -> bool:
    return any(pattern.search(text) for pattern in rule)


def _texts(value: Any, *, besides: str = "", depth: int = 0) -> Iterator[str]:
    """Yield every string in a value, down to the depth that is disclosed."""
    if isinstance(value, str):
        yield value[: limits.JUDGED_CHARACTERS]
    elif depth > limits.DEPTH:
        return
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _KNOWN_KEYS:
                yield key[: limits.JUDGED_CHARACTERS]
            if key != besides:
                yield from _texts(item, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, depth=depth + 1)


def _text_of(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value[: limits.JUDGED_CHARACTERS] if isinstance(value, str) else ""


def _masked(data: dict[str, Any], hides: Callable[[str], bool]) -> dict[str, Any]:
    return {key: _blank(value) if hides(key) else value for key, value in data.items()}


def _is_anything(_: str) -> bool:
    return True


def _is_of_page(key: str) -> bool:
    return key in _URLS or key == "title" or key.startswith("$")


def site_of(url: str) -> str:
    """Return the host name in an address; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _blank(value: Any) -> Any:
    """Keep numbers, booleans and null; replace any other value."""
    return value if isinstance(value, bool | int | float | None) else PRIVATE
