"""What nobody is told: rules for events, addresses, text and the screen. Pure.

`sources` applies them to all that comes from ActivityWatch and from the sidecar, before
anything else sees it; the sidecar itself applies them to the screen before it reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from hubbub import bounds
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.private_texts import without_secrets
from hubbub.packs.activity.settings import REGION, PrivacySettings

PRIVATE: Final = "[private]"
_URLS: Final = ("url", "source_url")
_NAMES_OF_PRIVATE_WINDOWS: Final = re.compile(
    r"(?i)\b(?:private browsing|private window|inprivate|incognito|tor browser)\b|\(private\)"
)
_LEAST_HIDDEN_TITLE: Final = 3
Box: TypeAlias = tuple[float, float, float, float]
Rule: TypeAlias = tuple[re.Pattern[str], ...]


class Privacy:
    """The rules of one person."""

    def __init__(self, settings: PrivacySettings) -> None:
        self._settings = settings
        self._dropped_apps = _any(settings.drop_apps)
        self._dropped_words = _any((*settings.drop_titles, *settings.drop_urls))
        self._dropped_lines = _any(settings.drop_text)
        self._masked_apps = _any(settings.mask_apps)
        self._masked_titles = _any(settings.mask_titles)
        self._masked_urls = _any(settings.mask_urls)
        self._masked_text = _any(settings.mask_text)
        self.text = lru_cache(maxsize=4096)(self._text)
        """A text as it may be told, whatever it is about."""

    # -- events ----------------------------------------------------------------

    def events(self, events: Iterable[Event], hidden_titles: Sequence[str] = ()) -> list[Event]:
        """Those that may be told, as they may be told.

        `hidden_titles` are of private tabs: the window that shows one has its name too.
        """
        shown = []
        for event in events:
            data = self.data(event.data)
            if data is not None and not any(title in event.text("title") for title in hidden_titles):
                shown.append(Event(event.timestamp, event.duration, data, event.id))
        return shown

    def data(self, data: dict[str, Any]) -> dict[str, Any] | None:
        """What an event says, as it may be told; None if it may not.

        Rules for titles and addresses are held against everything but the name of the app: watchers
        for editors call a title `file`, and others have words that nobody here knows.
        """
        app = _text_of(data, "app")
        if self._is_incognito(data, app, _text_of(data, "title")) or _found(self._dropped_apps, app):
            return None
        if self._dropped_words and any(_found(self._dropped_words, text) for text in _texts(data, besides="app")):
            return None
        if _found(self._masked_apps, app):
            return {key: PRIVATE if isinstance(value, str) else _blank(value) for key, value in data.items()}
        hides_page = bool(self._masked_urls) and any(_found(self._masked_urls, _text_of(data, key)) for key in _URLS)
        shown: dict[str, Any] = {}
        for key, value in data.items():
            if hides_page and (key in _URLS or key == "title" or key.startswith("$")):
                shown[key] = PRIVATE
            elif key in _URLS and isinstance(value, str):
                shown[key] = self._url(value)
            elif key == "app" and isinstance(value, str):
                shown[key] = self.text(value)
            else:
                shown[key] = self.tree(value)
        return shown

    def hidden_titles(self, events: Iterable[Event]) -> list[str]:
        """The titles of tabs that may not be told, to find their windows by."""
        titles = {event.text("title") for event in events if self.data(event.data) is None}
        return sorted(title for title in titles if len(title) >= _LEAST_HIDDEN_TITLE)

    def hides_window(self, app: str, title: str) -> bool:
        """Whether a window on the screen may not be seen."""
        by_app = (*self._dropped_apps, *self._masked_apps)
        by_title = (*self._dropped_words, *self._masked_titles)
        return self._is_incognito({}, app, title) or _found(by_app, app) or _found(by_title, title)

    @property
    def minds_windows(self) -> bool:
        """Whether there are rules that can only be kept where it is known which window is where."""
        return bool(self._dropped_apps or self._masked_apps or self._dropped_words or self._masked_titles)

    def _is_incognito(self, data: dict[str, Any], app: str, title: str) -> bool:
        if not self._settings.incognito:
            return False
        return data.get("incognito") in (True, "true", 1) or any(
            _NAMES_OF_PRIVATE_WINDOWS.search(text) for text in (app, title)
        )

    def _url(self, url: str) -> str:
        if self._settings.urls == "domain":
            return urlsplit(url).hostname or ""
        return self._word(url)

    # -- text and everything else ------------------------------------------------

    def _text(self, text: str) -> str:
        text = text[: bounds.ACTIVITY_TEXT_CHARACTERS]
        for pattern in self._masked_text:
            text = pattern.sub(PRIVATE, text)
        return without_secrets(text) if self._settings.secrets else text

    def _word(self, text: str) -> str:
        """A text that may be a title or an address."""
        rules = (self._dropped_words, self._dropped_lines, self._masked_titles, self._masked_urls)
        return PRIVATE if any(_found(rule, text) for rule in rules) else self.text(text)

    def line(self, text: str) -> str | None:
        """A line that was read from the screen, as it may be told; None if it may not.

        Titles of windows, names of apps and addresses of pages can be read there too.
        """
        if any(_found(rule, text) for rule in (self._dropped_lines, self._dropped_words, self._dropped_apps)):
            return None
        return PRIVATE if _found(self._masked_apps, text) else self._word(text)

    def tree(self, value: Any) -> Any:
        """Any JSON, as it may be told: parts that tell of a window or a page are treated like events."""
        if isinstance(value, str):
            return self._word(value)
        if isinstance(value, list):
            return [self.tree(item) for item in value]
        if not isinstance(value, dict):
            return value
        if any(isinstance(value.get(key), str) for key in ("app", "title", *_URLS)):
            return self.data(value)
        return {self._word(key): self.tree(item) for key, item in value.items()}

    # -- the screen ----------------------------------------------------------------

    def elements(self, elements: Iterable[Any]) -> list[dict[str, Any]]:
        """What was found on the screen, as it may be told."""
        shown = []
        for element in elements:
            if not isinstance(element, dict):
                continue
            content = element.get("content")
            line = self.line(content) if isinstance(content, str) else content
            if line is not None or content is None:
                rest = {key: self.tree(value) for key, value in element.items() if key != "content"}
                shown.append({**rest, "content": line})
        return shown

    def regions(self) -> list[Box]:
        """The parts of the screen that are never read: left, top, right, bottom."""
        found = []
        for text in self._settings.regions:
            match = REGION.fullmatch(text)
            assert match is not None  # the settings made sure of it
            width, height, left, top = map(float, match.groups())
            found.append((left, top, left + width, top + height))
        return found


def _any(patterns: Sequence[str]) -> Rule:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def _found(rule: Rule, text: str) -> bool:
    return any(pattern.search(text) for pattern in rule)


def _texts(value: Any, *, besides: str = "") -> Iterator[str]:
    """Every text in it."""
    if isinstance(value, str):
        yield value[: bounds.ACTIVITY_TEXT_CHARACTERS]
    elif isinstance(value, dict):
        for key, item in value.items():
            if key != besides:
                yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _text_of(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value[: bounds.ACTIVITY_TEXT_CHARACTERS] if isinstance(value, str) else ""


def _blank(value: Any) -> Any:
    """Whatever a value holds, less all that could tell something."""
    return value if isinstance(value, bool | int | float | None) else PRIVATE
