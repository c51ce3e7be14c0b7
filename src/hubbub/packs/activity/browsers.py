"""Detect private browser windows by their titles, or by other evidence where titles do not show it. Pure.

Firefox marks private windows in their titles. Chromium-based browsers, Safari and others do not, at least not on
every system. For those, a window counts as public only if something else confirms it, such as the browser's watcher,
which records the pages of windows that are not private.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from hubbub.packs.activity.events import Bucket, Event

UNCONFIRMED: Final = "[maybe private]"
"""Replaces the title of a window that may or may not be private."""
UNCONFIRMED_NOTE: Final = (
    f"titles of some browser windows are {UNCONFIRMED}, because it is unknown whether those windows are private. "
    "Install the aw-watcher-web extension in the browser, which confirms windows that are not private, or set "
    "privacy.unconfirmed_windows to show"
)
BROWSER_APPS: Final[dict[str, frozenset[str]]] = {
    "chrome": frozenset(
        (
            "Google Chrome",
            "Google-chrome",
            "chrome.exe",
            "google-chrome-stable",
            "Chromium",
            "Chromium-browser",
            "Chromium-browser-chromium",
            "chromium.exe",
            "Google-chrome-beta",
            "Google-chrome-unstable",
            "Brave-browser",
        )
    ),
    "firefox": frozenset(
        (
            "Firefox",
            "Firefox.exe",
            "firefox",
            "firefox.exe",
            "Firefox Developer Edition",
            "firefoxdeveloperedition",
            "Firefox-esr",
            "Firefox Beta",
            "Nightly",
            "org.mozilla.firefox",
        )
    ),
    "opera": frozenset(("opera.exe", "Opera")),
    "brave": frozenset(("brave.exe",)),
    "edge": frozenset(("msedge.exe", "Microsoft Edge")),
    "vivaldi": frozenset(("Vivaldi-stable", "Vivaldi-snapshot", "vivaldi.exe")),
}
"""Application names by the word that identifies a browser in its bucket id. A test compares them with aw-client."""
_PRIVATE_WINDOW_WORDS: Final = re.compile(
    r"(?i)\b(?:private browsing|private window|inprivate|incognito|tor browser|inkognito\w*|privater modus"
    r"|privates? fenster|navigation priv[ée]e|navegaci[óo]n privada|navega[çc][ãa]o privada"
    r"|navigazione (?:anonima|privata|in incognito)|finestra anonima|inc[óo]gnito"
    r"|privénavigatie|privat surf\w*|gizli pencere"
    r"|инкогнито|приватн\w+ (?:просмотр|окно|перегляд))\b|\(private\)"
    r"|プライベートブラウジング|プライベートウィンドウ|シークレット|隐私浏览|隐身|无痕|無痕|시크릿 모드"
)
_FIREFOX_APPS: Final = re.compile(
    r"(?i)firefox|librewolf|waterfox|floorp|palemoon|pale moon|icecat|iceweasel|mullvad|navigator|nightly"
    r"|\bzen\b"
)
_BRANDS: Final = r"Firefox|Nightly|LibreWolf|Waterfox|Floorp|Pale Moon|IceCat|Iceweasel|Mullvad Browser|Zen Browser"
_BRAND: Final = re.compile(_BRANDS)
_NORMAL_TITLE_END: Final = re.compile(
    rf"(?:Mozilla )?(?:{_BRANDS})(?: (?:ESR|Beta|Nightly|Developer Edition|Browser))?"
)
_AMBIGUOUS_APPS: Final = re.compile(
    r"(?i)chrome|chromium|msedge|\bedge\b|brave|vivaldi|\bopera\b|yandex|thorium|\bwhale\b|\barc\b|safari|epiphany"
    r"|gnome web|org\.gnome\.epiphany|falkon|qutebrowser|konqueror|midori|duckduckgo"
    r"|iridium|cromite|supermium|slimjet|maxthon|coccoc|\borion\b|luakit|nyxt|secure browser"
)
_TITLE_SEPARATOR: Final = re.compile(r" [-–—] ")
_TITLE_SUFFIX: Final = re.compile(
    r"(?: and \d+ more pages?)?(?: [-–—] (?:Personal|Work|Guest|Profile \d{1,3}))?"
    r" [-–—] (?:Google Chrome|Chrome|Chromium|Brave|Microsoft\u200b? Edge|Vivaldi|Opera)(?: [-–—] [^-–—]{1,60})?$"
)
"""`Page - Chromium`, `Page - Google Chrome - Ann`, `Page and 3 more pages - Personal - Microsoft Edge`."""
_CLOSING_BRACKETS: Final = (")", "）", "]")
_PRIVATE_FLAGS: Final = re.compile(r"--?(?:incognito(?:-mode)?|inprivate|private(?:-window|-browsing)?|tor)(?:=.*)?")
_REPORT_LAG: Final = timedelta(seconds=120)
"""How far the record of a page may lag behind the record of its window: the extension reports once a minute."""


def mentions_private_window(text: str) -> bool:
    """Whether a text contains the words with which browsers mark private windows."""
    return _PRIVATE_WINDOW_WORDS.search(text) is not None


def is_marked_private(app: str, title: str) -> bool:
    """Whether the app or the title marks a window as private, in any language."""
    if mentions_private_window(app) or mentions_private_window(title):
        return True
    end = _TITLE_SEPARATOR.split(title)[-1].strip() if _FIREFOX_APPS.search(app) else ""
    # "Mozilla Firefox Private Browsing", "Navigation privée de Mozilla Firefox": more than the browser's name.
    return _BRAND.search(end) is not None and _NORMAL_TITLE_END.fullmatch(end) is None


def has_ambiguous_titles(app: str) -> bool:
    """Whether an app is a browser whose private windows may not be marked in their titles."""
    return _AMBIGUOUS_APPS.search(app) is not None


def is_private_name(accessible_name: str, title: str) -> bool:
    """Whether the accessible name of a browser window marks it as private.

    Chromium appends a word in brackets to the title, in the user's language.
    """
    has_suffix = accessible_name.endswith(_CLOSING_BRACKETS) and accessible_name != title
    return mentions_private_window(accessible_name) or has_suffix


def is_started_private(arguments: Iterable[str]) -> bool:
    """Whether a browser that was started with these arguments shows private windows."""
    return any(_PRIVATE_FLAGS.fullmatch(argument) for argument in arguments)


class ConfirmedPages:
    """Pages of windows that are not private, with the times at which they were shown."""

    def __init__(self, events: Iterable[Event]) -> None:
        """Take the `events` of browser watchers, which record for each page whether its window is private."""
        times: dict[str, list[tuple[datetime, datetime]]] = {}
        for event in events:
            if event.data.get("incognito") is False and (title := event.text("title")):
                times.setdefault(title, []).append((event.timestamp - _REPORT_LAG, event.end + _REPORT_LAG))
        self._times = {title: _merge_spans(spans) for title, spans in times.items()}

    def confirms(self, event: Event) -> bool:
        """Whether a window that is not private showed the page in this window's title at the same time."""
        for page in _possible_page_titles(event.text("title")):
            spans = self._times.get(page)
            if spans is None:
                continue
            index = bisect_right(spans, event.end, key=lambda span: span[0])
            if index and spans[index - 1][1] >= event.timestamp:
                return True
        return False


def _merge_spans(spans: list[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    found: list[tuple[datetime, datetime]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _possible_page_titles(title: str) -> Iterator[str]:
    """Yield the page titles that a window with this title may show."""
    yield title
    if found := _TITLE_SUFFIX.search(title):
        yield title[: found.start()]


def browser_apps(bucket: Bucket) -> frozenset[str]:
    """Return the app names of the browser that a bucket belongs to; empty if the browser is unknown."""
    watcher = bucket.id.removesuffix(f"_{bucket.hostname}")
    return frozenset().union(*(apps for word, apps in BROWSER_APPS.items() if word in watcher))
