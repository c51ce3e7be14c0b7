"""What is visible: names chosen by patterns, and nothing but what only reads if so wished.

One `View` serves tool profiles, hub endpoints and an agent's allow and deny lists alike.
"""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from hubbub.protocol.wire import ToolAnnotations

T = TypeVar("T")
_Match: TypeAlias = Callable[[str], bool]
_IS_START: Final = re.compile(r"[^*?\[]*\*").fullmatch


class Visible(Protocol):
    """A tool, as far as a view looks at it: one of a server, or one that a model is told of."""

    @property
    def name(self) -> str:
        """What the patterns are compared with."""

    @property
    def annotations(self) -> ToolAnnotations | None:
        """The hints of whoever declared it."""


class View(msgspec.Struct, frozen=True):
    """Which tools can be seen. Patterns are shell-style: `vdo_*`, `aw.?et_state`."""

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    read_only: bool = False

    def shows(self, tool: Visible) -> bool:
        """Whether this view shows the tool."""
        if self is EVERYTHING:
            return True
        if not self.names(tool.name):
            return False
        return not self.read_only or (tool.annotations is not None and tool.annotations.read_only_hint is True)

    def names(self, name: str, qualified: str = "") -> bool:
        """Whether the patterns let a name through; one with a slash may also mean the `qualified` name."""
        return _matches(name, qualified, self.include) and not _matches(name, qualified, self.exclude)

    def leaves_out(self, name: str) -> bool:
        """Whether the patterns say that nothing of this name is to be seen."""
        return _matches(name, "", self.exclude)

    def choose(self, items: Mapping[str, T], qualified: Callable[[T], str]) -> dict[str, T]:
        """Those whose names the patterns let through, as `names` does one by one."""
        (include, include_qualified), (exclude, exclude_qualified) = _compiled(self.include), _compiled(self.exclude)
        if include_qualified is None and exclude_qualified is None:
            return {name: item for name, item in items.items() if include(name) and not exclude(name)}
        return {name: item for name, item in items.items() if self.names(name, qualified(item))}


EVERYTHING = View()


def _matches(name: str, qualified: str, patterns: tuple[str, ...]) -> bool:
    of_names, of_qualified = _compiled(patterns)
    return of_names(name) or (of_qualified is not None and of_qualified(qualified))


@functools.lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> tuple[_Match, _Match | None]:
    """What matches any of them, names and qualified names: a hub compares a thousand with each view."""
    slashed = tuple(pattern for pattern in patterns if "/" in pattern)
    return _any_of(patterns), _any_of(slashed) if slashed else None


def _any_of(patterns: tuple[str, ...]) -> _Match:
    """Most patterns are how a name starts, which needs no expression."""
    starts = tuple(pattern[:-1] for pattern in patterns if _IS_START(pattern))
    others = [fnmatch.translate(pattern) for pattern in patterns if not _IS_START(pattern)]
    if not others:
        return lambda name: name.startswith(starts)
    match = re.compile("|".join(others)).match
    return lambda name: name.startswith(starts) or match(name) is not None
