"""Pagination of lists. A cursor is sealed and holds the position of the last item shown.

Every list is ordered by position, and an item keeps its position as long as it exists. So changes
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
from hubbub.protocol.calls import ANONYMOUS, Principal

T = TypeVar("T")
SortKey: TypeAlias = tuple[int, int, str]


class StableOrder:
    """Stable positions of names in a list that grows at its end."""

    def __init__(self) -> None:
        self._last_number = 0
        self._numbers: dict[str, int] = {}

    def add(self, name: str) -> None:
        """Give a new name the last position; a known name keeps its position."""
        if name not in self._numbers:
            self._last_number += 1
            self._numbers[name] = self._last_number

    def remove(self, name: str) -> None:
        """Remove a name; if it is added again, it gets the last position."""
        self._numbers.pop(name, None)

    def __getitem__(self, name: str) -> SortKey:
        return (0, self._numbers[name], "")


def paginate(
    items: Sequence[T],
    cursor: str | UnsetType,
    sort_key: Callable[[T], SortKey],
    sealer: Sealer,
    *,
    purpose: str,
    principal: Principal = ANONYMOUS,
    size: int | None = None,
) -> tuple[list[T], str | UnsetType]:
    """Return the items after a cursor, and the cursor of the next page.

    Raises:
        InvalidParams: the cursor was not issued for this list, or for another principal.
    """
    purpose = cursor_purpose(purpose, principal)
    size = bounds.PAGE_ITEMS if size is None else size
    start = 0 if cursor is UNSET else _find_start(items, cursor, sort_key, sealer, purpose)
    page_items = list(items[start : start + size])
    if start + size >= len(items):
        return page_items, UNSET
    return page_items, sealer.seal(purpose, sort_key(page_items[-1]))


def cursor_purpose(name: str, principal: Principal) -> str:
    """The purpose for which the cursors of a list are sealed: an authenticated caller's are valid for it alone."""
    return f"cursor {name}" if principal is ANONYMOUS else f"cursor {name} of {principal.name}"


def _find_start(items: Sequence[T], cursor: str, sort_key: Callable[[T], SortKey], sealer: Sealer, purpose: str) -> int:
    try:
        last = msgspec.convert(sealer.open(purpose, cursor), SortKey)
    except (ValueError, msgspec.ValidationError):
        raise InvalidParams(
            "Invalid params: this cursor is not valid for this list; request the first page without a cursor"
        ) from None
    return next((index for index, item in enumerate(items) if sort_key(item) > last), len(items))
