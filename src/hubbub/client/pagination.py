"""Reads all pages of a list, bounded in pages, entries, bytes and time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from hubbub import bounds
from hubbub.errors import DeadlineExceeded, InvalidResponse
from hubbub.protocol.results import DecodedResult

if TYPE_CHECKING:
    from hubbub.client.client import Client

P = TypeVar("P", bound=DecodedResult)
Fetch = Callable[[str | None, float], Awaitable[P]]
"""Fetches one page, given its cursor and the seconds that are left for it."""


async def collect_items(
    client: Client, fetch: Callable[..., Awaitable[P]], items: Callable[[P], list[Any]], timeout_s: float | None = None
) -> list[Any]:
    """Collect the `items` of every page that `fetch` returns, such as `client.list_tools`.

    `timeout_s` is for all pages together. Unset, a page may take as long as any request, and the list `LIST_TIMEOUT_S`.

    Raises: as `fetch_all_pages`.
    """
    page_s = client.config.timeout_s if timeout_s is None else timeout_s
    limit_s = max(bounds.LIST_TIMEOUT_S, page_s) if timeout_s is None else timeout_s
    return await fetch_all_pages(
        lambda at, remaining_s: fetch(at, timeout_s=min(page_s, remaining_s)), items, limit_s=limit_s
    )


async def fetch_all_pages(page: Fetch[P], items: Callable[[P], list[Any]], *, limit_s: float) -> list[Any]:
    """Collect the items of every page. Only a missing cursor ends a list; an empty one is a cursor like any other.

    Raises:
        InvalidResponse: a cursor is repeated, or the list is too large.
        DeadlineExceeded: the list was not complete in time.
    """
    loop = asyncio.get_running_loop()
    deadline, remaining_s = loop.time() + limit_s, limit_s
    found: list[Any] = []
    seen: set[str] = set()
    cursor: str | None = None
    size = 0
    for _ in range(bounds.LIST_PAGES):
        current = await page(cursor, remaining_s)
        size += len(current.raw)
        _check_size("bytes", size, bounds.LIST_BYTES)
        found += items(current)
        _check_size("items", len(found), bounds.LIST_ITEMS)
        upcoming = getattr(current, "next_cursor", UNSET)
        if upcoming is UNSET:
            return found
        if upcoming in seen:
            raise InvalidResponse("The server's list repeats a cursor, so it has no end")
        remaining_s = deadline - loop.time()
        if remaining_s <= 0:
            raise DeadlineExceeded("The rest of the server's list", limit_s)
        seen.add(upcoming)
        cursor = upcoming
    raise InvalidResponse(f"The server's list has more than {bounds.LIST_PAGES} pages")


def _check_size(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise InvalidResponse(f"The server's list has more than {limit} {what}")
