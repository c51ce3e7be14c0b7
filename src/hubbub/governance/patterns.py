"""Compile lists of shell-style patterns: `*`, `?` and `[...]`, case-sensitive, as in the views of a hub.

`fnmatch` translates `*` to atomic groups, which never backtrack into each other, so that no pattern and no name take
more than polynomial time.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

Matcher: TypeAlias = Callable[[str], bool]
ItemMatcher: TypeAlias = Callable[[str, str], bool]
"""Takes the server and the name or URI on it."""

_has_wildcard: Final = re.compile(r"[*?\[]").search
_is_prefix: Final = re.compile(r"[^*?\[]*\*").fullmatch


def compile_patterns(patterns: Iterable[str]) -> Matcher:
    """Return a function that tells whether a text matches one of the patterns; no patterns match everything."""
    patterns = tuple(patterns)
    if not patterns or "*" in patterns:
        return _match_everything
    exact = frozenset(pattern for pattern in patterns if not _has_wildcard(pattern))
    prefixes = tuple(pattern[:-1] for pattern in patterns if _is_prefix(pattern))
    regexes = [fnmatch.translate(p) for p in patterns if p not in exact and not _is_prefix(p)]
    if not regexes:
        return exact.__contains__ if not prefixes else lambda text: text in exact or text.startswith(prefixes)
    match = re.compile("|".join(regexes)).match
    return lambda text: text in exact or text.startswith(prefixes) or match(text) is not None


def compile_item_patterns(patterns: Iterable[str]) -> ItemMatcher:
    """Return a function for patterns of tools, prompts and URIs; no patterns match everything.

    A pattern with a slash is matched against `SERVER/NAME`, and against the name alone only if it is the pattern of a
    URI, such as `file:///*`. Otherwise a server could pass for another one with a slash in the name of a tool.
    """
    patterns = tuple(patterns)
    if not patterns or "*" in patterns:
        return _match_every_item
    names = [pattern for pattern in patterns if ":" in pattern.partition("/")[0] or "/" not in pattern]
    qualified = [pattern for pattern in patterns if "/" in pattern]
    matches_name = compile_patterns(names) if names else _match_nothing
    if not qualified:
        return lambda server, name: matches_name(name)
    matches_qualified = compile_patterns(qualified)
    return lambda server, name: matches_name(name) or matches_qualified(f"{server}/{name}")


def _match_everything(text: str) -> bool:
    return True


def _match_nothing(text: str) -> bool:
    return False


def _match_every_item(server: str, name: str) -> bool:
    return True
