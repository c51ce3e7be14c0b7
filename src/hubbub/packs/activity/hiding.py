"""Titles that give each other away. Pure.

The window that shows a page has the title of that page in its own; so whoever may not know of one
may not know of the other. `privacy` says what is hidden, `sources` what is held against what.
There may be many thousands of each, so they are not compared one by one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Verdict: TypeAlias = Literal["told", "masked", "dropped"]
_LEAST: Final = 3
"""Shorter titles are found in too many others."""


class Hiding:
    """The titles of what is hidden, to find by them what shows it or is shown by it."""

    def __init__(self, dropped: Iterable[str] = (), masked: Iterable[str] = (), *, are_pages: bool = True) -> None:
        """`are_pages`: whether these are titles of pages, to be found in those of windows; otherwise the reverse."""
        kind = _Pages if are_pages else _Windows
        self.dropped, self.masked = _long(dropped), _long(masked)
        self._is_dropped, self._is_masked = kind(self.dropped).fit, kind(self.masked).fit
        self.verdict = lru_cache(maxsize=4096)(self._verdict)
        """What may be told of something else with this title."""

    def __bool__(self) -> bool:
        return bool(self.dropped or self.masked)

    def _verdict(self, title: str) -> Verdict:
        if len(title) < _LEAST:
            return "told"
        return "dropped" if self._is_dropped(title) else "masked" if self._is_masked(title) else "told"


class _Pages:
    """Known by how they begin and how long they are, wherever in the title of a window that is."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._titles = frozenset(titles)
        self._lengths: dict[str, set[int]] = {}
        for title in self._titles:
            self._lengths.setdefault(title[:_LEAST], set()).add(len(title))

    def fit(self, window: str) -> bool:
        """Whether the title of a window has one of them in it."""
        return bool(self._titles) and any(
            window[place : place + length] in self._titles
            for place in range(len(window) - _LEAST + 1)
            for length in self._lengths.get(window[place : place + _LEAST], ())
        )


class _Windows:
    """All in one text, in which a title is looked for."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._text = "\n".join(titles)

    def fit(self, page: str) -> bool:
        """Whether the title of a page is in one of them."""
        return page in self._text


def _long(titles: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({title for title in titles if len(title) >= _LEAST}))


NOTHING: Final = Hiding()
