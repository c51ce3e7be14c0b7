"""Titles that give each other away. Pure.

The window that shows a page has the title of that page in its own; so whoever may not know of one
may not know of the other. `privacy` says what is hidden, `sources` what is held against what.
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
        self.dropped = _long(dropped)
        self.masked = _long(masked)
        self._are_pages = are_pages
        self.verdict = lru_cache(maxsize=4096)(self._verdict)
        """What may be told of something else with this title."""

    def __bool__(self) -> bool:
        return bool(self.dropped or self.masked)

    def _verdict(self, title: str) -> Verdict:
        if len(title) < _LEAST:
            return "told"
        if any(self._fits(hidden, title) for hidden in self.dropped):
            return "dropped"
        return "masked" if any(self._fits(hidden, title) for hidden in self.masked) else "told"

    def _fits(self, hidden: str, title: str) -> bool:
        return hidden in title if self._are_pages else title in hidden


def _long(titles: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({title for title in titles if len(title) >= _LEAST}))


NOTHING: Final = Hiding()
