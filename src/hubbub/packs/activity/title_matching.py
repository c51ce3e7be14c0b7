"""Match titles of pages with titles of windows, so that hiding one also hides the other. Pure.

A browser window has the title of its page in its own title, so hiding only one of them would reveal the other.
`privacy` decides what is hidden, and `filtered_sources` which titles are compared. There may be many thousands of each,
so they are not compared pairwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Verdict: TypeAlias = Literal["disclosed", "masked", "dropped"]
_MIN_TITLE_LENGTH: Final = 3
"""Shorter titles occur in too many others."""


class HiddenTitles:
    """Titles of hidden events, to find the windows that show a hidden page or the pages of a hidden window."""

    def __init__(self, dropped: Iterable[str] = (), masked: Iterable[str] = (), *, are_pages: bool = True) -> None:
        """`are_pages`: whether the titles are of pages, to be found in window titles; otherwise the reverse."""
        kind = _PageTitles if are_pages else _WindowTitles
        self.dropped, self.masked = _long_titles(dropped), _long_titles(masked)
        self._is_dropped, self._is_masked = kind(self.dropped).matches, kind(self.masked).matches
        self.verdict = lru_cache(maxsize=4096)(self._verdict)
        """Return what may be disclosed of another event with this title."""

    def __bool__(self) -> bool:
        return bool(self.dropped or self.masked)

    def _verdict(self, title: str) -> Verdict:
        if len(title) < _MIN_TITLE_LENGTH:
            return "disclosed"
        return "dropped" if self._is_dropped(title) else "masked" if self._is_masked(title) else "disclosed"


class _PageTitles:
    """Page titles, indexed by their first characters and lengths, to be found anywhere in a window title."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._titles = frozenset(titles)
        self._lengths: dict[str, set[int]] = {}
        for title in self._titles:
            self._lengths.setdefault(title[:_MIN_TITLE_LENGTH], set()).add(len(title))

    def matches(self, window: str) -> bool:
        """Whether a window title contains one of the page titles."""
        return bool(self._titles) and any(
            window[start : start + length] in self._titles
            for start in range(len(window) - _MIN_TITLE_LENGTH + 1)
            for length in self._lengths.get(window[start : start + _MIN_TITLE_LENGTH], ())
        )


class _WindowTitles:
    """Window titles joined into one string, in which a page title is searched."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._text = "\n".join(titles)

    def matches(self, page: str) -> bool:
        """Whether one of the window titles contains this page title."""
        return page in self._text


def _long_titles(titles: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({title for title in titles if len(title) >= _MIN_TITLE_LENGTH}))


NO_HIDDEN_TITLES: Final = HiddenTitles()
