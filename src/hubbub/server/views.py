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

from hubbub.protocol.results import ToolAnnotations
from hubbub.protocol.scopes import ADMIN_SCOPE

ADMIN_VIEW: Final = "admin"
RESTRICTED_VIEWS: Final[Mapping[str, frozenset[str]]] = {ADMIN_VIEW: frozenset({ADMIN_SCOPE})}
"""Scopes that a caller needs for a view of this name; for others the view does not exist."""

T = TypeVar("T")
_Matcher: TypeAlias = Callable[[str], bool]
_match_prefix_pattern: Final = re.compile(r"[^*?\[]*\*").fullmatch


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
        (include, include_qualified), (exclude, exclude_qualified) = (
            _compile_patterns(self.include),
            _compile_patterns(self.exclude),
        )
        if include_qualified is None and exclude_qualified is None:
            return {name: item for name, item in items.items() if include(name) and not exclude(name)}
        return {name: item for name, item in items.items() if self.names(name, qualified(item))}


EVERYTHING = View()


def _matches(name: str, qualified: str, patterns: tuple[str, ...]) -> bool:
    matches_name, matches_qualified = _compile_patterns(patterns)
    return matches_name(name) or (matches_qualified is not None and matches_qualified(qualified))


@functools.lru_cache(maxsize=256)
def _compile_patterns(patterns: tuple[str, ...]) -> tuple[_Matcher, _Matcher | None]:
    """Compile matchers for names and qualified names, cached: a hub matches a thousand names with each view."""
    qualified_patterns = tuple(pattern for pattern in patterns if "/" in pattern)
    return _compile_matcher(patterns), _compile_matcher(qualified_patterns) if qualified_patterns else None


def _compile_matcher(patterns: tuple[str, ...]) -> _Matcher:
    """Match any of the patterns. Most are a prefix and `*`, which needs no regular expression."""
    prefixes = tuple(pattern[:-1] for pattern in patterns if _match_prefix_pattern(pattern))
    regexes = [fnmatch.translate(pattern) for pattern in patterns if not _match_prefix_pattern(pattern)]
    if not regexes:
        return lambda name: name.startswith(prefixes)
    match = re.compile("|".join(regexes)).match
    return lambda name: name.startswith(prefixes) or match(name) is not None
