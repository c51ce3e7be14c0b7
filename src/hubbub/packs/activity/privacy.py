"""What nobody is told: rules for events, addresses, text and the screen. Pure.

`sources` applies them to all that comes from ActivityWatch and from the sidecar, before
anything else sees it; the sidecar itself applies them to the screen before it reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from hubbub import bounds
from hubbub.packs.activity.events import Event
from hubbub.packs.activity.hiding import NOTHING, Hiding, Verdict
from hubbub.packs.activity.private_texts import without_secrets
from hubbub.packs.activity.settings import REGION, PrivacySettings

PRIVATE: Final = "[private]"
TOO_DEEP: Final = "[too deep]"
_URLS: Final = ("url", "source_url")
_KNOWN_KEYS: Final = frozenset(
    ("app", "title", "url", "source_url", "status", "file", "project", "language", "audible", "incognito", "tabCount")
)
"""What watchers call things; other keys may tell something themselves."""
_ELEMENT_KEYS: Final = frozenset(("type", "bbox", "interactivity", "content", "source", "score"))
_NAMES_OF_PRIVATE_WINDOWS: Final = re.compile(
    r"(?i)\b(?:private browsing|private window|inprivate|incognito|tor browser|inkognito\w*|privater modus"
    r"|privates? fenster|navigation priv[ée]e|navegaci[óo]n privada|navega[çc][ãa]o privada"
    r"|navigazione (?:anonima|privata)"
    r"|privénavigatie|инкогнито|приватн\w+ (?:просмотр|окно))\b|\(private\)"
    r"|プライベートブラウジング|シークレット|隐私浏览|隐身|無痕"
)
_WATCHER: Final = re.compile(r"^aw-watcher-(?:(?:window|afk|web|input)(?![A-Za-z]))?[-_]?")
_ADDRESS: Final = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>]+")
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
        self._every_rule = (
            self._dropped_apps,
            self._dropped_words,
            self._dropped_lines,
            self._masked_apps,
            self._masked_titles,
            self._masked_urls,
        )
        self.text = lru_cache(maxsize=4096)(self._text)
        """A text as it may be told, whatever it is about."""
        self.word = lru_cache(maxsize=4096)(self._judged)
        """A text that may be a title or an address; titles come again and again."""

    # -- events ----------------------------------------------------------------

    def events(self, events: Iterable[Event], hiding: Hiding = NOTHING, *, is_masked: bool = False) -> list[Event]:
        """Those that may be told, as they may be told.

        `hiding` has the titles of what they show, or of what shows them; `is_masked`: only their time may be told.
        """
        shown = []
        for event in events:
            data = self.data(event.data)
            verdict = hiding.verdict(event.text("title")) if hiding else "told"
            if data is None or verdict == "dropped":
                continue
            if is_masked or verdict == "masked":
                data = _masked(data, _is_anything if is_masked else _is_of_page)
            shown.append(Event(event.timestamp, event.duration, data, event.id))
        return shown

    def hiding(self, events: Iterable[Event], *, are_pages: bool) -> Hiding:
        """The titles of those that may not be told, or not openly."""
        dropped, masked = set(), set()
        for event in events:
            told = self.data(event.data)
            if told is None:
                dropped.add(event.text("title"))
            elif told.get("title") == PRIVATE:
                masked.add(event.text("title"))
        return Hiding(dropped, masked, are_pages=are_pages)

    def data(self, data: dict[str, Any], depth: int = 0) -> dict[str, Any] | None:
        """What an event says, as it may be told; None if it may not.

        Rules for titles and addresses are held against everything but the name of the app: watchers
        for editors call a title `file`, and others have words that nobody here knows.
        """
        app = " ".join(_texts(data.get("app")))
        if self._is_incognito(data, app, _text_of(data, "title")) or _found(self._dropped_apps, app):
            return None
        if self._dropped_words and any(_found(self._dropped_words, text) for text in _texts(data, besides="app")):
            return None
        if _found(self._masked_apps, app):
            return _masked({self._key(key): value for key, value in data.items()}, _is_anything)
        shown: dict[str, Any] = {}
        for key, value in data.items():
            if key in _URLS and isinstance(value, str):
                shown[key] = self._url(value)
            elif key == "app" and isinstance(value, str):
                shown[key] = self.text(value)
            else:
                shown[self._key(key)] = self.tree(value, depth + 1)
        hides_page = bool(self._masked_urls) and any(_found(self._masked_urls, _text_of(data, key)) for key in _URLS)
        return _masked(shown, _is_of_page) if hides_page else shown

    def hides_window(self, app: str, title: str) -> bool:
        """Whether a window on the screen may not be seen."""
        by_app = (*self._dropped_apps, *self._masked_apps)
        by_title = (*self._dropped_words, *self._masked_titles)
        return self._is_incognito({}, app, title) or _found(by_app, app) or _found(by_title, title)

    @property
    def minds_windows(self) -> bool:
        """Whether there are rules that can only be kept where it is known which window is where."""
        return bool(self._dropped_apps or self._masked_apps or self._dropped_words or self._masked_titles)

    def names_private_window(self, text: str) -> bool:
        """Whether browsers write such a thing on their private windows, and those are to be left out."""
        return self._settings.incognito and _NAMES_OF_PRIVATE_WINDOWS.search(text) is not None

    def _is_incognito(self, data: dict[str, Any], app: str, title: str) -> bool:
        if not self._settings.incognito:
            return False
        return data.get("incognito") in (True, "true", 1) or any(
            _NAMES_OF_PRIVATE_WINDOWS.search(text) for text in (app, title)
        )

    def _url(self, url: str) -> str:
        return self.word(site_of(url) if self._settings.urls == "domain" else url)

    def _key(self, key: str) -> str:
        return key if key in _KNOWN_KEYS else self.word(key)

    # -- names of buckets and machines ---------------------------------------------

    def name(self, text: str) -> str:
        """A name of a bucket, its watcher or its machine, as it may be told.

        What every such name has in common is no reason to hide one.
        """
        own = _WATCHER.sub("", text)
        if own and any(_found(rule, own) for rule in self._every_rule):
            return text.removesuffix(own) + PRIVATE
        return self.text(text)

    def of_watcher(self, bucket: str, client: str, host: str) -> Verdict:
        """What may be told of a bucket: watchers of browsers and editors are called after them."""
        names = [_WATCHER.sub("", name) for name in (bucket.removesuffix(f"_{host}"), client)]
        if any(name and _found(self._dropped_apps, name) for name in names):
            return "dropped"
        return "masked" if any(name and _found(self._masked_apps, name) for name in names) else "told"

    # -- text and everything else ------------------------------------------------

    def _text(self, text: str) -> str:
        text = text[: bounds.ACTIVITY_JUDGED_CHARACTERS]
        if self._settings.urls == "domain":
            text = _ADDRESS.sub(lambda found: site_of(found[0]), text)
        for pattern in self._masked_text:
            text = pattern.sub(PRIVATE, text)
        text = without_secrets(text) if self._settings.secrets else text
        return text[: bounds.ACTIVITY_TEXT_CHARACTERS]

    def _judged(self, text: str) -> str:
        rules = (self._dropped_words, self._dropped_lines, self._masked_titles, self._masked_urls)
        return PRIVATE if any(_found(rule, text) for rule in rules) else self.text(text)

    def report(self, text: str) -> str:
        """What a server says of its trouble, in which it may quote anything; what no rule minds stays."""
        for pattern in (pattern for rule in self._every_rule for pattern in rule):
            text = pattern.sub(lambda found: PRIVATE if found[0] else "", text)
        return self.text(text)

    def line(self, text: str) -> str | None:
        """A line that was read from the screen, as it may be told; None if it may not.

        Titles of windows, names of apps and addresses of pages can be read there too.
        """
        if any(_found(rule, text) for rule in (self._dropped_lines, self._dropped_words, self._dropped_apps)):
            return None
        return PRIVATE if _found(self._masked_apps, text) else self.word(text)

    def tree(self, value: Any, depth: int = 0) -> Any:
        """Any JSON, as it may be told: parts that tell of a window or a page are treated like events."""
        if isinstance(value, str):
            return self.word(value)
        if not isinstance(value, list | dict):
            return value
        if depth > bounds.ACTIVITY_DEPTH:
            return TOO_DEEP
        if isinstance(value, list):
            return [self.tree(item, depth + 1) for item in value]
        if any(isinstance(value.get(key), str) for key in ("app", "title", *_URLS)):
            return self.data(value, depth)
        return {self.word(key): self.tree(item, depth + 1) for key, item in value.items()}

    # -- the screen ----------------------------------------------------------------

    def elements(self, elements: Iterable[Any]) -> list[dict[str, Any]]:
        """What was found on the screen, as it may be told."""
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


def _texts(value: Any, *, besides: str = "", depth: int = 0) -> Iterator[str]:
    """Every text in it, as deep as anything is told."""
    if isinstance(value, str):
        yield value[: bounds.ACTIVITY_JUDGED_CHARACTERS]
    elif depth > bounds.ACTIVITY_DEPTH:
        return
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _KNOWN_KEYS:
                yield key[: bounds.ACTIVITY_JUDGED_CHARACTERS]
            if key != besides:
                yield from _texts(item, depth=depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, depth=depth + 1)


def _text_of(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value[: bounds.ACTIVITY_JUDGED_CHARACTERS] if isinstance(value, str) else ""


def _masked(data: dict[str, Any], hides: Callable[[str], bool]) -> dict[str, Any]:
    return {key: _blank(value) if hides(key) else value for key, value in data.items()}


def _is_anything(_: str) -> bool:
    return True


def _is_of_page(key: str) -> bool:
    return key in _URLS or key == "title" or key.startswith("$")


def site_of(url: str) -> str:
    """The name of the server in an address; empty if there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _blank(value: Any) -> Any:
    """Whatever a value holds, less all that could tell something."""
    return value if isinstance(value, bool | int | float | None) else PRIVATE
