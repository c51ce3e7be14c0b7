"""Lists that come in pages: all of them, but not for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import TransportError

P = TypeVar("P")


async def all_pages(page: Callable[[str | None], Awaitable[P]], items: Callable[[P], list[Any]]) -> list[Any]:
    """The items of every page. Only a missing cursor ends a list; an empty one is a cursor like any other.

    Raises:
        TransportError: `INVALID_RESPONSE`, if a cursor comes again or there is no end.
    """
    found: list[Any] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(bounds.LIST_PAGES):
        current = await page(cursor)
        found += items(current)
        following = getattr(current, "next_cursor", UNSET)
        if following is UNSET:
            return found
        if following in seen:
            raise TransportError("INVALID_RESPONSE", "The server's list comes back to a page that it already gave")
        if len(found) > bounds.LIST_ITEMS:
            raise TransportError("INVALID_RESPONSE", f"The server's list has more than {bounds.LIST_ITEMS} items")
        seen.add(following)
        cursor = following
    raise TransportError("INVALID_RESPONSE", f"The server's list has more than {bounds.LIST_PAGES} pages")
