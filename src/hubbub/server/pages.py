"""Lists in pages. A cursor is sealed and names the last item shown, so it survives changes to the list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import UNSET, UnsetType

from hubbub import bounds
from hubbub.errors import InvalidParams
from hubbub.ports import Sealer

T = TypeVar("T")


def page(
    items: Sequence[T],
    cursor: str | UnsetType,
    name_of: Callable[[T], str],
    sealer: Sealer,
    *,
    purpose: str,
    size: int = bounds.PAGE_ITEMS,
) -> tuple[list[T], str | UnsetType]:
    """The items behind a cursor and the cursor behind those.

    Raises:
        InvalidParams: the cursor is not one of ours.
    """
    start = 0 if cursor is UNSET else _position(items, cursor, name_of, sealer, purpose)
    shown = list(items[start : start + size])
    if start + size >= len(items):
        return shown, UNSET
    return shown, sealer.seal(f"cursor {purpose}", [start + size, name_of(shown[-1])])


def _position(items: Sequence[T], cursor: str, name_of: Callable[[T], str], sealer: Sealer, purpose: str) -> int:
    try:
        position, last = sealer.open(f"cursor {purpose}", cursor)
    except ValueError:
        raise InvalidParams("Invalid params: this cursor was not issued by this list; start without one") from None
    for index, item in enumerate(items):
        if name_of(item) == last:
            return index + 1
    return int(position)
