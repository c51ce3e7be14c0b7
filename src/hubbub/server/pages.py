"""Lists in pages. A cursor is sealed and holds the place of the last item shown.

Every list is ordered by place, and an item keeps its place while it is there. So changes
between two pages neither skip nor repeat anything that stayed where it was.
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
    """Where each name stands in a list that grows at its end."""

    def __init__(self) -> None:
        self._last = 0
        self._numbers: dict[str, int] = {}

    def add(self, name: str) -> None:
        """Give a new name the last place; a known one keeps its own."""
        if name not in self._numbers:
            self._last += 1
            self._numbers[name] = self._last

    def remove(self, name: str) -> None:
        """Forget a name; if it comes back, it comes last."""
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
    size: int = bounds.PAGE_ITEMS,
) -> tuple[list[T], str | UnsetType]:
    """The items behind a cursor and the cursor behind those.

    Raises:
        InvalidParams: the cursor is not one of ours.
    """
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
