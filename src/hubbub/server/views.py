"""Views: which tools are visible, by name patterns and optionally only those that are read-only.

Tool profiles, hub endpoints and an agent's allow and deny lists all use `View`.
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
    """The parts of a tool that a view checks; a server's tool, or one listed for a model."""

    @property
    def name(self) -> str:
        """The name that patterns are matched against."""

    @property
    def annotations(self) -> ToolAnnotations | None:
        """The hints that the tool was declared with."""


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
        """Whether the patterns allow a name; a pattern with a slash is also matched against the `qualified` name."""
        return _matches(name, qualified, self.include) and not _matches(name, qualified, self.exclude)

    def leaves_out(self, name: str) -> bool:
        """Whether the patterns exclude this name."""
        return _matches(name, "", self.exclude)

    def choose(self, items: Mapping[str, T], qualified: Callable[[T], str]) -> dict[str, T]:
        """Return the items whose names the patterns allow, like `names` for each but faster."""
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
    """Compile matchers for names and qualified names, cached: a hub matches a thousand names with each view."""
    slashed = tuple(pattern for pattern in patterns if "/" in pattern)
    return _any_of(patterns), _any_of(slashed) if slashed else None


def _any_of(patterns: tuple[str, ...]) -> _Match:
    """Match any of the patterns. Most are a prefix and `*`, which needs no regular expression."""
    starts = tuple(pattern[:-1] for pattern in patterns if _IS_START(pattern))
    others = [fnmatch.translate(pattern) for pattern in patterns if not _IS_START(pattern)]
    if not others:
        return lambda name: name.startswith(starts)
    match = re.compile("|".join(others)).match
    return lambda name: name.startswith(starts) or match(name) is not None
