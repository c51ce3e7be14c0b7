"""Pagination of lists. A cursor is sealed and holds the place of the last item shown.

Every list is ordered by place, and an item keeps its place as long as it exists. So changes
between two pages neither skip nor repeat an item that was not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from hubbub import bounds
from hubbub.errors import InvalidParams
from hubbub.ports import Sealer

T = TypeVar("T")
Place: TypeAlias = tuple[int, int, str]


class Places:
    """Stable places of names in a list that grows at its end."""

    def __init__(self) -> None:
        self._last = 0
        self._numbers: dict[str, int] = {}

    def add(self, name: str) -> None:
        """Give a new name the last place; a known name keeps its place."""
        if name not in self._numbers:
            self._last += 1
            self._numbers[name] = self._last

    def remove(self, name: str) -> None:
        """Remove a name; if it is added again, it gets the last place."""
        self._numbers.pop(name, None)

    def __getitem__(self, name: str) -> Place:
        return (0, self._numbers[name], "")


def page(
    items: Sequence[T],
    cursor: str | UnsetType,
    place_of: Callable[[T], Place],
    sealer: Sealer,
    *,
    purpose: str,
    size: int | None = None,
) -> tuple[list[T], str | UnsetType]:
    """Return the items after a cursor, and the cursor of the next page.

    Raises:
        InvalidParams: the cursor was not issued for this list.
    """
    size = bounds.PAGE_ITEMS if size is None else size
    start = 0 if cursor is UNSET else _position(items, cursor, place_of, sealer, purpose)
    shown = list(items[start : start + size])
    if start + size >= len(items):
        return shown, UNSET
    return shown, sealer.seal(f"cursor {purpose}", place_of(shown[-1]))


def _position(items: Sequence[T], cursor: str, place_of: Callable[[T], Place], sealer: Sealer, purpose: str) -> int:
    try:
        last = msgspec.convert(sealer.open(f"cursor {purpose}", cursor), Place)
    except (ValueError, msgspec.ValidationError):
        raise InvalidParams("Invalid params: this cursor was not issued by this list; start without one") from None
    return next((index for index, item in enumerate(items) if place_of(item) > last), len(items))
