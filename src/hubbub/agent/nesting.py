"""Values level by level: no recursion, so that nothing is too deep to be looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any


def levels(value: Any) -> Iterator[list[Any]]:
    """The value, then all that it holds, then all that these hold, and so on; what holds itself has no end."""
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
