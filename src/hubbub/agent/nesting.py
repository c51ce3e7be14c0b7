"""Iterates over nested values level by level, without recursion, so that the depth is not limited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any


def levels(value: Any) -> Iterator[list[Any]]:
    """Yield the value, then its members, then their members, and so on; endless if a value contains itself."""
    level = [value]
    while level:
        yield level
        below: list[Any] = []
        for item in level:
            if isinstance(item, Mapping):
                below.extend(item.values())
            elif isinstance(item, list | tuple | set | frozenset):
                below.extend(item)
        level = below


def is_deeper_than(value: Any, limit: int) -> bool:
    """Whether the value has more levels than this."""
    return next(islice(levels(value), limit, None), None) is not None
